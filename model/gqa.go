package model

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
)

// GQA is grouped-query attention (arXiv:2305.13245): Heads query heads share KVHeads heads of keys and values.
type GQA struct {
	Heads, KVHeads  int
	HeadDim         int     // of queries and keys
	ValueDim        int     // of values
	Scale           float32 // times q·k; usually 1/√HeadDim
	Softcap         float32 // softcap·tanh(s/softcap) on scores; 0 is off
	Window          int     // tokens attended to, the own one included; 0 is all
	Rope            int     // index in Spec.Ropes; -1 is no rotation
	QKNorm          bool    // queries and keys are normalised, by head or by row as their gains say
	QKNormAfterRope bool
	Clip            float32 // queries, keys and values are limited to -Clip and Clip after that; 0 is off
	QKVBias, OBias  bool
	Sinks           bool // one learned logit of each head takes part in the softmax
	Gated           bool // a head's output is multiplied by the sigmoid of a product with the layer's input
}

// GQAWeights are the weights of a GQA.
type GQAWeights struct {
	GQA
	Q, K, V, O   Linear
	Gate         Linear       // of the output, if Gated
	QNorm, KNorm compute.Norm // if QKNorm
	Sinks        compute.Vector
}

// Cache implements Mixer.
func (a GQA) Cache() compute.CacheLayer {
	return compute.CacheLayer{KVHeads: a.KVHeads, KDim: a.HeadDim, VDim: a.ValueDim}
}

func (a GQA) reach() int { return a.Window }

func (a GQA) check(ropes []Rope) error {
	const most = 1 << 24
	switch {
	case a.Heads < 1 || a.Heads > most || a.KVHeads < 1 || a.Heads%a.KVHeads != 0:
		return fmt.Errorf("%d query heads cannot share %d KV heads evenly", a.Heads, a.KVHeads)
	case a.HeadDim < 1 || a.HeadDim > most/a.Heads || a.ValueDim < 1 || a.ValueDim > most/a.Heads:
		return fmt.Errorf("%d heads of key size %d and value size %d", a.Heads, a.HeadDim, a.ValueDim)
	case a.Rope >= len(ropes):
		return fmt.Errorf("there are %d ropes, and rope %d is wanted", len(ropes), a.Rope)
	case !(a.Clip >= 0):
		return fmt.Errorf("queries, keys and values are limited to %v", a.Clip)
	case a.Window < 0:
		return fmt.Errorf("sliding window of %d tokens", a.Window)
	}
	if a.Rope >= 0 {
		if n := 2 * len(ropes[a.Rope].Freqs); n == 0 || n > a.HeadDim {
			return fmt.Errorf("rope rotates %d values of a head of %d", n, a.HeadDim)
		}
	}
	return nil
}

func (a GQA) shard(of int) (Mixer, error) {
	if a.Heads%of != 0 {
		return nil, fmt.Errorf("%d query heads cannot be divided by %d", a.Heads, of)
	}
	if a.KVHeads%of != 0 && of%a.KVHeads != 0 {
		return nil, fmt.Errorf("%d KV heads cannot be divided by %d, nor repeated evenly", a.KVHeads, of)
	}
	a.Heads, a.KVHeads = a.Heads/of, max(a.KVHeads/of, 1)
	return a, nil
}

func (w *GQAWeights) ops(g *graph, layer int, in, out compute.Tensor) {
	a, buf := w.GQA, g.scratch()
	q, k, v := buf(a.Heads*a.HeadDim), buf(a.KVHeads*a.HeadDim), buf(a.KVHeads*a.ValueDim)
	mixed, gate := buf(a.Heads*a.ValueDim), compute.Tensor{}
	products := []compute.Product{w.Q.to(q), w.K.to(k), w.V.to(v)}
	if a.Gated {
		gate = buf(a.Heads * a.ValueDim)
		products = append(products, w.Gate.to(gate))
	}
	g.matmul(in, products...)
	if a.QKNorm && !a.QKNormAfterRope {
		g.norm(q, q, w.QNorm)
		g.norm(k, k, w.KNorm)
	}
	if a.Clip > 0 {
		for _, x := range []compute.Tensor{q, k, v} {
			g.Add(compute.Clamp{X: x, Limit: a.Clip})
		}
	}
	g.rotate(a.Rope, q, compute.Rotary{Heads: a.Heads, HeadDim: a.HeadDim})
	g.rotate(a.Rope, k, compute.Rotary{Heads: a.KVHeads, HeadDim: a.HeadDim})
	if a.QKNorm && a.QKNormAfterRope {
		g.norm(q, q, w.QNorm)
		g.norm(k, k, w.KNorm)
	}
	g.Add(compute.Store{Layer: layer, K: k, V: v})
	g.Add(compute.Attend{Layer: layer, Dst: mixed, Q: q, Attention: compute.Attention{
		Heads: a.Heads, Scale: a.Scale, Softcap: a.Softcap, Window: a.Window, Sinks: w.Sinks, Bidirectional: g.m.Spec.Encoder,
	}})
	if a.Gated {
		g.Add(compute.Activate{Dst: mixed, Gate: gate, Up: mixed, Act: compute.Sigmoid})
	}
	g.keep(layer, mixed)
	g.matmul(mixed, w.O.to(out))
}
