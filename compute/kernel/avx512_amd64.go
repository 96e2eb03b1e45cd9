//go:build amd64 && !noasm

package kernel

import (
	"github.com/kvasir-llm/kvasir/quant"
)

// avx512 needs AVX-512 F, BW, DQ and VL. Without VNNI its products of quantised weights are those of avx2.
var avx512 = Table{
	Name:              "avx512",
	RowChunk:          32,
	PairChunk:         32,
	MatF32:            matF32AVX512,
	MatF16:            matF16AVX512,
	MatBF16:           matBF16AVX512,
	MatPairs:          matPairsAVX512,
	Round:             roundAVX512,
	Narrow:            narrow,
	Widen8:            widen8AVX512,
	MatAffine:         avx2.MatAffine,
	Quantize:          quantizeAVX512,
	SumSquares:        sumSquaresAVX512,
	ScaleGain:         scaleGainAVX512,
	Weigh:             weighAVX512,
	Shares:            sharesAVX512,
	Blend:             blendAVX512,
	Scale:             scaleAVX512,
	Softcap:           softcapAVX512,
	Silu:              siluAVX512,
	AddScaled:         addScaledAVX512,
	DecayAdd:          decayAddAVX512,
	PageQuantised:     true,
	PageKeys:          pageKeysAVX512,
	PageValues:        pageValuesAVX512,
	Widen:             widenAVX512,
	Transpose:         transposeAVX512,
	Rotate:            rotateAVX512,
	RotateInterleaved: rotateInterleavedAVX512,
}

// avx512vnni is avx512 with the dot products of VNNI.
var avx512vnni = func() Table {
	k := avx512
	k.Name, k.MatAffine, k.RowChunk = "avx512vnni", matAffineVNNI, 256
	return k
}()

// avx512bf16 is avx512vnni with the products of pairs of AVX-512 BF16.
var avx512bf16 = func() Table {
	k := avx512vnni
	k.Name, k.MatPairs, k.Narrow = "avx512bf16", matPairDots, narrowDotsAVX512
	k.Pairs, k.PairChunk = pairDots, pairChunkDots
	return k
}()

// pairChunkDots is how many rows share one pass over the weights.
const pairChunkDots = 128

// The most rows of a tile of float weights.
const tileRowsAVX512 = 8

func matF32AVX512(p Product[float32]) { tiled(tileF32AVX512, tileRowsAVX512, p) }

func matF16AVX512(p Product[uint16]) { tiled(tileF16AVX512, tileRowsAVX512, p) }

func matBF16AVX512(p Product[uint16]) { tiled(tileBF16AVX512, tileRowsAVX512, p) }

func widen8AVX512(dst []float32, w []byte, scale []float32) {
	if n := len(w) / Lanes; n > 0 {
		_, _ = dst[n*Lanes-1], scale[Lanes-1]
		widen8RowAVX512(&dst[0], &w[0], &scale[0], n)
	}
}

func quantizeAVX512(q []int8, sums []SpanSums, x []float32, span int) {
	if len(sums) > 0 && len(x) > 0 {
		_, _ = q[len(x)-1], sums[(len(x)-1)/span]
		quantizeRowAVX512(&q[0], &sums[0], &x[0], len(x)/32, span/32)
	}
}

func sumSquaresAVX512(x []float32, mean float32) float32 {
	var acc [Lanes]float32
	n := vectors(len(x))
	if n > 0 {
		sumSquaresRowAVX512(&acc, &x[0], n, mean)
	}
	return sumSquaresTail(&acc, x[n:], mean)
}

func scaleGainAVX512(dst, x, gain []float32, mean, scale float32) {
	n := vectors(len(x))
	if n > 0 {
		_, _ = dst[n-1], gain[n-1]
		scaleGainRowAVX512(&dst[0], &x[0], &gain[0], n, mean, scale)
	}
	scaleGain(dst[n:], x[n:], gain[n:], mean, scale)
}

func softcapAVX512(s []float32, limit float32) {
	n := vectors(len(s))
	if n > 0 {
		softcapRowAVX512(&s[0], n, limit)
	}
	softcap(s[n:], limit)
}

