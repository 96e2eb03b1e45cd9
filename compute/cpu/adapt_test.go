package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/quant"
)

// encoded returns random numbers in one of the types that adapters may have, and their values.
func encoded(r *rand.Rand, t quant.Type, n int) ([]byte, []float32) {
	v := normals(r, n)
	data := make([]byte, n*t.BlockBytes())
	if err := quant.Encode(data, v, t); err != nil {
		panic(err)
	}
	if err := quant.Decode(v, data, t); err != nil {
		panic(err)
	}
	return data, v
}

func normals(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// lowRank is an adapter's part of a product with the values that it was made of.
type lowRank struct {
	compute.LowRank
	a, b []float32
}

func newLowRank(t *testing.T, d *Device, r *rand.Rand, typ quant.Type, rank, out, in int) lowRank {
	t.Helper()
	a, av := encoded(r, typ, rank*in)
	b, bv := encoded(r, typ, out*rank)
	l := lowRank{a: av, b: bv}
	var err error
	if l.A, err = d.Matrix(compute.Source{Name: "a", Adapter: true, Type: typ, Out: rank, In: in, Data: a}); err != nil {
		t.Fatal(err)
	}
	if l.B, err = d.Matrix(compute.Source{Name: "b", Adapter: true, Type: typ, Out: out, In: rank, Data: b}); err != nil {
		t.Fatal(err)
	}
	l.Scale = float32(r.NormFloat64())
	return l
}

// add is the definition: chains over the input and over the rank, then one rounding for the sum.
func (l lowRank) add(dst, x []float32) {
	rank := len(l.a) / len(x)
	y := make([]float32, rank)
	for j := range y {
		for k, v := range x {
			y[j] = kernel.FMA(v, l.a[j*len(x)+k], y[j])
		}
	}
	for o := range dst {
		z := float32(0)
		for j, v := range y {
			z = kernel.FMA(v, l.b[o*rank+j], z)
		}
		dst[o] = kernel.FMA(l.Scale, z, dst[o])
	}
}

// TestAdapters computes products with adapters of several ranks and types, for rows that stand in any order, and
// compares each with its definition, bit for bit. Rows without an adapter are those of the product alone.
func TestAdapters(t *testing.T) {
	for _, kernels := range Kernels() {
		t.Run(kernels, func(t *testing.T) {
			d, err := New(Options{Threads: 2, Kernels: kernels})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			r := rand.New(rand.NewPCG(7, 7))
			for range 40 {
				adaptersCase(t, d, r)
			}
		})
	}
}

func adaptersCase(t *testing.T, d *Device, r *rand.Rand) {
	t.Helper()
	const adapters = 3
	in, outs := 1+r.IntN(100), []int{1 + r.IntN(300), 1 + r.IntN(40)}
	var b compute.Batch
	for range 1 + r.IntN(12) {
		b.Append(make([]int32, 1+r.IntN(50)), 0, false)
		b.Seqs[len(b.Seqs)-1].Adapter = int32(r.IntN(adapters + 1))
	}
	x, _ := d.Tensor(b.Rows(), in)
	copy(x.Host, normals(r, len(x.Host)))
	var products []Product
	lows := make([][adapters + 1]lowRank, len(outs))
	for i, out := range outs {
		w, err := d.Matrix(compute.Source{Name: "w", Type: quant.F32, Out: out, In: in, Data: byteView(normals(r, out*in))})
		if err != nil {
			t.Fatal(err)
		}
		p := Product{W: w, Adapters: make([]compute.LowRank, adapters+1)}
		p.Dst, _ = d.Tensor(b.Rows(), out)
		for a := 1; a <= adapters; a++ {
			if r.IntN(4) > 0 {
				lows[i][a] = newLowRank(t, d, r, []quant.Type{quant.F32, quant.F16, quant.BF16}[r.IntN(3)], 1+r.IntN(40), out, in)
				p.Adapters[a] = lows[i][a].LowRank
			}
		}
		products = append(products, p)
	}
	plain := b
	plain.Seqs = append([]compute.Seq(nil), b.Seqs...)
	for i := range plain.Seqs {
		plain.Seqs[i].Adapter = 0
	}
	d.Begin(&plain)
	d.matMul(x, products)
	var want [][]float32
	for i := range products {
		rows := append([]float32(nil), products[i].Dst.Host...)
		for _, s := range b.Seqs {
			for row := int(s.Row); row < int(s.Row+s.Rows); row++ {
				if low := lows[i][s.Adapter]; low.A != nil {
					low.add(rows[row*outs[i]:][:outs[i]], rowOf(x, row))
				}
			}
		}
		want = append(want, rows)
	}
	d.Begin(&b)
	d.matMul(x, products)
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	for i := range products {
		sameBits(t, fmt.Sprintf("product %d of [%d, %d], %d rows", i, outs[i], in, b.Rows()), products[i].Dst.Host, want[i])
	}
}
