package kernel

import (
	"math"

	"github.com/kvasir-llm/kvasir/quant"
)

// portable is the implementation in plain Go that defines what all others compute.
var portable = Table{
	Name:              "portable",
	RowChunk:          32,
	PairChunk:         32,
	MatF32:            matF32,
	MatF16:            matF16,
	MatBF16:           matBF16,
	MatPairs:          matPairs,
	Round:             round,
	Narrow:            narrow,
	Widen8:            widen8,
	MatAffine:         matAffine,
	Quantize:          quantize,
	SumSquares:        sumSquares,
	ScaleGain:         scaleGain,
	Weigh:             weigh,
	Shares:            shares,
	Blend:             blend,
	Scale:             scale,
	Softcap:           softcap,
	Silu:              silu,
	AddScaled:         addScaled,
	DecayAdd:          decayAdd,
	Widen:             widen,
	Transpose:         transpose,
	Rotate:            rotate,
	RotateInterleaved: rotateInterleaved,
}

func matF32(a Product[float32]) {
	for p := range a.Panels {
		panel := a.W[p*a.Stride:]
		for i := range a.M {
			row, out := a.X[i*a.Ldx:], a.Dst[i*a.Ldd+p*Lanes:][:Lanes]
			var acc [Lanes]float32
			if a.Accumulate {
				acc = [Lanes]float32(out)
			}
			for k := range a.K {
				v := panel[k*Lanes:][:Lanes]
				for j := range acc {
					acc[j] = FMA(row[k], v[j], acc[j])
				}
			}
			copy(out, acc[:])
		}
	}
}

func matF16(a Product[uint16]) { mat16(a, quant.F16ToF32) }

func matBF16(a Product[uint16]) { mat16(a, quant.BF16ToF32) }

// mat16 widens one column of a panel at a time and uses it for all rows.
func mat16(a Product[uint16], widen func(uint16) float32) {
	for p := range a.Panels {
		for i := range a.M {
			if out := a.Dst[i*a.Ldd+p*Lanes:][:Lanes]; !a.Accumulate {
				clear(out)
			}
		}
		for k := range a.K {
			var v [Lanes]float32
			for j := range v {
				v[j] = widen(a.W[p*a.Stride+k*Lanes+j])
			}
			matF32(Product[float32]{a.Dst[p*Lanes:], a.Ldd, a.X[k:], a.Ldx, v[:], Lanes, 1, a.M, 1, true})
		}
	}
}

func quantize(q []int8, sums []SpanSums, x []float32, span int) {
	for n := range sums {
		v := x[n*span : min((n+1)*span, len(x))]
		most := greatest(v)
		inv := mostOfRow / most
		if math.IsInf(float64(inv), 0) { // nothing in the span, or nothing that counts
			inv = 0
		}
		s := &sums[n]
		*s = SpanSums{D: most / mostOfRow}
		out := q[n*span:][:len(v)]
		for g := range len(v) / 32 {
			group := v[g*32:][:32]
			// Of what is no number, too.
			share := min(max(int32(float32(greatest(group)*inv)*(1./127))+1, 1), greatestShare)
			s.Shares[g] = share
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
