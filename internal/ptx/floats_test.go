package ptx

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exact returns a*b+c without rounding; false if that is no number, or a zero, whose sign needs rules.
func exact(a, b, c float64) (*big.Float, bool) {
	for _, v := range []float64{a, b, c} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, false
		}
	}
	wide := func(v float64) *big.Float { return new(big.Float).SetPrec(3000).SetFloat64(v) }
	z := wide(0).Add(wide(0).Mul(wide(a), wide(b)), wide(c))
	return z, z.Sign() != 0
}

// unrounded returns a*b+c for the cases that exact leaves: nothing rounds there.
func unrounded(a, b, c float64) float64 { return a*b + c }

func TestFusedMultiplyAdd(t *testing.T) {
	values := floatWords()
	check(t, "fma.rn.f32", values, func(a, b, c uint64) uint64 {
		x, y, z := float64(f32(a)), float64(f32(b)), float64(f32(c))
		sum, ok := exact(x, y, z)
		if !ok {
			return bits32(float32(unrounded(x, y, z)))
		}
		v, _ := sum.Float32()
		return bits32(v)
	})
	check(t, "fma.rm.f32", values, func(a, b, c uint64) uint64 {
		x, y, z := float64(f32(a)), float64(f32(b)), float64(f32(c))
		sum, ok := exact(x, y, z)
		if !ok {
			return bits32(float32(unrounded(x, y, z)))
		}
		v, _ := sum.Float32()
		if new(big.Float).SetFloat64(float64(v)).Cmp(sum) > 0 {
			v = math.Nextafter32(v, float32(math.Inf(-1)))
		}
		return bits32(v)
	})
	check(t, "add.rz.f32", values, func(a, b, _ uint64) uint64 {
		x, y := float64(f32(a)), float64(f32(b))
		sum, ok := exact(x, 1, y)
		if !ok {
			return bits32(float32(unrounded(x, 1, y)))
		}
		v, _ := sum.Float32()
		if new(big.Float).SetFloat64(math.Abs(float64(v))).Cmp(new(big.Float).Abs(sum)) > 0 {
			v = math.Nextafter32(v, 0)
		}
		return bits32(v)
	})
}

func TestRounded(t *testing.T) {
	for name, f := range map[string]func(a, b float32) float32{
		"add.rn.f32": func(a, b float32) float32 { return a + b },
		"add.f32":    func(a, b float32) float32 { return a + b },
		"sub.rn.f32": func(a, b float32) float32 { return a - b },
		"mul.rn.f32": func(a, b float32) float32 { return a * b },
		"div.rn.f32": func(a, b float32) float32 { return a / b },
	} {
		check(t, name, floatWords(), func(a, b, _ uint64) uint64 {
			v := f(f32(a), f32(b))
			if v != v {
				return 0x7fffffff
			}
			return uint64(math.Float32bits(v))
		})
	}
	check(t, "rcp.rn.f32", floatWords(), func(a, _, _ uint64) uint64 { return bits32(1 / f32(a)) })
	check(t, "abs.f32", floatWords(), func(a, _, _ uint64) uint64 { return a & 0x7fffffff })
	check(t, "neg.f32", floatWords(), func(a, _, _ uint64) uint64 { return a ^ 0x80000000 })
	check(t, "copysign.f32", floatWords(), func(a, b, _ uint64) uint64 { return a&0x80000000 | b&0x7fffffff })
}

// The result of min and max is the number if there is just one, and -0 is less than 0.
func TestLeastAndGreatest(t *testing.T) {
	for name, f := range map[string]func(a, b float64) float64{"min.f32": math.Min, "max.f32": math.Max} {
		check(t, name, floatWords(), func(a, b, _ uint64) uint64 {
			x, y := f32(a), f32(b)
			switch {
			case x != x:
				return bits32(y)
			case y != y:
				return bits32(x)
			}
			return bits32(float32(f(float64(x), float64(y))))
		})
	}
}

