package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/kvasir-llm/kvasir/quant"
)

// fence is memory whose end is guarded.
type fence struct{ mem []byte }

// fences holds one fence for each argument of a kernel.
type fences struct{ dst, x, w, d, s *fence }

func newFences(t testing.TB) *fences {
	f := func() *fence { return newFence(t, 1<<20) }
	return &fences{f(), f(), f(), f(), f()}
}

// guard stands in every value of an output that a kernel must not write: between its rows, and in the lead values
// before it.
const guard, lead = -12345.5, Lanes

// number returns a random float32: mostly ordinary, sometimes a zero of either sign, subnormal, tiny or large.
func number(r *rand.Rand) float32 {
	v := float32(r.NormFloat64())
	switch r.IntN(24) {
	case 0:
		return 0
	case 1:
		return float32(math.Copysign(0, -1))
	case 2:
		return math.Float32frombits(r.Uint32() & 0x807fffff)
	case 3:
		return v * 1e-30
	case 4:
		return v * 1e16
	}
	return v
}

func numbers(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = number(r)
	}
	return v
}

// half returns the bits of a random finite float16, half16s those of n.
func half(r *rand.Rand) uint16 {
	for {
		if h := uint16(r.Uint32()); h&0x7c00 != 0x7c00 {
			return h
		}
	}
}

func half16s(r *rand.Rand, n int, one func(*rand.Rand) uint16) []uint16 {
	v := make([]uint16, n)
	for i := range v {
		v[i] = one(r)
	}
	return v
}

// matShape is a product of m rows of k values with panels panels. The leading dimensions exceed what is needed by gap.
type matShape struct {
	m, k, panels, gap int
	accumulate        bool
}

func (s matShape) ldd() int    { return s.panels*Lanes + s.gap }
func (s matShape) ldx() int    { return s.k + s.gap }
func (s matShape) stride() int { return s.k*Lanes + s.gap*Lanes }

// span returns the length of rows rows of n values that are ld apart.
func span(rows, n, ld int) int { return (rows-1)*ld + n }

// dst returns an output of the shape after its lead: random values where results go and guards between them.
func (s matShape) dst(r *rand.Rand) []float32 {
	dst := make([]float32, lead+span(s.m, s.panels*Lanes, s.ldd()))
	for i := range dst {
		if dst[i] = guard; i >= lead && (i-lead)%s.ldd() < s.panels*Lanes {
			dst[i] = number(r)
		}
	}
	return dst
}

// floatShapes are m 1 to 17 and panels 1 to 9, each with a few k.
func floatShapes(yield func(matShape) bool) {
	ks := []int{0, 1, 2, 15, 16, 17, 31, 64, 100, 255}
	n := 0
	for m := 1; m <= 17; m++ {
		for panels := 1; panels <= 9; panels++ {
			for range 3 {
				if !yield(matShape{m, ks[n%len(ks)], panels, n % 3 * 5, n%2 == 0}) {
					return
				}
				n++
			}
		}
	}
	for _, s := range []matShape{{33, 1100, 3, 0, true}, {9, 513, 2, 7, false}, {64, 64, 8, 0, false},
		{1, 2048, 8, 0, false}} {
		if !yield(s) {
			return
		}
	}
}

// bytesOf returns the bytes of v.
func bytesOf(v []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*4)
}

// minusInf is the score of what is masked.
var minusInf = float32(math.Inf(-1))

// same compares floats by their bits; two NaN are the same.
func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
			t.Fatalf("%s: value %d is %g (%#x), portable gives %g (%#x)", what, i, got[i], math.Float32bits(got[i]),
				want[i], math.Float32bits(want[i]))
		}
	}
}

// each runs check as a subtest for every native implementation of this machine, and fails if one that the processor
// could run is missing.
func each(t *testing.T, check func(t *testing.T, k *Table, f *fences)) {
	var tested []string
	for _, k := range nativeKernels() {
		t.Run(k.Name, func(t *testing.T) { check(t, k, newFences(t)) })
		tested = append(tested, k.Name)
	}
	if want := wantKernels(); !slices.Equal(tested, want) {
		t.Errorf("tested %v; this build on this processor has %v", tested, want)
	}
}

