package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
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
func roundedRows(r *rand.Rand, k *kernels, m, cols, gap int) (floats, own rows16) {
	blocks := (cols + 31) / 32
	floats = rows16{ld: (blocks + gap) * 32, cols: cols, blocks: blocks}
	floats.x = make([]float32, span(m, blocks*32, floats.ld))
	for i := range m {
		for at := range cols {
			floats.x[i*floats.ld+at] = quant.BF16ToF32(toBF16(near16(r)))
		}
	}
	return floats, floats.as(k)
}

// as returns the rows as an implementation takes them.
func (x rows16) as(k *kernels) rows16 {
	if k.pairs == pairFloats {
		return x
	}
	x.half, x.work = make([]uint16, len(x.x)), make([]float32, pairPanels*k.pairChunk*lanes)
	for row := 0; row < len(x.x); row += x.ld {
		for p := range x.blocks * blockPairs {
			first, second := k.pairs.inputs(p)
			x.half[row+2*p], x.half[row+2*p+1] = quant.F32ToBF16(x.x[row+first]), quant.F32ToBF16(x.x[row+second])
		}
	}
	x.x = nil
	return x
}

// panelsAs returns panels of pairs of neighbours as an implementation takes them.
func panelsAs(k *kernels, w []uint32, stride, blocks int) []uint32 {
	own := slices.Clone(w)
	for panel := 0; panel < len(w); panel += stride {
		for p := range blocks * blockPairs {
			first, second := k.pairs.inputs(p)
			for j := range lanes {
				input := func(i int) uint32 { return w[panel+i/2*lanes+j] >> (i % 2 * 16) & 0xffff }
				own[panel+p*lanes+j] = input(first) | input(second)<<16
			}
		}
	}
	return own
}

