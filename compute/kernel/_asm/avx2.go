package main

import "fmt"

// yrow is a row of a tile: its address in q, its sums, its registers for the values of two groups, low and high for
// outputs 0-7 and 8-15, and where its results go. Tiles of three and four rows take 8 outputs of a section, then the
// others; Y15 stands for what they lack.
type yrow struct{ q, sums, a, b, low0, low1, high0, high1, to string }

func yrows(n int) []yrow {
	if n <= 2 {
		return []yrow{
			{"(SI)", "(R9)", "Y9", "Y11", "Y0", "Y1", "Y4", "Y5", "(DI)"},
			{"(SI)(DX*1)", "(R14)", "Y10", "Y12", "Y2", "Y3", "Y6", "Y7", "(DI)(AX*1)"},
		}[:n]
	}
	return []yrow{
		{"(SI)", "(R9)", "Y9", "Y15", "Y0", "Y15", "Y4", "Y15", "(CX)"},
		{"(SI)(DX*1)", "(R14)", "Y10", "Y15", "Y1", "Y15", "Y5", "Y15", "(CX)"},
		{"(SI)(DX*2)", "(R8)", "Y11", "Y15", "Y2", "Y15", "Y6", "Y15", "(CX)"},
		{"(SI)(R15*1)", "(AX)", "Y12", "Y15", "Y3", "Y15", "Y7", "Y15", "(CX)"},
	}[:n]
}

// part is which outputs a tile takes.
type part int

const (
	all part = iota
	left
	right
)

// ytile is a tile of some rows and outputs.
type ytile struct {
	*avx2
	rows []yrow
	part
}

// each runs f for each row.
func (t *ytile) each(f func(r yrow) []string) {
	for _, r := range t.rows {
		t.ops(f(r))
	}
}

// halves gets what is for the outputs from 0 or 8 on, and then runs f for each row with its low and high sums of them.
func (t *ytile) halves(get func(o int) []string, f func(r yrow, low, high string, o int) []string) {
	for _, o := range [][]int{all: {0, 8}, left: {0}, right: {8}}[t.part] {
		t.ops(get(o))
		t.each(func(r yrow) []string {
			if t.part == all && o == 8 {
				return f(r, r.low1, r.high1, o)
			}
			return f(r, r.low0, r.high0, o)
		})
	}
}

func zeroLow(r yrow) []string {
	return list("VPXOR "+r.low0+", "+r.low0+", "+r.low0, "VPXOR "+r.low1+", "+r.low1+", "+r.low1)
}

func zeroHigh(r yrow) []string {
	return list("VPXOR "+r.high0+", "+r.high0+", "+r.high0, "VPXOR "+r.high1+", "+r.high1+", "+r.high1)
}

// start sets what low begins with in half h of a block: 0, or the half of an offset's product with the negated sum of
// the values, as two sums take one each.
func (t *ytile) start(h int) {
	offset := affine(t.typ).Offset
	if offset == 0 || t.bits == 6 || t.layout == "zeroPoints" {
		t.each(zeroLow)
		return
	}
	t.each(func(r yrow) []string {
		from := "SpanSums_minus32" + r.sums + "(R10*4)"
		if sums(t.weight) == 16 {
			from = fmt.Sprintf("SpanSums_minus16+%d%s(R10*8)", 4*h, r.sums)
		}
		return list("VPBROADCASTW "+from+", "+r.low0,
			fmt.Sprintf("VPSLLW $%d, %s, %s", log2(offset)-1, r.low0, r.low0), "VMOVDQA "+r.low0+", "+r.low1)
	})
}

// dot multiplies the levels with values of a row.
func (t *ytile) dot(values, low, high string) []string {
	if t.words() {
		return list("VPSIGNB Y13, "+values+", Y15", "VPMADDUBSW Y15, Y14, Y15", "VPMADDWD "+low+", Y15, Y15",
			"VPADDD Y15, "+high+", "+high)
	}
	return list("VPMADDUBSW "+values+", Y13, Y15", "VPADDW Y15, "+low+", "+low)
}

// joins takes low times S and T.
func (t *ytile) joins(odd, h int) {
	t.each(func(r yrow) []string { return list("VPBROADCASTD SpanSums_Shares" + r.sums + "(R10*4), " + r.a) })
	t.halves(func(o int) []string { return t.scales(odd, h, o) }, func(r yrow, low, high string, _ int) []string {
		return list("VPMADDWD Y13, "+low+", "+low, "VPMULLD "+r.a+", "+low+", "+low, "VPADDD "+low+", "+high+", "+high)
	})
}

