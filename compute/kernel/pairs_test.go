package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/quant"
)

// near16 returns a random float32, often near the least that counts, halfway between two bfloat16, or with few bits.
func near16(r *rand.Rand) float32 {
	v := number(r)
	switch r.IntN(8) {
	case 0:
		return math.Float32frombits(math.Float32bits(v)&0x807fffff | uint32(76+r.IntN(3))<<23)
	case 1:
		return math.Float32frombits(math.Float32bits(v)&0xffff0000 | 0x8000)
	case 2:
		return math.Float32frombits(math.Float32bits(v) & 0xff800000)
	}
	return v
}

// roundedRows returns m rows of random values for a product with an implementation.
func roundedRows(r *rand.Rand, k *Table, m, cols, gap int) (floats, own Rows16) {
	blocks := (cols + 31) / 32
	floats = Rows16{Ld: (blocks + gap) * 32, Cols: cols, Blocks: blocks}
	floats.X = make([]float32, span(m, blocks*32, floats.Ld))
	for i := range m {
		for at := range cols {
			floats.X[i*floats.Ld+at] = quant.BF16ToF32(ToBF16(near16(r)))
		}
	}
	return floats, floats.as(k)
}

// as returns the rows as an implementation takes them.
func (x Rows16) as(k *Table) Rows16 {
	if k.Pairs == PairFloats {
		return x
	}
	x.Half, x.Work = make([]uint16, len(x.X)), make([]float32, PairPanels*k.PairChunk*Lanes)
	for row := 0; row < len(x.X); row += x.Ld {
		for p := range x.Blocks * blockPairs {
			first, second := k.Pairs.inputs(p)
			x.Half[row+2*p], x.Half[row+2*p+1] = quant.F32ToBF16(x.X[row+first]), quant.F32ToBF16(x.X[row+second])
		}
	}
	x.X = nil
	return x
}

// panelsAs returns panels of pairs of neighbours as an implementation takes them.
func panelsAs(k *Table, w []uint32, stride, blocks int) []uint32 {
	own := slices.Clone(w)
	for panel := 0; panel < len(w); panel += stride {
		for p := range blocks * blockPairs {
			first, second := k.Pairs.inputs(p)
			for j := range Lanes {
				input := func(i int) uint32 { return w[panel+i/2*Lanes+j] >> (i % 2 * 16) & 0xffff }
				own[panel+p*Lanes+j] = input(first) | input(second)<<16
			}
		}
	}
	return own
}

// TestMatPairs requires of every implementation the bits of the portable one.
func TestMatPairs(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(5, 16))
		check := func(s matShape) {
			floats, own := roundedRows(r, k, s.m, s.k, s.gap)
			stride := floats.Blocks*blockPairs*Lanes + s.gap*Lanes
			w := make([]uint32, span(s.panels, floats.Blocks*blockPairs*Lanes, stride))
			for i := range w {
				w[i] = uint32(ToBF16(near16(r))) | uint32(ToBF16(near16(r)))<<16
			}
			dst := s.dst(r)
			start := slices.Clone(dst)
			portable.MatPairs(PairProduct{dst[lead:], s.ldd(), floats, w, stride, s.panels, s.m})
			own.X, own.Half = place(f.x, own.X), place(f.s, own.Half)
			got := place(f.dst, start)
			k.MatPairs(PairProduct{got[lead:], s.ldd(), own, place(f.w, panelsAs(k, w, stride, floats.Blocks)), stride, s.panels,
				s.m})
			same(t, fmt.Sprint(s), got, dst)
		}
		for s := range floatShapes {
			check(s)
		}
		for _, m := range []int{18, 31, 32, 33, 48, 49, 97} {
			for _, cols := range []int{1, 33, 300} {
				check(matShape{m: m, k: cols, panels: 1 + (m+cols)%9, gap: m % 3})
			}
		}
		check(matShape{m: 250, k: 1000, panels: 5})
	})
}

func FuzzMatPairs(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte, m, k, panels byte) {
		src := &source{data: data}
		s := matShape{int(m)%40 + 1, int(k) + 1, int(panels)%10 + 1, int(src.byte()) % 4, false}
		fences := newFences(t)
		x := Rows16{Ld: (s.k+31)/32*32 + s.gap, Cols: s.k, Blocks: (s.k + 31) / 32}
		x.X = src.floats(span(s.m, x.Blocks*32, x.Ld))
		round(x.X, x.X)
		w := make([]uint32, s.panels*x.Blocks*blockPairs*Lanes)
		for i, v := range src.floats(2 * len(w)) {
			w[i/2] |= uint32(ToBF16(v)) << (i % 2 * 16)
		}
		want := make([]float32, span(s.m, s.panels*Lanes, s.ldd()))
		portable.MatPairs(PairProduct{want, s.ldd(), x, w, x.Blocks * blockPairs * Lanes, s.panels, s.m})
		for _, k := range nativeKernels() {
			own := x.as(k)
			own.X, own.Half = place(fences.x, own.X), place(fences.s, own.Half)
			got := place(fences.dst, make([]float32, len(want)))
			clear(got)
			stride := x.Blocks * blockPairs * Lanes
			k.MatPairs(PairProduct{got, s.ldd(), own, place(fences.w, panelsAs(k, w, stride, x.Blocks)), stride, s.panels, s.m})
			same(t, fmt.Sprint(k.Name, " ", s), got, want)
		}
	})
}

