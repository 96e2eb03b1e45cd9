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
	attn                  [attnBuffers]compute.Tensor
	ffn                   ffnBuffers
	angles                []compute.Tensor // [rows, 2·frequencies] of each rope
	last                  compute.Tensor   // [rows, Hidden], rows whose logits are wanted
	pooled                compute.Tensor   // [rows, Hidden] of an encoder with classes
	logits                compute.Tensor   // [logit rows, Outputs]
	wanted                []int32          // Batch.Hidden of the last batch
}

// step is one layer's products with their operands, put together once.
type step struct {
	attn attnStep
	ffn  ffnStep
}

// NewRunner makes a Runner for batches of up to rows tokens over a cache of blocks blocks of blockTokens tokens, with slots
// for the recurrent state of states sequences, if the model has such.
func (m *Model) NewRunner(rows, blocks, blockTokens, states int) (*Runner, error) {
	r := &Runner{m: m, dev: m.dev, rows: rows}
	var err error
	spec := m.Spec.Cache(blocks, blockTokens, states)
	spec.Type = m.KVType
	r.cache, err = m.dev.Cache(spec)
	if err != nil {
		return nil, err
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
	r.makeAttention(make)
	for _, rope := range m.Spec.Ropes {
		r.angles = append(r.angles, make(rows, 2*len(rope.Freqs)))
	}
	if n := m.Spec.Outputs(); n > 0 {
		r.logits = make(1, n)
	}
	if m.Spec.Classes > 0 {
		r.pooled = make(rows, h)
	}
	if e := r.makeFFN(make); err == nil {
		err = e
	}
	for i := range m.layers {
		r.steps = append(r.steps, step{r.attnStep(i), r.ffnStep(i)})
	}
	return r, err
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

// Hidden returns the final hidden state [Hidden], after the last norm, of row b.Hidden[i] of the last batch. It is valid until
// the next Forward.
func (r *Runner) Hidden(i int) []float32 { return r.dev.Read(r.hidden, int(r.wanted[i])) }

// Logits returns the logits [Outputs] of row b.Logits[i] of the last batch. They are valid until the next Forward and may
// be written to.
func (r *Runner) Logits(i int) []float32 { return r.dev.Read(r.logits, i) }

// BlockBytes returns how many bytes PackBlock writes and UnpackBlock reads: what a block of the cache holds.
func (r *Runner) BlockBytes() int { return r.dev.BlockBytes(r.cache) }

// PackBlock writes what a block of the cache holds to dst.
func (r *Runner) PackBlock(block int32, dst []byte) { r.dev.PackBlock(r.cache, block, dst) }

// UnpackBlock gives a block of the cache the contents that PackBlock wrote.
func (r *Runner) UnpackBlock(block int32, src []byte) { r.dev.UnpackBlock(r.cache, block, src) }

// CopyBlock copies what one block of the cache holds to another.
func (r *Runner) CopyBlock(from, to int32) { r.dev.CopyBlock(r.cache, from, to) }

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
	if err := spec.checkEncoder(b); err != nil {
		return err
	}
	if n := len(b.Logits); n > r.logits.Rows {
		var err error
		if r.logits, err = dev.Tensor(n, spec.Outputs()); err != nil {
			return err
		}
	}
	for i := range b.Seqs {
		b.Seqs[i].Long = b.Seqs[i].Long || spec.Long(int(b.Seqs[i].Start+b.Seqs[i].Rows))
	}
	dev.Begin(b)
	for _, c := range b.Copies {
		dev.CopyBlock(r.cache, c[0], c[1])
	}
	b.Copies = b.Copies[:0]
	r.embed()
	for i, rope := range spec.Ropes {
		dev.Angles(r.angles[i], r.m.freqs[i], r.m.long[i], rope.Scale)
	}
	for i := range spec.Layers {
		r.layer(i)
	}
	if spec.normed() && len(b.Logits)+len(b.Hidden) > 0 {
		dev.Norm(r.hidden, r.hidden, r.m.norm)
	}
	r.wanted = append(r.wanted[:0], b.Hidden...)
	if len(b.Logits) > 0 {
		dev.Gather(r.last, r.hidden)
		last := r.last
		if spec.Classes > 0 {
			last = r.pooled
			dev.Head(last, r.last, r.m.pooler.to(last), 1, 1) // which is a tanh
		}
		dev.Head(r.logits, last, r.m.head.to(r.logits), spec.LogitScale, spec.LogitSoftcap)
	}
	return dev.Sync()
}

// checkEncoder refuses a batch with what an encoder alone takes, or with a part of a sequence for one.
func (s *Spec) checkEncoder(b *compute.Batch) error {
	for r, t := range b.Types {
		if t < 0 || int(t) >= max(s.TokenTypes, 1) {
			return fmt.Errorf("model: row %d: token type %d; %s has %d", r, t, s.Family, s.TokenTypes)
		}
	}
	if len(b.Logits) > 0 && s.Outputs() == 0 {
		return fmt.Errorf("model: logits are wanted of %s, an encoder without classes", s.Family)
	}
	for i, q := range b.Seqs {
		if s.Encoder && q.Start != 0 {
			return fmt.Errorf("model: sequence %d: tokens from position %d on; %s is an encoder, and takes a sequence whole", i, q.Start, s.Family)
		}
	}
	return nil
}

// embed writes the embeddings of the batch to r.hidden.
func (r *Runner) embed() {
	spec, dev := r.m.Spec, r.dev
	dev.Embed(r.hidden, r.m.embed, spec.EmbedScale)
	if spec.TokenTypes > 0 {
		dev.AddTypes(r.hidden, r.m.types)
	}
	if spec.Positions > 0 {
		dev.AddPositions(r.hidden, r.m.positions)
	}
	if spec.EmbedNorm {
		dev.Norm(r.hidden, r.hidden, r.m.embedNorm)
	}
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
		if l.SumNorm {
			dev.Norm(r.hidden, r.hidden, w.attnPost)
		}
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
	if l.SumNorm {
		dev.Norm(r.hidden, r.hidden, w.ffnPost)
	}
}
