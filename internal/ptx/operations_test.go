package ptx

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// words are integers at whose borders operations differ.
var words = []uint64{0, 1, 2, 3, 7, 15, 31, 32, 33, 63, 64, 65, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000,
	0xfffffffe, 0xffffffff, 0x12345678, 1 << 32, 1<<63 - 1, 1 << 63, math.MaxUint64}

// singles are float32 at whose borders operations differ.
var singles = []float32{0, float32(math.Copysign(0, -1)), 1, -1, 0.5, 1.5, 2.5, -2.5, 3, 0x1p-126, -0x1p-126, 0x1p-149,
	-0x1p-149, 0x1.fffffep-127, 0x1p-75, 0x1.8p-75, 0x1.000002p0, 0x1.fffffep127, -0x1.fffffep127, 448, 464, 65504, 65520,
	1e10, -1e10, 0x1p31, 0x1p63, 0x1p64, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}

// floatWords returns singles, and random bits, as registers.
func floatWords() []uint64 {
	var all []uint64
	for _, v := range singles {
		all = append(all, uint64(math.Float32bits(v)))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		all = append(all, uint64(random.Uint32()))
		// Numbers that are near each other: their sums round.
		all = append(all, uint64(0x3f800000+random.Uint32N(1<<24)))
	}
	return all
}

// cut returns values of a width.
func cutTo(all []uint64, width int) []uint64 {
	if width == 64 {
		return all
	}
	var cut []uint64
	for _, v := range all {
		cut = append(cut, v&(1<<width-1))
	}
	return cut
}

// check compares an operation with a function of one lane, on all triples of values as far as it reads them.
func check(t *testing.T, name string, values []uint64, want func(a, b, c uint64) uint64) {
	t.Helper()
	op, ok := operations[name]
	if !ok {
		t.Fatalf("no %s", name)
	}
	second, third := values, values
	if op.sources < 2 {
		second = values[:1]
	}
	if op.sources < 3 {
		third = values[:1]
	}
	wrong := 0
	var a, b, c, d lanes
	n := 0
	flush := func() {
		op.compute(&d, &a, &b, &c)
		for i := range n {
			if w := want(a[i], b[i], c[i]); d[i] != w && wrong < 5 {
				wrong++
				t.Errorf("%s %#x, %#x, %#x: %#x, want %#x", name, a[i], b[i], c[i], d[i], w)
			}
		}
		n = 0
	}
	for _, x := range values {
		for _, y := range second {
			for _, z := range third {
				a[n], b[n], c[n] = x, y, z
				if n++; n == len(a) {
					flush()
				}
			}
		}
	}
	flush()
}

