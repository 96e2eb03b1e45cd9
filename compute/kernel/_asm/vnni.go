package main

import "fmt"

// Tiles of affine types with AVX-512 VNNI: ../affine_vnni_amd64.go draws the layout.

// The frame of a tile: where its parts begin.
const (
	timesBytes = 2048  // S times 1 to 8 [8][16 groups][4 panels][16] int16; of few rows only times 1
	minBytes   = 16384 // m [8 pairs][4 panels][16][2] int16, with the offsets as m if each span has its own
	dBytes     = 18432 // D [4 panels][16] float32
	leastBytes = 18688 // M [4 panels][16] float32
	levelBytes = 18944 // levels [8 blocks][8][4 panels][64] bytes, of types that keep them
)

// vnni writes the tile of a kind of codes.
type vnni struct {
	*asm
	*codes
}

// The offsets of panels 1 to 3 from panel 0.
var panelOffsets = [4]string{"", "(CX*1)", "(R12*1)", "(R13*1)"}

func panel(r string, p int) string { return "(" + r + ")" + panelOffsets[p] }

// row is a row of a tile: the addresses of its sums and in dst, its sums of a group and of a span.
type row struct {
	sums, dst   string
	group, span [4]string
}

func rowOf(i int) row {
	r := row{sums: []string{"(R9)", "(R9)(R8*1)", "(R9)(R8*2)"}[i],
		dst: []string{"(DI)", "(DI)(R14*1)", "(DI)(R14*2)"}[i]}
	for p := range 4 {
		r.group[p], r.span[p] = fmt.Sprint("Z", 4*i+p), fmt.Sprint("Z", 12+4*i+p)
	}
	return r
}

// each runs f for the first rows.
func each(rows int, f func(r row)) {
	for i := range rows {
		f(rowOf(i))
	}
}

// take is where a tile finds the levels of a block.
type take int

const (
	fromCodes take = iota
	keep           // fromCodes, and puts them into the frame, at R14
	kept           // from there, at BX
)

// tile is a tile of some rows; many says that T·S are found in the frame.
type tile struct {
	name   string
	rows   int
	take   take
	many   bool
	labels [8]string
}

// quad multiplies groups 4v to 4v+3 of a block.
func (g *vnni) quad(v int, t tile) {
	for i := range 4 {
		o := 16*v + 4*i
		var load []string
		for r := range t.rows {
			load = append(load, fmt.Sprintf("VPBROADCASTD %s, Z%d",
				at(o, "(SI)"+[]string{"", "(DX*1)", "(DX*2)"}[r]), 24+r))
		}
		g.op(load...)
		for p := range 4 {
			var ops []string
			switch t.take {
			case kept:
				ops = list(fmt.Sprintf("VMOVDQA64 %d(BX), Z27", 64*o+64*p))
			case keep:
				ops = append(g.unpack(v, i, panel("BX", p)), fmt.Sprintf("VMOVDQA64 Z27, %d(R14)", 64*o+64*p))
			default:
				ops = g.unpack(v, i, panel("BX", p))
			}
			for r := range t.rows {
				ops = append(ops, fmt.Sprintf("VPDPBUSD Z%d, Z27, %s", 24+r, rowOf(r).group[p]))
			}
			g.op(ops...)
		}
	}
}

// begin sets the sums of a group to the offset times -Σq.
func (g *vnni) begin(rows, o int) {
	each(rows, func(r row) {
		g.op(fmt.Sprintf("VPSLLD.BCST.Z $%d, %s, K5, %s", log2(g.offset()), at(o, r.sums), r.group[0]),
			"VMOVDQA64 "+r.group[0]+", "+r.group[1], "VMOVDQA64 "+r.group[0]+", "+r.group[2],
			"VMOVDQA64 "+r.group[0]+", "+r.group[3])
	})
}

// end adds T·S times the sums of a group to those of the span. S is at o.
func (g *vnni) endGroup(t tile, o int) {
	share := "SpanSums_Shares-SpanSums_minus32"
	if g.halves() {
		share = "0"
	}
	each(t.rows, func(r row) {
		if t.many {
			g.op("MOVL "+share+r.sums+", AX", "SHLQ $11, AX")
		}
		for p := range 4 {
			n, z := r.group[p], r.span[p]
			if t.many {
				g.op(fmt.Sprintf("VPMOVSXWD %d(R10)(AX*1), Z28", o+32*p-timesBytes), "VPMULLD Z28, "+n+", "+n,
					"VPADDD "+n+", "+z+", "+z)
			} else {
				g.op(fmt.Sprintf("VPMOVSXWD %d(R10), Z28", o+32*p), "VPMULLD Z28, "+n+", "+n,
					"VPMULLD.BCST "+share+r.sums+", "+n+", "+n, "VPADDD "+n+", "+z+", "+z)
			}
		}
	})
}

