package ptx

import "math/bits"

// operation is an instruction that only computes: what kernels execute most has its own loop, the rest goes through
// each1, each2 and each3.
type operation struct {
	sources int // registers that it reads
	compute compute
}

// each1 makes an operation of a function of one lane.
func each1(f func(a uint64) uint64) compute {
	return func(d, a, _, _ *lanes) {
		for i := range d {
			d[i] = f(a[i])
		}
	}
}

// each2 makes an operation of a function of one lane.
func each2(f func(a, b uint64) uint64) compute {
	return func(d, a, b, _ *lanes) {
		for i := range d {
			d[i] = f(a[i], b[i])
		}
	}
}

// each3 makes an operation of a function of one lane.
func each3(f func(a, b, c uint64) uint64) compute {
	return func(d, a, b, c *lanes) {
		for i := range d {
			d[i] = f(a[i], b[i], c[i])
		}
	}
}

// Values of 16 and 32 bits, as registers hold them.
func u16[T int16 | uint16 | int | uint64](v T) uint64                { return uint64(uint16(v)) }
func u32[T int8 | int16 | int32 | uint32 | int | uint64](v T) uint64 { return uint64(uint32(v)) }

// Bitwise operations are the same for all widths: registers are zero-extended.

func move(d, a, _, _ *lanes) { *d = *a }

func and(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

func or(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

func xor(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] ^ b[i]
	}
}

func add32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = u32(a[i] + b[i])
	}
}

func add64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

func sub32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = u32(a[i] - b[i])
	}
}

func mul32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = u32(a[i] * b[i])
	}
}

func mul64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

func mulWideS32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(int64(int32(a[i])) * int64(int32(b[i])))
	}
}

func mad32(d, a, b, c *lanes) {
	for i := range d {
		d[i] = u32(a[i]*b[i] + c[i])
	}
}

// Shifts clamp their count, which is a 32-bit value.

func shl32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = u32(a[i] << min(uint32(b[i]), 32))
	}
}

func shl64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] << min(uint32(b[i]), 64)
	}
}

func shr(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] >> min(uint32(b[i]), 64)
	}
}

func shrS32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = u32(int32(a[i]) >> min(uint32(b[i]), 31))
	}
}

func signExtend32(d, a, _, _ *lanes) {
	for i := range d {
		d[i] = uint64(int64(int32(a[i])))
	}
}

func keep32(d, a, _, _ *lanes) {
	for i := range d {
		d[i] = u32(a[i])
	}
}

// A GPU's quotient by 0 has all bits set, and its remainder is the dividend.

func divS32(a, b uint64) uint64 {
	if uint32(b) == 0 {
		return 1<<32 - 1
	}
	return u32(int32(a) / int32(b))
}

func divU32(a, b uint64) uint64 {
	if b == 0 {
		return 1<<32 - 1
	}
	return a / b
}

func divU16(a, b uint64) uint64 {
	if b == 0 {
		return 1<<16 - 1
	}
	return a / b
}

func divS64(a, b uint64) uint64 {
	if b == 0 {
		return 1<<64 - 1
	}
	return uint64(int64(a) / int64(b))
}

func divU64(a, b uint64) uint64 {
	if b == 0 {
		return 1<<64 - 1
	}
	return a / b
}

func remS32(a, b uint64) uint64 {
	if uint32(b) == 0 {
		return a
	}
	return u32(int32(a) % int32(b))
}

func remU32(a, b uint64) uint64 {
	if b == 0 {
		return a
	}
	return a % b
}

// bfi makes the function that inserts the low bits of a into b.
func bfi(width uint64) func([]uint64) compute {
	return func(n []uint64) compute {
		at, length := n[0]&255, n[1]&255
		mask := (uint64(1)<<length - 1) << at & (uint64(1)<<(width-1)<<1 - 1)
		return func(d, a, b, _ *lanes) {
			for i := range d {
				d[i] = b[i]&^mask | a[i]<<at&mask
			}
		}
	}
}

// lop3 makes any function of three bits: bit 4a+2b+c of the table is its value.
func lop3(n []uint64) compute {
	table := n[0]
	if table == 0xea {
		return func(d, a, b, c *lanes) {
			for i := range d {
				d[i] = a[i]&b[i] | c[i]
			}
		}
	}
	var terms [8]uint64
	for i := range terms {
		terms[i] = -(table >> i & 1)
	}
	return each3(func(a, b, c uint64) uint64 {
		low := ^a&(^b&(^c&terms[0]|c&terms[1])|b&(^c&terms[2]|c&terms[3])) |
			a&(^b&(^c&terms[4]|c&terms[5])|b&(^c&terms[6]|c&terms[7]))
		return u32(low)
	})
}

// prmt picks four of the eight bytes of a and b. Bit 3 of a selector repeats the byte's sign instead.
func prmt(d, a, b, c *lanes) {
	for i := range d {
		bytes := a[i]&(1<<32-1) | b[i]<<32
		s := c[i]
		r := bytes>>(s&7*8)&255 | bytes>>(s>>4&7*8)&255<<8 | bytes>>(s>>8&7*8)&255<<16 | bytes>>(s>>12&7*8)&255<<24
		if s&0x8888 != 0 {
			for k := range 4 {
				if s>>(4*k+3)&1 != 0 {
					b := uint64(int64(int8(r>>(8*k))) >> 7 & 255)
					r = r&^(255<<(8*k)) | b<<(8*k)
				}
			}
		}
		d[i] = r
	}
}

