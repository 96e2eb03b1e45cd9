package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// latentOps are the operations of a layer of latentGraph, once they are compiled.
var latentOps = []string{"norm", "q,latent", "latent,keys up", "attend", "values up",
	"out+add", "norm+router+route", "gate,up+act", "shared gate,up+act", "shared down", "down+add"}

// latentGraph makes the graph of a model of the shape of DeepSeek-V2-Lite, whose layers all have experts.
func latentGraph(t testing.TB, d compute.Device, layers int, weight func(out, in int) compute.Matrix) *compute.Graph {
	const hidden, heads, nope, rope, rank, value, experts, chosen, width, vocab = 2048, 16, 128, 64, 512, 128, 64, 6, 1408, 128256
	g := &compute.Graph{Vocab: vocab, Routings: []compute.Routing{{Experts: experts, Chosen: chosen}}}
	all := func(width int) compute.Tensor { return g.Buffer(width, compute.AllRows) }
	h, x, added, logits := all(hidden), all(hidden), all(hidden), all(experts)
	q, latent, wide, context, mixed := all(heads*(nope+rope)), all(rank+rope), all(heads*(rank+rope)), all(heads*rank), all(heads*value)
	gate, up, angles := all(chosen*width), all(chosen*hidden), all(rope)
	sharedGate, sharedUp := all(2*width), all(2*width)
	last, out := g.Buffer(hidden, compute.LogitRows), g.Buffer(vocab, compute.LogitRows)
	ones, freqs := make([]float32, hidden), make([]float32, rope/2)
	for i := range ones {
		ones[i] = 1
	}
	for i := range freqs {
		freqs[i] = float32(math.Pow(1e4, -float64(i)/float64(len(freqs))))
	}
	norm := compute.Norm{Gain: vectorOf(t, d, ones), Eps: 1e-6}
	ofLatent := compute.Norm{Gain: vectorOf(t, d, ones[:rank]), Eps: 1e-6, Width: rank}
	one := func(dst compute.Tensor, in int) compute.Product {
		return compute.Product{Dst: dst, W: weight(dst.Cols, in)}
	}
	many := func(n, out, in int) (w []compute.Matrix) {
		for range n {
			w = append(w, weight(out, in))
		}
		return w
	}
	// Rows are much larger than what attention adds, so that they choose experts of their own.
	g.Add(compute.Embed{Dst: h, Table: weight(vocab, hidden), Scale: 64}, compute.Angles{Dst: angles, Freqs: vectorOf(t, d, freqs), Scale: 1})
	for i := range layers {
		g.Add(compute.Normalize{Dst: x, Src: h, Norm: norm},
			compute.MatMul{X: x, Products: []compute.Product{one(q, hidden), one(latent, hidden)}},
			compute.Normalize{Dst: latent, Src: latent, Norm: ofLatent},
			compute.Rotate{X: q, Angles: angles, Rotary: compute.Rotary{Heads: heads, HeadDim: nope + rope, Skip: nope}},
			compute.Rotate{X: latent, Angles: angles, Rotary: compute.Rotary{Heads: 1, HeadDim: rank + rope, Skip: rank}},
			compute.Store{Layer: i, K: latent},
			compute.MatMulHeads{Dst: wide, X: q, W: many(heads, rank, nope)},
			compute.Attend{Layer: i, Dst: context, Q: wide, Attention: compute.Attention{Heads: heads, Scale: 0.07}},
			compute.MatMulHeads{Dst: mixed, X: context, W: many(heads, value, rank)},
			compute.MatMul{X: mixed, Products: []compute.Product{one(added, heads*value)}},
			compute.Add{Dst: h, Src: added, Scale: 1},
			compute.Normalize{Dst: x, Src: h, Norm: norm},
			compute.MatMul{X: x, Products: []compute.Product{one(sharedUp, hidden), one(sharedGate, hidden), one(logits, hidden)}},
			compute.Route{Logits: logits, Router: compute.Router{Scale: 1}},
			compute.MatMulExperts{X: x, Products: []compute.ExpertProduct{
				{Dst: up.Narrow(width), W: many(experts, width, hidden)}, {Dst: gate.Narrow(width), W: many(experts, width, hidden)}}},
			compute.Activate{Dst: sharedGate, Gate: sharedGate, Up: sharedUp},
			compute.MatMul{X: sharedGate, Products: []compute.Product{one(added, 2*width)}},
			compute.Activate{Dst: gate, Gate: gate, Up: up.Narrow(chosen * width)},
			compute.MatMulExperts{X: gate.Narrow(width), Routed: true, Products: []compute.ExpertProduct{{Dst: up.Narrow(hidden), W: many(experts, hidden, width)}}},
			compute.Combine{Dst: added, Src: up.Narrow(hidden), Shared: added},
			compute.Add{Dst: h, Src: added, Scale: 1})
	}
	g.Add(compute.Gather{Dst: last, Src: h}, compute.Normalize{Dst: last, Src: last, Norm: norm},
		compute.Head{X: last, Product: one(out, hidden), Scale: 1}, compute.Choose{Logits: out})
	return g
}

// TestSpeedOfLatent measures steps of the shape of DeepSeek-V2-Lite with random weights, as TestSpeed does, if
// KVASIR_GPU_LATENT lists what; "layers=8" before the list leaves the other layers out.
func TestSpeedOfLatent(t *testing.T) {
	what, layers := os.Getenv("KVASIR_GPU_LATENT"), 27
	if what == "" {
		t.Skip("KVASIR_GPU_LATENT lists nothing to measure")
	}
	layers = leading(t, &what, "layers", layers)
	d := gpuDevice(t)
	r := rand.New(rand.NewPCG(1, 1))
	begin, bytes := time.Now(), int64(0)
	g := latentGraph(t, d, layers, randomWeights(t, d, r, quant.BF16, 0, &bytes))
	if err := d.loading.wait(); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("loading: %.1f GB in %.2f s\n", float64(bytes)/1e9, time.Since(begin).Seconds())
	const most = 256
	spec := compute.CacheSpec{Blocks: 70 * most, BlockTokens: 16, Type: quant.BF16}
	for range layers {
		spec.Layers = append(spec.Layers, compute.CacheLayer{KVHeads: 1, KDim: 576, VDim: 512, Latent: true})
	}
	c, err := d.Cache(spec)
	if err != nil {
		t.Fatal(err)
	}
	p := compileGraph(t, d, g, c, compute.Limits{Rows: 8192, Slots: most + 1}).(*program)
	if n := len(p.ops) - 5; n%layers != 0 || n/layers != len(latentOps) {
		t.Fatalf("%d operations in %d layers; want %d in each", n, layers, len(latentOps))
	}
	measureAll(t, r, p, what, latentOps)
}
