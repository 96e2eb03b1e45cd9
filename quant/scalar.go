package quant

import "math"

// F16ToF32 widens an IEEE 754 half-precision number. Every half is exactly a float32; a NaN keeps its payload.
func F16ToF32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 0x1f
	man := uint32(h & 0x3ff)
	switch exp {
	case 0:
		// Zero and subnormals are man * 2^-24; the product is exact.
		v := float32(man) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | man<<13)
}

// F32ToF16 rounds to the nearest half-precision number, ties to the even mantissa. A number that is too large becomes
// an infinity, a NaN a quiet NaN with the upper bits of its payload.
func F32ToF16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits>>16) & 0x8000
	abs := bits & 0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00 | uint16(abs>>13)&0x1ff
	case abs >= 0x47800000: // 2^16 and more
		return sign | 0x7c00
	case abs < 0x38800000: // below 2^-14, the smallest normal half
		// The sum with 0.5 has a unit in the last place of 2^-24, that of subnormal halves, so the addition rounds.
		v := math.Float32frombits(abs) + 0.5
		return sign | uint16(math.Float32bits(v)-0x3f000000)
	}
	abs -= (127 - 15) << 23
	abs += 0xfff + abs>>13&1 // a carry into the exponent is the right answer, up to infinity
	return sign | uint16(abs>>13)
}

// BF16ToF32 widens a bfloat16, the upper half of a float32.
func BF16ToF32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// F32ToBF16 rounds to the nearest bfloat16, ties to the even mantissa. A number that is too large becomes an infinity,
// a NaN a quiet NaN with the upper bits of its payload.
func F32ToBF16(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&0x7fffffff > 0x7f800000 {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
