package ptx

import "math"

// What a GPU writes for all that is not a number.
const (
	nan16  = 0x7fff
	nan32  = 0x7fffffff
	nan64  = 0x7fffffffffffffff
	sign32 = 1 << 31
)

// f32 is the float32 in a register.
func f32(v uint64) float32 { return math.Float32frombits(uint32(v)) }

// bits32 is a register with a float32.
func bits32(v float32) uint64 {
	if v != v {
		return nan32
	}
	return uint64(math.Float32bits(v))
}

// bits64 is a register with a float64.
func bits64(v float64) uint64 {
	if v != v {
		return nan64
	}
	return math.Float64bits(v)
}

// f64 is the float64 in a register.
func f64(v uint64) float64 { return math.Float64frombits(v) }

// flush makes subnormal numbers 0, as .ftz does.
func flush(v float32) float32 {
	if v < 0x1p-126 && v > -0x1p-126 {
		return math.Float32frombits(math.Float32bits(v) & sign32)
	}
	return v
}

func addF32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = bits32(f32(a[i]) + f32(b[i]))
	}
}

func subF32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = bits32(f32(a[i]) - f32(b[i]))
	}
}

func mulF32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = bits32(f32(a[i]) * f32(b[i]))
	}
}

func fmaF32(d, a, b, c *lanes) {
	for i := range d {
		// The product is exact. The sum is rounded twice, which matters only if the first rounding made a tie of the
		// second one, or if the second one is to a subnormal.
		x, y, z := float64(f32(a[i])), float64(f32(b[i])), float64(f32(c[i]))
		sum := x*y + z
		if low := math.Float64bits(sum) & (1<<29 - 1); low == 1<<28 || math.Abs(sum) < 0x1p-126 {
			sum = sumToOdd(x*y, z)
		}
		d[i] = bits32(float32(sum))
	}
}

// sumToOdd returns a+b rounded to odd: cut, and with the lowest bit set if anything was lost. Rounding that to fewer
// bits, by two at least, is as rounding the sum.
func sumToOdd(a, b float64) float64 {
	sum := a + b
	part := sum - a
	lost := (a - (sum - part)) + (b - part)
	if lost == 0 || lost != lost {
		return sum
	}
	n := math.Float64bits(sum)
	if (lost < 0) != (sum < 0) {
		n--
	}
	return math.Float64frombits(n | 1)
}

// roundToOdd32 returns a float32 of a float64, cut, and with the lowest bit set if anything was lost.
func roundToOdd32(v float64) float32 {
	f := float32(v)
	if float64(f) == v || v != v {
		return f
	}
	n := math.Float32bits(f)
	if math.Abs(float64(f)) > math.Abs(v) {
		n--
	}
	return math.Float32frombits(n | 1)
}

// cut rounds a sum, or what was rounded to odd, toward zero.
func cut(v float64) float32 {
	f := float32(v)
	if math.Abs(float64(f)) > math.Abs(v) {
		f = math.Float32frombits(math.Float32bits(f) - 1)
	}
	return f
}

// down rounds what was rounded to odd toward negative infinity.
func down(v float64) float32 {
	f := float32(v)
	if float64(f) > v {
		f = math.Nextafter32(f, float32(math.Inf(-1)))
	}
	return f
}

// minF32 returns the less one, or the one that is a number; -0 is less than 0.
func minF32(x, y uint64) uint64 {
	a, b := f32(x), f32(y)
	switch {
	case a != a:
		return bits32(b)
	case b != b || a < b:
		return x
	case a == b:
		return x | y
	}
	return y
}

// maxF32 is the counterpart of minF32.
func maxF32(x, y uint64) uint64 {
	a, b := f32(x), f32(y)
	switch {
	case a != a:
		return bits32(b)
	case b != b || a > b:
		return x
	case a == b:
		return x & y
	}
	return y
}

// Approximations are the correctly rounded results: what a GPU writes may differ in the last bits.

func ex2(d, a, _, _ *lanes) {
	for i := range d {
		d[i] = bits32(flush(float32(math.Exp2(float64(flush(f32(a[i])))))))
	}
}

func rcpFlush(a uint64) uint64 { return bits32(flush(1 / flush(f32(a)))) }
func rsqrt(a uint64) uint64    { return bits32(float32(1 / math.Sqrt(float64(f32(a))))) }

// rcpApprox64 reads and writes the upper 32 bits of a float64.
func rcpApprox64(a uint64) uint64 {
	v := f64(a &^ (1<<32 - 1))
	if math.Abs(v) < 0x1p-1022 {
		v = math.Copysign(0, v)
	}
	r := 1 / v
	if math.Abs(r) < 0x1p-1022 {
		r = math.Copysign(0, r)
	}
	return bits64(r) &^ (1<<32 - 1)
}

