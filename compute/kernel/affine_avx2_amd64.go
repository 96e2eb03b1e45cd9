//go:build amd64 && !noasm

package kernel

import (
	"sync"
	"unsafe"
)

// Tiles of affine types with AVX2 go on with the chain that matAffine defines from dst[i][p].
//
// VPMADDUBSW adds two products of an unsigned and a signed byte in 16 bits, and VPMADDWD takes two such sums times S.
// Eight steps with levels of 4 bits stay within 8·2·15·127 < 2¹⁵, four with 5 bits, two with 6, one with distances
// from 128 of 8 bits. An offset begins each of the two sums with half of its product with the negated sum of the
// values, which stays within 2¹⁵ too; with levels of 6 bits it is taken like an m. The row's share T of a block is
// taken last, or multiplies S before.
//
// Loads are what there are most of, so values and masks are loaded once for all outputs.
//
// Registers: SI q of row 0, whose successors are DX, 2·DX and R15 on; R9, R14, R8 and AX the sums of the rows' spans,
// with up to two rows AX is the distance of rows in dst; BX codes; CX where scales begin and R12 those of the block;
// R13 super-block scales; R10 the block in its section; R11 blocks left; DI dst. Y0-Y3 sums in 16 bits, or S·T for
// levels of 8, later sums with m; Y4-Y7 sums; Y8 a mask for codes; Y9-Y12 values of the rows; Y13-Y15 scratch.

// tileAVX2 is the argument of a tile of a type: products of one to four rows with panels, added to dst.
type tileAVX2 struct {
	dst  *float32 // [rows][16·panels]
	ldd  int      // bytes from row to row
	q    *int8    // [rows][32·blocks], from -127 to 127
	ldq  int
	sums *SpanSums // [rows][spans]
	lds  int       // bytes from row to row

	w            *byte // panels of sections (affinePanel)
	stride       int   // bytes from panel to panel
	rows, panels int   // at least 1
	blocks       int   // of 32 inputs, at least 1
}

// affineAVX2 is how AVX2 multiplies with an affine type: a few rows by tiles of up to four, which unpack codes as
// they go, and more rows span by span, each unpacked once for all.
type affineAVX2 struct {
	tile   func(t tileAVX2)
	few    int // up to how many rows tiles take: fewer if codes are long to unpack, more if spans are short
	sums   int // of how many values there are sums in 16 bits: 32, 16 or 8; 0 if levels are words
	unpack unpackAVX2
	bytes  unpackAVX2 // for AVX-VNNI, where unpack makes words
}

type unpackAVX2 func(to *spanWeights, codes, scales, superScales *byte, stride, blocks int)

// spanWeights is one span of a panel, unpacked. Levels of up to 6 bits are bytes, and level 4g+t of output j is byte
// 64g + 4j + t: VPMADDUBSW and VPADDW add up products of 32, 16 or 8 values in 16 bits, and VPMADDWD takes the sums
// times S and the row's T. Levels of 8 bits are words, less their offset and times S, so that VPMADDWD and VPADDD are
// all that is left to do: the values of rows are words times T then.
type spanWeights struct {
	d, m   [Lanes]float32                     // D and M
	pairs  [8][Lanes][2]int16                 // of the pairs of groups: m, or S times the offset
	s      [16][Lanes][2]int16                // S twice, for each sum in 16 bits, in halves of blocks or blocks
	shares [16][greatestShare][Lanes][2]int16 // S times T from 1 on; with AVX-VNNI numbers of 32 bits
	levels [2 * SpanValues * Lanes]byte
}

// Products with an unpacked span do dst[i] = fma(sum, d·D, dst[i]) and, for types with an m, then fma(-least, d·M,
// dst[i]).
//
// Registers of bytes: three rows of 16 outputs. Y0-Y5 sums in 16 bits, Y6-Y11 sums, Y12-Y13 levels, Y14-Y15 scratch.
// SI rows of q and CX walking them, R9 sums, R14 shares and then sums of pairs, DI dst; R13 weights, BX walking
// levels, R12 S·1 and R15 S·T of a block; R10 rows left, R11 blocks or pairs left.
//
// Registers of words: six rows of 8 outputs. Y0-Y11 sums: of a row, those of outputs 0, 1, 4, 5 and of 2, 3, 6, 7 in
// pairs; Y12-Y13 weights, Y14-Y15 scratch; R14 and R12 are R9 and DI of row 3, DX says which half of the outputs it
// is.

