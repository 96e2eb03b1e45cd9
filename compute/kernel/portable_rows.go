package kernel

import "math"

// laneSum adds the 16 lanes of a row sum pairwise.
func laneSum(a *[Lanes]float32) float32 {
	for half := Lanes / 2; half > 0; half /= 2 {
		for j := range half {
			a[j] += a[j+half]
		}
	}
	return a[0]
}

// Sum returns the 16-lane sum of x.
func Sum(x []float32) float32 {
	var acc [Lanes]float32
	for i, v := range x {
		acc[i%Lanes] += v
	}
	return laneSum(&acc)
}

func sumSquares(x []float32, mean float32) float32 {
	var acc [Lanes]float32
	for i, v := range x {
		acc[i%Lanes] = FMA(v-mean, v-mean, acc[i%Lanes])
	}
	return laneSum(&acc)
}

func scaleGain(dst, x, gain []float32, mean, scale float32) {
	for i, v := range x {
		dst[i] = ((v - mean) * scale) * gain[i]
	}
}

func softcap(s []float32, limit float32) {
	for i, x := range s {
		s[i] = limit * Tanh(x/limit)
	}
}

func silu(dst, gate, up []float32) {
	for i, g := range gate {
		dst[i] = g / (1 + Exp(-g)) * up[i]
	}
}

func addScaled(dst, x []float32, scale float32) {
	for i, v := range x {
		dst[i] = FMA(scale, v, dst[i])
	}
}

func decayAdd(w, x, v []float32, decay float32) {
	for p := range len(v) / Lanes {
		for i, s := range x {
			row := w[(p*len(x)+i)*Lanes:][:Lanes]
			for j := range row {
				row[j] = FMA(s, v[p*Lanes+j], row[j]*decay)
			}
		}
	}
}

func rotate(lo, hi, cos, sin []float32) {
	for i, a := range lo {
		b := hi[i]
		lo[i] = FMA(a, cos[i], -(b * sin[i]))
		hi[i] = FMA(b, cos[i], a*sin[i])
	}
}

func rotateInterleaved(x, cos, sin []float32) {
	for i, c := range cos {
		a, b := x[2*i], x[2*i+1]
		x[2*i], x[2*i+1] = FMA(a, c, -(b*sin[i])), FMA(b, c, a*sin[i])
	}
}

// The constants of exp. ln 2 is split so that n·expLn2Hi is exact for the n that occur.
const (
	expMin   = -87.3 // below this the result is 0
	expMax   = 88.0  // arguments are clamped to this
	expLog2e = 1.44269504088896341
	expLn2Hi = 0.693359375
	expLn2Lo = -2.12194440e-4
)

// expPoly are the coefficients of a minimax polynomial for exp on [-ln2/2, ln2/2], highest power first (Cephes, expf).
var expPoly = [...]float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
	5.0000001201e-1}

// Exp returns e to the x with a relative error below 2e-7: x = n·ln2 + r, exp(x) = 2ⁿ·(1 + r + r²·poly(r)). It is 0
// below expMin and constant above expMax.
func Exp(x float32) float32 {
	if x < expMin {
		return 0
	}
	x = min(x, expMax)
	n := float32(math.RoundToEven(float64(x * float32(expLog2e))))
	r := FMA(n, -expLn2Hi, x)
	r = FMA(n, -expLn2Lo, r)
	p := expPoly[0]
	for _, c := range expPoly[1:] {
		p = FMA(p, r, c)
	}
	p = FMA(p, r*r, r) + 1
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}

// Tanh returns the hyperbolic tangent by exp.
func Tanh(x float32) float32 {
	if x < 0 {
		return -Tanh(-x)
	}
	return 1 - 2/(Exp(2*x)+1)
}
