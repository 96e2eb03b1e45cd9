package model

import "fmt"

// Part is which part of a divided model a Spec describes. The zero Part is the whole model.
type Part struct{ Rank, Of int }

// Even returns where the part's share of n values begins, and its size. n is a multiple of Of.
func (p Part) Even(n int) (from, size int) {
	of := max(p.Of, 1)
	return p.Rank * (n / of), n / of
}

// First reports whether this part adds what must be added only once, such as the bias of a sum over parts.
func (p Part) First() bool { return p.Rank == 0 }

// Shard returns the Spec of part rank of a model divided into of parts (tensor parallelism, arXiv:1909.08053). Every
// part has the whole embedding table and residual stream, and all norms and routers. It has a share of each layer's
// heads, of the width of each feed-forward or expert, and of the head's vocabulary. The outputs of a mixer or
// feed-forward must be summed over all parts before they are added to the residual stream, and the logits of the
// parts concatenated. Sizes that do not divide evenly are refused by name, except that several parts may share a KV
// head.
func (s *Spec) Shard(rank, of int) (*Spec, error) {
	fail := func(format string, args ...any) (*Spec, error) {
		return nil, fmt.Errorf("model: %s: "+format, append([]any{s.Family}, args...)...)
	}
	switch {
	case of < 1 || rank < 0 || rank >= of:
		return fail("part %d of %d", rank, of)
	case s.Part.Of > 1:
		return fail("it is part %d of %d already", s.Part.Rank, s.Part.Of)
	case s.Generates() && s.Vocab%of != 0:
		return fail("a vocabulary of %d cannot be divided by %d", s.Vocab, of)
	}
	out := *s
	out.Part, out.Layers = Part{rank, of}, append([]Layer(nil), s.Layers...)
	for i := range out.Layers {
		l := &out.Layers[i]
		var err error
		if l.Mixer, err = l.Mixer.shard(of); err != nil {
			return fail("layer %d: %w", i, err)
		}
		f := &l.FFN
		if f.Width%of != 0 || f.Experts.Shared%of != 0 {
			return fail("layer %d: a feed-forward %d wide, with a shared expert of %d, cannot be divided by %d", i, f.Width, f.Experts.Shared, of)
		}
		f.Width, f.Experts.Shared = f.Width/of, f.Experts.Shared/of
	}
	return &out, nil
}
