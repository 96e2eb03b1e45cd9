//go:build !noasm

package cpu

import (
	"unsafe"

	"github.com/kvasir-llm/kvasir/quant"
)

// neondot is neon with the dot products of bytes that the feature DotProd has.
var neondot = func() kernels {
	k := neon
	k.name, k.matAffine = "neondot", matAffineNEONDot
	return k
}()

func matAffineNEON(t quant.Type, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	affineNEON(false, t, dst, ldd, x, w, stride, panels, m)
}

func matAffineNEONDot(t quant.Type, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	affineNEON(true, t, dst, ldd, x, w, stride, panels, m)
}

// spanScales are the scales of a span of a panel in the form in which tiles take them.
//
//lint:ignore U1000 the assembly uses all of it
type spanScales struct {
	s        [16][lanes]int32   // S of each group
	m        [8][2][lanes]int16 // m of each pair of groups
	d, least [lanes]float32     // D and M
	offset   [lanes]int32       // of the levels as tiles have them
	levels   [16]uint8          // of types that number them, less 128
}

// levelCodes is the kind of codes that number levels; the others' is their number of bits.
const levelCodes = 0

// affineNEON is matAffine with NEON, and with DotProd if dot is set.
func affineNEON(dot bool, t quant.Type, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	if m <= 0 || panels <= 0 {
		return
	}
	_ = dst[(m-1)*ldd+panels*lanes-1]
	for i := range m {
		clear(dst[i*ldd:][:panels*lanes])
	}
	if x.blocks <= 0 {
		return
	}
	a := &affinePanels[t]
	_, _ = x.q[(m-1)*x.ld+x.blocks*32-1], x.sums[(m-1)*x.lds+x.spans()-1]
	_ = w[(panels-1)*stride+a.bytes(x.blocks)-1]
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
	for j := range lanes {
		sc.offset[j] = int32(a.Offset - bias)
		for g := range sc.s {
			sc.s[g][j] = 1 // with zero points it stays so
		}
	}
	mins := 0
	if a.hasMins() {
		mins = int(unsafe.Offsetof(spanSums{}.sums16))
		if a.Group == 32 {
			mins = int(unsafe.Offsetof(spanSums{}.sums32))
		}
	}
	groups, perSpan, lds := (m+limit-1)/limit, a.span/32, x.lds*int(unsafe.Sizeof(x.sums[0]))
	for p := range panels {
		for first := 0; first < x.blocks; first += perSpan {
			blocks, place := min(perSpan, x.blocks-first), first%sectionBlocks
			codes, scales, supers, _ := a.section(w[p*stride:], first/sectionBlocks, x.blocks)
			code, super, pairs := &codes[place*a.codeBytes()], &supers[place/perSpan*a.superBytes()], a.pairs(blocks)
			scalesNEON(&sc, unsafe.SliceData(scales), super, pairs, int(a.layout), bias)
			for g := range groups { // of about the same size
				i, end := m*g/groups, m*(g+1)/groups
				out, q, sums := &dst[i*ldd+p*lanes], &x.q[i*x.ld+first*32], &x.sums[i*x.lds+first/sectionBlocks]
				if dot {
					tileDotNEON(out, ldd*4, q, x.ld, sums, lds, code, &sc, end-i, blocks, place, mins, pairs, kind)
				} else {
					tileNEON(out, ldd*4, q, x.ld, sums, lds, code, &sc, end-i, blocks, place, mins, pairs, kind)
				}
			}
		}
	}
}

func quantizeNEON(q []int8, sums []spanSums, x []float32, span int) {
	for s := range sums {
		v := x[s*span : min((s+1)*span, len(x))]
		_ = q[s*span+len(v)-1]
		quantizeSpanNEON(&q[s*span], &sums[s], &v[0], len(v))
	}
}

// tileNEON and tileDotNEON add the products of rows rows with a span of a panel to dst (affine_neon_arm64.h). ldd, ldq and lds are in
// bytes. first is the place of the span's first group in sums, mins that of the sums for the m of pairs pairs of groups, or 0.
//
//go:noescape
func tileNEON(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, codes *byte, sc *spanScales, rows, blocks, first, mins, pairs, kind int)

//go:noescape
func tileDotNEON(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, codes *byte, sc *spanScales, rows, blocks, first, mins, pairs, kind int)

//go:noescape
func scalesNEON(sc *spanScales, scales, supers *byte, pairs, layout, bias int)

//go:noescape
func quantizeSpanNEON(q *int8, sums *spanSums, x *float32, n int)