func TestMatF32(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(1, 1))
		for s := range floatShapes {
			dst, x, w := s.dst(r), numbers(r, max(0, span(s.m, s.k, s.ldx()))), numbers(r,
				span(s.panels, s.k*Lanes, s.stride()))
			got := place(f.dst, dst)
			k.MatF32(Product[float32]{got[lead:], s.ldd(), place(f.x, x), s.ldx(), place(f.w, w), s.stride(),
				s.panels, s.m, s.k, s.accumulate})
			portable.MatF32(Product[float32]{dst[lead:], s.ldd(), x, s.ldx(), w, s.stride(), s.panels, s.m, s.k,
				s.accumulate})
			same(t, fmt.Sprint(s), got, dst)
		}
	})
}

func TestMat16(t *testing.T) {
	bfloat := func(r *rand.Rand) uint16 { return quant.F32ToBF16(number(r)) }
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(2, 2))
		for s := range floatShapes {
			x, n := numbers(r, span(s.m, s.k, s.ldx())), span(s.panels, s.k*Lanes, s.stride())
			dst, w := s.dst(r), half16s(r, n, half)
			got := place(f.dst, dst)
			k.MatF16(Product[uint16]{got[lead:], s.ldd(), place(f.x, x), s.ldx(), place(f.w, w), s.stride(),
				s.panels, s.m, s.k, s.accumulate})
			portable.MatF16(Product[uint16]{dst[lead:], s.ldd(), x, s.ldx(), w, s.stride(), s.panels, s.m, s.k,
				s.accumulate})
			same(t, "F16 "+fmt.Sprint(s), got, dst)

			dst, w = s.dst(r), half16s(r, n, bfloat)
			got = place(f.dst, dst)
			k.MatBF16(Product[uint16]{got[lead:], s.ldd(), place(f.x, x), s.ldx(), place(f.w, w), s.stride(),
				s.panels, s.m, s.k, s.accumulate})
			portable.MatBF16(Product[uint16]{dst[lead:], s.ldd(), x, s.ldx(), w, s.stride(), s.panels, s.m, s.k,
				s.accumulate})
			same(t, "BF16 "+fmt.Sprint(s), got, dst)
		}
	})
}

// quantRows returns m random quantised rows. Their values take all that Rows8 allows.
func quantRows(r *rand.Rand, m, blocks, gap int) Rows8 {
	x := emptyRows(m, blocks, gap)
	for i := range x.Q {
		x.Q[i] = int8(r.IntN(255) - 127)
	}
	for i := range m {
		row := x.Q[i*x.Ld:][:blocks*32]
		for s := range x.Spans() {
			sums := &x.Sums[i*x.LdSums+s]
			sums.D = number(r)
			for g := range sums.Shares {
				sums.Shares[g] = 1 + r.Int32N(greatestShare)
			}
			sums.sumUp(row[s*SpanValues : min((s+1)*SpanValues, len(row))])
		}
	}
	x.spread(m)
	return x
}

// emptyRows returns memory for m quantised rows.
func emptyRows(m, blocks, gap int) Rows8 {
	x := Rows8{Ld: blocks*32 + gap*32, Blocks: blocks}
	x.LdSums = x.Spans() + gap
	x.Q, x.Sums = make([]int8, span(m, blocks*32, x.Ld)), make([]SpanSums, span(m, x.Spans(), x.LdSums))
	return x
}

// spread gives the first m rows tiles, for kernels that want them.
func (x *Rows8) spread(m int) {
	n := 0
	n, x.RowTiles = x.TileBytes(m)
	x.Tiles, x.work = AlignedTo(n, 64), AlignedTo(WorkBytes, 64)
	for _, k := range nativeKernels() {
		for i := 0; i < m && k.Spread != nil; i++ {
			k.Spread(x, i)
		}
	}
}

