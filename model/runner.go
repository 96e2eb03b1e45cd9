package model

import (
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
)

// Runner runs batches through a Model with a KV cache and activation buffers of its own. It is used by one goroutine at a
// time.
type Runner struct {
	m     *Model
	dev   compute.Device
	cache compute.Cache
	steps []step
	rows  int // capacity of a batch

	hidden, normed, added compute.Tensor // [rows, Hidden]
	q, k, v, mixed        compute.Tensor // [rows, widest of all layers' queries, keys, values, attention outputs]
	ffn                   ffnBuffers
	angles                []compute.Tensor // [rows, 2·frequencies] of each rope
	last                  compute.Tensor   // [rows, Hidden], rows whose logits are wanted
	logits                compute.Tensor   // [logit rows, Vocab]
}

// step is one layer's products with their operands, put together once.
type step struct {
	q, k, v, mixed compute.Tensor // the layer's part of the Runner's buffers
	qkv, o         []compute.Product
	attn           compute.Attention
	ffn            ffnStep
}

// NewRunner makes a Runner for batches of up to rows tokens over a cache of blocks blocks of blockTokens tokens.
func (m *Model) NewRunner(rows, blocks, blockTokens int) (*Runner, error) {
	r := &Runner{m: m, dev: m.dev, rows: rows}
	var err error
	r.cache, err = m.dev.Cache(compute.CacheSpec{Blocks: blocks, BlockTokens: blockTokens, Layers: m.Spec.KVLayers()})
	if err != nil {
		return nil, err
	}
	var q, k, v, mixed int
	for _, l := range m.Spec.Layers {
		a := l.Attn
		q, k = max(q, a.Heads*a.HeadDim), max(k, a.KVHeads*a.HeadDim)
		v, mixed = max(v, a.KVHeads*a.ValueDim), max(mixed, a.Heads*a.ValueDim)
	}
	make := func(rows, cols int) compute.Tensor {
		t, e := m.dev.Tensor(rows, cols)
		if err == nil {
			err = e
		}
		return t
	}
	h := m.Spec.Hidden
	r.hidden, r.normed, r.added, r.last = make(rows, h), make(rows, h), make(rows, h), make(rows, h)
	r.q, r.k, r.v, r.mixed = make(rows, q), make(rows, k), make(rows, v), make(rows, mixed)
	for _, rope := range m.Spec.Ropes {
		r.angles = append(r.angles, make(rows, 2*len(rope.Freqs)))
	}
	r.logits = make(1, m.Spec.Vocab)
	if e := r.makeFFN(make); err == nil {
		err = e
	}
	for i := range m.layers {
		r.steps = append(r.steps, r.step(i))
	}
	return r, err
}

// step puts layer i's operands together.
func (r *Runner) step(i int) step {
	w, l := &r.m.layers[i], r.m.Spec.Layers[i]
	a := l.Attn
	s := step{
		q: narrow(r.q, a.Heads*a.HeadDim), k: narrow(r.k, a.KVHeads*a.HeadDim), v: narrow(r.v, a.KVHeads*a.ValueDim),
		mixed: narrow(r.mixed, a.Heads*a.ValueDim), ffn: r.ffnStep(i),
		attn: compute.Attention{Heads: a.Heads, Scale: a.Scale, Softcap: a.Softcap, Window: a.Window, Sinks: w.sinks},
	}
	s.qkv = []compute.Product{w.q.to(s.q), w.k.to(s.k), w.v.to(s.v)}
	s.o = []compute.Product{w.o.to(r.added)}
	return s
}

func (l linear) to(dst compute.Tensor) compute.Product {
	p := compute.Product{Dst: dst, W: l.w, Bias: l.bias}
	if l.at != nil {
		p.Adapters = l.at.adapters
	}
	return p
}

// narrow returns the same memory as rows of cols values.
func narrow(t compute.Tensor, cols int) compute.Tensor {
	t.Cols = cols
	return t
}

// Cache returns the Runner's KV cache.
func (r *Runner) Cache() compute.Cache { return r.cache }

// Logits returns the logits [Vocab] of row b.Logits[i] of the last batch. They are valid until the next Forward and may
// be written to.
func (r *Runner) Logits(i int) []float32 { return r.dev.Read(r.logits, i) }

