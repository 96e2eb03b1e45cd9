package cpu

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/quant"
)

// TestPairProduct holds a device's products with weights of 16 bits to their definition, written out: inputs rounded,
// two chains for each 32 of them, blocks added in order. Widths are odd, as inputs and as outputs.
func TestPairProduct(t *testing.T) {
	for _, k := range kernel.Implementations() {
		d, err := New(Options{Threads: 2, Kernels: k.Name})
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
				v := nearBF16(r)
				h := quant.F32ToBF16(v)
				if c.typ == quant.F16 {
					h = half16(r)
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
				weights[i] = quant.BF16ToF32(kernel.ToBF16(v))
			}
			x := Tensor{Rows: c.rows, Cols: c.in, Host: make([]float32, c.rows*c.in)}
			for i := range x.Host {
				x.Host[i] = nearBF16(r)
			}
			dst := Tensor{Rows: c.rows, Cols: c.out, Host: make([]float32, c.rows*c.out)}
			b := new(compute.Batch)
			b.Append(make([]int32, c.rows), 0, false, make([]int32, c.rows))
			d.Begin(b)
			d.matMul(x, []Product{{Dst: dst, W: w}})
			if err := d.Sync(); err != nil {
				t.Fatal(err)
			}
			want := make([]float32, len(dst.Host))
			for i := range want {
				want[i] = pairProduct(rowOf(x, i/c.out), weights[i%c.out*c.in:][:c.in])
			}
			sameBits(t, fmt.Sprint(k.Name, c), dst.Host, want)
			row := make([]float32, c.in)
			for n := range c.out {
				d.row(0, row, w.(*matrix), n)
				sameBits(t, fmt.Sprint(k.Name, c, " row ", n), row, weights[n*c.in:][:c.in])
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
			sums[k%2] = kernel.FMA(quant.BF16ToF32(kernel.ToBF16(x[k])), w[k], sums[k%2])
		}
		acc += sums[0] + sums[1]
	}
	return acc
}
