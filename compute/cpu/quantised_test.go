package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
)

// TestAffineProduct compares products with every affine type with sums in float64 over what rows decode to and what the
// quantised rows stand for. The difference may be that of some tens of roundings.
func TestAffineProduct(t *testing.T) {
	r := rand.New(rand.NewPCG(22, 22))
	for _, k := range kernel.Implementations() {
		d, err := New(Options{Threads: 2, Kernels: k.Name})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range kernel.AffineTypes() {
			const out, in, m = 83, 768, 9
			data := randomBlocks(r, a, out*in/a.BlockValues())
			w, err := d.Matrix(compute.Source{Name: "w", Type: a, Out: out, In: in, Data: data})
			if err != nil {
				t.Fatal(err)
			}
			values := make([]float32, out*in)
			for n := range out {
				d.row(0, values[n*in:][:in], w.(*matrix), n)
			}
			x, dst := Tensor{Rows: m, Cols: in, Host: make([]float32, m*in)}, Tensor{Rows: m, Cols: out, Host: make([]float32, m*out)}
			for i := range x.Host {
				x.Host[i] = float32(r.NormFloat64())
			}
			d.matmul(m, x, []Product{{Dst: dst, W: w}})
			for i := range m * out {
				row, weights := i/out, values[i%out*in:][:in]
				sum, size, most := 0.0, 0.0, 0.0
				for k, v := range weights {
					span := &d.xq.Sums[row*d.xq.LdSums+k/kernel.SpanValues]
					x := float64(d.xq.Q[row*d.xq.Ld+k]) * float64(span.D) * float64(span.Shares[k%kernel.SpanValues/32])
					sum += x * float64(v)
					size += math.Abs(x)
					most = max(most, math.Abs(float64(v)))
				}
				if err := math.Abs(float64(dst.Host[i]) - sum); !(err <= 2e-6*size*most) {
					t.Fatalf("%s: %v: row %d, output %d is %g, want %g ± %g", k.Name, a, row, i%out, dst.Host[i], sum, 2e-6*size*most)
				}
			}
		}
		d.Close()
	}
}

// BenchmarkPack takes over a weight of each affine type with one thread and decodes its rows, in bytes of the file.
func BenchmarkPack(b *testing.B) {
	d, err := New(Options{Threads: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	const out, in = 256, 4096
	row := make([]float32, in)
	for _, a := range kernel.AffineTypes() {
		data := randomBlocks(rand.New(rand.NewPCG(24, 24)), a, out*in/a.BlockValues())
		src := compute.Source{Name: "w", Type: a, Out: out, In: in, Data: data}
		b.Run(a.String(), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := d.Matrix(src); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(a.String()+"/row", func(b *testing.B) {
			w, err := d.Matrix(src)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(data) / out))
			for b.Loop() {
				d.row(0, row, w.(*matrix), 5)
			}
		})
	}
}