// Forward computes one batch: keys and values go to the cache, logits can be read when it returns. A batch that does not
// fit the Runner or contradicts itself is refused.
func (r *Runner) Forward(b *compute.Batch) error {
	spec, dev := r.m.Spec, r.dev
	if b.Rows() == 0 || b.Rows() > r.rows {
		return fmt.Errorf("model: a batch of %d rows; want 1 to %d", b.Rows(), r.rows)
	}
	cs := r.cache.Spec()
	if err := b.Check(spec.Vocab, cs); err != nil {
		return err
	}
	if err := r.m.checkAdapters(b); err != nil {
		return err
	}
	if last := slices.Max(b.Pos); spec.Positions > 0 && int(last) >= spec.Positions {
		return fmt.Errorf("model: a batch with position %d; %s has %d learned positions", last, spec.Family, spec.Positions)
	}
	if n := len(b.Logits); n > r.logits.Rows {
		var err error
		if r.logits, err = dev.Tensor(n, spec.Vocab); err != nil {
			return err
		}
	}
	dev.Begin(b)
	dev.Embed(r.hidden, r.m.embed, spec.EmbedScale)
	if spec.Positions > 0 {
		dev.AddPositions(r.hidden, r.m.positions)
	}
	for i, rope := range spec.Ropes {
		dev.Angles(r.angles[i], r.m.freqs[i], rope.Scale)
	}
	for i := range spec.Layers {
		r.layer(i)
	}
	if len(b.Logits) > 0 {
		dev.Norm(r.hidden, r.hidden, r.m.norm)
		dev.Gather(r.last, r.hidden)
		dev.Head(r.logits, r.last, r.m.head.to(r.logits), spec.LogitScale, spec.LogitSoftcap)
	}
	return dev.Sync()
}

// layer runs one layer on the residual stream r.hidden.
func (r *Runner) layer(i int) {
	spec, l, w, dev := r.m.Spec, &r.m.Spec.Layers[i], &r.m.layers[i], r.dev
	in := r.hidden
	if l.PreNorm {
		dev.Norm(r.normed, r.hidden, w.attnNorm)
		in = r.normed
	}
	r.attend(i, in)
	if l.PostNorm {
		dev.Norm(r.added, r.added, w.attnPost)
	}
	if !l.Parallel {
		dev.Add(r.hidden, r.added, spec.ResidualScale)
		if in = r.hidden; l.PreNorm {
			dev.Norm(r.normed, r.hidden, w.ffnNorm)
			in = r.normed
		}
	}
	r.feedForward(i, in)
	if l.PostNorm {
		dev.Norm(r.added, r.added, w.ffnPost)
	}
	dev.Add(r.hidden, r.added, spec.ResidualScale)
}

// attend writes the attention of layer i on in to r.added.
func (r *Runner) attend(i int, in compute.Tensor) {
	a, w, s, dev := &r.m.Spec.Layers[i].Attn, &r.m.layers[i], &r.steps[i], r.dev
	dev.MatMul(in, s.qkv)
	if a.QKNorm && !a.QKNormAfterRope {
		dev.Norm(s.q, s.q, w.qNorm)
		dev.Norm(s.k, s.k, w.kNorm)
	}
	if a.Rope >= 0 {
		rope := r.m.Spec.Ropes[a.Rope]
		dev.Rotate(s.q, r.angles[a.Rope], compute.Rotary{Heads: a.Heads, HeadDim: a.HeadDim, Interleaved: rope.Interleaved})
		dev.Rotate(s.k, r.angles[a.Rope], compute.Rotary{Heads: a.KVHeads, HeadDim: a.HeadDim, Interleaved: rope.Interleaved})
	}
	if a.QKNorm && a.QKNormAfterRope {
		dev.Norm(s.q, s.q, w.qNorm)
		dev.Norm(s.k, s.k, w.kNorm)
	}
	dev.Store(r.cache, i, s.k, s.v)
	dev.Attend(s.mixed, s.q, r.cache, i, s.attn)
	dev.MatMul(s.mixed, s.o)
}
