package main

import "fmt"

// spans writes the products of many rows with one span of a panel, unpacked to spanWeights; ../affine_avx2_amd64.go
// draws the registers. per is of how many values there are sums in 16 bits, or, with the dot products of AVX-VNNI, in
// 32.
type spans struct {
	*asm
	per  int
	vnni bool
}

// srow is a row of a tile of bytes: its number, values, sums of pairs, d, and place in dst, and its registers.
type srow struct {
	i                      int
	q, pairs, d, to        string
	n0, n1, total0, total1 string
}

func srows(n int) (rows []srow) {
	for i := range n {
		by := func(r, distance string) string {
			return r + []string{"", "(" + distance + "*1)", "(" + distance + "*2)"}[i]
		}
		rows = append(rows, srow{i, by("(CX)", "DX"), by("(R14)", "R8"), by("SpanSums_D(R9)", "R8"), by("(DI)", "AX"),
			fmt.Sprint("Y", 2*i), fmt.Sprint("Y", 2*i+1), fmt.Sprint("Y", 6+2*i), fmt.Sprint("Y", 7+2*i)})
	}
	return rows
}

func zeroed(registers ...string) (ops []string) {
	for _, r := range registers {
		ops = append(ops, "VPXOR "+r+", "+r+", "+r)
	}
	return ops
}

// dpbusd takes Y12 or Y13 times Y14 to a register. The assembler knows VPDPBUSD with an EVEX prefix only.
func dpbusd(y, to int) string {
	return fmt.Sprintf("BYTE $0xc4; BYTE $0xc2; BYTE $%#x; BYTE $0x50; BYTE $%#x", 0x7d-8*y, 0xc6+8*to)
}

// group takes group g of a block to the rows.
func (s *spans) group(g int, rows []srow) {
	first := g%(s.per/4) == 0
	s.op(fmt.Sprintf("VMOVDQU %d(BX), Y12", 64*g), fmt.Sprintf("VMOVDQU %d(BX), Y13", 64*g+32))
	for _, r := range rows {
		load := "VPBROADCASTD " + at(4*g, r.q) + ", Y14"
		switch {
		case s.vnni && first:
			s.op(append(zeroed(r.n0, r.n1), load, dpbusd(12, 2*r.i), dpbusd(13, 2*r.i+1))...)
		case s.vnni:
			s.op(load, dpbusd(12, 2*r.i), dpbusd(13, 2*r.i+1))
		case first:
			s.op(load, "VPMADDUBSW Y14, Y12, "+r.n0, "VPMADDUBSW Y14, Y13, "+r.n1)
		default:
			s.op(load, "VPMADDUBSW Y14, Y12, Y15", "VPMADDUBSW Y14, Y13, Y14", "VPADDW Y15, "+r.n0+", "+r.n0,
				"VPADDW Y14, "+r.n1+", "+r.n1)
		}
	}
}

// join takes what half h of the block came to times S·T, which the row's T finds.
func (s *spans) join(h int, rows []srow) {
	times := "VPMADDWD"
	if s.vnni {
		times = "VPMULLD"
	}
	for _, r := range rows {
		s.op("MOVL "+at(0, r.pairs)+", R15", "SHLQ $6, R15", "ADDQ R12, R15",
			fmt.Sprintf("%s %d(R15), %s, %s", times, 512*h-64, r.n0, r.n0), fmt.Sprintf("%s %d(R15), %s, %s", times,
				512*h-32, r.n1, r.n1),
			"VPADDD "+r.n0+", "+r.total0+", "+r.total0, "VPADDD "+r.n1+", "+r.total1+", "+r.total1)
	}
}

// pair takes what sums of pairs of groups are multiplied with to the rows.
func (s *spans) pair(rows []srow) {
	s.op("VMOVDQU 0(BX), Y12", "VMOVDQU 32(BX), Y13")
	for _, r := range rows {
		s.op("VPBROADCASTD "+r.pairs+", Y14", "VPMADDWD Y14, Y12, Y15", "VPMADDWD Y14, Y13, Y14",
			"VPADDD Y15, "+r.n0+", "+r.n0, "VPADDD Y14, "+r.n1+", "+r.n1)
	}
}

