//go:build amd64 && !noasm

package cpu

import (
	"unsafe"

	"github.com/kvasir-llm/kvasir/quant"
)

// avx2 needs AVX2, FMA and F16C.
var avx2 = kernels{
	name:       "avx2",
	rowChunk:   64,
	pairChunk:  32,
	matF32:     matF32AVX2,
	matF16:     matF16AVX2,
	matBF16:    matBF16AVX2,
	matPairs:   matPairsAVX2,
	round:      roundAVX2,
	narrow:     narrow,
	widen8:     widen8AVX2,
	matAffine:  matAffineAVX2,
	quantize:   quantizeAVX2,
	sumSquares: sumSquaresAVX2,
	scaleGain:  scaleGainAVX2,
	weigh:      weighAVX2,
	shares:     sharesAVX2,
	blend:      blendAVX2,
	scale:      scaleAVX2,
	softcap:    softcapAVX2,
	silu:       siluAVX2,
	addScaled:  addScaledAVX2,
	decayAdd:   decayAddAVX2,
	pageKeys:   pageKeysAVX2,
	pageValues: pageValuesAVX2,
	widen:      widenAVX2,
	transpose:  transposeAVX2,
	rotate:     rotateAVX2,
	turnPairs:  turnPairsAVX2,
}

// avxvnni is avx2 with the dot products of AVX-VNNI.
var avxvnni = func() kernels {
	k := avx2
	k.name, k.matAffine = "avxvnni", matAffineAVXVNNI
	return k
}()

// The most rows of a tile of float weights.
const tileRowsAVX2 = 6

func matF32AVX2(dst []float32, ldd int, x []float32, ldx int, w []float32, stride, panels, m, k int, accumulate bool) {
	tiled(tileF32AVX2, tileRowsAVX2, dst, ldd, x, ldx, w, stride, panels, m, k, accumulate)
}

func matF16AVX2(dst []float32, ldd int, x []float32, ldx int, w []uint16, stride, panels, m, k int, accumulate bool) {
	tiled(tileF16AVX2, tileRowsAVX2, dst, ldd, x, ldx, w, stride, panels, m, k, accumulate)
}

func matBF16AVX2(dst []float32, ldd int, x []float32, ldx int, w []uint16, stride, panels, m, k int, accumulate bool) {
	tiled(tileBF16AVX2, tileRowsAVX2, dst, ldd, x, ldx, w, stride, panels, m, k, accumulate)
}

func widen8AVX2(dst []float32, w []byte, scale []float32) {
	if n := len(w) / lanes; n > 0 {
		_, _ = dst[n*lanes-1], scale[lanes-1]
		widen8RowAVX2(&dst[0], &w[0], &scale[0], n)
	}
}

func quantizeAVX2(q []int8, sums []spanSums, x []float32, span int) {
	for s := range sums {
		v := x[s*span : min((s+1)*span, len(x))]
		_ = q[s*span+len(v)-1]
		quantizeSpanAVX2(&q[s*span], &sums[s], &v[0], len(v))
	}
}

func sumSquaresAVX2(x []float32, mean float32) float32 {
	var acc [lanes]float32
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
	n := len(x) * lanes
	for p := range len(v) / lanes {
		if n > 0 {
			panel := w[p*n:][:n]
			decayAddPanelAVX2(&panel[0], &x[0], len(x), &v[p*lanes], decay)
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

func turnPairsAVX2(x, cos, sin []float32) {
	n := vectors(2 * len(cos))
	if n > 0 {
		_, _ = x[n-1], sin[n/2-1]
		turnPairsRowAVX2(&x[0], &cos[0], &sin[0], n)
	}
	turnPairs(x[n:], cos[n/2:], sin[n/2:])
}

//go:noescape
func tileF32AVX2(dst *float32, ldd int, x *float32, ldx int, w unsafe.Pointer, stride, rows, panels, k, groups int, accumulate bool)

//go:noescape
func tileF16AVX2(dst *float32, ldd int, x *float32, ldx int, w unsafe.Pointer, stride, rows, panels, k, groups int, accumulate bool)

//go:noescape
func tileBF16AVX2(dst *float32, ldd int, x *float32, ldx int, w unsafe.Pointer, stride, rows, panels, k, groups int, accumulate bool)

//go:noescape
func widen8RowAVX2(dst *float32, w *byte, scale *float32, k int)

//go:noescape
func quantizeSpanAVX2(q *int8, sums *spanSums, x *float32, n int)

//go:noescape
func sumSquaresRowAVX2(acc *[lanes]float32, x *float32, n int, mean float32)

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
func turnPairsRowAVX2(x, cos, sin *float32, n int)

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
