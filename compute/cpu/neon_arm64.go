//go:build !noasm

package cpu

import (
	"unsafe"

	"github.com/kvasir-llm/kvasir/quant"
)

// neon needs what every 64-bit processor of Arm has.
var neon = kernels{
	name:       "neon",
	rowChunk:   32,
	pairChunk:  32,
	matF32:     matF32NEON,
	matF16:     matF16NEON,
	matBF16:    matBF16NEON,
	matPairs:   matPairsNEON,
	round:      roundNEON,
	narrow:     narrow,
	widen8:     widen8NEON,
	matAffine:  matAffineNEON,
	quantize:   quantizeNEON,
	sumSquares: sumSquaresNEON,
	scaleGain:  scaleGainNEON,
	weigh:      weighNEON,
	shares:     sharesNEON,
	blend:      blendNEON,
	scale:      scaleNEON,
	softcap:    softcapNEON,
	silu:       siluNEON,
	addScaled:  addScaledNEON,
	decayAdd:   decayAddNEON,
	pageKeys:   pageKeysNEON,
	pageValues: pageValuesNEON,
	widen:      widenNEON,
	transpose:  transposeNEON,
	rotate:     rotateNEON,
	turnPairs:  turnPairsNEON,
}

// The most rows of a tile of float weights, and of one of pairs.
const tileRowsNEON, pairRowsNEON = 6, 6

func matF32NEON(dst []float32, ldd int, x []float32, ldx int, w []float32, stride, panels, m, k int, accumulate bool) {
	tiled(tileF32NEON, tileRowsNEON, dst, ldd, x, ldx, w, stride, panels, m, k, accumulate)
}

func matF16NEON(dst []float32, ldd int, x []float32, ldx int, w []uint16, stride, panels, m, k int, accumulate bool) {
	tiled(tileF16NEON, tileRowsNEON, dst, ldd, x, ldx, w, stride, panels, m, k, accumulate)
}

func matBF16NEON(dst []float32, ldd int, x []float32, ldx int, w []uint16, stride, panels, m, k int, accumulate bool) {
	tiled(tileBF16NEON, tileRowsNEON, dst, ldd, x, ldx, w, stride, panels, m, k, accumulate)
}

func matPairsNEON(dst []float32, ldd int, x rows16, w []uint32, stride, panels, m int) {
	tiledPairs(tilePairsNEON, pairRowsNEON, dst, ldd, x.x, x.ld, w, stride, panels, x.blocks, m)
}

func roundNEON(dst, x []float32) {
	n := vectors(len(x))
	if n > 0 {
		_ = dst[n-1]
		roundRowNEON(&dst[0], &x[0], n)
	}
	round(dst[n:], x[n:])
}

func widen8NEON(dst []float32, w []byte, scale []float32) {
	if n := len(w) / lanes; n > 0 {
		_, _ = dst[n*lanes-1], scale[lanes-1]
		widen8RowNEON(&dst[0], &w[0], &scale[0], n)
	}
}

func sumSquaresNEON(x []float32, mean float32) float32 {
	var acc [lanes]float32
	n := vectors(len(x))
	if n > 0 {
		sumSquaresRowNEON(&acc, &x[0], n, mean)
	}
	return sumSquaresTail(&acc, x[n:], mean)
}

func scaleGainNEON(dst, x, gain []float32, mean, scale float32) {
	n := vectors(len(x))
	if n > 0 {
		_, _ = dst[n-1], gain[n-1]
		scaleGainRowNEON(&dst[0], &x[0], &gain[0], n, mean, scale)
	}
	scaleGain(dst[n:], x[n:], gain[n:], mean, scale)
}

func softcapNEON(s []float32, limit float32) {
	n := vectors(len(s))
	if n > 0 {
		softcapRowNEON(&s[0], n, limit)
	}
	softcap(s[n:], limit)
}

func siluNEON(dst, gate, up []float32) {
	n := vectors(len(gate))
	if n > 0 {
		_, _ = dst[n-1], up[n-1]
		siluRowNEON(&dst[0], &gate[0], &up[0], n)
	}
	silu(dst[n:], gate[n:], up[n:])
}