func siluAVX512(dst, gate, up []float32) {
	n := vectors(len(gate))
	if n > 0 {
		_, _ = dst[n-1], up[n-1]
		siluRowAVX512(&dst[0], &gate[0], &up[0], n)
	}
	silu(dst[n:], gate[n:], up[n:])
}

func addScaledAVX512(dst, x []float32, scale float32) {
	n := vectors(len(x))
	if n > 0 {
		_ = dst[n-1]
		addScaledRowAVX512(&dst[0], &x[0], n, scale)
	}
	addScaled(dst[n:], x[n:], scale)
}

func decayAddAVX512(w, x, v []float32, decay float32) {
	n := len(x) * Lanes
	for p := range len(v) / Lanes {
		if n > 0 {
			panel := w[p*n:][:n]
			decayAddPanelAVX512(&panel[0], &x[0], len(x), &v[p*Lanes], decay)
		}
	}
}

func rotateAVX512(lo, hi, cos, sin []float32) {
	n := vectors(len(lo))
	if n > 0 {
		_, _, _ = hi[n-1], cos[n-1], sin[n-1]
		rotateRowAVX512(&lo[0], &hi[0], &cos[0], &sin[0], n)
	}
	rotate(lo[n:], hi[n:], cos[n:], sin[n:])
}

func rotateInterleavedAVX512(x, cos, sin []float32) {
	n := vectors(2 * len(cos))
	if n > 0 {
		_, _ = x[n-1], sin[n/2-1]
		rotateInterleavedRowAVX512(&x[0], &cos[0], &sin[0], n)
	}
	rotateInterleaved(x[n:], cos[n/2:], sin[n/2:])
}

//go:noescape
func tileF32AVX512(t floatTile)

//go:noescape
func tileF16AVX512(t floatTile)

//go:noescape
func tileBF16AVX512(t floatTile)

//go:noescape
func widen8RowAVX512(dst *float32, w *byte, scale *float32, k int)

//go:noescape
func quantizeRowAVX512(q *int8, sums *SpanSums, x *float32, blocks, span int)

//go:noescape
func sumSquaresRowAVX512(acc *[Lanes]float32, x *float32, n int, mean float32)

//go:noescape
func scaleGainRowAVX512(dst, x, gain *float32, n int, mean, scale float32)

//go:noescape
func softcapRowAVX512(s *float32, n int, limit float32)

//go:noescape
func siluRowAVX512(dst, gate, up *float32, n int)

//go:noescape
func addScaledRowAVX512(dst, x *float32, n int, scale float32)

//go:noescape
func decayAddPanelAVX512(w, x *float32, n int, v *float32, decay float32)

//go:noescape
func rotateRowAVX512(lo, hi, cos, sin *float32, n int)

//go:noescape
func rotateInterleavedRowAVX512(x, cos, sin *float32, n int)

func widenAVX512(t quant.Type, dst []float32, ldd int, src []byte, n int, values bool) {
	widened(&tileWidthsAVX512, t, dst, ldd, src, n, values)
}

func transposeAVX512(dst []float32, ldd int, src []float32, n int) {
	transposed(transposeTilesAVX512, dst, ldd, src, n)
}

var tileWidthsAVX512 = tileWidths{widenF16AVX512, widenBF16AVX512, keysQ8AVX512, valuesQ8AVX512, keysQ4AVX512,
	valuesQ4AVX512}

//go:noescape
func widenF16AVX512(dst *float32, ldd int, src *byte, n int)

//go:noescape
func widenBF16AVX512(dst *float32, ldd int, src *byte, n int)

//go:noescape
func keysQ8AVX512(dst *float32, ldd int, src *byte, n int)

//go:noescape
func valuesQ8AVX512(dst *float32, ldd int, src *byte, n int)

//go:noescape
func keysQ4AVX512(dst *float32, ldd int, src *byte, n int)

//go:noescape
func valuesQ4AVX512(dst *float32, ldd int, src *byte, n int)

//go:noescape
func transposeTilesAVX512(dst *float32, ldd int, src *float32, n int)
