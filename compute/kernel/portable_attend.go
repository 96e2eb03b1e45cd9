package kernel

import (
	"math"

	"github.com/kvasir-llm/kvasir/quant"
)

// Lowest is the greatest score of a query that attends to nothing.
const Lowest = -math.MaxFloat32

func weigh(most, total, s []float32, ld, n int) {
	for i := range most {
		row, m := s[i*ld:][:n], float32(Lowest)
		for _, v := range row {
			m = max(m, v)
		}
		if m == 0 {
			m = 0 // rather than -0
		}
		var acc [Lanes]float32
		for j, v := range row {
			row[j] = exp2(v - m)
			acc[j%Lanes] += row[j]
		}
		most[i], total[i] = m, laneSum(&acc)
	}
}

func shares(a, b, most, total, later, laterTotal []float32) {
	for i, m := range most {
		most[i] = max(m, later[i])
		a[i], b[i] = exp2(m-most[i]), exp2(later[i]-most[i])
		total[i] = float32(total[i]*a[i]) + float32(laterTotal[i]*b[i])
	}
}

func blend(dst, x []float32, width int, a, b, total []float32) {
	for i := range a {
		if total[i] == 0 {
			continue
		}
		out := dst[i*width:][:width]
		for j, v := range x[i*width:][:width] {
			out[j] = FMA(b[i], v, out[j]*a[i])
		}
	}
}

func scale(dst, x []float32, factor float32) {
	for i, v := range x {
		dst[i] = v * factor
	}
}

// exp2Min is the least argument of exp2 whose result is not 0: the least normal number.
const exp2Min = -126

// exp2Poly are the coefficients of a minimax polynomial for 2^r on [-1/2, 1/2], highest power first, but for the
// last, 1.
var exp2Poly = [...]float32{1.5594677825e-4, 1.3406643411e-3, 9.6176927909e-3, 5.5503103882e-2, 2.4022652209e-1,
	6.9314724207e-1}

// exp2 returns 2 to the x, for x up to 127, with an error below 1.02 units of the last place: x = n + r, 2^x =
// 2ⁿ·poly(r).
func exp2(x float32) float32 {
	if !(x >= exp2Min) {
		return 0
	}
	n := float32(math.RoundToEven(float64(x)))
	r, p := x-n, exp2Poly[0]
	for _, c := range exp2Poly[1:] {
		p = FMA(p, r, c)
	}
	p = FMA(p, r, 1)
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}

// panelsOf multiplies rows with panels of floats, as MatF32 does, with the products of the types. w is the panels'
// bytes.
func (k *Table) panelsOf(t quant.Type, w []byte, p Product[float32]) {
	half := func() Product[uint16] {
		return Product[uint16]{p.Dst, p.Ldd, p.X, p.Ldx, View[uint16](w), p.Stride, p.Panels, p.M, p.K, p.Accumulate}
	}
	switch t {
	case quant.F16:
		k.MatF16(half())
	case quant.BF16:
		k.MatBF16(half())
	default:
		p.W = View[float32](w)
		k.MatF32(p)
	}
}

// keysByMat is a PageKeys for panels of floats that uses the products of k, valuesByMat a PageValues.
func (k *Table) keysByMat(p PageProduct) {
	for i, o := range p.At[:p.Panels] {
		k.panelsOf(p.Type, p.Src[o:][:KVBytes(p.Type, p.Tiles)],
			Product[float32]{Dst: p.Dst[i*Lanes:], Ldd: p.Ldd, X: p.X, Ldx: p.Ldx, Panels: 1, M: p.M,
				K: p.Tiles * Lanes})
	}
}

func (k *Table) valuesByMat(p PageProduct) {
	for i, o := range p.At[:p.Panels] {
		k.panelsOf(p.Type, p.Src[o:][:KVBytes(p.Type, p.Tiles)],
			Product[float32]{Dst: p.Dst, Ldd: p.Ldd, X: p.X[i*Lanes:], Ldx: p.Ldx, Stride: TileValues,
				Panels: p.Tiles, M: p.M, K: Lanes, Accumulate: i > 0})
	}
}
