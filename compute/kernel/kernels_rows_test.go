package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/quant"
)

// rowLengths cover every tail of a group of 16, and a long row.
func rowLengths(yield func(int) bool) {
	for n := range 67 {
		if !yield(n) {
			return
		}
	}
	for _, n := range []int{127, 128, 129, 1000, 4096} {
		if !yield(n) {
			return
		}
	}
}

func TestQuantize(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(4, 4))
		for blocks := range 40 {
			x := numbers(r, blocks*32)
			for b := range blocks {
				scaleBlock(r, x[b*32:][:32])
			}
			span := []int{32, SpanValues}[blocks/20]
			q, sums := make([]int8, len(x)), make([]SpanSums, (len(x)+span-1)/span)
			gotQ, gotSums := place(f.dst, q), place(f.d, sums)
			k.Quantize(gotQ, gotSums, place(f.x, x), span)
			portable.Quantize(q, sums, x, span)
			if !slices.Equal(gotQ, q) {
				t.Fatalf("%d blocks: values are %v, portable gives %v", blocks, gotQ, q)
			}
			if !slices.Equal(gotSums, sums) {
				t.Fatalf("%d blocks: sums are %v, portable gives %v", blocks, gotSums, sums)
			}
		}
	})
}

// scaleBlock makes some blocks all zero, tiny, or multiples of half a step of the quantisation.
func scaleBlock(r *rand.Rand, x []float32) {
	switch kind := r.IntN(6); kind {
	case 0:
		clear(x)
	case 1, 2:
		for i := range x {
			x[i] *= []float32{0, 1e-38, 1e-33}[kind]
		}
	case 3:
		for i := range x {
			x[i] = (float32(r.IntN(255)) - 127) / 2
		}
		x[r.IntN(32)] = 127 / 2.0 * float32(1+r.IntN(2))
	}
}

func TestSumSquares(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(5, 5))
		for n := range rowLengths {
			for _, mean := range []float32{0, number(r)} {
				x := numbers(r, n)
				got, want := k.SumSquares(place(f.x, x), mean), portable.SumSquares(x, mean)
				same(t, fmt.Sprint(n, " values"), []float32{got}, []float32{want})
			}
		}
	})
}

func TestScaleGain(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(6, 6))
		for n := range rowLengths {
			for _, mean := range []float32{0, number(r)} {
				x, gain, scale := numbers(r, n), numbers(r, n), number(r)
				want := make([]float32, n)
				portable.ScaleGain(want, x, gain, mean, scale)
				got, in := place(f.dst, want), place(f.x, x)
				clear(got)
				k.ScaleGain(got, in, place(f.w, gain), mean, scale)
				same(t, fmt.Sprint(n, " values"), got, want)
				k.ScaleGain(in, in, place(f.w, gain), mean, scale)
				same(t, fmt.Sprint(n, " values in place"), in, want)
			}
		}
	})
}

func TestSoftcap(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(19, 19))
		for n := range rowLengths {
			s, limit := numbers(r, n), float32(1+r.IntN(50))
			for i := range s {
				s[i] *= []float32{1, 10, 1000}[r.IntN(3)]
			}
			got := place(f.x, s)
			k.Softcap(got, limit)
			portable.Softcap(s, limit)
			same(t, fmt.Sprint(n, " values"), got, s)
		}
	})
}

func TestSilu(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(8, 8))
		for n := range rowLengths {
			gate, up := numbers(r, n), numbers(r, n)
			for i := range gate {
				switch r.IntN(8) {
				case 0:
					gate[i] = float32(r.Float64()*200 - 100)
				case 1: // at and beside the ends of exp
					end := []float32{-expMin, -expMax}[r.IntN(2)]
					gate[i] = math.Float32frombits(math.Float32bits(end) + uint32(r.IntN(3)) - 1)
				}
			}
			want := make([]float32, n)
			portable.Silu(want, gate, up)
			got, in := place(f.dst, want), place(f.x, gate)
			clear(got)
			k.Silu(got, in, place(f.w, up))
			same(t, fmt.Sprint(n, " values"), got, want)
			k.Silu(in, in, place(f.w, up))
			same(t, fmt.Sprint(n, " values in place"), in, want)
		}
	})
}

func TestDecayAdd(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(11, 11))
		for _, rows := range []int{0, 1, 2, 3, 16, 31, 128} {
			for panels := range 5 {
				w, x, v, decay := numbers(r, panels*rows*Lanes), numbers(r, rows), numbers(r, panels*Lanes), number(r)
				got := place(f.w, w)
				k.DecayAdd(got, place(f.x, x), place(f.d, v), decay)
				portable.DecayAdd(w, x, v, decay)
				same(t, fmt.Sprintf("%d panels of %d rows", panels, rows), got, w)
			}
		}
	})
}

// TestKernelsAllocate requires that no kernel allocates.
func TestKernelsAllocate(t *testing.T) {
	x, w16, w8 := make([]float32, 1024), make([]uint16, 1024), make([]byte, 2048)
	w32, rounded := make([]uint32, 256), Rows16{X: make([]float32, 512), Ld: 32, Blocks: 1}
	q := Rows8{Q: make([]int8, 64), Sums: make([]SpanSums, 1), Ld: 64, Blocks: 2, LdSums: 1}
	rows := rowsFor(64)
	for _, k := range Implementations() {
		pairs := rounded.as(k)
		calls := map[string]func(){
			"matF32":    func() { k.MatF32(Product[float32]{x, 16, x, 16, x, 0, 1, 17, 32, true}) },
			"matF16":    func() { k.MatF16(Product[uint16]{x, 16, x, 16, w16, 0, 1, 17, 32, true}) },
			"matBF16":   func() { k.MatBF16(Product[uint16]{x, 16, x, 16, w16, 0, 1, 17, 32, true}) },
			"matPairs":  func() { k.MatPairs(PairProduct{x[:512], 16, pairs, w32, 256, 1, 16}) },
			"round":     func() { k.Round(x[:512], x[512:]) },
			"narrow":    func() { k.Narrow(w16, x) },
			"matAffine": func() { k.MatAffine(AffineProduct{quant.Q5_1, x, 16, q, w8, 0, 1, 1}) },
			"quantize":  func() { k.Quantize(q.Q, q.Sums, x[:64], SpanValues) },
			"weigh":     func() { k.Weigh(x[:2], x[2:], x[16:], 64, 64) },
			"shares":    func() { k.Shares(x, x[16:], x[32:48], x[48:], x[64:], x[80:]) },
			"blend":     func() { k.Blend(x, x[512:], 32, x[:2], x, x) },
			"widen":     func() { k.Widen(quant.Q4_0, x, TileValues, w8, 2, true) },
			"transpose": func() { k.Transpose(x, TileValues, x, 2) },
			"decayAdd":  func() { k.DecayAdd(x, x[:32], x[:32], 1) },
		}
		for _, c := range rowCalls {
			calls[c.name] = func() { c.call(k, rows[0], rows[1], rows[2], rows[3], 1) }
		}
		for name, call := range calls {
			if n := testing.AllocsPerRun(10, call); n != 0 {
				t.Errorf("%s: %s allocates %v times", k.Name, name, n)
			}
		}
	}
}
