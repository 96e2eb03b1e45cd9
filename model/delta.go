package model

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
)

// Delta is a gated delta net (arXiv:2412.06464): a recurrent layer that keeps a state of a sequence, and nothing of a
// token. Each group of ValueHeads/KeyHeads consecutive value heads shares the query and key of one key head.
type Delta struct {
	KeyHeads, ValueHeads int
	KeyDim, ValueDim     int
	Window               int // tokens that the convolution sees
}

// DeltaWeights are the weights of a Delta. A, B and Gate are products of the layer's input.
type DeltaWeights struct {
	Delta compute.Delta // with its vectors
	QKV   Linear        // queries and keys of the key heads, values of the value heads
	A, B  Linear        // arguments of the decay and of the strength of each value head
	Gate  Linear        // of the output
	Norm  compute.Norm  // of each head's output
	O     Linear
}

// Shape returns the layer's shape without its vectors.
func (d Delta) Shape() compute.Delta {
	return compute.Delta{KeyHeads: d.KeyHeads, ValueHeads: d.ValueHeads, KeyDim: d.KeyDim, ValueDim: d.ValueDim, Window: d.Window}
}

// Cache implements Mixer.
func (d Delta) Cache() compute.CacheLayer { return compute.CacheLayer{State: d.Shape().State()} }

func (d Delta) reach() int { return 0 }

func (d Delta) check([]Rope) error {
	for _, n := range []int{d.KeyHeads, d.ValueHeads, d.KeyDim, d.ValueDim, d.Window} {
		if n < 1 || n > 1<<16 {
			return fmt.Errorf("a size of a recurrent layer is %d; want 1 to %d", n, 1<<16)
		}
	}
	if d.ValueHeads%d.KeyHeads != 0 {
		return fmt.Errorf("%d value heads cannot share %d key heads evenly", d.ValueHeads, d.KeyHeads)
	}
	if d.Shape().State() > 1<<24 {
		return fmt.Errorf("a recurrent layer of %d heads of key size %d and value size %d, with a convolution of %d tokens",
			d.ValueHeads, d.KeyDim, d.ValueDim, d.Window)
	}
	return nil
}

func (d Delta) shard(of int) (Mixer, error) {
	if of == 1 {
		return d, nil
	}
	return nil, fmt.Errorf("a gated delta net cannot be divided by %d: that is not supported", of)
}

func (w *DeltaWeights) ops(g *graph, layer int, in, out compute.Tensor) {
	d, buf := w.Delta, g.scratch()
	qkv, a, b := buf(d.Channels()), buf(d.ValueHeads), buf(d.ValueHeads)
	mixed, gate := buf(d.ValueHeads*d.ValueDim), buf(d.ValueHeads*d.ValueDim)
	g.matmul(in, w.QKV.to(qkv), w.A.to(a), w.B.to(b), w.Gate.to(gate))
	g.Add(compute.Convolve{Layer: layer, X: qkv, Delta: d})
	g.Add(compute.Activate{Dst: qkv, Gate: qkv, Act: compute.SiLU})
	g.Add(compute.DeltaRule{Layer: layer, Dst: mixed, QKV: qkv, A: a, B: b, Delta: d})
	g.norm(mixed, mixed, w.Norm)
	g.Add(compute.Activate{Dst: mixed, Gate: gate, Up: mixed, Act: compute.SiLU})
	g.keep(layer, mixed)
	g.matmul(mixed, w.O.to(out))
}
