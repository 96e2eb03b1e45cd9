package cpu

import (
	"math"

	"github.com/kvasir-llm/kvasir/quant"
)

// portable is the implementation in plain Go that defines what all others compute.
var portable = kernels{
	name:       "portable",
	rowChunk:   32,
	pairChunk:  32,
	matF32:     matF32,
	matF16:     matF16,
	matBF16:    matBF16,
	matPairs:   matPairs,
	round:      round,
	narrow:     narrow,
	widen8:     widen8,
	matAffine:  matAffine,
	quantize:   quantize,
	sumSquares: sumSquares,
	scaleGain:  scaleGain,
	weigh:      weigh,
	shares:     shares,
	blend:      blend,
	scale:      scale,
	softcap:    softcap,
	silu:       silu,
	addScaled:  addScaled,
	decayAdd:   decayAdd,
	widen:      widen,
	transpose:  transpose,
	rotate:     rotate,
	turnPairs:  turnPairs,
}

func matF32(dst []float32, ldd int, x []float32, ldx int, w []float32, stride, panels, m, k int, accumulate bool) {
	for p := range panels {
		panel := w[p*stride:]
		for i := range m {
			row, out := x[i*ldx:], dst[i*ldd+p*lanes:][:lanes]
			var acc [lanes]float32
			if accumulate {
				acc = [lanes]float32(out)
			}
			for kk := range k {
				v := panel[kk*lanes:][:lanes]
				for j := range acc {
					acc[j] = fma(row[kk], v[j], acc[j])
				}
			}
			copy(out, acc[:])
		}
	}
}

func matF16(dst []float32, ldd int, x []float32, ldx int, w []uint16, stride, panels, m, k int, accumulate bool) {
	mat16(dst, ldd, x, ldx, w, stride, panels, m, k, accumulate, quant.F16ToF32)
}

func matBF16(dst []float32, ldd int, x []float32, ldx int, w []uint16, stride, panels, m, k int, accumulate bool) {
	mat16(dst, ldd, x, ldx, w, stride, panels, m, k, accumulate, quant.BF16ToF32)
}

// mat16 widens one column of a panel at a time and uses it for all rows.
func mat16(dst []float32, ldd int, x []float32, ldx int, w []uint16, stride, panels, m, k int, accumulate bool, widen func(uint16) float32) {
	for p := range panels {
		for i := range m {
			if out := dst[i*ldd+p*lanes:][:lanes]; !accumulate {
				clear(out)
			}
		}
		for kk := range k {
			var v [lanes]float32
			for j := range v {
				v[j] = widen(w[p*stride+kk*lanes+j])
			}
			matF32(dst[p*lanes:], ldd, x[kk:], ldx, v[:], lanes, 1, m, 1, true)
		}
	}
}

func quantize(q []int8, sums []spanSums, x []float32, span int) {
	for n := range sums {
		v := x[n*span : min((n+1)*span, len(x))]
		most := greatest(v)
		inv := mostOfRow / most
		if math.IsInf(float64(inv), 0) { // nothing in the span, or nothing that counts
			inv = 0
		}
		s := &sums[n]
		*s = spanSums{d: most / mostOfRow}
		out := q[n*span:][:len(v)]
		for g := range len(v) / 32 {
			group := v[g*32:][:32]
			share := min(max(int32(float32(greatest(group)*inv)*(1./127))+1, 1), greatestShare) // of what is no number, too
			s.shares[g] = share
			inv := inv / float32(share)
			for i, f := range group {
				out[g*32+i] = int8(math.RoundToEven(float64(f * inv)))
			}
		}
		s.sumUp(out)
	}
}

// greatest returns the greatest magnitude of x, or what is no number if there is some.
func greatest(x []float32) float32 {
	most := uint32(0) // magnitudes are in the order of their bits
	for _, f := range x {
		most = max(most, math.Float32bits(f)&^(1<<31))
	}
	return math.Float32frombits(most)
}
