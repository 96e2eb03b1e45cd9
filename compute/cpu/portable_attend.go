package cpu

import (
	"math"

	"github.com/kvasir-llm/kvasir/quant"
)

func weigh(most, total, s []float32, ld, n int) {
	for i := range most {
		row, m := s[i*ld:][:n], float32(lowest)
		for _, v := range row {
			m = max(m, v)
		}
		if m == 0 {
			m = 0 // rather than -0
		}
		var acc [lanes]float32
		for j, v := range row {
			row[j] = exp2(v - m)
			acc[j%lanes] += row[j]
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
			out[j] = fma(b[i], v, out[j]*a[i])
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

// exp2Poly are the coefficients of a minimax polynomial for 2^r on [-1/2, 1/2], highest power first, but for the last, 1.
var exp2Poly = [...]float32{1.5594677825e-4, 1.3406643411e-3, 9.6176927909e-3, 5.5503103882e-2, 2.4022652209e-1, 6.9314724207e-1}

// exp2 returns 2 to the x, for x up to 127, with an error below 1.02 units of the last place: x = n + r, 2^x = 2ⁿ·poly(r).
func exp2(x float32) float32 {
	if !(x >= exp2Min) {
		return 0
	}
	n := float32(math.RoundToEven(float64(x)))
	r, p := x-n, exp2Poly[0]
	for _, c := range exp2Poly[1:] {
		p = fma(p, r, c)
	}
	p = fma(p, r, 1)
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}

// panelsOf multiplies rows with panels of floats, as matF32 does, with the products of the types.
func (k *kernels) panelsOf(t quant.Type, dst []float32, ldd int, x []float32, ldx int, w []byte, stride, panels, m, n int, accumulate bool) {
	switch t {
	case quant.F16:
		k.matF16(dst, ldd, x, ldx, view[uint16](w), stride, panels, m, n, accumulate)
	case quant.BF16:
		k.matBF16(dst, ldd, x, ldx, view[uint16](w), stride, panels, m, n, accumulate)
	default:
		k.matF32(dst, ldd, x, ldx, view[float32](w), stride, panels, m, n, accumulate)
	}
}

// keysByMat is a pageKeys for panels of floats that uses the products of k, valuesByMat a pageValues.
func (k *kernels) keysByMat(t quant.Type, dst []float32, ldd int, x []float32, ldx int, src []byte, at []int, n, tiles, m int) {
	for p, o := range at[:n] {
		k.panelsOf(t, dst[p*lanes:], ldd, x, ldx, src[o:][:kvBytes(t, tiles)], 0, 1, m, tiles*lanes, false)
	}
}

func (k *kernels) valuesByMat(t quant.Type, dst []float32, ldd int, x []float32, ldx int, src []byte, at []int, n, tiles, m int) {
	for p, o := range at[:n] {
		k.panelsOf(t, dst, ldd, x[p*lanes:], ldx, src[o:][:kvBytes(t, tiles)], tileValues, tiles, m, lanes, p > 0)
	}
}
