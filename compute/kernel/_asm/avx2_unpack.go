package main

import "fmt"

// avx2 writes the functions of a type for AVX2; ../affine_avx2_amd64.go draws the layouts.
type avx2 struct {
	*asm
	*codes
	weight
}

// levelBits returns the bits of the greatest level.
func (c *codes) levelBits() int {
	if c.levels == nil {
		return c.bits
	}
	bits := 0
	for _, l := range c.levels {
		for l>>bits != 0 {
			bits++
		}
	}
	return bits
}

// words reports whether levels need 8 bits with a sign, so that a product of two bytes fills 16 bits.
func (c *codes) words() bool { return c.levelBits() == 8 }

// group is how many values share an S in a panel.
func (g *avx2) group() int { return groupOf(g.weight) }

func groupOf(w weight) int {
	if w.layout == "zeroPoints" {
		return 32
	}
	return affine(w.typ).Group
}

// sums is of how many values there are sums in 16 bits: eight steps with levels of 4 bits stay within 8·2·15·127 <
// 2¹⁵, four with 5 bits, two with 6; 0 is none.
func sums(w weight) int {
	switch bits := kindOf(w.typ).levelBits(); {
	case bits == 8:
		return 0
	case bits == 6:
		return 8
	case bits == 5 || groupOf(w) == 16:
		return 16
	}
	return 32
}

// spanBlocks is how many blocks share a super-block scale.
func (w weight) spanBlocks() int {
	if w.layout == "zeroPoints" {
		return w.typ.BlockValues() / 32
	}
	return 8
}

// superScaleBytes returns the bytes of the super-block scales of a span.
func (w weight) superScaleBytes() int {
	switch w.layout {
	case "int12Mins":
		return 128
	case "zeroPoints":
		return 80
	}
	return 64
}

// steps returns how far scales go on after blocks at even and at odd places.
func (g *avx2) steps() (even, odd int) {
	switch {
	case g.layout == "zeroPoints":
		return 0, 0
	case g.group() == 16:
		return g.pairBytes(), g.pairBytes()
	}
	return 16, g.pairBytes() - 16
}

// ops writes lines of instructions.
func (g *avx2) ops(s []string) { g.op(s...) }

// mask is the table that Y8 holds.
func (g *avx2) mask() string {
	return map[int]string{2: "lowest", 3: "lowest", 4: "nibbles", 5: "nibbles", 6: "sixes", 8: "tops"}[g.bits]
}

// shifted makes a register some bits of each byte at an offset of BX.
func shifted(from, down int, mask, to string) []string {
	return list(fmt.Sprintf("VMOVDQU %d(BX), %s", from, to), fmt.Sprintf("VPSRLW $%d, %s, %s", down, to, to),
		"VPAND "+mask+", "+to+", "+to)
}

// take makes Y13 the levels of group 4v+i, for the 8 outputs o bytes on. Levels of words become their distances from
// 128, with sizes in Y14; otherwise Y14 may pass on from one group to the next. It may use Y15.
func (g *avx2) take(v, i, o int) (ops []string) {
	switch g.bits {
	case 8:
		return list(fmt.Sprintf("VPXOR %d(BX), Y8, Y13", 256*v+64*i+o), "VPABSB Y13, Y14")
	case 4, 5:
		from := 128*v + 64*(i/2) + o
		switch {
		case i%2 == 0:
			ops = list(fmt.Sprintf("VMOVDQU %d(BX), Y14", from), "VPAND Y8, Y14, Y13")
		case g.words():
			ops = shifted(from, 4, "Y8", "Y13")
		default:
			ops = list("VPSRLW $4, Y14, Y13", "VPAND Y8, Y13, Y13")
		}
	case 2, 3:
		if i == 0 {
			ops = list(fmt.Sprintf("VPAND %d(BX), Y8, Y13", 64*v+o))
		} else {
			ops = shifted(64*v+o, 2*i, "Y8", "Y13")
		}
	case 6:
		if i < 3 {
			return list(fmt.Sprintf("VPAND %d(BX), Y8, Y13", 192*v+64*i+o))
		}
		return append(join(shifted(192*v+o, 2, "highest<>(SB)", "Y13"), shifted(192*v+64+o, 4, "middle<>(SB)", "Y14"),
			shifted(192*v+128+o, 6, "lowest<>(SB)", "Y15")), "VPOR Y14, Y13, Y13", "VPOR Y15, Y13, Y13")
	}
	if g.bits%2 == 1 {
		value := map[int]string{3: "fours", 5: "sixteens"}[g.bits]
		ops = append(ops, fmt.Sprintf("VPBROADCASTD %d(BX), Y15", 64*(g.bits-1)+32*v+8*i+o/8),
			"VPSHUFB spread<>(SB), Y15, Y15",
			"VPAND bit<>(SB), Y15, Y15", "VPCMPEQB bit<>(SB), Y15, Y15",
			"VPAND "+value+"<>(SB), Y15, Y15", "VPOR Y15, Y13, Y13")
	}
	if g.levels != nil {
		if ops = append(ops, "VMOVDQU "+g.table()+"<>(SB), Y15", "VPSHUFB Y13, Y15, Y13"); g.words() {
			ops = append(ops, "VPABSB Y13, Y14")
		}
	}
	return ops
}

