//go:build !noasm

package kernel

import (
	"github.com/kvasir-llm/kvasir/quant"
)

// neon needs what every 64-bit processor of Arm has.
var neon = Table{
	Name:              "neon",
	RowChunk:          32,
	PairChunk:         32,
	MatF32:            matF32NEON,
	MatF16:            matF16NEON,
	MatBF16:           matBF16NEON,
	MatPairs:          matPairsNEON,
	Round:             roundNEON,
	Narrow:            narrow,
	Widen8:            widen8NEON,
	MatAffine:         matAffineNEON,
	Quantize:          quantizeNEON,
	SumSquares:        sumSquaresNEON,
	ScaleGain:         scaleGainNEON,
	Weigh:             weighNEON,
	Shares:            sharesNEON,
	Blend:             blendNEON,
	Scale:             scaleNEON,
	Softcap:           softcapNEON,
	Silu:              siluNEON,
	AddScaled:         addScaledNEON,
	DecayAdd:          decayAddNEON,
	PageKeys:          pageKeysNEON,
	PageValues:        pageValuesNEON,
	Widen:             widenNEON,
	Transpose:         transposeNEON,
	Rotate:            rotateNEON,
	RotateInterleaved: rotateInterleavedNEON,
}

// The most rows of a tile of float weights, and of one of pairs.
const tileRowsNEON, pairRowsNEON = 6, 6

func matF32NEON(p Product[float32]) { tiled(tileF32NEON, tileRowsNEON, p) }

func matF16NEON(p Product[uint16]) { tiled(tileF16NEON, tileRowsNEON, p) }

func matBF16NEON(p Product[uint16]) { tiled(tileBF16NEON, tileRowsNEON, p) }

func matPairsNEON(p PairProduct) { tiledPairs(tilePairsNEON, pairRowsNEON, p.X.X, p) }

func roundNEON(dst, x []float32) {
	n := vectors(len(x))
	if n > 0 {
		_ = dst[n-1]
		roundRowNEON(&dst[0], &x[0], n)
	}
	round(dst[n:], x[n:])
}

func widen8NEON(dst []float32, w []byte, scale []float32) {
	if n := len(w) / Lanes; n > 0 {
		_, _ = dst[n*Lanes-1], scale[Lanes-1]
		widen8RowNEON(&dst[0], &w[0], &scale[0], n)
	}
}

func sumSquaresNEON(x []float32, mean float32) float32 {
	var acc [Lanes]float32
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
	n := len(x) * Lanes
	for p := range len(v) / Lanes {
		if n > 0 {
			panel := w[p*n:][:n]
			decayAddPanelNEON(&panel[0], &x[0], len(x), &v[p*Lanes], decay)
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

func rotateInterleavedNEON(x, cos, sin []float32) {
	n := vectors(2 * len(cos))
	if n > 0 {
		_, _ = x[n-1], sin[n/2-1]
		rotateInterleavedRowNEON(&x[0], &cos[0], &sin[0], n)
	}
	rotateInterleaved(x[n:], cos[n/2:], sin[n/2:])
}

//go:noescape
func tileF32NEON(t floatTile)

//go:noescape
func tileF16NEON(t floatTile)

//go:noescape
func tileBF16NEON(t floatTile)

//go:noescape
func tilePairsNEON(t pairTile)

//go:noescape
func roundRowNEON(dst, x *float32, n int)

//go:noescape
func widen8RowNEON(dst *float32, w *byte, scale *float32, k int)

//go:noescape
func sumSquaresRowNEON(acc *[Lanes]float32, x *float32, n int, mean float32)

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
func rotateInterleavedRowNEON(x, cos, sin *float32, n int)

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
