package model

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
)

// The buffers of attention, each [rows, widest layer]. What they hold depends on the kind of the layer:
//
//	         grouped queries   latent                           recurrent
//	queries  queries           queries                          queries, keys and values
//	keys     keys              latents, rotated keys            arguments of the decay
//	values   values            latents of queries               arguments of the strength
//	gates    output gates      -                                output gates
//	wide     -                 queries as the latents see them  -
//	context  -                 mixed latents                    -
//	mixed    what the heads give
const (
	bufQueries = iota
	bufKeys
	bufValues
	bufGates
	bufWide
	bufContext
	bufMixed
	attnBuffers // how many they are
)

// widths returns how many numbers a layer keeps of each row in each buffer.
func (a *Attention) widths() (w [attnBuffers]int) {
	switch d, l := &a.Delta, &a.Latent; {
	case d.ValueHeads > 0:
		w[bufQueries], w[bufKeys], w[bufValues] = d.Channels(), d.ValueHeads, d.ValueHeads
		w[bufGates], w[bufMixed] = d.ValueHeads*d.ValueDim, d.ValueHeads*d.ValueDim
	case l.Rank > 0:
		w[bufQueries], w[bufKeys], w[bufValues] = a.Heads*a.HeadDim, l.Rank+l.RopeDim, l.QueryRank
		w[bufWide], w[bufContext], w[bufMixed] = a.Heads*(l.Rank+l.RopeDim), a.Heads*l.Rank, a.Heads*a.ValueDim
	default:
		w[bufQueries], w[bufKeys], w[bufValues] = a.Heads*a.HeadDim, a.KVHeads*a.HeadDim, a.KVHeads*a.ValueDim
		if w[bufMixed] = a.Heads * a.ValueDim; a.Gated {
			w[bufGates] = w[bufMixed]
		}
	}
	return w
}

// cacheLayer returns what the layer keeps of a token or of a sequence.
func (a *Attention) cacheLayer() compute.CacheLayer {
	switch l := &a.Latent; {
	case a.Delta.ValueHeads > 0:
		return compute.CacheLayer{State: a.Delta.State()}
	case l.Rank > 0:
		return compute.CacheLayer{KVHeads: 1, KDim: l.Rank + l.RopeDim, VDim: l.Rank, Latent: true}
	}
	return compute.CacheLayer{KVHeads: a.KVHeads, KDim: a.HeadDim, VDim: a.ValueDim}
}

// check reports the first contradiction, naming both sides.
func (a *Attention) check(ropes []Rope) error {
	const most = 1 << 24
	d, l := &a.Delta, &a.Latent
	for _, n := range []int{d.KeyHeads, d.ValueHeads, d.KeyDim, d.ValueDim, d.Window, l.Rank, l.QueryRank, l.RopeDim} {
		if n < 0 || n > 1<<16 {
			return fmt.Errorf("a size is %d; want 0 to %d", n, 1<<16)
		}
	}
	if d.ValueHeads > 0 {
		if d.KeyHeads < 1 || d.ValueHeads%d.KeyHeads != 0 {
			return fmt.Errorf("%d value heads cannot share %d key heads evenly", d.ValueHeads, d.KeyHeads)
		}
		if d.KeyDim < 1 || d.ValueDim < 1 || d.Window < 1 || d.State() > most {
			return fmt.Errorf("a recurrent layer of %d heads of key size %d and value size %d, with a convolution of %d tokens", d.ValueHeads, d.KeyDim, d.ValueDim, d.Window)
		}
		return nil
	}
	if a.Heads < 1 || a.Heads > most || a.KVHeads < 1 || a.Heads%a.KVHeads != 0 {
		return fmt.Errorf("%d query heads cannot share %d KV heads evenly", a.Heads, a.KVHeads)
	}
	if a.HeadDim < 1 || a.HeadDim > most/a.Heads || a.ValueDim < 1 || a.ValueDim > most/a.Heads {
		return fmt.Errorf("%d heads of key size %d and value size %d", a.Heads, a.HeadDim, a.ValueDim)
	}
	if a.Rope >= len(ropes) {
		return fmt.Errorf("there are %d ropes, and rope %d is wanted", len(ropes), a.Rope)
	}
	turned := a.HeadDim
	if l.Rank > 0 {
		if turned = l.RopeDim; l.RopeDim < 1 || l.RopeDim >= a.HeadDim {
			return fmt.Errorf("the rope turns %d values of a head of %d; want some, and some left", l.RopeDim, a.HeadDim)
		}
	}
	if a.Rope >= 0 {
		if n := 2 * len(ropes[a.Rope].Freqs); n == 0 || n > turned || l.Rank > 0 && n != turned {
			return fmt.Errorf("rope turns %d values of a head of %d", n, turned)
		}
	}
	if !(a.Clip >= 0) {
		return fmt.Errorf("queries, keys and values are limited to %v", a.Clip)
	}
	if a.Window < 0 {
		return fmt.Errorf("sliding window of %d tokens", a.Window)
	}
	return nil
}

// attnStep is one layer's attention with its operands.
type attnStep struct {
	buf    [attnBuffers]compute.Tensor // the layer's part of the Runner's buffers
	in, o  []compute.Product
	second []compute.Product // from the latents of queries
	attn   compute.Attention
}

// makeAttention makes the buffers that the layers' attentions share.
func (r *Runner) makeAttention(tensor func(rows, cols int) compute.Tensor) {
	var most [attnBuffers]int
	for _, l := range r.m.Spec.Layers {
		for i, n := range l.Attn.widths() {
			most[i] = max(most[i], n)
		}
	}
	for i, n := range most {
		if n > 0 {
			r.attn[i] = tensor(r.rows, n)
		}
	}
}