// spanAVX2 is the argument of a product of rows with an unpacked span whose levels are bytes.
type spanAVX2 struct {
	dst    *float32 // [rows][16]
	ldd    int      // bytes from row to row
	q      *int8    // [rows][32·blocks]
	ldq    int
	sums   *SpanSums // [rows]
	lds    int       // bytes from row to row
	shares *int32    // where the T of the span's blocks begin in the first row's sums

	w            *spanWeights
	rows, blocks int
	pairs, at    int // of groups; at what byte of SpanSums their sums begin
	mins         int // 1 for types with an m
}

// wordsAVX2 is that of a product with levels that are words.
type wordsAVX2 struct {
	dst          *float32 // [rows][16]
	ldd          int      // bytes from row to row
	q            *int16   // [rows][wideRow]
	sums         *SpanSums
	w            *spanWeights
	rows, blocks int
	lds          int // bytes from row to row in sums
}

// wideRow is the distance of rows of words, an odd number of cache lines.
const wideRow = SpanValues + 32

// spanRows is how many rows are widened at a time.
const spanRows = 64

// rowsAVX2 is how many rows a tile has at most.
const rowsAVX2 = 4

func matAffineAVX2(p AffineProduct) { matAffine256(false, p) }

func matAffineAVXVNNI(p AffineProduct) { matAffine256(true, p) }

// matAffine256 is MatAffine with AVX2 and, for more than a few rows, with AVX-VNNI.
func matAffine256(vnni bool, p AffineProduct) {
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
	_, _ = x.Q[(m-1)*x.Ld+x.Blocks*32-1], x.Sums[(m-1)*x.LdSums+x.Spans()-1]
	_ = w[(panels-1)*stride+affinePanels[t].bytes(x.Blocks)-1]
	by := &affinesAVX2[t]
	few := by.few
	if vnni && by.sums == 0 { // which are bytes then
		few = rowsAVX2
	}
	if m <= few {
		lds := x.LdSums * int(unsafe.Sizeof(x.Sums[0]))
		group := panels // at a time
		if m > rowsAVX2 {
			group = 1 // which is in a cache when the next rows come
		}
		for p := 0; p < panels; p += group {
			for i := 0; i < m; i += rowsAVX2 {
				by.tile(tileAVX2{
					dst: &dst[i*ldd+p*Lanes], ldd: ldd * 4, q: &x.Q[i*x.Ld], ldq: x.Ld,
					sums: &x.Sums[i*x.LdSums], lds: lds,
					w: &w[p*stride], stride: stride, rows: min(rowsAVX2, m-i), panels: group, blocks: x.Blocks,
				})
			}
		}
		return
	}
	for i := 0; i < m; i += spanRows {
		affineSpans(vnni, AffineProduct{t, dst[i*ldd:], ldd, x.From(i), w, stride, panels, min(spanRows, m-i)})
	}
}

