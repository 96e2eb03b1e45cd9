package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

func latentCase(kv quant.Type, heads, rank, rope int) opsCase {
	spec := compute.CacheSpec{Layers: []compute.CacheLayer{{KVHeads: 1, KDim: rank + rope, VDim: rank, Latent: true}}}
	return opsCase{name: fmt.Sprintf("latent of %d, %v", rank, kv), cache: spec, kv: kv, off: offOf(kv), graph: func(t testing.TB, d compute.Device, g *compute.Graph, r *rand.Rand, inputs func(int, float64) compute.Tensor) compute.Tensor {
		q, k, dst := inputs(heads*(rank+rope), 1), inputs(rank+rope, 1), g.Buffer(heads*rank, compute.AllRows)
		g.Add(compute.Store{K: k}, compute.Attend{Q: q, Dst: dst, Attention: compute.Attention{Heads: heads, Scale: float32(1.6 / math.Sqrt(float64(rank)))}})
		return dst
	}}
}

// latentRowsCase is latent attention from products with the hidden state on, as a model has it.
func latentRowsCase(heads, nope, rank, rope int, interleaved bool) opsCase {
	c := latentCase(quant.BF16, heads, rank, rope)
	c.name = fmt.Sprintf("queries and latents of %d, interleaved: %t", rank, interleaved)
	c.graph = func(t testing.TB, d compute.Device, g *compute.Graph, r *rand.Rand, inputs func(int, float64) compute.Tensor) compute.Tensor {
		const in = 64
		x, angles := inputs(in, 1), g.Buffer(rope, compute.AllRows)
		q, latent := g.Buffer(heads*(nope+rope), compute.AllRows), g.Buffer(rank+rope, compute.AllRows)
		wide, context, mixed := g.Buffer(heads*(rank+rope), compute.AllRows), g.Buffer(heads*rank, compute.AllRows), g.Buffer(heads*nope, compute.AllRows)
		freqs := make([]float32, rope/2)
		for i := range freqs {
			freqs[i] = 1 / float32(i+1)
		}
		heavy := func(out, in int) compute.Matrix {
			return weight(t, d, bell(r, out*in, 1/math.Sqrt(float64(in))), out, in)
		}
		var keys, values []compute.Matrix
		for range heads {
			keys, values = append(keys, heavy(rank, nope)), append(values, heavy(nope, rank))
		}
		rotary := compute.Rotary{Heads: heads, HeadDim: nope + rope, Skip: nope, Interleaved: interleaved}
		g.Add(compute.Angles{Dst: angles, Freqs: vectorOf(t, d, freqs), Scale: 1},
			compute.MatMul{X: x, Products: []compute.Product{{Dst: q, W: heavy(q.Cols, in)}, {Dst: latent, W: heavy(latent.Cols, in)}}},
			compute.Normalize{Dst: latent, Src: latent, Norm: compute.Norm{Gain: vectorOf(t, d, bell(r, rank, 1)), Eps: 1e-5, Width: rank}},
			compute.Rotate{X: q, Angles: angles, Rotary: rotary},
			compute.Rotate{X: latent, Angles: angles, Rotary: compute.Rotary{Heads: 1, HeadDim: rank + rope, Skip: rank, Interleaved: interleaved}},
			compute.Store{K: latent}, compute.MatMulHeads{Dst: wide, X: q, W: keys},
			compute.Attend{Q: wide, Dst: context, Attention: compute.Attention{Heads: heads, Scale: float32(1 / math.Sqrt(float64(rank)))}},
			compute.MatMulHeads{Dst: mixed, X: context, W: values})
		return mixed
	}
	return c
}

// TestRoutersApart takes routers' products of many layers out of those with a shared expert's gate and what it gates.
func TestRoutersApart(t *testing.T) {
	g := &compute.Graph{Routings: []compute.Routing{{Experts: 4, Chosen: 2}}}
	x, logits, gate, up := g.Buffer(64, compute.AllRows), g.Buffer(4, compute.AllRows), g.Buffer(64, compute.AllRows), g.Buffer(64, compute.AllRows)
	const layers = 60
	for range layers {
		m := compute.MatMul{X: x}
		for _, dst := range []compute.Tensor{up, gate, logits} {
			m.Products = append(m.Products, compute.Product{Dst: dst, W: &matrix{}})
		}
		g.Add(m, compute.Route{Logits: logits}, compute.MatMulExperts{X: x}, compute.Activate{Dst: gate, Gate: gate, Up: up})
	}
	ops := (&program{}).routersApart(g.Ops)
	if len(ops) != 5*layers {
		t.Fatalf("%d operations of %d layers; want 5 in each", len(ops), layers)
	}
	for i, op := range ops {
		if m, ok := op.(compute.MatMul); ok && len(m.Products) != []int{1, 0, 0, 2, 0}[i%5] {
			t.Errorf("operation %d has %d products", i, len(m.Products))
		}
	}
}
