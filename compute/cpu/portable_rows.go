package cpu

import "math"

// laneSum adds the 16 lanes of a row sum pairwise.
func laneSum(a *[lanes]float32) float32 {
	for half := lanes / 2; half > 0; half /= 2 {
		for j := range half {
			a[j] += a[j+half]
		}
	}
	return a[0]
}

// sum returns the 16-lane sum of x.
func sum(x []float32) float32 {
	var acc [lanes]float32
	for i, v := range x {
		acc[i%lanes] += v
	}
	return laneSum(&acc)
}

func sumSquares(x []float32, mean float32) float32 {
	var acc [lanes]float32
	for i, v := range x {
		acc[i%lanes] = fma(v-mean, v-mean, acc[i%lanes])
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
		s[i] = limit * tanh(x/limit)
	}
}

func silu(dst, gate, up []float32) {
	for i, g := range gate {
		dst[i] = g / (1 + exp(-g)) * up[i]
	}
}

func addScaled(dst, x []float32, scale float32) {
	for i, v := range x {
		dst[i] = fma(scale, v, dst[i])
	}
}

func decayAdd(w, x, v []float32, decay float32) {
	for p := range len(v) / lanes {
		for i, s := range x {
			row := w[(p*len(x)+i)*lanes:][:lanes]
			for j := range row {
				row[j] = fma(s, v[p*lanes+j], row[j]*decay)
			}
		}
	}
}

func rotate(lo, hi, cos, sin []float32) {
	for i, a := range lo {
		b := hi[i]
		lo[i] = fma(a, cos[i], -(b * sin[i]))
		hi[i] = fma(b, cos[i], a*sin[i])
	}
}

func turnPairs(x, cos, sin []float32) {
	for i, c := range cos {
		a, b := x[2*i], x[2*i+1]
		x[2*i], x[2*i+1] = fma(a, c, -(b*sin[i])), fma(b, c, a*sin[i])
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
var expPoly = [...]float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1}

// exp returns e to the x with a relative error below 2e-7: x = n·ln2 + r, exp(x) = 2ⁿ·(1 + r + r²·poly(r)). It is 0 below
// expMin and constant above expMax.
func exp(x float32) float32 {
	if x < expMin {
		return 0
	}
	x = min(x, expMax)
	n := float32(math.RoundToEven(float64(x * float32(expLog2e))))
	r := fma(n, -expLn2Hi, x)
	r = fma(n, -expLn2Lo, r)
	p := expPoly[0]
	for _, c := range expPoly[1:] {
		p = fma(p, r, c)
	}
	p = fma(p, r*r, r) + 1
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}

// tanh returns the hyperbolic tangent by exp.
func tanh(x float32) float32 {
	if x < 0 {
		return -tanh(-x)
	}
	return 1 - 2/(exp(2*x)+1)
}