// toDst adds sums times d and D, at an offset of R13, to dst, or takes them off.
func (s *spans) toDst(rows []srow, from, fma string, sums func(r srow) [2]string) {
	for _, r := range rows {
		s.op("VBROADCASTSS " + r.d + ", Y14")
		for h, sum := range sums(r) {
			s.op("VCVTDQ2PS "+sum+", "+sum, fmt.Sprintf("VMULPS %s%d(R13), Y14, Y15", from, 32*h),
				"VMOVUPS "+at(32*h, r.to)+", Y12",
				fma+" Y15, "+sum+", Y12", "VMOVUPS Y12, "+at(32*h, r.to))
		}
	}
}

// tile takes some rows.
func (s *spans) tile(n int) {
	rows, suffix := srows(n), fmt.Sprint(n)
	totals := func(r srow) [2]string { return [2]string{r.total0, r.total1} }
	for _, r := range rows {
		s.op(zeroed(r.total0, r.total1)...)
	}
	s.label("block" + suffix)
	for g := range 8 {
		s.group(g, rows)
		if (g+1)%(s.per/4) == 0 {
			s.join(g/4*boolInt(s.per < 32), rows)
		}
	}
	s.op(fmt.Sprintf("ADDQ $%d, R12", 512+512*boolInt(s.per < 32)))
	s.op("ADDQ $512, BX", "ADDQ $32, CX", "ADDQ $4, R14", "DECQ R11", "JNZ block"+suffix)
	s.op("MOVQ t_at+88(FP), R14", "ADDQ R9, R14", "MOVQ t_pairs+80(FP), R11", "LEAQ spanWeights_pairs(R13), BX")
	for _, r := range rows {
		s.op(zeroed(r.n0, r.n1)...)
	}
	s.label("pair" + suffix)
	s.pair(rows)
	s.op("ADDQ $64, BX", "ADDQ $4, R14", "DECQ R11", "JNZ pair"+suffix, "CMPQ t_mins+96(FP), $0", "JEQ offset"+suffix)
	s.toDst(rows, "", "VFMADD231PS", totals)
	s.toDst(rows, "spanWeights_m+", "VFNMADD231PS", func(r srow) [2]string { return [2]string{r.n0, r.n1} })
	s.op("JMP next")
	s.label("offset" + suffix)
	for _, r := range rows {
		s.op("VPSUBD "+r.n0+", "+r.total0+", "+r.total0, "VPSUBD "+r.n1+", "+r.total1+", "+r.total1)
	}
	s.toDst(rows, "", "VFMADD231PS", totals)
	s.op("JMP next")
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// bytes writes the function for levels that are bytes.
func (s *spans) bytes() {
	name := fmt.Sprintf("spanBytes%dAVX2", s.per)
	if s.vnni {
		name = fmt.Sprintf("spanDots%dAVXVNNI", s.per)
	}
	s.comment("func %s(t spanAVX2)", name)
	s.text("·"+name, "NOSPLIT", 0, 104)
	s.block(`
	MOVQ t_dst+0(FP), DI
	MOVQ t_ldd+8(FP), AX
	MOVQ t_q+16(FP), SI
	MOVQ t_ldq+24(FP), DX
	MOVQ t_sums+32(FP), R9
	MOVQ t_lds+40(FP), R8
	MOVQ t_w+56(FP), R13
	MOVQ t_rows+64(FP), R10
	JMP  begin

next:
	SUBQ $3, R10
	JLE  end
	LEAQ (DX)(DX*2), CX
	ADDQ CX, SI
	LEAQ (R8)(R8*2), CX
	ADDQ CX, R9
	ADDQ CX, t_shares+48(FP)
	LEAQ (AX)(AX*2), CX
	ADDQ CX, DI

begin:
	MOVQ SI, CX
	LEAQ spanWeights_levels(R13), BX
	LEAQ spanWeights_shares(R13), R12
	MOVQ t_shares+48(FP), R14
	MOVQ t_blocks+72(FP), R11
	CMPQ R10, $2
	JEQ  two
	JLT  one
`)
	s.tile(3)
	s.end()
	s.label("two")
	s.tile(2)
	s.end()
	s.label("one")
	s.tile(1)
	s.end()
	s.label("end")
	s.op("VZEROUPPER", "RET")
	s.end()
}

// wideRow is the distance of rows of words, in bytes.
const wideRow = 576

// words writes the tile of some rows of levels that are words, and the half of the outputs that DX says.
func (s *spans) words(n int) {
	type row struct{ q, d, to, a, b string }
	var rows []row
	for i := range n {
		d := []string{"(R9)", "(R9)(R8*1)", "(R9)(R8*2)", "(R14)", "(R9)(R8*4)", "(R14)(R8*2)"}[i]
		to := []string{"(DI)", "(DI)(AX*1)", "(DI)(AX*2)", "(R12)", "(DI)(AX*4)", "(R12)(AX*2)"}[i]
		rows = append(rows, row{"(CX)", "SpanSums_D" + d, to, fmt.Sprint("Y", 2*i), fmt.Sprint("Y", 2*i+1)})
	}
	half, block := fmt.Sprint("half", n), fmt.Sprint("block", n)
	s.label(half)
	for _, r := range rows {
		s.op(zeroed(r.a, r.b)...)
	}
	s.op("MOVQ SI, CX", "MOVQ t_blocks+48(FP), R11")
	s.label(block)
	for g := range 8 {
		s.op(fmt.Sprintf("VMOVDQU %d(BX), Y12", 128*g), fmt.Sprintf("VMOVDQU %d(BX), Y13", 128*g+32))
		for i, r := range rows {
			s.op("VPBROADCASTQ "+at(wideRow*i+8*g, r.q)+", Y14", "VPMADDWD Y14, Y12, Y15", "VPMADDWD Y14, Y13, Y14",
				"VPADDD Y15, "+r.a+", "+r.a, "VPADDD Y14, "+r.b+", "+r.b)
		}
	}
	s.op("ADDQ $1024, BX", "ADDQ $64, CX", "DECQ R11", "JNZ "+block, "VMOVUPS (R13), Y12")
	for _, r := range rows {
		s.op("VPHADDD "+r.b+", "+r.a+", "+r.a, "VBROADCASTSS "+r.d+", Y14", "VCVTDQ2PS "+r.a+", "+r.a,
			"VMULPS Y12, Y14, Y14",
			"VMOVUPS "+r.to+", Y15", "VFMADD231PS Y14, "+r.a+", Y15", "VMOVUPS Y15, "+r.to)
	}
	s.op("ADDQ $32, DI", "ADDQ $32, R12", "ADDQ $32, R13", "MOVQ t_w+32(FP), BX",
		"ADDQ $(spanWeights_levels+64), BX", "XORQ $1, DX", "JNZ "+half)
}

func (s *spans) wordsFunction() {
	s.comment("func spanWordsAVX2(t wordsAVX2)")
	s.text("·spanWordsAVX2", "NOSPLIT", 0, 64)
	s.block(`
	MOVQ t_dst+0(FP), DI
	MOVQ t_ldd+8(FP), AX
	MOVQ t_q+16(FP), SI
	MOVQ t_sums+24(FP), R9
	MOVQ t_rows+40(FP), R10
	MOVQ t_lds+56(FP), R8

begin:
	MOVQ t_w+32(FP), R13
	LEAQ spanWeights_levels(R13), BX
	LEAQ (R8)(R8*2), R14
	ADDQ R9, R14
	LEAQ (AX)(AX*2), R12
	ADDQ DI, R12
	XORQ DX, DX
	CMPQ R10, $3
	JLT  below3
	JEQ  three
	CMPQ R10, $5
	JLT  four
	JEQ  five
`)
	s.words(6)
	s.op("SUBQ $6, R10", "JZ end", fmt.Sprintf("ADDQ $%d, SI", 6*wideRow))
	s.op("LEAQ (R8)(R8*2), R14", "LEAQ (R9)(R14*2), R9", "LEAQ (AX)(AX*2), R12", "LEAQ -64(DI)(R12*2), DI", "JMP begin")
	for _, t := range []struct {
		label string
		rows  int
	}{{"five", 5}, {"four", 4}, {"three", 3}} {
		s.end()
		s.label(t.label)
		s.words(t.rows)
		s.op("JMP end")
	}
	s.end()
	s.label("below3")
	s.op("CMPQ R10, $2", "JLT one")
	s.words(2)
	s.op("JMP end")
	s.end()
	s.label("one")
	s.words(1)
	s.end()
	s.label("end")
	s.op("VZEROUPPER", "RET")
	s.end()
}

// shares writes the function that makes S·T of S, for the halves of a span's blocks, in words or in numbers of 32 bits.
func (s *spans) shares(ints bool) {
	name, add := "shareWordsAVX2", "VPADDW"
	if ints {
		name, add = "shareIntsAVX2", "VPADDD"
	}
	s.comment("func %s(w *spanWeights, halves int)", name)
	s.text("·"+name, "NOSPLIT", 0, 16)
	s.op("MOVQ w+0(FP), R13", "MOVQ halves+8(FP), R11", "LEAQ spanWeights_s(R13), R9",
		"LEAQ spanWeights_shares(R13), R8")
	s.end()
	s.label("half")
	s.op("VMOVDQU (R9), Y0", "VMOVDQU 32(R9), Y1")
	if ints {
		s.op("VPSRAD $16, Y0, Y0", "VPSRAD $16, Y1, Y1")
	}
	s.op(zeroed("Y2", "Y3")...)
	for t := range 8 {
		s.op(add+" Y0, Y2, Y2", add+" Y1, Y3, Y3", fmt.Sprintf("VMOVDQU Y2, %d(R8)", 64*t),
			fmt.Sprintf("VMOVDQU Y3, %d(R8)", 64*t+32))
	}
	s.op("ADDQ $64, R9", "ADDQ $512, R8", "DECQ R11", "JNZ half", "VZEROUPPER", "RET")
	s.end()
}

// widen writes widenRowAVX2.
func (s *spans) widen() {
	s.block(`
// func widenRowAVX2(to *int16, q *int8, shares *int32, blocks int)
TEXT ·widenRowAVX2(SB), NOSPLIT, $0-32
	MOVQ to+0(FP), DI
	MOVQ q+8(FP), SI
	MOVQ shares+16(FP), R9
	MOVQ blocks+24(FP), CX

widen:
	VPBROADCASTW (R9), Y2
	VPMOVSXBW    (SI), Y0
	VPMOVSXBW    16(SI), Y1
	VPMULLW      Y2, Y0, Y0
	VPMULLW      Y2, Y1, Y1
	VMOVDQU      Y0, (DI)
	VMOVDQU      Y1, 32(DI)
	ADDQ         $4, R9
	ADDQ         $32, SI
	ADDQ         $64, DI
	DECQ         CX
	JNZ          widen
	VZEROUPPER
	RET

`)
}

// avx2Spans is the file of products with unpacked spans.
func avx2Spans() *asm {
	a := newAsm("amd64", "go_asm.h", "textflag.h")
	a.end()
	a.comment("Products of many rows with one span of a panel, with AVX2 and AVX-VNNI; affine_avx2_amd64.go draws the registers.")
	a.end()
	for _, per := range []int{32, 16, 8} {
		(&spans{a, per, false}).bytes()
	}
	for _, per := range []int{32, 16} {
		(&spans{a, per, true}).bytes()
	}
	s := &spans{asm: a}
	s.wordsFunction()
	s.widen()
	s.shares(false)
	s.shares(true)
	return a
}
