package kernel

import "math"

// FMA returns a·b + c rounded once to float32. The product of two float32 is exact in float64, so only the sum can
// round twice; that goes wrong only where the float64 sum lies on a midpoint between two float32 or below their
// normal range.
func FMA(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	bits := math.Float64bits(s)
	const halfway, normal = 1 << 28, (1023 - 126) << 52
	if bits&(1<<29-1) == halfway || bits&^(1<<63) < normal {
		return float32(addToOdd(p, float64(c)))
	}
	return float32(s)
}

// addToOdd returns p + c rounded to odd: an inexact sum takes that of its two neighbours whose last bit is set.
// Rounding such a sum to float32 gives what rounding the exact sum would (Boldo and Melquiond, "When double rounding
// is odd").
func addToOdd(p, c float64) float64 {
	s := p + c
	bv := s - p
	err := (p - (s - bv)) + (c - bv) // TwoSum: s + err is exact
	bits := math.Float64bits(s)
	if err == 0 || err != err || bits&1 == 1 {
		return s
	}
	if (err > 0) == (s > 0) {
		bits++
	} else {
		bits--
	}
	return math.Float64frombits(bits)
}