// quad takes groups 4v to 4v+3 to the rows; middle comes after two of them.
func (t *ytile) quad(v int, middle func()) {
	if t.part != right {
		t.ops(t.fetch(v, t.ahead(), "(BX)"))
	}
	if t.part == all {
		for two := range 2 {
			if two == 1 {
				middle()
			}
			t.each(func(r yrow) []string {
				return list("VPBROADCASTD "+at(16*v+8*two, r.q)+", "+r.a,
					"VPBROADCASTD "+at(16*v+8*two+4, r.q)+", "+r.b)
			})
			for _, o := range []int{0, 32} {
				for i := range 2 {
					t.ops(t.take(v, 2*two+i, o))
					t.each(func(r yrow) []string {
						values, low, high := r.a, r.low0, r.high0
						if i == 1 {
							values = r.b
						}
						if o == 32 {
							low, high = r.low1, r.high1
						}
						return t.dot(values, low, high)
					})
				}
			}
		}
		return
	}
	o := 0
	if t.part == right {
		o = 32
	}
	for i := range 4 {
		if i == 2 {
			middle()
		}
		t.ops(t.take(v, i, o))
		t.each(func(r yrow) []string {
			return append(list("VPBROADCASTD "+at(16*v+4*i, r.q)+", "+r.a), t.dot(r.a, r.low0, r.high0)...)
		})
	}
}

// block takes a block at an even or an odd place.
func (t *ytile) blockAt(odd int) {
	t.op(fmt.Sprintf("PREFETCHT0 %d(R12)", t.ahead()))
	none := func() {}
	switch sums(t.weight) {
	case 0:
		t.each(func(r yrow) []string { return list("VPBROADCASTW SpanSums_Shares" + r.sums + "(R10*4), " + r.a) })
		t.halves(func(o int) []string { return t.scales(odd, 0, o) }, func(r yrow, low, _ string, _ int) []string {
			return list("VPMULLW " + r.a + ", Y13, " + low)
		})
		t.quad(0, none)
		t.quad(1, none)
	case 32:
		t.start(0)
		t.quad(0, none)
		t.quad(1, none)
		t.joins(odd, 0)
	default:
		for h := range 2 {
			t.start(h)
			t.quad(h, func() {
				if sums(t.weight) == 8 {
					t.joins(odd, h)
					t.each(zeroLow)
				}
			})
			t.joins(odd, h)
		}
	}
	t.less()
}

// times takes the sums at an address times Y13 to a sum.
func times(address, add, sum string) []string {
	return list("VPBROADCASTD "+address+", Y15", "VPMADDWD Y13, Y15, Y15", add+" Y15, "+sum+", "+sum)
}

// less takes zero points, and offsets of levels of 6 bits, off a block's sums.
func (t *ytile) less() {
	address := func(r yrow) string { return "SpanSums_sums32" + r.sums + "(R10*2)" }
	switch {
	case t.layout == "zeroPoints":
	case t.bits == 6:
		address = func(r yrow) string { return "SpanSums_sums16" + r.sums + "(R10*4)" }
	default:
		return
	}
	t.halves(t.mins, func(r yrow, _, high string, _ int) []string { return times(address(r), "VPSUBD", high) })
}

// least gathers the sums with m of a span, which is a section, in low.
func (t *ytile) least(label string) {
	if !t.hasMins() {
		return
	}
	from := "SpanSums_sums32"
	if t.group() == 16 {
		from = "SpanSums_sums16"
	}
	t.each(zeroLow)
	t.op("MOVQ CX, R12", "XORQ R10, R10")
	t.label(label)
	t.halves(t.mins, func(r yrow, low, _ string, _ int) []string { return times(from+r.sums+"(R10*4)", "VPADDD", low) })
	t.op("INCQ R10", fmt.Sprintf("ADDQ $%d, R12", t.pairBytes()), "CMPQ R12, R13", "JLT "+label, "XORQ R10, R10")
}

