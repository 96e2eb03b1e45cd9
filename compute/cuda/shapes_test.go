package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// decoderShape is a layer of a decoder whose numbers fill no tile, no block of threads and no chunk.
type decoderShape struct {
	heads, kv, dim, hidden, ffn int
	typ                         quant.Type
}

var oddShapes = []decoderShape{
	{5, 1, 64, 100, 333, quant.BF16}, {7, 7, 72, 130, 270, quant.BF16}, {9, 3, 80, 200, 500, quant.BF16}, {6, 2, 96, 1000, 777, quant.BF16},
	{3, 1, 100, 301, 129, quant.BF16}, {5, 5, 112, 77, 65, quant.BF16}, {15, 5, 128, 1900, 1001, quant.BF16}, {3, 3, 160, 90, 37, quant.BF16},
	{5, 1, 192, 333, 190, quant.BF16}, {3, 1, 224, 66, 1, quant.BF16}, {7, 1, 256, 450, 600, quant.BF16}, {33, 11, 64, 2112, 96, quant.BF16},
	{5, 1, 64, 160, 352, quant.Q8_0}, {3, 3, 96, 96, 32, quant.Q4_0}, {9, 3, 96, 1120, 416, quant.Q5_1}, {5, 5, 160, 224, 736, quant.MXFP4},
	{5, 1, 256, 768, 1280, quant.Q6_K}, {7, 1, 256, 256, 256, quant.Q4_K}, {3, 1, 128, 384, 640, quant.U4_128}, {5, 5, 96, 288, 96, quant.Q5_0},
	{7, 7, 80, 330, 194, quant.F8_E4M3}, {8, 2, 128, 1024, 640, quant.BF16}, {4, 1, 64, 2176, 96, quant.BF16}, {4, 4, 64, 2048, 256, quant.Q8_0},
}

// odd is a case of a layer, whole: norm, queries, keys and values, rotated, stored, attention, output, norm,
// feed-forward, so that what a device fuses is fused.
func (k decoderShape) odd() opsCase {
	off := 1.5e-2
	switch k.typ {
	case quant.BF16:
	case quant.F8_E4M3:
		off = 1.5e-1 // rows may be rounded to the type of the weights
	default:
		off = 6e-2 // rows are quantised on the processor
	}
	spec := compute.CacheSpec{Layers: []compute.CacheLayer{{KVHeads: k.kv, KDim: k.dim, VDim: k.dim}}}
	return opsCase{name: fmt.Sprintf("%v, %d and %d heads of %d, widths %d and %d", k.typ, k.heads, k.kv, k.dim, k.hidden, k.ffn), cache: spec, off: off, graph: func(t testing.TB, d compute.Device, g *compute.Graph, r *rand.Rand, inputs func(int, float64) compute.Tensor) compute.Tensor {
		product := func(dst compute.Tensor, in int) compute.Product {
			p := compute.Product{Dst: dst, Bias: vectorOf(t, d, bell(r, dst.Cols, 0.1))}
			if k.typ == quant.BF16 {
				p.W = weight(t, d, bell(r, dst.Cols*in, 1/math.Sqrt(float64(in))), dst.Cols, in)
			} else {
				p.W = load(t, d, packedSource(t, r, k.typ, dst.Cols, in))
			}
			return p
		}
		buffer := func(width int) compute.Tensor { return g.Buffer(width, compute.AllRows) }
		norm := func(width int) compute.Norm { return compute.Norm{Gain: vectorOf(t, d, bell(r, width, 1)), Eps: 1e-5} }
		h, x, added := inputs(k.hidden, 1), buffer(k.hidden), buffer(k.hidden)
		q, keys, v, mixed := buffer(k.heads*k.dim), buffer(k.kv*k.dim), buffer(k.kv*k.dim), buffer(k.heads*k.dim)
		angles, gate, up := buffer(k.dim), buffer(k.ffn), buffer(k.ffn)
		freqs := make([]float32, k.dim/2)
		for i := range freqs {
			freqs[i] = 1 / float32(i+1)
		}
		g.Add(compute.Angles{Dst: angles, Freqs: vectorOf(t, d, freqs), Scale: 1},
			compute.Normalize{Dst: x, Src: h, Norm: norm(k.hidden)},
			compute.MatMul{X: x, Products: []compute.Product{product(q, k.hidden), product(keys, k.hidden), product(v, k.hidden)}},
			compute.Rotate{X: q, Angles: angles, Rotary: compute.Rotary{Heads: k.heads, HeadDim: k.dim}},
			compute.Rotate{X: keys, Angles: angles, Rotary: compute.Rotary{Heads: k.kv, HeadDim: k.dim}},
			compute.Store{K: keys, V: v},
			compute.Attend{Q: q, Dst: mixed, Attention: compute.Attention{Heads: k.heads, Scale: float32(1 / math.Sqrt(float64(k.dim)))}},
			compute.MatMul{X: mixed, Products: []compute.Product{product(added, k.heads*k.dim)}},
			compute.Add{Dst: h, Src: added, Scale: 1},
			compute.Normalize{Dst: x, Src: h, Norm: norm(k.hidden)},
			compute.MatMul{X: x, Products: []compute.Product{product(up, k.hidden), product(gate, k.hidden)}},
			compute.Activate{Dst: gate, Gate: gate, Up: up},
			compute.MatMul{X: gate, Products: []compute.Product{product(added, k.ffn)}},
			compute.Add{Dst: h, Src: added, Scale: 1})
		return h
	}}
}

// TestOddShapes compares layers of odd shapes with the processor's, and rows alone with rows in company.
func TestOddShapes(t *testing.T) {
	d := gpuDevice(t)
	host, err := compute.Open("cpu", compute.Options{Threads: 2, Wide: true})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	for i, k := range oddShapes {
		if n := k.hidden * k.ffn; emulated && (n > 1<<18 || n > 1<<16 && i%3 > 0) {
			continue
		}
		c := k.odd()
		t.Run(c.name, func(t *testing.T) { testOperations(t, d, host, c) })
	}
}