func TestIntegers(t *testing.T) {
	low := func(v *big.Int, width uint) uint64 {
		return new(big.Int).And(v, new(big.Int).SetUint64(1<<(width-1)<<1-1)).Uint64()
	}
	signed := func(v uint64, width uint) *big.Int { return big.NewInt(int64(v<<(64-width)) >> (64 - width)) }
	unsigned := func(v uint64) *big.Int { return new(big.Int).SetUint64(v) }
	for _, o := range []struct {
		name  string
		width uint
		f     func(z, a, b, c *big.Int)
	}{
		{"add.s16", 16, func(z, a, b, _ *big.Int) { z.Add(a, b) }},
		{"add.s32", 32, func(z, a, b, _ *big.Int) { z.Add(a, b) }},
		{"add.s64", 64, func(z, a, b, _ *big.Int) { z.Add(a, b) }},
		{"add.u64", 64, func(z, a, b, _ *big.Int) { z.Add(a, b) }},
		{"sub.s16", 16, func(z, a, b, _ *big.Int) { z.Sub(a, b) }},
		{"sub.s32", 32, func(z, a, b, _ *big.Int) { z.Sub(a, b) }},
		{"sub.s64", 64, func(z, a, b, _ *big.Int) { z.Sub(a, b) }},
		{"mul.lo.s16", 16, func(z, a, b, _ *big.Int) { z.Mul(a, b) }},
		{"mul.lo.s32", 32, func(z, a, b, _ *big.Int) { z.Mul(a, b) }},
		{"mul.lo.s64", 64, func(z, a, b, _ *big.Int) { z.Mul(a, b) }},
		{"mul.hi.s32", 32, func(z, a, b, _ *big.Int) { z.Mul(a, b).Rsh(z, 32) }},
		{"mad.lo.s32", 32, func(z, a, b, c *big.Int) { z.Mul(a, b).Add(z, c) }},
		{"neg.s16", 16, func(z, a, _, _ *big.Int) { z.Neg(a) }},
		{"neg.s32", 32, func(z, a, _, _ *big.Int) { z.Neg(a) }},
		{"not.b32", 32, func(z, a, _, _ *big.Int) { z.Not(a) }},
		{"and.b64", 64, func(z, a, b, _ *big.Int) { z.And(a, b) }},
		{"or.b32", 32, func(z, a, b, _ *big.Int) { z.Or(a, b) }},
		{"xor.b16", 16, func(z, a, b, _ *big.Int) { z.Xor(a, b) }},
		{"min.s32", 32, func(z, a, b, _ *big.Int) {
			z.Set(b)
			if a.Cmp(b) < 0 {
				z.Set(a)
			}
		}},
		{"max.s32", 32, func(z, a, b, _ *big.Int) {
			z.Set(b)
			if a.Cmp(b) > 0 {
				z.Set(a)
			}
		}},
	} {
		check(t, o.name, cutTo(words, int(o.width)), func(a, b, c uint64) uint64 {
			z := new(big.Int)
			o.f(z, signed(a, o.width), signed(b, o.width), signed(c, o.width))
			return low(z, o.width)
		})
	}
	check(t, "mul.wide.s32", cutTo(words, 32), func(a, b, _ uint64) uint64 {
		return low(new(big.Int).Mul(signed(a, 32), signed(b, 32)), 64)
	})
	check(t, "mul.wide.u16", cutTo(words, 16), func(a, b, _ uint64) uint64 { return a * b })
	check(t, "mul.wide.u32", cutTo(words, 32), func(a, b, _ uint64) uint64 { return a * b })
	check(t, "mad.wide.u32", cutTo(words, 32), func(a, b, c uint64) uint64 {
		return low(new(big.Int).Add(new(big.Int).Mul(unsigned(a), unsigned(b)), unsigned(c)), 64)
	})
	check(t, "min.u32", cutTo(words, 32), func(a, b, _ uint64) uint64 { return min(a, b) })
	check(t, "max.u32", cutTo(words, 32), func(a, b, _ uint64) uint64 { return max(a, b) })
	check(t, "popc.b32", cutTo(words, 32), func(a, _, _ uint64) uint64 { return uint64(bits.OnesCount64(a)) })
	check(t, "brev.b32", cutTo(words, 32), func(a, _, _ uint64) uint64 { return bits.Reverse64(a) >> 32 })
	check(t, "bfind.shiftamt.u32", cutTo(words, 32), func(a, _, _ uint64) uint64 {
		for shift := range uint64(32) {
			if a<<shift>>31&1 != 0 {
				return shift
			}
		}
		return 0xffffffff
	})
}

// Division by zero gives all ones; the remainder is the dividend. The least number divided by -1 is itself.
func TestDivisions(t *testing.T) {
	for name, o := range map[string]struct {
		width  int
		signed bool
	}{
		"div.u16": {16, false}, "div.u32": {32, false}, "div.u64": {64, false}, "div.s32": {32, true}, "div.s64": {64, true},
	} {
		check(t, name, cutTo(words, o.width), func(a, b, _ uint64) uint64 {
			ones := uint64(math.MaxUint64) >> (64 - o.width)
			switch {
			case b == 0:
				return ones
			case !o.signed:
				return a / b
			}
			shift := 64 - o.width
			q := new(big.Int).Quo(big.NewInt(int64(a<<shift)>>shift), big.NewInt(int64(b<<shift)>>shift))
			return new(big.Int).And(q, new(big.Int).SetUint64(ones)).Uint64()
		})
	}
	check(t, "rem.s32", cutTo(words, 32), func(a, b, _ uint64) uint64 {
		if b == 0 {
			return a
		}
		return uint64(uint32(int64(int32(a)) % int64(int32(b))))
	})
	check(t, "rem.u32", cutTo(words, 32), func(a, b, _ uint64) uint64 {
		if b == 0 {
			return a
		}
		return a % b
	})
}

// A shift of the width or more leaves nothing but the sign.
func TestShifts(t *testing.T) {
	for name, o := range map[string]struct {
		width uint
		f     func(z, a *big.Int, n uint)
		sign  bool
	}{
		"shl.b16": {16, func(z, a *big.Int, n uint) { z.Lsh(a, n) }, false},
		"shl.b32": {32, func(z, a *big.Int, n uint) { z.Lsh(a, n) }, false},
		"shl.b64": {64, func(z, a *big.Int, n uint) { z.Lsh(a, n) }, false},
		"shr.u16": {16, func(z, a *big.Int, n uint) { z.Rsh(a, n) }, false},
		"shr.u32": {32, func(z, a *big.Int, n uint) { z.Rsh(a, n) }, false},
		"shr.u64": {64, func(z, a *big.Int, n uint) { z.Rsh(a, n) }, false},
		"shr.s32": {32, func(z, a *big.Int, n uint) { z.Rsh(a, n) }, true},
		"shr.s64": {64, func(z, a *big.Int, n uint) { z.Rsh(a, n) }, true},
	} {
		check(t, name, cutTo(words, int(o.width)), func(a, b, _ uint64) uint64 {
			z, x := new(big.Int), new(big.Int).SetUint64(a)
			if o.sign {
				x.SetInt64(int64(a<<(64-o.width)) >> (64 - o.width))
			}
			o.f(z, x, uint(min(uint32(b), 100)))
			return z.And(z, new(big.Int).SetUint64(math.MaxUint64>>(64-o.width))).Uint64()
		})
	}
}

