package main

import (
	"fmt"
	"strings"
)

// amx writes the function that unpacks a type for AMX: 64 inputs of a panel, or the last 32, become digits of level·S
// less offset·S, as affine_amx_amd64.go draws them. With a line of 16 outputs times 4 codes, even and odd codes are
// multiplied apart, to 16 bits each.
//
// A function advances R15, codes, and R12, scales, and counts R11, blocks, down to 0; R9 is where in levels, DI where
// m go.
//
//	Z8, Z9   products of the even codes and of the odd ones
//	Z10-Z12  S beside the even codes; beside the odd ones; offset·S for each. S of 12 bits is beside all in Z10
//	Z16-Z19  codes, raw codes, digits
//	Z20-Z24  masks and tables; K2, K3 even and odd bytes
type amx struct {
	*asm
	*codes
	weight
}

// tiled reports whether a type has tiles: its spans are whole sections.
func (w weight) tiled() bool { return w.layout != "zeroPoints" }

// id is that of a type in function names.
func (w weight) id() string { return strings.ReplaceAll(w.typ.String(), "-", "_") }

// wide reports whether S has 12 bits.
func (w weight) wide() bool { return strings.HasPrefix(w.layout, "int12") }

// hasMins reports whether values have an m.
func (w weight) hasMins() bool { return strings.HasSuffix(w.layout, "Mins") }

// signed reports whether levels are taken as signed bytes, less the offset of 128.
func (w weight) signed() bool { return w.layout == "uint8s" }

// pairBytes returns the bytes of the scales of a pair of groups.
func (w weight) pairBytes() int {
	return map[string]int{"uint8s": 32, "int8s": 32, "int12s": 48, "int12Mins": 112, "byteMins": 64,
		"zeroPoints": 0}[w.layout]
}

func (g *amx) masks() []string {
	switch {
	case g.levels != nil:
		return append(bytesOf(0x0f, "Z20"), "VBROADCASTI32X4 "+g.table()+"<>(SB), Z21")
	case g.bits == 2:
		return bytesOf(0x03, "Z20")
	case g.bits == 3:
		return join(bytesOf(0x03, "Z20"), bytesOf(0x04, "Z21"))
	case g.bits == 4:
		return bytesOf(0x0f, "Z20")
	case g.bits == 5:
		return join(bytesOf(0x0f, "Z20"), bytesOf(0x10, "Z21"))
	case g.bits == 6:
		return join(bytesOf(0x3f, "Z20"), bytesOf(0x30, "Z21"), bytesOf(0x0c, "Z22"), bytesOf(0x03, "Z23"))
	}
	return bytesOf(0x80, "Z23")
}

// group reads S of the first (0) or second (16) group of a pair, and multiplies it by the offset.
func (g *amx) group(o int) {
	offset := log2(affine(g.typ).Offset)
	if g.wide() {
		g.op(fmt.Sprintf("VPMOVSXBW %d(R12), Y10", o), "VPSLLW $4, Y10, Y10", "VPMOVZXBW 32(R12), Y11",
			fmt.Sprintf("VPSRLW $%d, Y11, Y11", o/4),
			"VPTERNLOGD $0xf8, Y20, Y11, Y10", "VPMOVZXWD Y10, Z10", "VPSLLD $16, Z10, Z11", "VPORD Z11, Z10, Z10")
		if !g.hasMins() {
			g.f("VPSLLW $%d, Z10, Z12", offset)
		}
		return
	}
	g.op(fmt.Sprintf("VPMOVZXBD %d(R12), Z10", o), "VPSLLD $16, Z10, Z11", "VPORD Z11, Z10, Z10", "VPSLLW $8, Z10, Z11")
	if !g.hasMins() && !g.signed() {
		g.f("VPSRAW $%d, Z11, Z12", 8-offset)
	}
}

// times multiplies codes by S and takes offset·S off.
func (g *amx) times() {
	switch {
	case g.signed():
		g.op("VPMADDUBSW Z16, Z10, Z8", "VPMADDUBSW Z16, Z11, Z9")
		return
	case g.wide():
		g.op("VMOVDQU8.Z Z16, K2, Z8", "VPSRLW $8, Z16, Z9", "VPMULLW Z10, Z8, Z8", "VPMULLW Z10, Z9, Z9")
	default:
		g.op("VPMADDUBSW Z10, Z16, Z8", "VPMADDUBSW Z11, Z16, Z9")
	}
	if !g.hasMins() {
		g.op("VPSUBW Z12, Z8, Z8", "VPSUBW Z12, Z9, Z9")
	}
}