// ends takes the sums of a span to dst. CX is free by then.
func (t *ytile) ends() {
	switch t.part {
	case left:
		t.op("MOVQ DI, CX")
	case right:
		t.op("LEAQ 32(DI), CX")
	}
	t.halves(t.superScales, func(r yrow, low, high string, o int) []string {
		to := at(0, r.to)
		if t.part == all {
			to = at(4*o, r.to)
		}
		ops := list("VBROADCASTSS SpanSums_D"+r.sums+", "+r.a, "VMULPS "+r.a+", Y13, Y15",
			"VCVTDQ2PS "+high+", "+high, "VFMADD213PS "+to+", Y15, "+high)
		if t.hasMins() {
			ops = append(ops, "VMULPS "+r.a+", Y14, Y15", "VCVTDQ2PS "+low+", "+low, "VFNMADD231PS Y15, "+low+", "+high)
		}
		if ops = append(ops, "VMOVUPS "+high+", "+to); t.part != all {
			ops = append(ops, "ADDQ t_ldd+8(FP), CX")
		}
		return ops
	})
}

// sectionBytes returns the bytes of a whole section.
func (g *avx2) sectionBytes() int {
	head := g.pairBytes()*8*32/g.group()/2 + 8/g.spanBlocks()*g.superScaleBytes()
	return (head+63)&^63 + 8*g.codeBytes()
}

// ahead is how far ahead memory is fetched, in whole sections, so that each part is fetched beside the same part of an
// earlier section.
func (g *avx2) ahead() int { return 10240 / g.sectionBytes() * g.sectionBytes() }

// section takes a section to dst. suffix makes the labels unique.
func (t *ytile) section(suffix string) {
	span := t.spanBlocks()
	t.op("MOVQ $8, R13", "CMPQ R11, R13", "CMOVQLT R11, R13")
	t.op(fmt.Sprintf("LEAQ %d(R13), R10", span-1), fmt.Sprintf("ANDQ $~%d, R10", span-1),
		fmt.Sprintf("IMULQ $%d, R10", t.superScaleBytes()/span))
	t.op("MOVQ BX, CX", "MOVQ BX, R12")
	switch { // R13, blocks, becomes the bytes of their scales
	case t.layout == "zeroPoints":
		t.op("XORQ R13, R13")
	case t.group() == 16:
		t.f("IMULQ $%d, R13", t.pairBytes())
	default:
		t.op("INCQ R13", "SHRQ $1, R13", fmt.Sprintf("IMULQ $%d, R13", t.pairBytes()))
	}
	t.op("ADDQ CX, R13", "LEAQ 63(R13)(R10*1), BX", "ANDQ $~63, BX", "XORQ R10, R10")
	t.each(zeroHigh)
	even, odd := t.steps()
	for place, step := range []int{even, odd} {
		t.label([]string{"even", "odd"}[place] + suffix)
		t.blockAt(place)
		t.op(fmt.Sprintf("ADDQ $%d, BX", t.codeBytes()), fmt.Sprintf("ADDQ $%d, R12", step), "ADDQ $32, SI",
			"INCQ R10", "DECQ R11", "JZ end"+suffix)
		t.op(fmt.Sprintf("TESTQ $%d, R10", span-1), "JZ end"+suffix)
	}
	t.op("JMP even" + suffix)
	t.label("end" + suffix)
	t.least("mins" + suffix)
	t.f("PREFETCHT0 %d(R13)", t.ahead())
	t.ends()
	t.op("TESTQ R11, R11", "JZ done"+suffix)
	t.each(zeroHigh)
	t.op(fmt.Sprintf("ADDQ $%d, R13", t.superScaleBytes()), "TESTQ $1, R10", "JNZ odd"+suffix, "TESTQ $7, R10",
		"JNZ even"+suffix)
	t.label("done" + suffix)
}