// blockOf multiplies a block of 32 inputs.
func (g *vnni) blockOf(t tile) {
	g.begin(t.rows, 0)
	g.quad(0, t)
	if !g.halves() {
		g.quad(1, t)
		g.endGroup(t, 0)
		g.op("ADDQ $128, R10", "ADDQ $4, R9")
		return
	}
	g.op("MOVQ R9, DI", "MOVQ shares-144(SP), R9")
	g.endGroup(t, 0)
	g.op("MOVQ DI, R9")
	g.begin(t.rows, 4)
	g.quad(1, t)
	g.op("MOVQ R9, DI", "MOVQ shares-144(SP), R9")
	g.endGroup(t, 128)
	g.op("LEAQ 8(DI), R9", "ADDQ $4, shares-144(SP)", "ADDQ $256, R10")
}

// lines fetches so many lines at DI into the first cache.
func lines(n int, address string) (ops []string) {
	for i := range n {
		ops = append(ops, "PREFETCHT0 "+at(64*i, address))
	}
	return ops
}

// tile writes a tile, which takes a span of some rows. R15 is set to their number.
func (g *vnni) tile(t tile) {
	l, size := t.labels, g.codeBytes()
	if t.take == kept {
		size = 2048
	}
	g.label(t.name)
	each(t.rows, func(r row) { g.zero(r.span) })
	g.op("PCALIGN $64")
	g.label(l[0])
	g.op("CMPQ R15, $32", "JGE "+l[2])
	g.op("MOVQ R15, DI", "ANDL $7, DI", fmt.Sprintf("IMULQ $%d, DI", 64*g.fetchLines))
	g.op("MOVQ R15, AX", "SHRQ $3, AX", "IMULQ t_stride+56(FP), AX", "ADDQ AX, DI", "ADDQ fetch-128(SP), DI")
	g.op("MOVQ fetches-136(SP), AX", "ADDQ AX, R15")
	g.label(l[1])
	g.op(lines(g.fetchLines, "(DI)")...)
	g.op(fmt.Sprintf("ADDQ $%d, DI", 64*g.fetchLines), "DECQ AX", "JNZ "+l[1])
	g.label(l[2])
	g.blockOf(t)
	g.op("ADDQ $32, SI", fmt.Sprintf("ADDQ $%d, BX", size), "ADDQ $2048, R14", "DECQ R11", "JNZ "+l[0])
	g.op("MOVQ frame-8(SP), R10", "CMPQ t_layout+104(FP), $const_int12Mins", "JLT "+l[4])
	each(t.rows, func(r row) { g.zero(r.group) })
	g.op("MOVQ pairs-40(SP), R11", "MOVQ pairSums-48(SP), R9", "ADDQ row-56(SP), R9")
	g.label(l[3])
	for p := range 4 {
		g.f("VMOVDQU64 %d(R10), Z%d", minBytes+64*p, 24+p)
	}
	each(t.rows, func(r row) { // least: m times Σq of a pair of groups
		g.op("VPBROADCASTD "+r.sums+", Z28", "VPDPWSSD Z24, Z28, "+r.group[0], "VPDPWSSD Z25, Z28, "+r.group[1],
			"VPDPWSSD Z26, Z28, "+r.group[2], "VPDPWSSD Z27, Z28, "+r.group[3])
	})
	g.op("ADDQ $256, R10", "ADDQ $4, R9", "DECQ R11", "JNZ "+l[3])
	g.op("MOVQ frame-8(SP), R10", "CMPQ t_layout+104(FP), $const_zeroPoints", "JNE "+l[4])
	each(t.rows, func(r row) {
		var ops []string
		for p := range 4 {
			ops = append(ops, "VPSUBD "+r.group[p]+", "+r.span[p]+", "+r.span[p])
		}
		g.op(ops...)
	})
	g.label(l[4])
	g.op("MOVQ t_ldd+8(FP), R14", "MOVQ rowDst-120(SP), DI", "MOVQ spanSums-64(SP), R9", "ADDQ row-56(SP), R9")
	g.op("CMPQ done-72(SP), $0", "JEQ "+l[6])
	each(t.rows, g.scaled)
	g.op("JMP " + l[7])
	g.label(l[6])
	each(t.rows, g.fresh)
	g.label(l[7])
	g.op("CMPQ t_layout+104(FP), $const_int12Mins", "JLT "+l[5], "CMPQ t_layout+104(FP), $const_zeroPoints",
		"JEQ "+l[5])
	each(t.rows, g.less)
	g.label(l[5])
	each(t.rows, func(r row) {
		g.op("VMOVUPS "+r.span[0]+", "+at(0, r.dst), "VMOVUPS "+r.span[1]+", K2, "+at(64, r.dst),
			"VMOVUPS "+r.span[2]+", K3, "+at(128, r.dst), "VMOVUPS "+r.span[3]+", K4, "+at(192, r.dst))
	})
	g.op("MOVQ R15, fetched-112(SP)", fmt.Sprintf("MOVQ $%d, R15", t.rows), "JMP nextRows")
}

