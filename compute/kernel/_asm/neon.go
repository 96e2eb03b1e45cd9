package main

import "fmt"

// neon writes the tile of a kind of codes with NEON, or with its dot products; ../affine_neon_arm64.go draws the
// layout. The instructions that Go's assembler lacks are macros of ../neon_arm64.h.
type neon struct {
	*asm
	*codes
	dot bool
}

// nrow is a row of a tile: q, its sums, and the first of four registers of its sums of a group.
type nrow struct {
	q, sums string
	t       int
}

func nrows(n int) (rows []nrow) {
	for i := range n {
		rows = append(rows, nrow{fmt.Sprint("R", 11+i), fmt.Sprint("R", 2+i), 8 + 4*i})
	}
	return rows
}

// most is the most rows of a tile. The last bits of codes take the registers of two rows.
func (g *neon) most() int {
	if g.dot && g.bits%2 == 0 {
		return 6
	}
	return 4
}

func (g *neon) each(rows int, f func(r nrow) []string) {
	for _, r := range nrows(rows) {
		g.op(f(r)...)
	}
}

// constants sets V5 to V7, and of codes with last bits V24 to V29: V24-V27 tell from which byte of these the 16 bytes
// of a register take theirs, V28 which bit, V29 is what it adds.
func (g *neon) constants() {
	splat := func(b int, v string) string { return fmt.Sprintf("VMOVI $%d, %s.B16", b, v) }
	g.op(splat(map[int]int{2: 3, 3: 3, 4: 15, 5: 15, 6: 63, 8: 128}[g.bits], "V5"))
	if g.levels != nil {
		g.op("ADD $spanScales_levels, R20, R10", "VLD1 (R10), [V6.B16]")
	}
	if g.bits%2 == 1 {
		g.op("MOVD $0x8040201008040201, R10", "VDUP R10, V28.D2", splat(1<<(g.bits-1), "V29"), splat(2, "V31"),
			"MOVD $0x0101010101010101, R10", "VEOR V24.B16, V24.B16, V24.B16", "VMOV R10, V24.D[1]",
			"VADD V31.B16, V24.B16, V25.B16", "VADD V31.B16, V25.B16, V26.B16", "VADD V31.B16, V26.B16, V27.B16")
	}
}

// dots multiplies the word in V0 to V3 with four values of each row.
func (g *neon) dots(rows int) {
	g.each(rows, func(r nrow) (ops []string) {
		if g.dot {
			ops = list("FMOVS.P 4(" + r.q + "), F4")
		} else {
			ops = list("VLD1R.P 4(" + r.q + "), [V4.S4]")
		}
		for n := range 4 {
			if g.dot {
				ops = append(ops, fmt.Sprintf("SDOT_LANE0(4, %d, %d)", n, r.t+n))
			} else {
				ops = append(ops, fmt.Sprintf("SMULL8(4, %d, 30)", n), fmt.Sprintf("SMULL8_2(4, %d, 31)", n),
					"ADDP16(31, 30, 30)",
					fmt.Sprintf("SADALP16(30, %d)", r.t+n))
			}
		}
		return ops
	})
}

// last adds the last bits of codes to V0 to V3.
func (g *neon) last() (ops []string) {
	if g.bits%2 == 0 {
		return nil
	}
	ops = list("FMOVD.P 8(R17), F30")
	for r := range 4 {
		ops = append(ops, fmt.Sprintf("TBL(%d, 30, 31)", 24+r), "CMTST8(28, 31, 31)", "AND(29, 31, 31)",
			fmt.Sprintf("ORR(31, %d, %d)", r, r))
	}
	return ops
}