// Approximations are within a unit in the last place, and without subnormal numbers where .ftz says so.
func TestApproximations(t *testing.T) {
	near := func(name string, f func(v float64) float64) {
		t.Helper()
		op := operations[name]
		for _, v := range floatWords() {
			d, a := lanes{}, lanes{v}
			op.compute(&d, &a, &a, &a)
			want := f(float64(flush(f32(v))))
			got := float64(f32(d[0]))
			switch {
			case math.IsNaN(want) && math.IsNaN(got) || float64(float32(want)) == got:
			case math.Abs(want) < 0x1p-126 && got == 0:
			case math.Abs(got-want) > math.Abs(want)*0x1p-23:
				t.Errorf("%s %v: %v, want %v", name, f32(v), got, want)
			}
		}
	}
	near("ex2.approx.ftz.f32", math.Exp2)
	near("rcp.approx.ftz.f32", func(v float64) float64 { return 1 / v })
	d := lanes{}
	operations["rsqrt.approx.f32"].compute(&d, &lanes{bits32(4), bits32(0), bits32(-1), bits32(2)}, nil, nil)
	if want := (lanes{bits32(0.5), bits32(float32(math.Inf(1))), nan32, bits32(float32(math.Sqrt(0.5)))}); d[0] != want[0] ||
		d[1] != want[1] || d[2] != want[2] || d[3] != want[3] {
		t.Errorf("rsqrt of 4, 0, -1, 2: %#x", d[:4])
	}
	operations["rcp.approx.ftz.f64"].compute(&d, &lanes{bits64(3), bits64(0x1p-1030), bits64(math.Inf(-1))}, nil, nil)
	if v := f64(d[0]); math.Abs(v-1./3) > 0x1p-20 || d[0]&(1<<32-1) != 0 || !math.IsInf(f64(d[1]), 1) || d[2] != 1<<63 {
		t.Errorf("rcp of 3, 2^-1030 and -Inf: %v, %v, %v", v, f64(d[1]), f64(d[2]))
	}
}