func (g *vnni) zero(z [4]string) {
	var ops []string
	for _, r := range z {
		ops = append(ops, "VPXORQ "+r+", "+r+", "+r)
	}
	g.op(ops...)
}

// scaled adds a span's sums to what is in dst, fresh those of the first span to 0, and less takes the span's least off.
func (g *vnni) scaled(r row) {
	g.op("VBROADCASTSS SpanSums_D" + r.sums + ", Z24")
	g.op("VMOVUPS.Z "+at(64, r.dst)+", K2, Z26", "VMOVUPS.Z "+at(128, r.dst)+", K3, Z27",
		"VMOVUPS.Z "+at(192, r.dst)+", K4, Z28")
	for p, d := range []string{at(0, r.dst), "Z26", "Z27", "Z28"} {
		z := r.span[p]
		g.op("VCVTDQ2PS "+z+", "+z, fmt.Sprintf("VMULPS %d(R10), Z24, Z25", dBytes+64*p), "VFMADD213PS "+d+", Z25, "+z)
	}
}

func (g *vnni) fresh(r row) {
	g.op("VBROADCASTSS SpanSums_D"+r.sums+", Z24", "VPXORQ Z26, Z26, Z26")
	for p, z := range r.span {
		g.op("VCVTDQ2PS "+z+", "+z, fmt.Sprintf("VMULPS %d(R10), Z24, Z25", dBytes+64*p), "VFMADD213PS Z26, Z25, "+z)
	}
}

func (g *vnni) less(r row) {
	g.op("VBROADCASTSS SpanSums_D" + r.sums + ", Z24")
	for p, n := range r.group {
		g.op("VCVTDQ2PS "+n+", "+n, fmt.Sprintf("VMULPS %d(R10), Z24, Z25", leastBytes+64*p),
			"VFNMADD231PS Z25, "+n+", "+r.span[p])
	}
}

// tileNamed makes a tile's labels of its name.
func tileNamed(name string, rows int, from take, many bool) tile {
	t := tile{name: name, rows: rows, take: from, many: many}
	for i, l := range []string{"Loop", "Fetch", "Block", "Pairs", "Join", "Store", "Fresh", "Scaled"} {
		t.labels[i] = name + l
	}
	return t
}

// tilesMany are the tiles of many rows. AX is how many are left.
func (g *vnni) tilesMany() {
	if !g.keepLevels {
		g.op("CMPQ AX, $4", "JEQ two", "CMPQ AX, $2", "JEQ two")
		g.tile(tileNamed("many", 3, fromCodes, true))
		return
	}
	g.op(fmt.Sprintf("LEAQ %d(R10), R14", levelBytes), "CMPQ row-56(SP), $0", "JEQ keep", "MOVQ R14, BX")
	g.op("CMPQ AX, $4", "JEQ keptTwo", "CMPQ AX, $2", "JGT keptThree")
	g.tile(tileNamed("keptTwo", 2, kept, false))
	g.tile(tileNamed("keptThree", 3, kept, true))
	g.tile(tileNamed("keep", 3, keep, true))
}

// vnniTiles is the file of the tiles with AVX-512 VNNI.
func vnniTiles() *asm {
	a := newAsm("amd64", "textflag.h", "funcdata.h", "go_asm.h")
	a.end()
	a.comment("Tiles of affine types with AVX-512 VNNI; ../kernel/affine_vnni_amd64.go draws the layout.")
	a.end()
	levelTables(a)
	(&vnni{asm: a}).scales()
	(&vnni{asm: a}).times()
	for _, c := range kinds {
		(&vnni{a, c}).function()
	}
	return a
}
