package quant

import "math"

// A minifloat is a floating-point format of a sign bit, some exponent bits and some mantissa bits, in one byte.
type minifloat struct {
	expBits, manBits int
	bias             int
	inf              bool // the highest exponent means infinity and NaN, as in IEEE 754; else only all ones is a NaN
}

// The eight-bit floats of the OCP specification "8-bit Floating Point" (2023).
var (
	e4m3 = minifloat{expBits: 4, manBits: 3, bias: 7}
	e5m2 = minifloat{expBits: 5, manBits: 2, bias: 15, inf: true}
)

// value returns the value of the byte b.
func (f minifloat) value(b uint8) float32 {
	sign := 1.0
	if b>>7 != 0 {
		sign = -1
	}
	exp, man := int(b&127)>>f.manBits, int(b)&(1<<f.manBits-1)
	top := 1<<f.expBits - 1
	switch {
	case exp == top && f.inf && man == 0:
		return float32(math.Inf(int(sign)))
	case exp == top && (f.inf || man == 1<<f.manBits-1):
		return float32(math.Copysign(math.NaN(), sign))
	case exp == 0:
		return float32(sign * math.Ldexp(float64(man), 1-f.bias-f.manBits))
	}
	return float32(sign * math.Ldexp(float64(man+1<<f.manBits), exp-f.bias-f.manBits))
}

// round returns the byte of the nearest value, ties to the even mantissa. A number that is too large becomes an
// infinity, or a NaN if the format has none.
func (f minifloat) round(v float32) uint8 {
	sign := uint8(math.Float32bits(v) >> 24 & 0x80)
	nan := uint8(1<<7 - 1)
	tooLarge := nan
	if f.inf {
		tooLarge = uint8((1<<f.expBits - 1) << f.manBits)
		nan = tooLarge | 1<<(f.manBits-1) // quiet
	}
	a := math.Abs(float64(v))
	switch {
	case a != a:
		return sign | nan
	case math.IsInf(a, 0):
		return sign | tooLarge
	case a == 0: // Frexp gives zero an exponent of its own
		return sign
	}
	_, e := math.Frexp(a)
	ulp := max(e-1, 1-f.bias) - f.manBits           // the exponent of a unit in the last place of v
	q := int(math.RoundToEven(math.Ldexp(a, -ulp))) // exact before rounding: a has 24 bits
	bits := q + (ulp+f.manBits+f.bias-1)<<f.manBits // q's leading bit adds one to the exponent
	if bits >= int(tooLarge) {
		return sign | tooLarge
	}
	return sign | uint8(bits)
}

func decodeF8_E4M3(dst []float32, src []byte) { dst[0] = e4m3.value(src[0]) }

func encodeF8_E4M3(dst []byte, src []float32) error {
	dst[0] = e4m3.round(src[0])
	return nil
}

func decodeF8_E5M2(dst []float32, src []byte) { dst[0] = e5m2.value(src[0]) }

func encodeF8_E5M2(dst []byte, src []float32) error {
	dst[0] = e5m2.round(src[0])
	return nil
}

// decodeF8_E8M0 reads a power of two, the scale of microscaling formats: 2^(b-127), NaN for 255.
func decodeF8_E8M0(dst []float32, src []byte) {
	if src[0] == 255 {
		dst[0] = float32(math.NaN())
		return
	}
	dst[0] = float32(math.Ldexp(1, int(src[0])-127))
}

// splitMXFP4 reads an exponent e and 32 four-bit floats laid out as in Q4_0, with the scale 2^(e-127). Like ggml, it
// treats e = 255, a NaN in the OCP specification of microscaling formats, as an ordinary power of two.
func splitMXFP4(p *Parts, src []byte) {
	p.Scale = float32(math.Ldexp(1, int(src[0])-128)) // half the scale, as the levels are doubled
	p.Scales[0] = 1
	fourBits(p.Codes[:32], src[1:17])
}