func addScaledNEON(dst, x []float32, scale float32) {
	n := vectors(len(x))
	if n > 0 {
		_ = dst[n-1]
		addScaledRowNEON(&dst[0], &x[0], n, scale)
	}
	addScaled(dst[n:], x[n:], scale)
}

func decayAddNEON(w, x, v []float32, decay float32) {
	n := len(x) * lanes
	for p := range len(v) / lanes {
		if n > 0 {
			panel := w[p*n:][:n]
			decayAddPanelNEON(&panel[0], &x[0], len(x), &v[p*lanes], decay)
		}
	}
}

func rotateNEON(lo, hi, cos, sin []float32) {
	n := vectors(len(lo))
	if n > 0 {
		_, _, _ = hi[n-1], cos[n-1], sin[n-1]
		rotateRowNEON(&lo[0], &hi[0], &cos[0], &sin[0], n)
	}
	rotate(lo[n:], hi[n:], cos[n:], sin[n:])
}

func turnPairsNEON(x, cos, sin []float32) {
	n := vectors(2 * len(cos))
	if n > 0 {
		_, _ = x[n-1], sin[n/2-1]
		turnPairsRowNEON(&x[0], &cos[0], &sin[0], n)
	}
	turnPairs(x[n:], cos[n/2:], sin[n/2:])
}

//go:noescape
func tileF32NEON(dst *float32, ldd int, x *float32, ldx int, w unsafe.Pointer, stride, rows, panels, k, groups int, accumulate bool)

//go:noescape
func tileF16NEON(dst *float32, ldd int, x *float32, ldx int, w unsafe.Pointer, stride, rows, panels, k, groups int, accumulate bool)

//go:noescape
func tileBF16NEON(dst *float32, ldd int, x *float32, ldx int, w unsafe.Pointer, stride, rows, panels, k, groups int, accumulate bool)

//go:noescape
func tilePairsNEON(dst *float32, ldd int, x *float32, ldx int, w *uint32, stride, rows, panels, blocks, ahead, fetch int)

//go:noescape
func roundRowNEON(dst, x *float32, n int)

//go:noescape
func widen8RowNEON(dst *float32, w *byte, scale *float32, k int)

//go:noescape
func sumSquaresRowNEON(acc *[lanes]float32, x *float32, n int, mean float32)

//go:noescape
func scaleGainRowNEON(dst, x, gain *float32, n int, mean, scale float32)

//go:noescape
func softcapRowNEON(s *float32, n int, limit float32)

//go:noescape
func siluRowNEON(dst, gate, up *float32, n int)

//go:noescape
func addScaledRowNEON(dst, x *float32, n int, scale float32)

//go:noescape
func decayAddPanelNEON(w, x *float32, n int, v *float32, decay float32)

//go:noescape
func rotateRowNEON(lo, hi, cos, sin *float32, n int)

//go:noescape
func turnPairsRowNEON(x, cos, sin *float32, n int)

func widenNEON(t quant.Type, dst []float32, ldd int, src []byte, n int, values bool) {
	widened(&tileWidthsNEON, t, dst, ldd, src, n, values)
}

func transposeNEON(dst []float32, ldd int, src []float32, n int) {
	transposed(transposeTilesNEON, dst, ldd, src, n)
}

var tileWidthsNEON = tileWidths{widenF16NEON, widenBF16NEON, keysQ8NEON, valuesQ8NEON, keysQ4NEON, valuesQ4NEON}

//go:noescape
func widenF16NEON(dst *float32, ldd int, src *byte, n int)

//go:noescape
func widenBF16NEON(dst *float32, ldd int, src *byte, n int)

//go:noescape
func keysQ8NEON(dst *float32, ldd int, src *byte, n int)

//go:noescape
func valuesQ8NEON(dst *float32, ldd int, src *byte, n int)

//go:noescape
func keysQ4NEON(dst *float32, ldd int, src *byte, n int)

//go:noescape
func valuesQ4NEON(dst *float32, ldd int, src *byte, n int)

//go:noescape
func transposeTilesNEON(dst *float32, ldd int, src *float32, n int)
