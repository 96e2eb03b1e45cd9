package ptx

import "math"

// bf16 is the float32 of a bfloat16, which is its upper half.
func bf16(v uint64) float32 { return math.Float32frombits(uint32(v) << 16) }

// toBF16 rounds to the nearest bfloat16, ties to even.
func toBF16(v float32) uint64 {
	if v != v {
		return nan16
	}
	n := uint64(math.Float32bits(v))
	return (n + 0x7fff + n>>16&1) >> 16
}

// f16 is the float32 of a float16 in the lower half of a register.
func f16(v uint64) float32 {
	n := uint32(v)
	magnitude := n & 0x7fff << 13
	if magnitude >= 0x7c00<<13 {
		magnitude += 0x70000000 // infinity and NaN keep the highest exponent
		return math.Float32frombits(n&0x8000<<16 | magnitude)
	}
	f := math.Float32frombits(magnitude) * 0x1p112
	return math.Float32frombits(n&0x8000<<16 | math.Float32bits(f))
}

// toF16 rounds to the nearest float16, ties to even.
func toF16(v float32) uint64 {
	n := math.Float32bits(v)
	sign, magnitude := uint64(n>>16&0x8000), n&^sign32
	switch {
	case v != v:
		return nan16
	case magnitude >= 0x477ff000: // 65520 and more
		return sign | 0x7c00
	case magnitude < 0x38800000: // below 2^-14: a multiple of 2^-24, as the sum's last bit
		return sign | uint64(math.Float32bits(math.Float32frombits(magnitude)+0.5)-0x3f000000)
	}
	return sign | uint64((magnitude+0xfff+magnitude>>13&1)>>13-112<<10)
}

// e4m3 is the float32 of a float of 8 bits: 4 of exponent, 3 of mantissa, no infinity.
func e4m3(v uint64) float32 {
	if v&127 == 127 {
		return math.Float32frombits(nan32)
	}
	f := math.Float32frombits(uint32(v&127)<<20) * 0x1p120
	return math.Float32frombits(uint32(v&128)<<24 | math.Float32bits(f))
}

// toE4M3 rounds to the nearest e4m3, ties to even; what is greater than 448 becomes that.
func toE4M3(v float32) uint64 {
	n := math.Float32bits(v)
	sign, magnitude := uint64(n>>24&128), n&^sign32
	switch {
	case v != v:
		return 127
	case magnitude < 0x3c800000: // below 2^-6: a multiple of 2^-9, as the sum's last bit
		return sign | uint64(math.Float32bits(math.Float32frombits(magnitude)+0x1p14)-0x46800000)
	}
	magnitude = (magnitude + 0x7ffff + magnitude>>20&1) >> 20
	return sign | uint64(min(magnitude-120<<3, 126))
}

// fmaBF16 rounds a*b+c once.
func fmaBF16(a, b, c uint64) uint64 {
	product, z := float64(bf16(a))*float64(bf16(b)), float64(bf16(c))
	sum := product + z
	if f := float32(sum); float64(f) == sum && sum-product == z && sum-z == product {
		return toBF16(f) // all was exact so far
	}
	return toBF16(roundToOdd32(sumToOdd(product, z)))
}

// minF16 returns the less one, NaN if there is one; -0 is less than 0.
func minF16(a, b uint64) uint64 { return toF16(min(f16(a), f16(b))) }
func maxF16(a, b uint64) uint64 { return toF16(max(f16(a), f16(b))) }

// Operations on pairs do the same to both halves of registers.

func pairs2(f func(a, b uint64) uint64) compute {
	return each2(func(a, b uint64) uint64 {
		return f(a&0xffff, b&0xffff) | f(a>>16, b>>16)<<16
	})
}

func fmaBF16x2(d, a, b, c *lanes) {
	for i := range d {
		d[i] = fmaBF16(a[i]&0xffff, b[i]&0xffff, c[i]&0xffff) | fmaBF16(a[i]>>16, b[i]>>16, c[i]>>16)<<16
	}
}

var halves = map[string]operation{
	"fma.rn.bf16x2": {3, fmaBF16x2},
	"add.rn.f16x2": {2, pairs2(func(a, b uint64) uint64 {
		return toF16(roundToOdd32(float64(f16(a)) + float64(f16(b))))
	})},
	"mul.rn.f16x2":  {2, pairs2(func(a, b uint64) uint64 { return toF16(f16(a) * f16(b)) })},
	"min.NaN.f16x2": {2, pairs2(minF16)},
	"max.NaN.f16x2": {2, pairs2(maxF16)},

	"cvt.f32.f16":                 {1, each1(func(a uint64) uint64 { return bits32(f16(a)) })},
	"cvt.rn.f16.f32":              {1, each1(func(a uint64) uint64 { return toF16(f32(a)) })},
	"cvt.rn.bf16x2.f32":           {2, each2(func(a, b uint64) uint64 { return toBF16(f32(a))<<16 | toBF16(f32(b)) })},
	"cvt.rn.f16x2.f32":            {2, each2(func(a, b uint64) uint64 { return toF16(f32(a))<<16 | toF16(f32(b)) })},
	"cvt.rn.f16x2.e4m3x2":         {1, each1(func(a uint64) uint64 { return toF16(e4m3(a>>8))<<16 | toF16(e4m3(a&255)) })},
	"cvt.rn.satfinite.e4m3x2.f32": {2, each2(func(a, b uint64) uint64 { return toE4M3(f32(a))<<8 | toE4M3(f32(b)) })},
}

// operations are all instructions that only compute.
var operations = union(integers, floats, halves)

// union joins tables.
func union[V any](tables ...map[string]V) map[string]V {
	all := map[string]V{}
	for _, t := range tables {
		for name, v := range t {
			all[name] = v
		}
	}
	return all
}