// attnStep puts the operands of layer i's attention together.
func (r *Runner) attnStep(i int) attnStep {
	w, a := &r.m.layers[i], &r.m.Spec.Layers[i].Attn
	s := attnStep{attn: compute.Attention{Heads: a.Heads, Scale: a.Scale, Softcap: a.Softcap, Window: a.Window, Sinks: w.sinks, Bidirectional: r.m.Spec.Encoder}}
	for n, cols := range a.widths() {
		s.buf[n] = narrow(r.attn[n], cols)
	}
	q := w.q.to(s.buf[bufQueries])
	if a.Latent.QueryRank > 0 {
		s.second = []compute.Product{q}
		q = w.v.to(s.buf[bufValues])
	}
	s.in = []compute.Product{q, w.k.to(s.buf[bufKeys])}
	if a.Latent.Rank == 0 {
		s.in = append(s.in, w.v.to(s.buf[bufValues]))
	}
	if s.buf[bufGates].Cols > 0 {
		s.in = append(s.in, w.outGate.to(s.buf[bufGates]))
	}
	s.o = []compute.Product{w.o.to(r.added)}
	return s
}

// attend writes the attention of layer i on in to r.added.
func (r *Runner) attend(i int, in compute.Tensor) {
	a, s, dev := &r.m.Spec.Layers[i].Attn, &r.steps[i].attn, r.dev
	dev.MatMul(in, s.in)
	switch {
	case a.Delta.ValueHeads > 0:
		r.recur(i)
	case a.Latent.Rank > 0:
		r.attendLatents(i)
	default:
		r.attendGroups(i)
	}
	dev.MatMul(s.buf[bufMixed], s.o)
}

// attendGroups is grouped-query attention.
func (r *Runner) attendGroups(i int) {
	a, w, s, dev := &r.m.Spec.Layers[i].Attn, &r.m.layers[i], &r.steps[i].attn, r.dev
	q, k := s.buf[bufQueries], s.buf[bufKeys]
	if a.QKNorm && !a.QKNormAfterRope {
		dev.Norm(q, q, w.qNorm)
		dev.Norm(k, k, w.kNorm)
	}
	if a.Clip > 0 {
		for _, x := range []int{bufQueries, bufKeys, bufValues} {
			dev.Clamp(s.buf[x], a.Clip)
		}
	}
	r.rotate(a, q, compute.Rotary{Heads: a.Heads, HeadDim: a.HeadDim})
	r.rotate(a, k, compute.Rotary{Heads: a.KVHeads, HeadDim: a.HeadDim})
	if a.QKNorm && a.QKNormAfterRope {
		dev.Norm(q, q, w.qNorm)
		dev.Norm(k, k, w.kNorm)
	}
	dev.Store(r.cache, i, k, s.buf[bufValues])
	dev.Attend(s.buf[bufMixed], q, r.cache, i, s.attn)
	if a.Gated {
		dev.Activate(s.buf[bufMixed], s.buf[bufGates], s.buf[bufMixed], compute.Sigmoid)
	}
}

// attendLatents is latent attention with absorbed weights: a query is multiplied with the weight that would make its head's
// key of a latent, and attends to the latents themselves; what it gets is multiplied with the weight that makes values.
func (r *Runner) attendLatents(i int) {
	a, w, s, dev := &r.m.Spec.Layers[i].Attn, &r.m.layers[i], &r.steps[i].attn, r.dev
	l, q, k := &a.Latent, s.buf[bufQueries], s.buf[bufKeys]
	if l.QueryRank > 0 {
		dev.Norm(s.buf[bufValues], s.buf[bufValues], w.qNorm)
		dev.MatMul(s.buf[bufValues], s.second)
	}
	dev.Norm(k, k, w.kNorm)
	r.rotate(a, q, compute.Rotary{Heads: a.Heads, HeadDim: a.HeadDim, Skip: a.HeadDim - l.RopeDim})
	r.rotate(a, k, compute.Rotary{Heads: 1, HeadDim: l.Rank + l.RopeDim, Skip: l.Rank})
	dev.MatMulHeads(s.buf[bufWide], q, w.keysUp)
	dev.Store(r.cache, i, k, compute.Tensor{})
	dev.Attend(s.buf[bufContext], s.buf[bufWide], r.cache, i, s.attn)
	dev.MatMulHeads(s.buf[bufMixed], s.buf[bufContext], w.valuesUp)
}

// recur is a gated delta net.
func (r *Runner) recur(i int) {
	w, s, dev := &r.m.layers[i], &r.steps[i].attn, r.dev
	qkv, out := s.buf[bufQueries], s.buf[bufMixed]
	dev.Convolve(qkv, r.cache, i, w.delta)
	dev.Activate(qkv, qkv, compute.Tensor{}, compute.SiLU)
	dev.DeltaRule(out, qkv, s.buf[bufKeys], s.buf[bufValues], r.cache, i, w.delta)
	dev.Norm(out, out, w.qNorm)
	dev.Activate(out, s.buf[bufGates], out, compute.SiLU)
}

// rotate turns the heads of x by the layer's rope, if it has one.
func (r *Runner) rotate(a *Attention, x compute.Tensor, rotary compute.Rotary) {
	if a.Rope >= 0 {
		rotary.Interleaved = r.m.Spec.Ropes[a.Rope].Interleaved
		r.dev.Rotate(x, r.angles[a.Rope], rotary)
	}
}