// words returns the instructions that unpack each of the four words of half a block into V0 to V3, as signed bytes.
// R19 goes on with the last use of a line.
func (g *neon) words() (words [4][]string) {
	load := func(next bool) string {
		if next {
			return "LOAD16_NEXT(19, 0)"
		}
		return "LOAD16(19, 0)"
	}
	for i := range words {
		var ops []string
		switch g.bits {
		case 8:
			ops = list(load(true), "EOR16(5, 0)")
		case 4, 5:
			if i%2 == 0 {
				ops = list(load(false), "AND16(5, 0)")
			} else {
				ops = list(load(true), "USHR8_16(4, 0)")
			}
		case 2, 3:
			ops = list(load(i == 3))
			if i > 0 {
				ops = append(ops, fmt.Sprintf("USHR8_16(%d, 0)", 2*i))
			}
			if i < 3 {
				ops = append(ops, "AND16(5, 0)")
			}
		case 6:
			if i < 3 {
				ops = list(load(true), "AND16(5, 0)")
				break
			}
			for r := range 4 { // the upper two bits of the three words before
				ops = append(ops, fmt.Sprintf("FMOVQ %d(R19), F%d", 16*r-192, r),
					fmt.Sprintf("FMOVQ %d(R19), F6", 16*r-128), fmt.Sprintf("SRI8(2, 6, %d)", r),
					fmt.Sprintf("FMOVQ %d(R19), F6", 16*r-64), fmt.Sprintf("SRI8(4, 6, %d)",
						r), fmt.Sprintf("USHR8(2, %d, %d)", r, r))
			}
		}
		if g.levels != nil {
			ops = append(ops, "TBL16(6, 0)")
		}
		words[i] = append(ops, g.last()...)
	}
	return words
}

func (g *neon) half(rows int) {
	for _, ops := range g.words() {
		g.op(ops...)
		g.dots(rows)
	}
}

// beginGroup sets the sums of a group to the offset times -Σq; endGroup adds T·S times them to those of the span.
func (g *neon) beginGroup(rows int) {
	g.op("ADD $spanScales_offset, R20, R23", "LOAD16(23, 0)")
	g.each(rows, func(r nrow) []string {
		return list("FMOVS ("+r.sums+")(R25), F4", fmt.Sprintf("MUL16_LANE0(4, 0, %d)", r.t))
	})
	g.op("ADD $4, R25")
}

func (g *neon) endGroup(rows int) {
	g.op("LOAD16_NEXT(21, 0)")
	g.each(rows, func(r nrow) []string { return list(fmt.Sprintf("MUL16(0, %d, %d)", r.t, r.t)) })
	g.op("MOVD $span-384(SP), R23")
	g.each(rows, func(r nrow) []string {
		return list("FMOVS ("+r.sums+")(R26), F4", "LOAD16(23, 0)", fmt.Sprintf("MLA16_LANE0(4, %d, 0)", r.t),
			"STORE16_NEXT(23, 0)")
	})
}

// scaled adds sums times a row's d and D or M, at R24, to dst, or takes them off.
func scaled(r nrow, fma string) []string {
	return list(fmt.Sprintf("SCVTF16(%d)", r.t), "FMOVS SpanSums_D("+r.sums+"), F4", "LOAD16(24, 0)",
		"FMUL16_LANE0(4, 0)", "LOAD16(10, 4)",
		fmt.Sprintf("%s(0, %d, 4)", fma, r.t), "STORE16(10, 4)", "ADD R1, R10")
}

func (g *neon) tile(rows int) {
	name := fmt.Sprint("r", rows)
	g.label(name)
	g.op("ZERO16(0)")
	g.each(rows, func(nrow) []string { return list("STORE16_NEXT(23, 0)") })
	g.label(name + "Loop")
	if g.bits%2 == 1 {
		g.f("ADD $%d, R19, R17", 64*(g.bits-1))
	}
	g.beginGroup(rows)
	g.half(rows)
	if g.halves() {
		g.endGroup(rows)
		g.beginGroup(rows)
	}
	g.half(rows)
	g.endGroup(rows)
	g.op("ADD $4, R26")
	if g.bits%2 == 1 {
		g.op("MOVD R17, R19")
	}
	g.op("SUBS $1, R22", "BNE "+name+"Loop")
	g.op("MOVD $span-384(SP), R23", "ADD $spanScales_d, R20, R24", "MOVD R0, R10")
	g.each(rows, func(r nrow) []string {
		return append(list(fmt.Sprintf("LOAD16_NEXT(23, %d)", r.t)), scaled(r, "FMLA16")...)
	})
	g.op("CBZ R9, "+name+"End", "MOVD t_pairs+96(FP), R22", "ADD $spanScales_m, R20, R21")
	g.each(rows, func(r nrow) []string { return list(fmt.Sprintf("ZERO16(%d)", r.t)) })
	g.label(name + "Mins")
	g.op("LOAD16_NEXT(21, 0)")
	g.each(rows, func(r nrow) []string { // m times the sums of a pair of groups
		ops := list("FMOVS (" + r.sums + ")(R9), F4")
		for n := range 4 {
			to := r.t + n%2*2
			ops = append(ops, fmt.Sprintf("SMLAL_LANE(%d, 4, %d, %d)", n/2, n, to),
				fmt.Sprintf("SMLAL2_LANE(%d, 4, %d, %d)", n/2, n, to+1))
		}
		return ops
	})
	g.op("ADD $4, R9", "SUBS $1, R22", "BNE "+name+"Mins")
	g.op("ADD $spanScales_least, R20, R24", "MOVD R0, R10")
	g.each(rows, func(r nrow) []string { return scaled(r, "FMLS16") })
	g.label(name + "End")
	g.op("RET")
}