func TestConversions(t *testing.T) {
	one := func(name string, a uint64) uint64 {
		d := lanes{}
		operations[name].compute(&d, &lanes{a}, &lanes{}, &lanes{})
		return d[0]
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, o := range []struct {
		name string
		a    float32
		want uint64
	}{
		{"cvt.rni.f32.f32", 2.5, bits32(2)}, {"cvt.rni.f32.f32", 3.5, bits32(4)}, {"cvt.rni.f32.f32", -0.5, 1 << 31},
		{"cvt.rni.s32.f32", 2.5, 2}, {"cvt.rni.s32.f32", -1.5, 0xfffffffe}, {"cvt.rni.s32.f32", nan, 0},
		{"cvt.rzi.s32.f32", -1.9, 0xffffffff}, {"cvt.rzi.s32.f32", 3e9, 0x7fffffff}, {"cvt.rzi.s32.f32", -3e9, 0x80000000},
		{"cvt.rzi.s32.f32", inf, 0x7fffffff}, {"cvt.rzi.s32.f32", nan, 0},
		{"cvt.rzi.u64.f32", 1.9, 1}, {"cvt.rzi.u64.f32", -1, 0}, {"cvt.rzi.u64.f32", 0x1p63, 1 << 63},
		{"cvt.rzi.u64.f32", 0x1p64, math.MaxUint64}, {"cvt.rzi.u64.f32", inf, math.MaxUint64}, {"cvt.rzi.u64.f32", nan, 0},
		{"cvt.sat.f32.f32", -1, 0}, {"cvt.sat.f32.f32", 0.25, bits32(0.25)}, {"cvt.sat.f32.f32", inf, bits32(1)},
		{"cvt.sat.f32.f32", nan, 0}, {"cvt.sat.f32.f32", float32(math.Copysign(0, -1)), 0},
		{"cvt.f64.f32", 1.5, math.Float64bits(1.5)}, {"cvt.f64.f32", nan, nan64},
	} {
		if got := one(o.name, uint64(math.Float32bits(o.a))); got != o.want {
			t.Errorf("%s %v: %#x, want %#x", o.name, o.a, got, o.want)
		}
	}
	for _, o := range []struct {
		name    string
		a, want uint64
	}{
		{"cvt.rn.f32.s16", 0xffff, bits32(-1)}, {"cvt.rn.f32.u16", 0xffff, bits32(65535)},
		{"cvt.rn.f32.s32", 0x80000000, bits32(-0x1p31)}, {"cvt.rn.f32.u32", 0xffffffff, bits32(0x1p32)},
		{"cvt.rn.f32.u32", 1<<24 + 1, bits32(1 << 24)}, {"cvt.rn.f32.u32", 1<<24 + 3, bits32(1<<24 + 4)},
		{"cvt.rn.f64.s64", math.MaxUint64, bits64(-1)}, {"cvt.rn.f64.u64", math.MaxUint64, bits64(0x1p64)},
		{"cvt.rn.f32.f64", bits64(1 + 0x1p-24), bits32(1)}, {"cvt.rn.f32.f64", bits64(1 + 0x1.8p-24), bits32(1 + 0x1p-23)},
		{"cvt.rzi.u64.f64", bits64(1e30), math.MaxUint64}, {"cvt.rzi.u64.f64", bits64(-5), 0},
		{"cvt.rzi.u64.f64", bits64(12345678901234.9), 12345678901234},
		{"cvt.s64.s32", 0x80000000, 0xffffffff80000000}, {"cvt.u64.u32", 0x80000000, 0x80000000},
		{"cvt.u32.u64", 0x123456789, 0x23456789}, {"cvt.u16.u32", 0x12345, 0x2345}, {"cvt.u16.u64", 1<<40 + 7, 7},
		{"cvt.u32.u16", 0xffff, 0xffff}, {"cvt.u64.u16", 0xffff, 0xffff},
	} {
		if got := one(o.name, o.a); got != o.want {
			t.Errorf("%s %#x: %#x, want %#x", o.name, o.a, got, o.want)
		}
	}
}

func TestDoubles(t *testing.T) {
	d := lanes{}
	a, b, c := lanes{bits64(1 + 0x1p-30)}, lanes{bits64(1 - 0x1p-30)}, lanes{bits64(-1)}
	for name, want := range map[string]float64{
		"add.rn.f64": 2, "sub.rn.f64": 0x1p-29, "mul.rn.f64": 1, "fma.rn.f64": -0x1p-60, "neg.f64": -1 - 0x1p-30,
	} {
		operations[name].compute(&d, &a, &b, &c)
		if got := f64(d[0]); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// nearest returns which encoding of 16 bits is nearest to a number that is not 0: of two, the even one. The one after
// the last number is infinity, as if the numbers went on.
func nearest(v *big.Float, last uint64, decode func(uint64) float32) uint64 {
	var sign uint64
	if v.Sign() < 0 {
		sign = 1 << 15
	}
	value := func(n uint64) *big.Float {
		f := float64(decode(n))
		if n > last {
			f = 2*float64(decode(last)) - float64(decode(last-1))
		}
		return new(big.Float).SetPrec(3000).SetFloat64(f)
	}
	v = new(big.Float).Abs(v)
	low, high := uint64(0), last+1
	for high-low > 1 {
		if m := (low + high) / 2; value(m).Cmp(v) <= 0 {
			low = m
		} else {
			high = m
		}
	}
	distance := func(n uint64) *big.Float { d := value(n); return d.Abs(d.Sub(d, v)) }
	if c := distance(high).Cmp(distance(low)); c < 0 || c == 0 && high&1 == 0 {
		return high | sign
	}
	return low | sign
}

// Every encoding survives going to float32 and back, and numbers go to the nearest one.
func TestSmallFloats(t *testing.T) {
	for _, o := range []struct {
		name   string
		last   uint64 // the greatest number
		sign   uint64
		decode func(uint64) float32
		encode func(float32) uint64
		over   uint64 // what greater numbers become
	}{
		{"bfloat16", 0x7f7f, 0x8000, bf16, toBF16, 0x7f80},
		{"float16", 0x7bff, 0x8000, f16, toF16, 0x7c00},
		{"e4m3", 0x7e, 0x80, e4m3, toE4M3, 0x7e},
	} {
		for n := range o.last + 1 {
			for _, sign := range []uint64{0, o.sign} {
				if got := o.encode(o.decode(n | sign)); got != n|sign {
					t.Fatalf("%s %#x comes back as %#x", o.name, n|sign, got)
				}
			}
			if n == o.last {
				break
			}
			a, b := o.decode(n), o.decode(n+1)
			if !(a < b) {
				t.Fatalf("%s %#x is %v, and the next one %v", o.name, n, a, b)
			}
			middle := float32((float64(a) + float64(b)) / 2)
			for _, v := range []float32{math.Nextafter32(middle, 0), middle, math.Nextafter32(middle, 1e38)} {
				want := n
				if v > middle || v == middle && n&1 != 0 {
					want = n + 1
				}
				if got := o.encode(-v); got != want|o.sign {
					t.Fatalf("%s of %v: %#x, want %#x", o.name, -v, got, want|o.sign)
				}
			}
		}
		if got := o.encode(float32(math.Inf(-1))); got != o.over|o.sign {
			t.Errorf("%s of -Inf: %#x", o.name, got)
		}
		if v := o.decode(o.encode(float32(math.NaN()))); v == v {
			t.Errorf("%s of NaN: %v", o.name, v)
		}
	}
}

// Both halves of a pair round once.
func TestPairs(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	small := func(bf bool) uint64 {
		n := uint64(random.Uint32N(1 << 16))
		if bf && random.IntN(4) > 0 {
			n = n&0x80ff | 0x3f80&^uint64(random.Uint32N(4)<<7) // near each other
		}
		return n
	}
	for name, o := range map[string]struct {
		bf bool
		f  func(a, b, c float64) (float64, float64, float64)
	}{
		"fma.rn.bf16x2": {true, func(a, b, c float64) (float64, float64, float64) { return a, b, c }},
		"add.rn.f16x2":  {false, func(a, b, _ float64) (float64, float64, float64) { return a, 1, b }},
		"mul.rn.f16x2":  {false, func(a, b, _ float64) (float64, float64, float64) { return a, b, 0 }},
	} {
		decode, last := f16, uint64(0x7bff)
		if o.bf {
			decode, last = bf16, 0x7f7f
		}
		for range 5000 {
			var in [3][2]uint64
			var registers [3]lanes
			for i := range in {
				in[i] = [2]uint64{small(o.bf), small(o.bf)}
				registers[i][7] = in[i][0] | in[i][1]<<16
			}
			d := lanes{}
			operations[name].compute(&d, &registers[0], &registers[1], &registers[2])
			for half := range 2 {
				sum, ok := exact(o.f(float64(decode(in[0][half])), float64(decode(in[1][half])), float64(decode(in[2][half]))))
				if !ok {
					continue
				}
				got := d[7] >> (16 * half) & 0xffff
				if want := nearest(sum, last, decode); got != want {
					t.Fatalf("%s %#x, %#x, %#x: %#x, want %#x", name, in[0][half], in[1][half], in[2][half], got, want)
				}
			}
		}
	}
	for name, want := range map[string]uint64{
		"min.NaN.f16x2": 0x8000<<16 | nan16, "max.NaN.f16x2": 0x0000<<16 | nan16, // of (0, 1) and (-0, NaN)
	} {
		d := lanes{}
		operations[name].compute(&d, &lanes{0x0000<<16 | 0x3c00}, &lanes{0x8000<<16 | 0x7e00}, nil)
		if d[0] != want {
			t.Errorf("%s: %#x, want %#x", name, d[0], want)
		}
	}
	d := lanes{}
	a, b := lanes{bits32(1)}, lanes{bits32(-2)}
	for name, want := range map[string]uint64{
		"cvt.rn.bf16x2.f32": 0x3f80c000, "cvt.rn.f16x2.f32": 0x3c00c000, "cvt.rn.satfinite.e4m3x2.f32": 0x38c0,
	} {
		if operations[name].compute(&d, &a, &b, nil); d[0] != want {
			t.Errorf("%s 1, -2: %#x, want %#x", name, d[0], want)
		}
	}
	if operations["cvt.rn.f16x2.e4m3x2"].compute(&d, &lanes{0x38c0}, nil, nil); d[0] != 0x3c00c000 {
		t.Errorf("cvt.rn.f16x2.e4m3x2 of 1, -2: %#x", d[0])
	}
	if operations["cvt.f32.f16"].compute(&d, &lanes{0x7e01, 0xfc00, 0x0001}, nil, nil); d[0] != nan32 || d[1] != 0xff800000 ||
		f32(d[2]) != 0x1p-24 {
		t.Errorf("cvt.f32.f16 of NaN, -Inf, 2^-24: %#x", d[:3])
	}
}