// function writes the tile of a type, for one to four rows.
func (g *avx2) function() {
	section := func(rows int, p part, suffix string) { (&ytile{g, yrows(rows), p}).section(suffix) }
	g.comment("func tile%sAVX2(t tileAVX2)", g.id())
	g.text("·tile"+g.id()+"AVX2", "NOSPLIT", 24, 88)
	g.f("VMOVDQU %s<>(SB), Y8", g.mask())
	g.block(`
	MOVQ t_ldq+24(FP), DX
	LEAQ (DX)(DX*2), R15

next:
	MOVQ t_dst+0(FP), DI
	MOVQ t_ldd+8(FP), AX
	MOVQ t_q+16(FP), SI
	MOVQ t_sums+32(FP), R9
	MOVQ t_lds+40(FP), R8
	LEAQ (R9)(R8*1), R14
	MOVQ t_w+48(FP), BX
	MOVQ t_blocks+80(FP), R11
	CMPQ t_rows+64(FP), $2
	JEQ  two
	JGT  more

one:
`)
	section(1, all, "1")
	g.op("TESTQ R11, R11", "JZ advance", "ADDQ $SpanSums__size, R9", "JMP one")
	g.end()
	g.label("two")
	section(2, all, "2")
	g.op("TESTQ R11, R11", "JZ advance", "ADDQ $SpanSums__size, R9", "ADDQ $SpanSums__size, R14", "JMP two")
	g.block(`

more:
	LEAQ (R14)(R8*2), AX
	LEAQ (R9)(R8*2), R8

half:
	MOVQ BX, section-8(SP)
	MOVQ SI, values-16(SP)
	MOVQ R11, left-24(SP)
	CMPQ t_rows+64(FP), $4
	JEQ  four
`)
	again := list("MOVQ section-8(SP), BX", "MOVQ values-16(SP), SI", "MOVQ left-24(SP), R11")
	section(3, left, "3")
	g.op(again...)
	section(3, right, "3r")
	g.op("JMP end")
	g.end()
	g.label("four")
	section(4, left, "4")
	g.op(again...)
	section(4, right, "4r")
	g.block(`

end:
	TESTQ R11, R11
	JZ    advance
	ADDQ  $SpanSums__size, R9
	ADDQ  $SpanSums__size, R14
	ADDQ  $SpanSums__size, R8
	ADDQ  $SpanSums__size, AX
	JMP   half

advance:
	ADDQ $64, t_dst+0(FP)
	MOVQ t_stride+56(FP), R10
	ADDQ R10, t_w+48(FP)
	DECQ t_panels+72(FP)
	JNZ  next
	VZEROUPPER
	RET

`)
}

// constants writes the tables that the functions read.
func constants(a *asm) {
	repeat := func(b ...byte) (all []byte) {
		for len(all) < 32 {
			all = append(all, b...)
		}
		return all
	}
	a.comment("Levels of codes that number them, twice; those of 8 bits less 128.")
	for _, c := range kinds {
		if c.levels != nil {
			b := append([]byte(nil), c.levels[:]...)
			for i := range b {
				if c.words() {
					b[i] -= 128
				}
			}
			a.data(c.table(), repeat(b...))
		}
	}
	for _, t := range []struct {
		name string
		b    byte
	}{{"nibbles", 0x0f}, {"sixes", 0x3f}, {"lowest", 0x03}, {"middle", 0x0c}, {"highest", 0x30}, {"fours",
		4}, {"sixteens", 16}, {"tops", 0x80}} {
		a.data(t.name, repeat(t.b))
	}
	a.data("ones", repeat(1, 0))
	a.data("minus128", repeat(0x80, 0xff, 0, 0))
	a.comment("For each of 32 bytes, the byte that holds its bit, and the bit.")
	var spread, words, tops, pairs []byte
	for i := range byte(32) {
		spread = append(spread, i/8)
	}
	a.data("spread", spread)
	a.data("bit", repeat(1, 2, 4, 8, 16, 32, 64, 128))
	a.comment("Where VPSHUFB finds the low or the high bytes of words, two for each of 8 bytes.")
	for i := range byte(8) {
		words = append(words, i, 0x80, i, 0x80)
		tops = append(tops, 0x80, i, 0x80, i)
		pairs = append(pairs, i+8, i, i+8, i)
	}
	a.data("toWords", words)
	a.data("toTops", tops)
	a.comment("Where VPSHUFB finds words of bytes i and i+8, two for each of 8.")
	a.data("toPairs", pairs)
	a.comment("Words without the upper half of their lower byte, and what their bytes count.")
	a.data("notSecond", repeat(0x0f, 0xff))
	a.data("sixteenAndOne", repeat(0x01, 0x10))
}

// avx2File is a file of functions of every type.
func avx2File(what string, f func(g *avx2)) *asm {
	a := newAsm("amd64", "go_asm.h", "textflag.h")
	a.end()
	a.comment("%s; affine_avx2_amd64.go draws the layouts.", what)
	a.end()
	constants(a)
	for _, w := range weights {
		f(&avx2{a, kindOf(w.typ), w})
	}
	return a
}

func avx2Tiles() *asm {
	return avx2File("Tiles of affine types with AVX2", (*avx2).function)
}

func avx2Unpack() *asm {
	return avx2File("Unpacking of spans of affine types with AVX2, and with AVX-VNNI", func(g *avx2) {
		g.unpackFunction(false)
		if g.words() {
			g.unpackFunction(true)
		}
	})
}