func (g *neon) function() {
	minus, shift := "SpanSums_minus32", 2
	if g.halves() {
		minus, shift = "SpanSums_minus16", 3
	}
	g.text("tileCodes"+g.name+"<>", "NOSPLIT", 384, 104)
	g.block(`
	MOVD t_dst+0(FP), R0
	MOVD t_ldd+8(FP), R1
	MOVD t_q+16(FP), R11
	MOVD t_ldq+24(FP), R8
	MOVD t_sums+32(FP), R2
	MOVD t_lds+40(FP), R10
	MOVD t_codes+48(FP), R19
	MOVD t_sc+56(FP), R20
	MOVD t_rows+64(FP), R24
	MOVD t_blocks+72(FP), R22
	MOVD t_first+80(FP), R26
	MOVD t_mins+88(FP), R9
`)
	g.op(fmt.Sprintf("LSL $%d, R26, R25", shift), "ADD $"+minus+", R25", "LSL $2, R26", "MOVD R20, R21",
		"MOVD $span-384(SP), R23")
	g.op("ADD R8, R11, R12", "ADD R8, R12, R13", "ADD R8, R13, R14", "ADD R8, R14, R15", "ADD R8, R15, R16")
	g.op("ADD R10, R2, R3", "ADD R10, R3, R4", "ADD R10, R4, R5", "ADD R10, R5, R6", "ADD R10, R6, R7")
	g.constants()
	g.op("CMP $2, R24", "BEQ r2", "BLT r1", "CMP $4, R24", "BEQ r4", "BLT r3")
	if g.most() == 6 {
		g.op("CMP $6, R24", "BEQ r6")
		g.tile(5)
		g.tile(6)
	}
	for rows := 1; rows <= 4; rows++ {
		g.tile(rows)
	}
	g.end()
}

// neonTiles is the file of the tiles with NEON, or with its dot products.
func neonTiles(dot bool) *asm {
	a := newAsm("arm64", "go_asm.h", "textflag.h", "neon_arm64.h")
	a.end()
	a.comment("Tiles of affine types with NEON; affine_neon_arm64.go draws the layout.")
	a.end()
	name := "tileNEON"
	if dot {
		name = "tileDotNEON"
	}
	for _, c := range kinds {
		if c.levels == nil {
			(&neon{a, c, dot}).function()
		}
	}
	// Types with levels bring their table, so one function serves all of them.
	(&neon{a, &codes{name: "Levels", bits: 4, levels: new([16]uint8)}, dot}).function()
	a.comment("func %s(t tileArgsNEON)\n\nIt goes on to the tile of a kind, the bits of a code or const_levelCodes. Arguments and frame are those of the function.", name)
	a.text("·"+name, "NOSPLIT|NOFRAME", 0, 112)
	a.op("MOVD t_kind+104(FP), R0")
	order := []string{"4", "8", "6", "5", "3", "2"}
	for _, c := range order {
		a.op("CMP $"+c+", R0", "BEQ codes"+c)
	}
	a.op("JMP tileCodesLevels<>(SB)")
	for _, c := range []string{"2", "3", "4", "5", "6", "8"} {
		a.end()
		a.label("codes" + c)
		a.op("JMP tileCodes" + c + "<>(SB)")
	}
	return a
}
