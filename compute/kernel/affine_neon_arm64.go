//go:build !noasm

package kernel

import "unsafe"

// neondot is neon with the dot products of bytes that the feature DotProd has.
var neondot = func() Table {
	k := neon
	k.Name, k.MatAffine = "neondot", matAffineNEONDot
	return k
}()

func matAffineNEON(p AffineProduct) { affineNEON(false, p) }

func matAffineNEONDot(p AffineProduct) { affineNEON(true, p) }

// A tile of an affine type with NEON is a span of one panel and up to 6 rows. For row i it does dst[i] = fma(sum,
// d·D, dst[i]) and, for types with an m, dst[i] = fma(-least, d·M, dst[i]), where sum = Σ T·S·Σ q·(level - offset)
// over the groups and least = Σ m·T·Σq, in whole numbers (matAffine). Four registers hold a word of the 16 outputs,
// one code in each byte, which are multiplied with four values of a row. The sums of a group stay in registers, those
// of the span on the stack.
//
// Registers: R0 the row of dst, R1 its distance; R2-R7 sums and R11-R16 q of the rows; R9 where sums for m are in
// SpanSums, or 0; R19 codes, R17 their last bits; R20 sc, R21 S or m in it; R22 blocks or pairs left, R23 sums of the
// span; R25 and R26 the group's -Σq and T in SpanSums. V0-V3 levels or scales, V4 a number of a row, V5-V7 constants,
// V8-V31 sums.

// tileArgsNEON is the argument of a tile, which adds products to dst.
type tileArgsNEON struct {
	dst  *float32 // [rows][16]
	ldd  int      // bytes from row to row
	q    *int8    // [rows][32·blocks]
	ldq  int
	sums *SpanSums // [rows], of the section
	lds  int       // bytes from row to row

	codes        *byte       // [blocks][8 words of 4 codes][16 outputs], packed (affinePanel.putCodes)
	sc           *spanScales // of the span
	rows, blocks int
	first        int // the place of the span's first group in sums
	mins         int // the place of the sums for m in SpanSums, or 0
	pairs        int // of groups with an m
	kind         int // the bits of a code, or levelCodes
}

// spanScales are the scales of a span of a panel in the form in which tiles take them.
//
//lint:ignore U1000 the assembly uses all of it
type spanScales struct {
	s        [16][Lanes]int32   // S of each group
	m        [8][2][Lanes]int16 // m of each pair of groups
	d, least [Lanes]float32     // D and M
	offset   [Lanes]int32       // of the levels as tiles have them
	levels   [16]uint8          // of types that number them, less 128
}

// levelCodes is the kind of codes that number levels; the others' is their number of bits.
const levelCodes = 0

// affineNEON is MatAffine with NEON, and with DotProd if dot is set.
func affineNEON(dot bool, p AffineProduct) {
	t, dst, ldd, x, w, stride, panels, m := p.Type, p.Dst, p.Ldd, p.X, p.W, p.Stride, p.Panels, p.M
	if m <= 0 || panels <= 0 {
		return
	}
	_ = dst[(m-1)*ldd+panels*Lanes-1]
	for i := range m {
		clear(dst[i*ldd:][:panels*Lanes])
	}
	if x.Blocks <= 0 {
		return
	}
	a := &affinePanels[t]
	_, _ = x.Q[(m-1)*x.Ld+x.Blocks*32-1], x.Sums[(m-1)*x.LdSums+x.Spans()-1]
	_ = w[(panels-1)*stride+a.bytes(x.Blocks)-1]
	limit := 4 // rows of a tile
	if dot && a.Bits%2 == 0 {
		limit = 6
	}
	kind, bias := a.Bits, 0 // what tiles take off levels that are no signed bytes
	var sc spanScales
	if a.Levels != nil {
		kind = levelCodes
		for i, level := range a.Levels {
			sc.levels[i] = level - 128
		}
	}
	if kind == levelCodes || kind == 8 {
		bias = 128
	}
	for j := range Lanes {
		sc.offset[j] = int32(a.Offset - bias)
		for g := range sc.s {
			sc.s[g][j] = 1 // with zero points it stays so
		}
	}
	mins := 0
	if a.hasMins() {
		mins = int(unsafe.Offsetof(SpanSums{}.sums16))
		if a.Group == 32 {
			mins = int(unsafe.Offsetof(SpanSums{}.sums32))
		}
	}
	groups, perSpan, lds := (m+limit-1)/limit, a.span/32, x.LdSums*int(unsafe.Sizeof(x.Sums[0]))
	for p := range panels {
		for first := 0; first < x.Blocks; first += perSpan {
			blocks, place := min(perSpan, x.Blocks-first), first%sectionBlocks
			codes, scales, superScales, _ := a.section(w[p*stride:], first/sectionBlocks, x.Blocks)
			code, pairs := &codes[place*a.codeBytes()], a.pairs(blocks)
			super := &superScales[place/perSpan*a.superScaleBytes()]
			scalesNEON(&sc, unsafe.SliceData(scales), super, pairs, int(a.layout), bias)
			for g := range groups { // of about the same size
				i, end := m*g/groups, m*(g+1)/groups
				tile := tileArgsNEON{
					dst: &dst[i*ldd+p*Lanes], ldd: ldd * 4, q: &x.Q[i*x.Ld+first*32], ldq: x.Ld,
					sums: &x.Sums[i*x.LdSums+first/sectionBlocks], lds: lds, codes: code, sc: &sc,
					rows: end - i, blocks: blocks, first: place, mins: mins, pairs: pairs, kind: kind,
				}
				if dot {
					tileDotNEON(tile)
				} else {
					tileNEON(tile)
				}
			}
		}
	}
}

func quantizeNEON(q []int8, sums []SpanSums, x []float32, span int) {
	for s := range sums {
		v := x[s*span : min((s+1)*span, len(x))]
		_ = q[s*span+len(v)-1]
		quantizeSpanNEON(&q[s*span], &sums[s], &v[0], len(v))
	}
}

//go:noescape
func tileNEON(t tileArgsNEON)

//go:noescape
func tileDotNEON(t tileArgsNEON)

//go:noescape
func scalesNEON(sc *spanScales, scales, superScales *byte, pairs, layout, bias int)

//go:noescape
func quantizeSpanNEON(q *int8, sums *SpanSums, x *float32, n int)
