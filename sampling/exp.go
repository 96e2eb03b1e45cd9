package sampling

import "math"

var negInf = float32(math.Inf(-1))

// expSteps is how many values of 2^x between 0 and 1 the table of exp holds.
const expSteps = 64

// expTable holds the bits of 2^(i/64).
var expTable = func() (t [expSteps]uint64) {
	for i := range t {
		t[i] = math.Float64bits(math.Exp2(float64(i) / expSteps))
	}
	return t
}()

// exp returns e^x for x ≤ 0, with a relative error below 1e-10, and 0 below -700. With x = (64·k+i)·ln2/64 + r it is
// 2^k · 2^(i/64) · (1 + r + r²/2 + r³/6), where |r| ≤ ln2/128.
func exp(x float64) float64 {
	if !(x >= -700) {
		return 0
	}
	n := int64(x*(expSteps/math.Ln2) - 0.5) // rounds x·64/ln2, which is not positive
	r := x - float64(n)*(math.Ln2/expSteps)
	scale := math.Float64frombits(expTable[n&(expSteps-1)] + uint64(n>>6)<<52)
	return scale * (1 + r*(1+r*(0.5+r*(1.0/6))))
}