// toInt makes a conversion to integers from least to greatest: what is beyond becomes one of these, NaN becomes 0.
func toInt(v, least, greatest float64) float64 {
	if v != v {
		return 0
	}
	return min(max(v, least), greatest)
}

func toS32(v float64) uint64 { return u32(int32(toInt(v, math.MinInt32, math.MaxInt32))) }

func toU64(v float64) uint64 {
	switch {
	case !(v > 0):
		return 0
	case v >= 1<<64:
		return math.MaxUint64
	}
	return uint64(v)
}

// saturate limits a number to [0, 1]; NaN becomes 0.
func saturate(a uint64) uint64 {
	if v := f32(a); v > 0 {
		return bits32(min(v, 1))
	}
	return 0
}

var floats = map[string]operation{
	"abs.f32":      {1, each1(func(a uint64) uint64 { return a &^ sign32 })},
	"neg.f32":      {1, each1(func(a uint64) uint64 { return a ^ sign32 })},
	"neg.f64":      {1, each1(func(a uint64) uint64 { return a ^ 1<<63 })},
	"copysign.f32": {2, each2(func(a, b uint64) uint64 { return a&sign32 | b&^sign32 })},

	"add.f32": {2, addF32}, "add.rn.f32": {2, addF32}, "sub.rn.f32": {2, subF32}, "mul.rn.f32": {2, mulF32}, "fma.rn.f32": {3, fmaF32},
	"add.rz.f32": {2, each2(func(a, b uint64) uint64 { return bits32(cut(sumToOdd(float64(f32(a)), float64(f32(b))))) })},
	"fma.rm.f32": {3, each3(func(a, b, c uint64) uint64 {
		return bits32(down(sumToOdd(float64(f32(a))*float64(f32(b)), float64(f32(c)))))
	})},
	"div.rn.f32": {2, each2(func(a, b uint64) uint64 { return bits32(f32(a) / f32(b)) })},
	"rcp.rn.f32": {1, each1(func(a uint64) uint64 { return bits32(1 / f32(a)) })},
	"min.f32":    {2, each2(minF32)},
	"max.f32":    {2, each2(maxF32)},

	"ex2.approx.ftz.f32": {1, ex2},
	"rcp.approx.ftz.f32": {1, each1(rcpFlush)},
	"rcp.approx.ftz.f64": {1, each1(rcpApprox64)},
	"rsqrt.approx.f32":   {1, each1(rsqrt)},

	"add.rn.f64": {2, each2(func(a, b uint64) uint64 { return bits64(f64(a) + f64(b)) })},
	"sub.rn.f64": {2, each2(func(a, b uint64) uint64 { return bits64(f64(a) - f64(b)) })},
	"mul.rn.f64": {2, each2(func(a, b uint64) uint64 { return bits64(f64(a) * f64(b)) })},
	"fma.rn.f64": {3, each3(func(a, b, c uint64) uint64 { return bits64(math.FMA(f64(a), f64(b), f64(c))) })},

	"cvt.rn.f32.s16":  {1, each1(func(a uint64) uint64 { return bits32(float32(int16(a))) })},
	"cvt.rn.f32.u16":  {1, each1(func(a uint64) uint64 { return bits32(float32(a)) })},
	"cvt.rn.f32.s32":  {1, each1(func(a uint64) uint64 { return bits32(float32(int32(a))) })},
	"cvt.rn.f32.u32":  {1, each1(func(a uint64) uint64 { return bits32(float32(a)) })},
	"cvt.rn.f32.f64":  {1, each1(func(a uint64) uint64 { return bits32(float32(f64(a))) })},
	"cvt.f64.f32":     {1, each1(func(a uint64) uint64 { return bits64(float64(f32(a))) })},
	"cvt.rn.f64.s64":  {1, each1(func(a uint64) uint64 { return bits64(float64(int64(a))) })},
	"cvt.rn.f64.u64":  {1, each1(func(a uint64) uint64 { return bits64(float64(a)) })},
	"cvt.rni.f32.f32": {1, each1(func(a uint64) uint64 { return bits32(float32(math.RoundToEven(float64(f32(a))))) })},
	"cvt.rni.s32.f32": {1, each1(func(a uint64) uint64 { return toS32(math.RoundToEven(float64(f32(a)))) })},
	"cvt.rzi.s32.f32": {1, each1(func(a uint64) uint64 { return toS32(float64(f32(a))) })},
	"cvt.rzi.u64.f32": {1, each1(func(a uint64) uint64 { return toU64(float64(f32(a))) })},
	"cvt.rzi.u64.f64": {1, each1(func(a uint64) uint64 { return toU64(f64(a)) })},
	"cvt.sat.f32.f32": {1, each1(saturate)},
}
