//go:build amd64 && !noasm

package cpu

import (
	"sync"
	"unsafe"

	"github.com/kvasir-llm/kvasir/quant"
)

// affineTileAVX2 adds the products of up to tileRows rows with panels of an affine type, over blocks blocks, to dst. q and sums are the
// rows' values and sums (rowsQ8); ldd, ldq, lds, the distance of rows in sums, and stride are in bytes. panels and blocks
// are at least 1.
type affineTileAVX2 func(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

// affineAVX2 is how AVX2 multiplies with an affine type: a few rows by tiles of up to four, which unpack codes as they go, and more
// rows span by span, each unpacked once for all.
type affineAVX2 struct {
	tile   affineTileAVX2
	few    int // up to how many rows tiles take: fewer if codes are long to unpack, more if spans are short
	sums   int // of how many values there are sums in 16 bits: 32, 16 or 8; 0 if levels are words
	unpack unpackAVX2
	bytes  unpackAVX2 // for AVX-VNNI, where unpack makes words
}

type unpackAVX2 func(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

// spanWeights is one span of a panel, unpacked. Levels of up to 6 bits are bytes, and level 4g+t of output j is byte
// 64g + 4j + t: VPMADDUBSW and VPADDW add up products of 32, 16 or 8 values in 16 bits, and VPMADDWD takes the sums
// times S and the row's T. Levels of 8 bits are words, less their offset and times S, so that VPMADDWD and VPADDD are all that is left
// to do: the values of rows are words times T then.
type spanWeights struct {
	d, m   [lanes]float32                     // D and M
	pairs  [8][lanes][2]int16                 // of the pairs of groups: m, or S times the offset
	s      [16][lanes][2]int16                // S twice, for each sum in 16 bits, in halves of blocks or blocks
	shares [16][greatestShare][lanes][2]int16 // S times T from 1 on; with AVX-VNNI numbers of 32 bits
	levels [2 * spanValues * lanes]byte
}

// wideRow is the distance of rows of words, an odd number of cache lines.
const wideRow = spanValues + 32

// spanRows is how many rows are widened at a time.
const spanRows = 64

// tileRows is how many rows a tile has at most.
const tileRows = 4

func matAffineAVX2(t quant.Type, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	matAffine256(false, t, dst, ldd, x, w, stride, panels, m)
}

func matAffineAVXVNNI(t quant.Type, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	matAffine256(true, t, dst, ldd, x, w, stride, panels, m)
}

// matAffine256 is matAffine with AVX2 and, for more than a few rows, with AVX-VNNI.
func matAffine256(vnni bool, t quant.Type, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
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
	_, _ = x.q[(m-1)*x.ld+x.blocks*32-1], x.sums[(m-1)*x.lds+x.spans()-1]
	_ = w[(panels-1)*stride+affinePanels[t].bytes(x.blocks)-1]
	by := &affinesAVX2[t]
	few := by.few
	if vnni && by.sums == 0 { // which are bytes then
		few = tileRows
	}
	if m <= few {
		lds := x.lds * int(unsafe.Sizeof(x.sums[0]))
		group := panels // at a time
		if m > tileRows {
			group = 1 // which is in a cache when the next rows come
		}
		for p := 0; p < panels; p += group {
			for i := 0; i < m; i += tileRows {
				by.tile(&dst[i*ldd+p*lanes], ldd*4, &x.q[i*x.ld], x.ld, &x.sums[i*x.lds], lds, &w[p*stride], stride, min(tileRows, m-i), group, x.blocks)
			}
		}
		return
	}
	for i := 0; i < m; i += spanRows {
		affineSpans(vnni, t, dst[i*ldd:], ldd, x.from(i), w, stride, panels, min(spanRows, m-i))
	}
}

// affineSpans adds the products of up to spanRows rows to dst.
func affineSpans(vnni bool, t quant.Type, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	b := spanBuffers.Get().(*spanBuffer)
	defer spanBuffers.Put(b)
	to, wide := b.weights, b.wide
	a, by := &affinePanels[t], &affinesAVX2[t]
	sums, unpack := by.sums, by.unpack
	if vnni && sums == 0 {
		sums, unpack = 32, by.bytes
	}
	mins, lds := 0, x.lds*int(unsafe.Sizeof(x.sums[0]))
	if a.hasMins() {
		mins = 1
	}
	for n := range a.spans(x.blocks) {
		first := n * a.span / 32
		blocks := min(a.span/32, x.blocks-first)
		q, of := x.q[first*32:], &x.sums[first*32/spanValues]
		shares := &of.shares[first%8]
		if sums == 0 {
			for i := range m {
				widenRowAVX2(&wide[i*wideRow], &q[i*x.ld], &x.sums[i*x.lds+first*32/spanValues].shares[first%8], blocks)
			}
		}
		codes, scales, supers := a.spanAt(n, x.blocks)
		pairs, at := (blocks+1)/2, int(unsafe.Offsetof(of.sums32))+first%8*2
		if a.Group == 16 {
			pairs, at = blocks, int(unsafe.Offsetof(of.sums16))
		}
		halves := blocks
		if sums < 32 {
			halves = 2 * blocks
		}
		for p := range panels {
			panel, out := w[p*stride:], &dst[p*lanes]
			unpack(to, &panel[codes], &panel[scales], &panel[supers], stride, blocks)
			switch {
			case sums == 0:
			case vnni:
				shareIntsAVX2(to, halves)
			default:
				shareWordsAVX2(to, halves)
			}
			switch {
			case sums == 0:
				spanWordsAVX2(out, ldd*4, &wide[0], of, to, m, blocks, lds)
			case vnni && sums == 32:
				spanDots32AVXVNNI(out, ldd*4, &q[0], x.ld, of, lds, shares, to, m, blocks, pairs, at, mins)
			case vnni:
				spanDots16AVXVNNI(out, ldd*4, &q[0], x.ld, of, lds, shares, to, m, blocks, pairs, at, mins)
			case sums == 32:
				spanBytes32AVX2(out, ldd*4, &q[0], x.ld, of, lds, shares, to, m, blocks, pairs, at, mins)
			case sums == 16:
				spanBytes16AVX2(out, ldd*4, &q[0], x.ld, of, lds, shares, to, m, blocks, pairs, at, mins)
			default:
				spanBytes8AVX2(out, ldd*4, &q[0], x.ld, of, lds, shares, to, m, blocks, pairs, at, mins)
			}
		}
	}
}

// spanAt returns where the parts of span n are in a panel of blocks blocks.
func (a *affinePanel) spanAt(n, blocks int) (codes, scales, supers int) {
	section, first := n*a.span/spanValues, n*a.span%spanValues/32
	its := min(sectionBlocks, blocks-section*sectionBlocks)
	scales = section * a.sectionBytes(sectionBlocks)
	codes = scales + a.headBytes(its) + first*a.codeBytes()
	supers = scales + a.pairs(its)*a.scaleBytes() + first*32/a.span*a.superBytes()
	return codes, scales, supers
}

// spanBuffers are where spans and rows are unpacked, of whole cache lines.
var spanBuffers = sync.Pool{New: func() any {
	const n = int(unsafe.Sizeof(spanWeights{}))
	memory := aligned(n + spanRows*wideRow*2)
	return &spanBuffer{(*spanWeights)(unsafe.Pointer(&memory[0])), view[int16](memory[n:])}
}}

type spanBuffer struct {
	weights *spanWeights
	wide    []int16 // [spanRows][wideRow]
}

// affinesAVX2 is indexed by type.
var affinesAVX2 = [...]affineAVX2{
	quant.Q4_0:   {tileQ4_0AVX2, 8, 32, unpackQ4_0AVX2, nil},
	quant.Q4_1:   {tileQ4_1AVX2, 8, 32, unpackQ4_1AVX2, nil},
	quant.Q5_0:   {tileQ5_0AVX2, 4, 16, unpackQ5_0AVX2, nil},
	quant.Q5_1:   {tileQ5_1AVX2, 4, 16, unpackQ5_1AVX2, nil},
	quant.Q8_0:   {tileQ8_0AVX2, 16, 0, unpackQ8_0AVX2, unpackQ8_0AVXVNNI},
	quant.Q2_K:   {tileQ2_KAVX2, 4, 16, unpackQ2_KAVX2, nil},
	quant.Q3_K:   {tileQ3_KAVX2, 4, 16, unpackQ3_KAVX2, nil},
	quant.Q4_K:   {tileQ4_KAVX2, 8, 32, unpackQ4_KAVX2, nil},
	quant.Q5_K:   {tileQ5_KAVX2, 4, 16, unpackQ5_KAVX2, nil},
	quant.Q6_K:   {tileQ6_KAVX2, 4, 8, unpackQ6_KAVX2, nil},
	quant.IQ4_NL: {tileIQ4_NLAVX2, 8, 0, unpackIQ4_NLAVX2, unpackIQ4_NLAVXVNNI},
	quant.IQ4_XS: {tileIQ4_XSAVX2, 8, 0, unpackIQ4_XSAVX2, unpackIQ4_XSAVXVNNI},
	quant.MXFP4:  {tileMXFP4AVX2, 4, 16, unpackMXFP4AVX2, nil},
	quant.U2_32:  {tileU2_32AVX2, 16, 32, unpackU2_32AVX2, nil},
	quant.U3_32:  {tileU3_32AVX2, 4, 32, unpackU3_32AVX2, nil},
	quant.U4_32:  {tileU4_32AVX2, 16, 32, unpackU4_32AVX2, nil},
	quant.U8_32:  {tileU8_32AVX2, 32, 0, unpackU8_32AVX2, unpackU8_32AVXVNNI},
	quant.U2_128: {tileU2_128AVX2, 8, 32, unpackU2_128AVX2, nil},
	quant.U3_128: {tileU3_128AVX2, 4, 32, unpackU3_128AVX2, nil},
	quant.U4_128: {tileU4_128AVX2, 8, 32, unpackU4_128AVX2, nil},
	quant.U8_128: {tileU8_128AVX2, 8, 0, unpackU8_128AVX2, unpackU8_128AVXVNNI},
}

//go:noescape
func spanBytes32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, shares *int32, w *spanWeights, rows, blocks, pairs, at, mins int)

//go:noescape
func spanBytes16AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, shares *int32, w *spanWeights, rows, blocks, pairs, at, mins int)

