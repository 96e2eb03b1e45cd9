package ptx

import (
	"math"
	"math/bits"
)

// comparison returns the lanes of which it is true.
type comparison func(a, b *lanes) uint32

// comparisons are the instructions setp.
var comparisons = makeComparisons()

func makeComparisons() map[string]comparison {
	all := map[string]comparison{}
	for t, sign := range map[string]uint64{
		"s16": 1 << 15, "s32": 1 << 31, "s64": 1 << 63, "u16": 0, "u32": 0, "u64": 0, "b32": 0,
	} {
		less := less(sign)
		all["setp.eq."+t] = equal
		all["setp.ne."+t] = func(a, b *lanes) uint32 { return ^equal(a, b) }
		all["setp.lt."+t] = less
		all["setp.gt."+t] = func(a, b *lanes) uint32 { return less(b, a) }
		all["setp.ge."+t] = func(a, b *lanes) uint32 { return ^less(a, b) }
		all["setp.le."+t] = func(a, b *lanes) uint32 { return ^less(b, a) }
	}
	for name, f := range map[string]func(a, b float32) bool{
		"eq": func(a, b float32) bool { return a == b },
		"lt": func(a, b float32) bool { return a < b },
		"le": func(a, b float32) bool { return a <= b },
		"gt": func(a, b float32) bool { return a > b },
		"ge": func(a, b float32) bool { return a >= b },
		// With u, it is also true if one of the two is not a number.
		"neu": func(a, b float32) bool { return a != b },
		"ltu": func(a, b float32) bool { return !(a >= b) },
		"leu": func(a, b float32) bool { return !(a > b) },
		"gtu": func(a, b float32) bool { return !(a <= b) },
		"geu": func(a, b float32) bool { return !(a < b) },
		"nan": func(a, b float32) bool { return a != a || b != b },
	} {
		all["setp."+name+".f32"] = compareFloats(f)
	}
	return all
}

// less makes a comparison of integers, of which those with a sign have it in the bit given.
func less(sign uint64) comparison {
	return func(a, b *lanes) (mask uint32) {
		for i := range a {
			_, borrow := bits.Sub64(a[i]^sign, b[i]^sign, 0)
			mask |= uint32(borrow) << i
		}
		return mask
	}
}

func equal(a, b *lanes) (mask uint32) {
	for i := range a {
		d := a[i] ^ b[i]
		mask |= uint32((d|-d)>>63) << i
	}
	return ^mask
}

func compareFloats(f func(a, b float32) bool) comparison {
	return func(a, b *lanes) (mask uint32) {
		for i := range a {
			if f(math.Float32frombits(uint32(a[i])), math.Float32frombits(uint32(b[i]))) {
				mask |= 1 << i
			}
		}
		return mask
	}
}