// TestMatPairsNotFinite requires of every implementation infinities and no numbers where the portable one has them.
func TestMatPairsNotFinite(t *testing.T) {
	const m, cols, panels = 20, 64, 3
	each(t, func(t *testing.T, k *Table, _ *fences) {
		r := rand.New(rand.NewPCG(6, 16))
		floats, _ := roundedRows(r, k, m, cols, 0)
		for i, h := range []uint16{0x7f80, 0xff80, 0x7fc0, 0x7f7f, 0xff7f} { // infinities, none, the largest
			floats.X[i*floats.Ld+7*i] = quant.BF16ToF32(h)
		}
		w := make([]uint32, panels*cols/2*Lanes)
		for i := range w {
			w[i] = uint32(ToBF16(near16(r))) | uint32(ToBF16(near16(r)))<<16
			if i%50 == 0 {
				w[i] = []uint32{0x7f80, 0xff800000, 0x7f7f0000, 0xff7f}[i/50%4]
			}
		}
		want, got := make([]float32, m*panels*Lanes), make([]float32, m*panels*Lanes)
		portable.MatPairs(PairProduct{want, panels * Lanes, floats, w, cols / 2 * Lanes, panels, m})
		k.MatPairs(PairProduct{got, panels * Lanes, floats.as(k), panelsAs(k, w, cols/2*Lanes, cols/32), cols / 2 * Lanes, panels, m})
		same(t, "products", got, want)
	})
}

func TestRound(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(7, 16))
		for n := range rowLengths {
			x := make([]float32, n)
			for i := range x {
				x[i] = near16(r)
				if r.IntN(20) == 0 {
					x[i] = math.Float32frombits(r.Uint32() | 0x7f800000)
				}
			}
			want := make([]float32, n)
			portable.Round(want, x)
			got := place(f.dst, make([]float32, n))
			k.Round(got, place(f.x, x))
			for i, v := range want {
				if math.Float32bits(got[i]) != math.Float32bits(v) {
					t.Fatalf("%g (%#x) becomes %g; portable gives %g", x[i], math.Float32bits(x[i]), got[i], v)
				}
			}
			halves := slices.Repeat([]uint16{1}, (n+31)/32*32)
			want = append(want, make([]float32, len(halves)-n)...)
			halves = place(f.d, halves)
			k.Narrow(halves, place(f.x, x))
			for p := range len(halves) / 2 {
				first, second := k.Pairs.inputs(p)
				for at, i := range []int{first, second} {
					if h := halves[2*p+at]; uint32(h)<<16 != math.Float32bits(want[i]) {
						t.Fatalf("value %d of %d becomes %#x; portable rounds it to %g", i, n, h, want[i])
					}
				}
			}
		}
	})
}

// TestToBF16 is what rounding means, case by case.
func TestToBF16(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct{ x, want float32 }{
		{0, 0}, {float32(math.Copysign(0, -1)), 0}, {1, 1}, {-3, -3}, {inf, inf}, {-inf, -inf}, {math.MaxFloat32, inf},
		{1 + 0x1p-8, 1}, {1 + 0x3p-8, 1 + 0x1p-6}, {1 + 0x1p-8 + 0x1p-20, 1 + 0x1p-7}, {-1 - 0x1p-8 - 0x1p-20,
			-1 - 0x1p-7},
		{0x1p-50, 0x1p-50}, {-0x1p-50, -0x1p-50}, {0x1p-50 - 0x1p-74, 0}, {-0x1p-50 + 0x1p-74, 0}, {0x1p-149, 0},
	} {
		if got := quant.BF16ToF32(ToBF16(c.x)); math.Float32bits(got) != math.Float32bits(c.want) {
			t.Errorf("%g becomes %g; want %g", c.x, got, c.want)
		}
	}
	if h := ToBF16(float32(math.NaN())); h&0x7f80 != 0x7f80 || h&0x7f == 0 {
		t.Errorf("what is no number becomes %#x", h)
	}
}