func TestBitFields(t *testing.T) {
	three := func(f compute, a, b, c uint64) uint64 {
		d, x, y, z := lanes{}, lanes{a}, lanes{b}, lanes{c}
		f(&d, &x, &y, &z)
		return d[0]
	}
	random := rand.New(rand.NewPCG(3, 4))
	for table := range uint64(256) {
		a, b, c := uint64(random.Uint32()), uint64(random.Uint32()), uint64(random.Uint32())
		var want uint64
		for i := range 32 {
			want |= table >> (a>>i&1<<2 | b>>i&1<<1 | c>>i&1) & 1 << i
		}
		if got := three(lop3([]uint64{table}), a, b, c); got != want {
			t.Errorf("lop3 %#x, %#x, %#x, %#x: %#x, want %#x", a, b, c, table, got, want)
		}
	}
	for _, width := range []uint64{32, 64} {
		for at := range uint64(70) {
			for _, length := range []uint64{0, 1, 5, 32, 64} {
				a, b := random.Uint64()>>(64-width), random.Uint64()>>(64-width)
				want := b
				for i := range length {
					if at+i < width {
						want = want&^(1<<(at+i)) | a>>i&1<<(at+i)
					}
				}
				if got := three(bfi(width)([]uint64{at, length}), a, b, 0); got != want {
					t.Errorf("bfi.b%d %#x, %#x, %d, %d: %#x, want %#x", width, a, b, at, length, got, want)
				}
			}
		}
	}
	for _, o := range []struct{ selector, want uint64 }{
		{0x3210, 0x83028180}, {0x7654, 0x87868504}, {0x5410, 0x85048180}, {0x0000, 0x80808080},
		{0x8888, 0xffffffff}, {0xa210, 0x00028180}, {0xffff, 0xffffffff}, {0xccc4, 0x00000004}, {0x1f0c, 0x81ff8000},
	} {
		if got := three(prmt, 0x83028180, 0x87868504, o.selector); got != o.want {
			t.Errorf("prmt %#x: %#x, want %#x", o.selector, got, o.want)
		}
	}
}

func TestComparisons(t *testing.T) {
	order := map[string]func(n int) bool{
		"eq": func(n int) bool { return n == 0 }, "ne": func(n int) bool { return n != 0 },
		"lt": func(n int) bool { return n < 0 }, "le": func(n int) bool { return n <= 0 },
		"gt": func(n int) bool { return n > 0 }, "ge": func(n int) bool { return n >= 0 },
	}
	for kind, width := range map[string]uint{"s16": 16, "u16": 16, "s32": 32, "u32": 32, "s64": 64, "u64": 64} {
		for relation, holds := range order {
			name := "setp." + relation + "." + kind
			for _, a := range cutTo(words, int(width)) {
				for _, b := range cutTo(words, int(width)) {
					x, y := new(big.Int).SetUint64(a), new(big.Int).SetUint64(b)
					if kind[0] == 's' {
						x.SetInt64(int64(a<<(64-width)) >> (64 - width))
						y.SetInt64(int64(b<<(64-width)) >> (64 - width))
					}
					got := comparisons[name](&lanes{31: a}, &lanes{31: b})>>31 != 0
					if want := holds(x.Cmp(y)); got != want {
						t.Fatalf("%s %#x, %#x: %v", name, a, b, got)
					}
				}
			}
		}
	}
	nan := math.NaN()
	for name, want := range map[string][4]bool{ // of 1 and 2, 2 and 2, 3 and 2, NaN and 2
		"eq": {false, true, false, false}, "lt": {true, false, false, false}, "le": {true, true, false, false},
		"gt": {false, false, true, false}, "ge": {false, true, true, false}, "neu": {true, false, true, true},
		"ltu": {true, false, false, true}, "leu": {true, true, false, true}, "gtu": {false, false, true, true},
		"geu": {false, true, true, true}, "nan": {false, false, false, true},
	} {
		for i, v := range []float64{1, 2, 3, nan} {
			got := comparisons["setp."+name+".f32"](&lanes{bits32(float32(v))}, &lanes{bits32(2)})&1 != 0
			if got != want[i] {
				t.Errorf("setp.%s.f32 %v, 2: %v", name, v, got)
			}
		}
	}
}