var integers = map[string]operation{
	"mov.u16": {1, move}, "mov.u32": {1, move}, "mov.b32": {1, move}, "mov.f32": {1, move}, "mov.u64": {1, move}, "mov.b64": {1, move}, "mov.f64": {1, move},

	"not.b32":  {1, each1(func(a uint64) uint64 { return u32(^a) })},
	"neg.s16":  {1, each1(func(a uint64) uint64 { return u16(-a) })},
	"neg.s32":  {1, each1(func(a uint64) uint64 { return u32(-a) })},
	"popc.b32": {1, each1(func(a uint64) uint64 { return uint64(bits.OnesCount32(uint32(a))) })},
	"brev.b32": {1, each1(func(a uint64) uint64 { return uint64(bits.Reverse32(uint32(a))) })},
	// How far to shift the highest set bit to the top; all bits if none is set.
	"bfind.shiftamt.u32": {1, each1(func(a uint64) uint64 {
		if a == 0 {
			return 1<<32 - 1
		}
		return uint64(bits.LeadingZeros32(uint32(a)))
	})},

	"cvt.s64.s32": {1, signExtend32}, "cvt.u64.u32": {1, move}, "cvt.u32.u64": {1, keep32}, "cvt.u32.u16": {1, move}, "cvt.u64.u16": {1, move},
	"cvt.u16.u32": {1, each1(u16[uint64])}, "cvt.u16.u64": {1, each1(u16[uint64])},

	// Addresses in their own spaces and generic ones differ in the top byte, that of global memory is 0.
	"cvta.to.global.u64": {1, move},
	"cvta.local.u64":     {1, each1(func(a uint64) uint64 { return a | localWindow })},
	"cvta.to.local.u64":  {1, each1(func(a uint64) uint64 { return a &^ localWindow })},
	"cvta.param.u64":     {1, each1(func(a uint64) uint64 { return a | paramWindow })},

	"add.s16": {2, each2(func(a, b uint64) uint64 { return u16(a + b) })},
	"add.s32": {2, add32}, "add.u32": {2, add32}, "add.s64": {2, add64}, "add.u64": {2, add64},
	"sub.s16": {2, each2(func(a, b uint64) uint64 { return u16(a - b) })},
	"sub.s32": {2, sub32},
	"sub.s64": {2, each2(func(a, b uint64) uint64 { return a - b })},

	"mul.lo.s16": {2, each2(func(a, b uint64) uint64 { return u16(a * b) })},
	"mul.lo.s32": {2, mul32}, "mul.lo.s64": {2, mul64},
	"mul.hi.s32":   {2, each2(func(a, b uint64) uint64 { return u32(uint64(int64(int32(a))*int64(int32(b))) >> 32) })},
	"mul.wide.s32": {2, mulWideS32}, "mul.wide.u32": {2, mul64}, "mul.wide.u16": {2, mul64},

	"div.u16": {2, each2(divU16)}, "div.s32": {2, each2(divS32)}, "div.u32": {2, each2(divU32)}, "div.s64": {2, each2(divS64)}, "div.u64": {2, each2(divU64)},
	"rem.s32": {2, each2(remS32)}, "rem.u32": {2, each2(remU32)},

	"min.s32": {2, each2(func(a, b uint64) uint64 { return u32(min(int32(a), int32(b))) })},
	"max.s32": {2, each2(func(a, b uint64) uint64 { return u32(max(int32(a), int32(b))) })},
	"min.u32": {2, each2(func(a, b uint64) uint64 { return min(a, b) })},
	"max.u32": {2, each2(func(a, b uint64) uint64 { return max(a, b) })},

	"and.b16": {2, and}, "and.b32": {2, and}, "and.b64": {2, and},
	"or.b16": {2, or}, "or.b32": {2, or}, "or.b64": {2, or},
	"xor.b16": {2, xor}, "xor.b32": {2, xor}, "xor.b64": {2, xor},
	"shl.b16": {2, each2(func(a, b uint64) uint64 { return u16(a << min(uint32(b), 16)) })},
	"shl.b32": {2, shl32}, "shl.b64": {2, shl64},
	"shr.u16": {2, shr}, "shr.u32": {2, shr}, "shr.u64": {2, shr}, "shr.s32": {2, shrS32},
	"shr.s64": {2, each2(func(a, b uint64) uint64 { return uint64(int64(a) >> min(uint32(b), 63)) })},

	"mad.lo.s32":   {3, mad32},
	"mad.wide.u32": {3, each3(func(a, b, c uint64) uint64 { return a*b + c })},
	"prmt.b32":     {3, prmt},
}

// shaped are operations that immediates are part of.
var shaped = map[string]struct {
	sources, immediates int
	make                func([]uint64) compute
}{
	"lop3.b32": {3, 1, lop3},
	"bfi.b32":  {2, 2, bfi(32)},
	"bfi.b64":  {2, 2, bfi(64)},
}