// TestMatPairs requires of every implementation the bits of the portable one.
func TestMatPairs(t *testing.T) {
	each(t, func(t *testing.T, k *kernels, f *fences) {
		r := rand.New(rand.NewPCG(5, 16))
		check := func(s matShape) {
			floats, own := roundedRows(r, k, s.m, s.k, s.gap)
			stride := floats.blocks*blockPairs*lanes + s.gap*lanes
			w := make([]uint32, span(s.panels, floats.blocks*blockPairs*lanes, stride))
			for i := range w {
				w[i] = uint32(toBF16(near16(r))) | uint32(toBF16(near16(r)))<<16
			}
			dst := s.dst(r)
			start := slices.Clone(dst)
			portable.matPairs(dst[lead:], s.ldd(), floats, w, stride, s.panels, s.m)
			own.x, own.half = place(f.x, own.x), place(f.s, own.half)
			got := place(f.dst, start)
			k.matPairs(got[lead:], s.ldd(), own, place(f.w, panelsAs(k, w, stride, floats.blocks)), stride, s.panels, s.m)
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
		x := rows16{ld: (s.k+31)/32*32 + s.gap, cols: s.k, blocks: (s.k + 31) / 32}
		x.x = src.floats(span(s.m, x.blocks*32, x.ld))
		round(x.x, x.x)
		w := make([]uint32, s.panels*x.blocks*blockPairs*lanes)
		for i, v := range src.floats(2 * len(w)) {
			w[i/2] |= uint32(toBF16(v)) << (i % 2 * 16)
		}
		want := make([]float32, span(s.m, s.panels*lanes, s.ldd()))
		portable.matPairs(want, s.ldd(), x, w, x.blocks*blockPairs*lanes, s.panels, s.m)
		for _, k := range nativeKernels() {
			own := x.as(k)
			own.x, own.half = place(fences.x, own.x), place(fences.s, own.half)
			got := place(fences.dst, make([]float32, len(want)))
			clear(got)
			stride := x.blocks * blockPairs * lanes
			k.matPairs(got, s.ldd(), own, place(fences.w, panelsAs(k, w, stride, x.blocks)), stride, s.panels, s.m)
			same(t, fmt.Sprint(k.name, " ", s), got, want)
		}
	})
}

// TestMatPairsNotFinite requires of every implementation infinities and no numbers where the portable one has them.
func TestMatPairsNotFinite(t *testing.T) {
	const m, cols, panels = 20, 64, 3
	each(t, func(t *testing.T, k *kernels, _ *fences) {
		r := rand.New(rand.NewPCG(6, 16))
		floats, _ := roundedRows(r, k, m, cols, 0)
		for i, h := range []uint16{0x7f80, 0xff80, 0x7fc0, 0x7f7f, 0xff7f} { // infinities, none, the largest
			floats.x[i*floats.ld+7*i] = quant.BF16ToF32(h)
		}
		w := make([]uint32, panels*cols/2*lanes)
		for i := range w {
			w[i] = uint32(toBF16(near16(r))) | uint32(toBF16(near16(r)))<<16
			if i%50 == 0 {
				w[i] = []uint32{0x7f80, 0xff800000, 0x7f7f0000, 0xff7f}[i/50%4]
			}
		}
		want, got := make([]float32, m*panels*lanes), make([]float32, m*panels*lanes)
		portable.matPairs(want, panels*lanes, floats, w, cols/2*lanes, panels, m)
		k.matPairs(got, panels*lanes, floats.as(k), panelsAs(k, w, cols/2*lanes, cols/32), cols/2*lanes, panels, m)
		same(t, "products", got, want)
	})
}

func TestRound(t *testing.T) {
	each(t, func(t *testing.T, k *kernels, f *fences) {
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
			portable.round(want, x)
			got := place(f.dst, make([]float32, n))
			k.round(got, place(f.x, x))
			for i, v := range want {
				if math.Float32bits(got[i]) != math.Float32bits(v) {
					t.Fatalf("%g (%#x) becomes %g; portable gives %g", x[i], math.Float32bits(x[i]), got[i], v)
				}
			}
			halves := slices.Repeat([]uint16{1}, (n+31)/32*32)
			want = append(want, make([]float32, len(halves)-n)...)
			halves = place(f.d, halves)
			k.narrow(halves, place(f.x, x))
			for p := range len(halves) / 2 {
				first, second := k.pairs.inputs(p)
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
		{1 + 0x1p-8, 1}, {1 + 0x3p-8, 1 + 0x1p-6}, {1 + 0x1p-8 + 0x1p-20, 1 + 0x1p-7}, {-1 - 0x1p-8 - 0x1p-20, -1 - 0x1p-7},
		{0x1p-50, 0x1p-50}, {-0x1p-50, -0x1p-50}, {0x1p-50 - 0x1p-74, 0}, {-0x1p-50 + 0x1p-74, 0}, {0x1p-149, 0},
	} {
		if got := quant.BF16ToF32(toBF16(c.x)); math.Float32bits(got) != math.Float32bits(c.want) {
			t.Errorf("%g becomes %g; want %g", c.x, got, c.want)
		}
	}
	if h := toBF16(float32(math.NaN())); h&0x7f80 != 0x7f80 || h&0x7f == 0 {
		t.Errorf("what is no number becomes %#x", h)
	}
}

// TestPairProduct holds a device's products with weights of 16 bits to their definition, written out: inputs rounded, two chains
// for each 32 of them, blocks added in order. Widths are odd, as inputs and as outputs.
func TestPairProduct(t *testing.T) {
	for _, k := range implementations() {
		d, err := New(Options{Threads: 2, Kernels: k.name})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(8, 16))
		for _, c := range []struct {
			typ           quant.Type
			rows, in, out int
		}{{quant.BF16, 1, 33, 17}, {quant.F16, 3, 100, 40}, {quant.BF16, 37, 71, 150}, {quant.F16, 70, 64, 33}, {quant.BF16, 2, 1030, 20}, {quant.F16, 1, 513, 17}} {
			data := make([]byte, 2*c.in*c.out)
			for i := 0; i < len(data); i += 2 {
				v := near16(r)
				h := quant.F32ToBF16(v)
				if c.typ == quant.F16 {
					h = half(r)
				}
				binary.LittleEndian.PutUint16(data[i:], h)
			}
			w, err := d.Matrix(compute.Source{Name: "w", Type: c.typ, Out: c.out, In: c.in, Data: data})
			if err != nil {
				t.Fatal(err)
			}
			weights := make([]float32, c.in*c.out)
			if err := quant.Decode(weights, data, c.typ); err != nil {
				t.Fatal(err)
			}
			for i, v := range weights {
				weights[i] = quant.BF16ToF32(toBF16(v))
			}
			x := compute.Tensor{Rows: c.rows, Cols: c.in, Host: make([]float32, c.rows*c.in)}
			for i := range x.Host {
				x.Host[i] = near16(r)
			}
			dst := compute.Tensor{Rows: c.rows, Cols: c.out, Host: make([]float32, c.rows*c.out)}
			b := new(compute.Batch)
			b.Append(make([]int32, c.rows), 0, false, make([]int32, c.rows))
			d.Begin(b)
			d.MatMul(x, []compute.Product{{Dst: dst, W: w}})
			if err := d.Sync(); err != nil {
				t.Fatal(err)
			}
			want := make([]float32, len(dst.Host))
			for i := range want {
				want[i] = pairProduct(rowOf(x, i/c.out), weights[i%c.out*c.in:][:c.in])
			}
			same(t, fmt.Sprint(k.name, c), dst.Host, want)
			row := make([]float32, c.in)
			for n := range c.out {
				w.(*matrix).row(row, n)
				same(t, fmt.Sprint(k.name, c, " row ", n), row, weights[n*c.in:][:c.in])
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// pairProduct is the definition for one output.
func pairProduct(x, w []float32) (acc float32) {
	for b := 0; b < len(x); b += 32 {
		var sums [2]float32
		for k := b; k < min(b+32, len(x)); k++ {
			sums[k%2] = fma(quant.BF16ToF32(toBF16(x[k])), w[k], sums[k%2])
		}
		acc += sums[0] + sums[1]
	}
	return acc
}