// fetch fetches half v of the block at an address.
func (g *avx2) fetch(v, offset int, address string) (ops []string) {
	for i := range (g.bits + 1) / 2 {
		ops = append(ops, "PREFETCHT0 "+at(g.codeBytes()/2*v+64*i+offset, address))
	}
	return ops
}

// scales makes Y13 the S of half h of a block, at an even or an odd place, twice as int16, for the outputs from o on.
// It may use Y14.
func (g *avx2) scales(odd, h, o int) []string {
	switch g.layout {
	case "int12s", "int12Mins":
		// Words of the upper 8 bits of S and below them the lower 4 bits, those of both groups.
		of := func(at, low int) []string {
			return list(fmt.Sprintf("VPBROADCASTQ %d(R12), Y13", at), fmt.Sprintf("VPBROADCASTQ %d(R12), Y14", low),
				"VPBLENDD $0xcc, Y14, Y13, Y13", "VPSHUFB toPairs<>(SB), Y13, Y13")
		}
		if odd == 1 {
			return append(of(o, 16+o), "VPSRAW $4, Y13, Y13")
		}
		return append(of(o, 32+o), "VPAND notSecond<>(SB), Y13, Y13", "VMOVDQU sixteenAndOne<>(SB), Y14",
			"VPMADDUBSW Y13, Y14, Y13")
	case "int8s", "byteMins":
		if g.group() == 32 {
			h = 0
		}
		return list(fmt.Sprintf("VPBROADCASTQ %d(R12), Y13", 16*h+o), "VPSHUFB toTops<>(SB), Y13, Y13",
			"VPSRAW $8, Y13, Y13")
	case "uint8s":
		return list(fmt.Sprintf("VPBROADCASTQ %d(R12), Y13", o), "VPSHUFB toWords<>(SB), Y13, Y13")
	}
	return list("VMOVDQU ones<>(SB), Y13")
}

// mins makes Y13 what sums of pairs of groups are multiplied with: m, S times the offset, or zero points.
func (g *avx2) mins(o int) []string {
	switch {
	case g.layout == "int12Mins":
		return list(fmt.Sprintf("VMOVDQU %d(R12), Y13", 48+4*o))
	case g.layout == "byteMins":
		return list(fmt.Sprintf("VPMOVZXBW %d(R12), Y13", 32+2*o))
	case g.layout == "zeroPoints" && g.bits == 8:
		return append(zeros(o), "VPADDW minus128<>(SB), Y13, Y13")
	case g.layout == "zeroPoints":
		return zeros(o)
	}
	return list(fmt.Sprintf("VMOVQ %d(R12), X13", o), fmt.Sprintf("VMOVQ %d(R12), X14", 16+o),
		"VPUNPCKLBW X14, X13, X13",
		"VPMOVSXBW X13, Y13", fmt.Sprintf("VPSLLW $%d, Y13, Y13", log2(g.offset())))
}

func zeros(o int) []string { return list(fmt.Sprintf("VPMOVZXBD %d(R13), Y13", 64+o)) }

// superScales makes Y13 D and Y14 M.
func (g *avx2) superScales(o int) []string {
	switch g.layout {
	case "int12Mins":
		return list(fmt.Sprintf("VMOVUPS %d(R13), Y13", 4*o), fmt.Sprintf("VMOVUPS %d(R13), Y14", 64+4*o))
	case "byteMins":
		return list(fmt.Sprintf("VCVTPH2PS %d(R13), Y13", 2*o), fmt.Sprintf("VCVTPH2PS %d(R13), Y14", 32+2*o))
	}
	return list(fmt.Sprintf("VMOVUPS %d(R13), Y13", 4*o))
}

// unpackFunction writes the function that unpacks a span to spanWeights. bytes says that levels that would be words
// stay bytes, for AVX-VNNI. Levels are at DI, S at R9, what sums of pairs are multiplied with at R8, the floats of
// the span at R14.
func (g *avx2) unpackFunction(bytes bool) {
	set := "AVX2"
	if bytes {
		set = "AVXVNNI"
	}
	g.comment("func unpack%s%s(to *spanWeights, codes, scales, superScales *byte, stride, blocks int)", g.id(), set)
	g.text("·unpack"+g.id()+set, "NOSPLIT", 0, 48)
	g.block(`
	MOVQ to+0(FP), R14
	MOVQ codes+8(FP), BX
	MOVQ scales+16(FP), R12
	MOVQ superScales+24(FP), R13
	MOVQ stride+32(FP), CX
	MOVQ blocks+40(FP), R11
`)
	g.f("VMOVDQU %s<>(SB), Y8", g.mask())
	g.op("LEAQ spanWeights_pairs(R14), R8", "LEAQ spanWeights_s(R14), R9", "LEAQ spanWeights_levels(R14), DI",
		"PREFETCHT1 (R13)(CX*1)")
	for h := range 2 {
		g.op(append(g.superScales(8*h), fmt.Sprintf("VMOVUPS Y13, %d(R14)", 32*h))...)
		if g.hasMins() {
			g.f("VMOVUPS Y14, spanWeights_m+%d(R14)", 32*h)
		}
	}
	even, odd := g.steps()
	g.end()
	g.label("even")
	for place, step := range []int{even, odd} {
		g.op("PREFETCHT1 (R12)(CX*1)")
		g.unpackBlock(place, bytes)
		g.pairs(place, bytes)
		g.op(fmt.Sprintf("ADDQ $%d, BX", g.codeBytes()), fmt.Sprintf("ADDQ $%d, R12", step), "DECQ R11",
			[]string{"JZ end", "JNZ even"}[place])
	}
	g.end()
	g.label("end")
	g.op("VZEROUPPER", "RET")
	g.end()
}

