package kernel

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exactFMA returns a·b + c rounded once, by arithmetic that is exact up to the rounding.
func exactFMA(a, b, c float32) float32 {
	v := func(x float32) *big.Float { return new(big.Float).SetPrec(2048).SetFloat64(float64(x)) }
	p := new(big.Float).SetPrec(2048).Mul(v(a), v(b))
	f, _ := p.Add(p, v(c)).Float32()
	return f
}

// TestFMA compares fma with exact arithmetic on random bits, on sums at and next to the midpoint of two float32, and on
// results below the normal range, where rounding to float64 first would round twice.
func TestFMA(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	check := func(a, b, c float32) {
		t.Helper()
		if math.IsInf(float64(a), 0) || math.IsInf(float64(b), 0) || math.IsInf(float64(c),
			0) || a != a || b != b || c != c {
			return
		}
		got, want := FMA(a, b, c), exactFMA(a, b, c)
		if math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("fma(%g, %g, %g) = %g (%#x), want %g (%#x)", a, b, c, got, math.Float32bits(got), want,
				math.Float32bits(want))
		}
	}
	bits := func() float32 { return math.Float32frombits(r.Uint32()) }
	power := func(lo, n int) float32 { return float32(math.Ldexp(1, lo+r.IntN(n))) }
	sign := func() float32 { return float32(1 - 2*r.IntN(2)) }
	for range 100_000 {
		check(bits(), bits(), bits())
		check(number(r), number(r), number(r))

		// c has 24 bits; a·b is half a unit of its last place, give or take something far smaller.
		c := float32(1<<23 + r.IntN(1<<23))
		check(sign()*0.5, 1, sign()*c)
		check(sign()*0.5, math.Float32frombits(0x3f800000+uint32(r.IntN(3))-1), sign()*c)
		check(sign()*(1<<12+1)*power(-26, 3), (1<<12-1)*power(-26, 30), sign()*c)
		check(sign()*power(-60, 60), power(-60, 60)*(1+float32(r.IntN(2))/(1<<23)), sign()*c)

		// Results around and below the least normal number, 2⁻¹²⁶.
		check(sign()*(1+r.Float32())*power(-80, 20), (1+r.Float32())*power(-80, 20), 0)
		check(sign()*(1+r.Float32())*power(-80, 10), (1+r.Float32())*power(-70, 10),
			math.Float32frombits(r.Uint32()&0x80ffffff))
		check(sign()*(1+0x1p-23)*0x1p-75, (1-0x1p-23)*0x1p-75, math.Float32frombits(r.Uint32()&0x807fffff))
	}
}

// TestExp holds exp to its documented error: 2e-7 relative between expMin and expMax, and its ends.
func TestExp(t *testing.T) {
	worst, at := 0.0, float32(0)
	for i := range 2_000_000 {
		x := float32(expMin + (expMax-expMin)*float64(i)/2_000_000)
		want := math.Exp(float64(x))
		if err := math.Abs(float64(Exp(x))-want) / want; err > worst && x >= expMin {
			worst, at = err, x
		}
	}
	if worst >= 2e-7 {
		t.Errorf("the relative error at %g is %g, want below 2e-7", at, worst)
	}
	inf := float32(math.Inf(1))
	for _, c := range []struct{ x, want float32 }{
		{0, 1}, {float32(math.Copysign(0, -1)), 1}, {-inf, 0}, {-87.4, 0}, {-1e30, 0}, {89, Exp(88)}, {inf, Exp(88)},
	} {
		if got := Exp(c.x); got != c.want {
			t.Errorf("exp(%g) = %g, want %g", c.x, got, c.want)
		}
	}
}
