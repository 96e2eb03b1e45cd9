package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/quant"
)

// TestRowsWait runs random operations on rows, more than wait at once, and a product now and then: once with a Sync
// after each, so that none waits, and once without. All tensors must be equal to the last bit.
func TestRowsWait(t *testing.T) {
	const cols, heads = 64, 2
	eachKernels(t, func(t *testing.T, k *kernel.Table) {
		for seed := range uint64(20) {
			var want []float32
			for _, sync := range []bool{true, false} {
				r := rand.New(rand.NewPCG(seed, 7))
				d, err := New(Options{Threads: 1 + r.IntN(3), Kernels: k.Name})
				if err != nil {
					t.Fatal(err)
				}
				rows := 1 + r.IntN(40)
				b := new(compute.Batch)
				b.Append(make([]int32, rows), r.IntN(100), false)
				d.Begin(b)
				tensor := func() Tensor { return tensorOf(t, d, cols, normals(r, rows*cols)) }
				angles, out, all := tensor(), tensor(), []Tensor{tensor(), tensor(), tensor()}
				gain, freqs := vector(normals(r, cols)), vector(normals(r, cols/heads/2))
				q8 := make([]byte, cols*cols/32*34)
				if err := quant.Encode(q8, normals(r, cols*cols), quant.Q8_0); err != nil {
					t.Fatal(err)
				}
				w, err := d.Matrix(compute.Source{Name: "w", Type: quant.Q8_0, Out: cols, In: cols, Data: q8})
				if err != nil {
					t.Fatal(err)
				}
				angles.Cols = cols / heads
				d.angles(angles, freqs, nil, 1)
				for range 1 + r.IntN(3*mostWaiting) {
					x, y, z := all[r.IntN(3)], all[r.IntN(3)], all[r.IntN(3)]
					switch r.IntN(6) {
					case 0:
						d.norm(x, y, compute.Norm{Gain: gain, Eps: 1e-5})
					case 1:
						d.add(x, y, 0.5)
					case 2:
						d.activate(x, y, z, compute.SiLU)
					case 3:
						d.rotate(x, angles, compute.Rotary{Heads: heads, HeadDim: cols / heads, Interleaved: seed%2 == 0})
					case 4:
						d.clamp(x, 2)
					case 5:
						d.matMul(x, []Product{{Dst: out, W: w}})
						d.add(y, out, 1)
					}
					if sync {
						if err := d.Sync(); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := d.Sync(); err != nil {
					t.Fatal(err)
				}
				var got []float32
				for _, x := range all {
					got = append(got, x.Host...)
				}
				if want != nil {
					sameBits(t, fmt.Sprint("random operations ", seed), got, want)
				}
				want = got
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