// take makes Z16 the codes of group 4v+i of the block, and fetches those that come next.
func (g *amx) take(v, i int) []string {
	raw := func(o int) []string {
		return list(fmt.Sprintf("PREFETCHT1 %d(R15)(R10*1)", o), fmt.Sprintf("VMOVDQU64 %d(R15), Z17", o))
	}
	masked := func(o, shift int, load bool) []string {
		switch {
		case load:
			return append(raw(o), "VPANDD Z20, Z17, Z16")
		default:
			return list(fmt.Sprintf("VPSRLW $%d, Z17, Z16", shift), "VPANDD Z20, Z16, Z16")
		}
	}
	var ops []string
	switch g.bits {
	case 8:
		o := 256*v + 64*i
		return list(fmt.Sprintf("PREFETCHT1 %d(R15)(R10*1)", o), fmt.Sprintf("VPXORD %d(R15), Z23, Z16", o))
	case 4, 5:
		ops = masked(128*v+64*(i/2), 4, i%2 == 0)
	case 2, 3:
		ops = masked(64*v, 2*i, i == 0)
	case 6:
		if i < 3 {
			return masked(192*v+64*i, 0, true)
		}
		return list(fmt.Sprintf("VPSRLW $2, %d(R15), Z16", 192*v), "VPANDD Z21, Z16, Z16",
			fmt.Sprintf("VPSRLW $4, %d(R15), Z18", 192*v+64), "VPTERNLOGD $0xf8, Z22, Z18, Z16",
			"VPSRLW $6, Z17, Z18", "VPTERNLOGD $0xf8, Z23, Z18, Z16")
	}
	if g.bits%2 == 1 {
		ops = append(ops, fmt.Sprintf("KMOVQ %d(R15), K1", 64*(g.bits-1)+32*v+8*i), "VPADDB Z21, Z16, K1, Z16")
	}
	if g.levels != nil {
		ops = append(ops, "VPSHUFB Z16, Z21, Z16")
	}
	return ops
}

// lines writes four lines of the 64 inputs, from line on: groups 4v to 4v+3.
func (g *amx) lines(v, line int) {
	for i := range 4 {
		g.op(g.take(v, i)...)
		g.times()
		g.op("VMOVDQA64 Z9, Z18", "VPSHUFB Z24, Z8, K2, Z18", "VPSHUFB Z24, Z9, K3, Z8",
			fmt.Sprintf("VMOVDQU64 Z8, %d(R9)", 64*(line+i)), fmt.Sprintf("VMOVDQU64 Z18, %d(R9)", 1024+64*(line+i)))
	}
}

// mins writes the m of a pair of groups.
func (g *amx) mins(o int) {
	switch g.layout {
	case "int12Mins":
		g.op("PREFETCHT1 64(R12)(R10*1)", "VMOVDQU64 48(R12), Z8", fmt.Sprintf("VMOVDQU64 Z8, %d(DI)", o))
	case "byteMins":
		g.op("VPMOVZXBW 32(R12), Z8", fmt.Sprintf("VMOVDQU64 Z8, %d(DI)", o))
	}
}

func (g *amx) function() {
	next := func(end string) { g.op(fmt.Sprintf("ADDQ $%d, R15", g.codeBytes()), "DECQ R11", "JLE "+end) }
	nextPair := fmt.Sprintf("ADDQ $%d, R12", g.pairBytes())
	g.text("unpack"+g.id()+"AMX<>", "NOSPLIT|NOFRAME", 0, 0)
	g.op("TESTQ R11, R11", "JLE done")
	g.op("VBROADCASTI32X4 swap<>(SB), Z24", "MOVQ $0x5555555555555555, AX", "KMOVQ AX, K2", "KNOTQ K2, K3")
	g.op(g.masks()...)
	g.op("PREFETCHT1 (R12)(R10*1)")
	if affine(g.typ).Group == 32 {
		for block := range 2 {
			g.group(16 * block)
			g.lines(0, 8*block)
			g.lines(1, 8*block+4)
			next("mins")
		}
		g.label("mins")
		g.mins(0)
		g.op(nextPair)
	} else {
		for block := range 2 {
			if block > 0 {
				g.op("PREFETCHT1 (R12)(R10*1)")
			}
			g.group(0)
			g.lines(0, 8*block)
			g.group(16)
			g.lines(1, 8*block+4)
			g.mins(64 * block)
			g.op(nextPair)
			next("done")
		}
	}
	g.label("done")
	g.op("RET")
	g.end()
}

// amxUnpack is the file of the functions that unpack types for AMX.
func amxUnpack() *asm {
	a := newAsm("amd64", "textflag.h")
	a.end()
	a.comment("Unpacking of affine types for AMX; affine_amx_amd64.go draws what becomes of them.")
	a.end()
	levelTables(a)
	a.comment("Bytes of words swapped.")
	a.data("swap", []byte{1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14})
	a.comment("By number (unpackTypes).")
	n := 0
	for _, w := range weights {
		if w.tiled() {
			a.WriteString(fmt.Sprintf("DATA ·unpackersAMX+%d(SB)/8, $unpack%sAMX<>(SB)\n", 8*n, w.id()))
			n++
		}
	}
	a.WriteString(fmt.Sprintf("GLOBL ·unpackersAMX(SB), RODATA|NOPTR, $%d\n\n", 8*n))
	for _, w := range weights {
		if w.tiled() {
			(&amx{a, kindOf(w.typ), w}).function()
		}
	}
	return a
}