// unpackBlock unpacks the levels and S of a block.
func (g *avx2) unpackBlock(odd int, bytes bool) {
	quad := func(v int, f func(i, o int)) {
		g.ops(g.fetch(v, 0, "(BX)(CX*1)"))
		for _, at := range [][2]int{{0, 0}, {1, 0}, {0, 32}, {1, 32}, {2, 0}, {3, 0}, {2, 32}, {3, 32}} {
			f(at[0], at[1])
		}
	}
	if g.words() && !bytes {
		g.unpackWords(odd)
		return
	}
	for v := range 2 {
		quad(v, func(i, o int) {
			ops := g.take(v, i, o)
			if g.words() {
				ops = append(ops, "VPXOR tops<>(SB), Y13, Y13")
			}
			g.ops(append(ops, fmt.Sprintf("VMOVDQU Y13, %d(DI)", 256*v+64*i+o)))
		})
	}
	g.op("ADDQ $512, DI")
	halves := 1
	if s := sums(g.weight); s == 8 || s == 16 {
		halves = 2
	}
	for h := range halves {
		for o := range 2 {
			g.ops(append(g.scales(odd, h, 8*o), fmt.Sprintf("VMOVDQU Y13, %d(R9)", 64*h+32*o)))
		}
	}
	g.f("ADDQ $%d, R9", 64*halves)
}

// twice has words beside themselves.
var twice = list("VPSLLD $16, Y13, Y14", "VPBLENDW $0xaa, Y14, Y13, Y13")

// unpackWords makes levels of 8 bits int16, those of outputs 0, 1, 4 and 5 of eight before those of 2, 3, 6 and 7:
// distances times S, or less zero points. Y0-Y3 are S, or the zero points less 128.
func (g *avx2) unpackWords(odd int) {
	whole := "VPMULLW"
	for h := range 2 {
		by := g.scales(odd, 0, 8*h)
		if g.layout == "zeroPoints" {
			whole, by = "VPSUBW", append(g.mins(8*h), twice...)
		}
		g.ops(append(by, fmt.Sprintf("VPUNPCKLDQ Y13, Y13, Y%d", 2*h), fmt.Sprintf("VPUNPCKHDQ Y13, Y13, Y%d", 2*h+1)))
	}
	for v := range 2 {
		g.ops(g.fetch(v, 0, "(BX)(CX*1)"))
		for i := range 4 {
			for h := range 2 {
				to := 512*v + 128*i + 64*h
				g.ops(g.take(v, i, 32*h))
				g.op("VPUNPCKLBW Y13, Y13, Y14", "VPUNPCKHBW Y13, Y13, Y15", "VPSRAW $8, Y14, Y14",
					"VPSRAW $8, Y15, Y15",
					fmt.Sprintf("%s Y%d, Y14, Y14", whole, 2*h), fmt.Sprintf("%s Y%d, Y15, Y15", whole, 2*h+1),
					fmt.Sprintf("VMOVDQU Y14, %d(DI)", to), fmt.Sprintf("VMOVDQU Y15, %d(DI)", to+32))
			}
		}
	}
	g.op("ADDQ $1024, DI")
}

// pairs keeps what the sums of a pair of groups are multiplied with, where a block at an even or odd place has a pair.
func (g *avx2) pairs(odd int, bytes bool) {
	if odd == 1 && g.group() == 32 || g.words() && !bytes {
		return
	}
	for h := range 2 {
		var ops []string
		switch o := 8 * h; {
		case g.hasMins():
			ops = g.mins(o)
		case g.layout == "zeroPoints":
			if ops = zeros(o); g.spanBlocks() > 1 {
				ops = append(ops, twice...)
			}
		default:
			ops = append(join(g.scales(0, 0, o), list("VMOVDQU Y13, Y15"), g.scales(1, 0, 16+o)),
				"VPBLENDW $0xaa, Y13, Y15, Y13", fmt.Sprintf("VPSLLW $%d, Y13, Y13", log2(g.offset())))
		}
		g.ops(append(ops, fmt.Sprintf("VMOVDQU Y13, %d(R8)", 32*h)))
	}
	g.op("ADDQ $64, R8")
}