//go:noescape
func spanBytes8AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, shares *int32, w *spanWeights, rows, blocks, pairs, at, mins int)

//go:noescape
func spanDots16AVXVNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, shares *int32, w *spanWeights, rows, blocks, pairs, at, mins int)

//go:noescape
func spanDots32AVXVNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, shares *int32, w *spanWeights, rows, blocks, pairs, at, mins int)

//go:noescape
func spanWordsAVX2(dst *float32, ldd int, q *int16, sums *spanSums, w *spanWeights, rows, blocks, lds int)

//go:noescape
func shareWordsAVX2(w *spanWeights, halves int)

//go:noescape
func shareIntsAVX2(w *spanWeights, halves int)

//go:noescape
func widenRowAVX2(to *int16, q *int8, shares *int32, blocks int)

//go:noescape
func tileQ4_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ4_1AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ5_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ5_1AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ8_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ2_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ3_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ4_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ5_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ6_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileIQ4_NLAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileIQ4_XSAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileMXFP4AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileU2_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileU3_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileU4_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileU8_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileU2_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileU3_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileU4_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileU8_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func unpackQ4_0AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackQ4_1AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackQ5_0AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackQ5_1AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackQ8_0AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackQ2_KAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackQ3_KAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackQ4_KAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackQ5_KAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackQ6_KAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackIQ4_NLAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackIQ4_XSAVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackMXFP4AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackU2_32AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackU3_32AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackU4_32AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackU8_32AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackU2_128AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackU3_128AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackU4_128AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackU8_128AVX2(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackQ8_0AVXVNNI(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackU8_32AVXVNNI(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackU8_128AVXVNNI(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackIQ4_NLAVXVNNI(to *spanWeights, codes, scales, supers *byte, stride, blocks int)

//go:noescape
func unpackIQ4_XSAVXVNNI(to *spanWeights, codes, scales, supers *byte, stride, blocks int)
