//go:build amd64 && !noasm

package kernel

import (
	"github.com/kvasir-llm/kvasir/quant"
)

// avx2 needs AVX2, FMA and F16C.
var avx2 = Table{
	Name:              "avx2",
	RowChunk:          64,
	PairChunk:         32,
	MatF32:            matF32AVX2,
	MatF16:            matF16AVX2,
	MatBF16:           matBF16AVX2,
	MatPairs:          matPairsAVX2,
	Round:             roundAVX2,
	Narrow:            narrow,
	Widen8:            widen8AVX2,
	MatAffine:         matAffineAVX2,
	Quantize:          quantizeAVX2,
	SumSquares:        sumSquaresAVX2,
	ScaleGain:         scaleGainAVX2,
	Weigh:             weighAVX2,
	Shares:            sharesAVX2,
	Blend:             blendAVX2,
	Scale:             scaleAVX2,
	Softcap:           softcapAVX2,
	Silu:              siluAVX2,
	AddScaled:         addScaledAVX2,
	DecayAdd:          decayAddAVX2,
	PageKeys:          pageKeysAVX2,
	PageValues:        pageValuesAVX2,
	Widen:             widenAVX2,
	Transpose:         transposeAVX2,
	Rotate:            rotateAVX2,
	RotateInterleaved: rotateInterleavedAVX2,
}

// avxvnni is avx2 with the dot products of AVX-VNNI.
var avxvnni = func() Table {
	k := avx2
	k.Name, k.MatAffine = "avxvnni", matAffineAVXVNNI
	return k
}()

// The most rows of a tile of float weights.
const tileRowsAVX2 = 6

func matF32AVX2(p Product[float32]) { tiled(tileF32AVX2, tileRowsAVX2, p) }

func matF16AVX2(p Product[uint16]) { tiled(tileF16AVX2, tileRowsAVX2, p) }

func matBF16AVX2(p Product[uint16]) { tiled(tileBF16AVX2, tileRowsAVX2, p) }

func widen8AVX2(dst []float32, w []byte, scale []float32) {
	if n := len(w) / Lanes; n > 0 {
		_, _ = dst[n*Lanes-1], scale[Lanes-1]
		widen8RowAVX2(&dst[0], &w[0], &scale[0], n)
	}
}

func quantizeAVX2(q []int8, sums []SpanSums, x []float32, span int) {
	for s := range sums {
		v := x[s*span : min((s+1)*span, len(x))]
		_ = q[s*span+len(v)-1]
		quantizeSpanAVX2(&q[s*span], &sums[s], &v[0], len(v))
	}
}

func sumSquaresAVX2(x []float32, mean float32) float32 {
	var acc [Lanes]float32
	n := vectors(len(x))
	if n > 0 {
		sumSquaresRowAVX2(&acc, &x[0], n, mean)
	}
	return sumSquaresTail(&acc, x[n:], mean)
}

func scaleGainAVX2(dst, x, gain []float32, mean, scale float32) {
	n := vectors(len(x))
	if n > 0 {
		_, _ = dst[n-1], gain[n-1]
		scaleGainRowAVX2(&dst[0], &x[0], &gain[0], n, mean, scale)
	}
	scaleGain(dst[n:], x[n:], gain[n:], mean, scale)
}

func softcapAVX2(s []float32, limit float32) {
	n := vectors(len(s))
	if n > 0 {
		softcapRowAVX2(&s[0], n, limit)
	}
	softcap(s[n:], limit)
}

func siluAVX2(dst, gate, up []float32) {
	n := vectors(len(gate))
	if n > 0 {
		_, _ = dst[n-1], up[n-1]
		siluRowAVX2(&dst[0], &gate[0], &up[0], n)
	}
	silu(dst[n:], gate[n:], up[n:])
}

func addScaledAVX2(dst, x []float32, scale float32) {
	n := vectors(len(x))
	if n > 0 {
		_ = dst[n-1]
		addScaledRowAVX2(&dst[0], &x[0], n, scale)
	}
	addScaled(dst[n:], x[n:], scale)
}

func decayAddAVX2(w, x, v []float32, decay float32) {
	n := len(x) * Lanes
	for p := range len(v) / Lanes {
		if n > 0 {
			panel := w[p*n:][:n]
			decayAddPanelAVX2(&panel[0], &x[0], len(x), &v[p*Lanes], decay)
		}
	}
}

func rotateAVX2(lo, hi, cos, sin []float32) {
	n := vectors(len(lo))
	if n > 0 {
		_, _, _ = hi[n-1], cos[n-1], sin[n-1]
		rotateRowAVX2(&lo[0], &hi[0], &cos[0], &sin[0], n)
	}
	rotate(lo[n:], hi[n:], cos[n:], sin[n:])
}

func rotateInterleavedAVX2(x, cos, sin []float32) {
	n := vectors(2 * len(cos))
	if n > 0 {
		_, _ = x[n-1], sin[n/2-1]
		rotateInterleavedRowAVX2(&x[0], &cos[0], &sin[0], n)
	}
	rotateInterleaved(x[n:], cos[n/2:], sin[n/2:])
}

//go:noescape
func tileF32AVX2(t floatTile)

//go:noescape
func tileF16AVX2(t floatTile)

//go:noescape
func tileBF16AVX2(t floatTile)

//go:noescape
func widen8RowAVX2(dst *float32, w *byte, scale *float32, k int)

//go:noescape
func quantizeSpanAVX2(q *int8, sums *SpanSums, x *float32, n int)

//go:noescape
func sumSquaresRowAVX2(acc *[Lanes]float32, x *float32, n int, mean float32)

//go:noescape
func scaleGainRowAVX2(dst, x, gain *float32, n int, mean, scale float32)

//go:noescape
func softcapRowAVX2(s *float32, n int, limit float32)

//go:noescape
func siluRowAVX2(dst, gate, up *float32, n int)

//go:noescape
func addScaledRowAVX2(dst, x *float32, n int, scale float32)

//go:noescape
func decayAddPanelAVX2(w, x *float32, n int, v *float32, decay float32)

//go:noescape
func rotateRowAVX2(lo, hi, cos, sin *float32, n int)

//go:noescape
func rotateInterleavedRowAVX2(x, cos, sin *float32, n int)

func widenAVX2(t quant.Type, dst []float32, ldd int, src []byte, n int, values bool) {
	widened(&tileWidthsAVX2, t, dst, ldd, src, n, values)
}

func transposeAVX2(dst []float32, ldd int, src []float32, n int) {
	transposed(transposeTilesAVX2, dst, ldd, src, n)
}

var tileWidthsAVX2 = tileWidths{widenF16AVX2, widenBF16AVX2, keysQ8AVX2, valuesQ8AVX2, keysQ4AVX2, valuesQ4AVX2}

//go:noescape
func widenF16AVX2(dst *float32, ldd int, src *byte, n int)

//go:noescape
func widenBF16AVX2(dst *float32, ldd int, src *byte, n int)

//go:noescape
func keysQ8AVX2(dst *float32, ldd int, src *byte, n int)

//go:noescape
func valuesQ8AVX2(dst *float32, ldd int, src *byte, n int)

//go:noescape
func keysQ4AVX2(dst *float32, ldd int, src *byte, n int)

//go:noescape
func valuesQ4AVX2(dst *float32, ldd int, src *byte, n int)

//go:noescape
func transposeTilesAVX2(dst *float32, ldd int, src *float32, n int)