// affineSpans adds the products of up to spanRows rows to dst.
func affineSpans(vnni bool, p AffineProduct) {
	t, dst, ldd, x, w, stride, panels, m := p.Type, p.Dst, p.Ldd, p.X, p.W, p.Stride, p.Panels, p.M
	b := spanBuffers.Get().(*spanBuffer)
	defer spanBuffers.Put(b)
	to, wide := b.weights, b.wide
	a, by := &affinePanels[t], &affinesAVX2[t]
	sums, unpack := by.sums, by.unpack
	if vnni && sums == 0 {
		sums, unpack = 32, by.bytes
	}
	mins, lds := 0, x.LdSums*int(unsafe.Sizeof(x.Sums[0]))
	if a.hasMins() {
		mins = 1
	}
	for n := range a.spans(x.Blocks) {
		first := n * a.span / 32
		blocks := min(a.span/32, x.Blocks-first)
		q, of := x.Q[first*32:], &x.Sums[first*32/SpanValues]
		shares := &of.Shares[first%8]
		if sums == 0 {
			for i := range m {
				widenRowAVX2(&wide[i*wideRow], &q[i*x.Ld], &x.Sums[i*x.LdSums+first*32/SpanValues].Shares[first%8],
					blocks)
			}
		}
		codes, scales, superScales := a.spanAt(n, x.Blocks)
		pairs, at := (blocks+1)/2, int(unsafe.Offsetof(of.sums32))+first%8*2
		if a.Group == 16 {
			pairs, at = blocks, int(unsafe.Offsetof(of.sums16))
		}
		halves := blocks
		if sums < 32 {
			halves = 2 * blocks
		}
		for p := range panels {
			panel, out := w[p*stride:], &dst[p*Lanes]
			unpack(to, &panel[codes], &panel[scales], &panel[superScales], stride, blocks)
			switch {
			case sums == 0:
			case vnni:
				shareIntsAVX2(to, halves)
			default:
				shareWordsAVX2(to, halves)
			}
			if sums == 0 {
				spanWordsAVX2(wordsAVX2{dst: out, ldd: ldd * 4, q: &wide[0], sums: of, w: to, rows: m,
					blocks: blocks, lds: lds})
				continue
			}
			spanProduct(vnni, sums, spanAVX2{
				dst: out, ldd: ldd * 4, q: &q[0], ldq: x.Ld, sums: of, lds: lds, shares: shares, w: to,
				rows: m, blocks: blocks, pairs: pairs, at: at, mins: mins,
			})
		}
	}
}

// spanProduct multiplies rows with an unpacked span whose levels are bytes. sums is of how many values there are sums.
func spanProduct(vnni bool, sums int, t spanAVX2) {
	switch {
	case vnni && sums == 32:
		spanDots32AVXVNNI(t)
	case vnni:
		spanDots16AVXVNNI(t)
	case sums == 32:
		spanBytes32AVX2(t)
	case sums == 16:
		spanBytes16AVX2(t)
	default:
		spanBytes8AVX2(t)
	}
}

// spanAt returns where the parts of span n are in a panel of blocks blocks.
func (a *affinePanel) spanAt(n, blocks int) (codes, scales, superScales int) {
	section, first := n*a.span/SpanValues, n*a.span%SpanValues/32
	its := min(sectionBlocks, blocks-section*sectionBlocks)
	scales = section * a.sectionBytes(sectionBlocks)
	codes = scales + a.headBytes(its) + first*a.codeBytes()
	superScales = scales + a.pairs(its)*a.scaleBytes() + first*32/a.span*a.superScaleBytes()
	return codes, scales, superScales
}

// spanBuffers are where spans and rows are unpacked, of whole cache lines.
var spanBuffers = sync.Pool{New: func() any {
	const n = int(unsafe.Sizeof(spanWeights{}))
	memory := AlignedTo(n+spanRows*wideRow*2, 64)
	return &spanBuffer{(*spanWeights)(unsafe.Pointer(&memory[0])), View[int16](memory[n:])}
}}

type spanBuffer struct {
	weights *spanWeights
	wide    []int16 // [spanRows][wideRow]
}

//go:noescape
func spanBytes32AVX2(t spanAVX2)

//go:noescape
func spanBytes16AVX2(t spanAVX2)

//go:noescape
func spanBytes8AVX2(t spanAVX2)

//go:noescape
func spanDots32AVXVNNI(t spanAVX2)

//go:noescape
func spanDots16AVXVNNI(t spanAVX2)

//go:noescape
func spanWordsAVX2(t wordsAVX2)

//go:noescape
func shareWordsAVX2(w *spanWeights, halves int)

//go:noescape
func shareIntsAVX2(w *spanWeights, halves int)

//go:noescape
func widenRowAVX2(to *int16, q *int8, shares *int32, blocks int)