// TestShortArguments requires that a kernel panics, as Go code would, where an argument is too short by one.
func TestShortArguments(t *testing.T) {
	f := func(n int) []float32 { return make([]float32, n, n+64) }
	h := func(n int) []uint16 { return make([]uint16, n, n+64) }
	b := func(n int) []byte { return make([]byte, n, n+64) }
	q := func(q, s int) Rows8 {
		return Rows8{Q: make([]int8, q, q+64), Sums: make([]SpanSums, s, s+64), Ld: 32, Blocks: 1, LdSums: 1}
	}
	w5 := 2 * affinePanels[quant.Q5_1].bytes(1)
	each(t, func(t *testing.T, k *Table, _ *fences) {
		pairs := func(n int) Rows16 {
			x := Rows16{Ld: 32, Blocks: 1}
			if k.Pairs != PairFloats {
				x.Half = make([]uint16, n, n+64)
			} else {
				x.X = f(n)
			}
			return x
		}
		// Two rows of 5 and two panels, next to each other; then rows of 32.
		for i, call := range []func(){
			func() { k.MatF32(Product[float32]{f(63), 32, f(10), 5, f(160), 80, 2, 2, 5, true}) },
			func() { k.MatF32(Product[float32]{f(64), 32, f(9), 5, f(160), 80, 2, 2, 5, true}) },
			func() { k.MatF32(Product[float32]{f(64), 32, f(10), 5, f(159), 80, 2, 2, 5, true}) },
			func() { k.MatF16(Product[uint16]{f(63), 32, f(10), 5, h(160), 80, 2, 2, 5, false}) },
			func() { k.MatF16(Product[uint16]{f(64), 32, f(9), 5, h(160), 80, 2, 2, 5, false}) },
			func() { k.MatBF16(Product[uint16]{f(64), 32, f(10), 5, h(159), 80, 2, 2, 5, false}) },
			func() { k.MatPairs(PairProduct{f(63), 32, pairs(64), make([]uint32, 512), 256, 2, 2}) },
			func() { k.MatPairs(PairProduct{f(64), 32, pairs(63), make([]uint32, 512), 256, 2, 2}) },
			func() { k.MatPairs(PairProduct{f(64), 32, pairs(64), make([]uint32, 511, 600), 256, 2, 2}) },
			func() { k.Round(f(31), f(32)) },
			func() { k.Narrow(make([]uint16, 31, 64), f(32)) },
			func() { k.MatAffine(AffineProduct{quant.Q5_1, f(63), 32, q(64, 2), b(w5), w5 / 2, 2, 2}) },
			func() { k.MatAffine(AffineProduct{quant.Q5_1, f(64), 32, q(63, 2), b(w5), w5 / 2, 2, 2}) },
			func() { k.MatAffine(AffineProduct{quant.Q5_1, f(64), 32, q(64, 1), b(w5), w5 / 2, 2, 2}) },
			func() { k.MatAffine(AffineProduct{quant.Q5_1, f(64), 32, q(64, 2), b(w5 - 1), w5 / 2, 2, 2}) },
			func() { k.Quantize(make([]int8, 31, 64), make([]SpanSums, 1), f(32), 32) },
			func() { k.Quantize(make([]int8, 287, 512), make([]SpanSums, 2), f(288), 256) },
			func() { k.ScaleGain(f(31), f(32), f(32), 0, 1) },
			func() { k.ScaleGain(f(32), f(32), f(31), 0, 1) },
			func() { k.Silu(f(31), f(32), f(32)) },
			func() { k.Silu(f(32), f(32), f(31)) },
			func() { k.AddScaled(f(31), f(32), 1) },
			func() { k.Blend(f(31), f(32), 16, f(2), f(2), f(2)) },
			func() { k.Blend(f(32), f(31), 16, f(2), f(2), f(2)) },
			func() { k.Blend(f(32), f(32), 16, f(2), f(1), f(2)) },
			func() { k.Scale(f(31), f(32), 1) },
			func() { k.Weigh(f(2), f(2), f(47), 32, 16) },
			func() { k.Weigh(f(2), f(1), f(48), 32, 16) },
			func() { k.Shares(f(15), f(16), f(16), f(16), f(16), f(16)) },
			func() { k.Shares(f(16), f(16), f(16), f(16), f(16), f(15)) },
			func() { k.Widen(quant.F16, f(511), 256, b(1024), 2, true) },
			func() { k.Widen(quant.Q8_0, f(512), 256, b(543), 2, false) },
			func() { k.Transpose(f(511), 256, f(512), 2) },
			func() { k.Transpose(f(512), 256, f(511), 2) },
			func() { k.Rotate(f(32), f(31), f(32), f(32)) },
			func() { k.Rotate(f(32), f(32), f(31), f(32)) },
			func() { k.Rotate(f(32), f(32), f(32), f(31)) },
			func() { k.RotateInterleaved(f(63), f(32), f(32)) },
			func() { k.RotateInterleaved(f(64), f(32), f(31)) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("call %d does not panic", i)
					}
				}()
				call()
			}()
		}
	})
}
