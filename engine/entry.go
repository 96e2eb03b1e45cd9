package engine

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/sched"
)

// entry is the part of one sequence in a step, in few bytes; what most have not is apart.
type entry struct {
	seq      *sequence // nil if it ended before the step was packed
	choice   int32     // its first in batch.Choose
	scored   int32     // of these, the first ones score the prompt's tokens after so many positions
	mask     int32     // its mask; -1: none
	first, n int32     // what was chosen for it: n tokens of step.tokens, from first on
	draft    int32     // proposed tokens among its rows
	rare     int32     // 1 + its number in step.rare; 0: it has none
	sample   bool      // then the last rows yield tokens
	recalled bool      // tokens were forced meanwhile: what it yields does not count
	forced   bool      // its mask allows one token
}

// rare is what few entries have.
type rare struct {
	err    error
	from   int32 // the first of the positions that it scores
	read   int32 // its row in batch.Read
	hidden int32 // its first in batch.Hidden
	pooled int32 // rows there
	pathAt int32 // of a tree: where its proposed tokens that were chosen begin in step.path, by number
	path   int32 // how many these are
}

// rareOf returns what only few entries have, to be set. It is valid until it is called for another entry.
func (s *step) rareOf(x *entry) *rare {
	if x.rare == 0 {
		s.rare = append(s.rare, rare{})
		x.rare = int32(len(s.rare))
	}
	return &s.rare[x.rare-1]
}

// err returns why an entry failed, nil if it did not.
func (s *step) err(x *entry) error {
	if x.rare == 0 {
		return nil
	}
	return s.rare[x.rare-1].err
}

// begin makes an empty entry the part of a sequence in a step.
func (x *entry) begin(q *sequence, w *sched.Work) {
	x.seq, x.sample, x.draft, x.mask = q, w.Sample, int32(w.Draft), -1
}

// fill fills the mask of an entry. A panic is the fault of its constraint alone.
func (x *entry) fill(s *step, mask []uint32) {
	defer func() {
		if v := recover(); v != nil {
			s.rareOf(x).err = fmt.Errorf("engine: a constraint panicked: %v", v)
		}
	}()
	if ids := x.seq.forced; len(ids) > 0 {
		mask[ids[0]/32] |= 1 << (ids[0] % 32)
		x.forced = true
		return
	}
	x.seq.constraint.Mask(mask)
	x.forced = single(mask)
}

// single reports whether a mask allows exactly one token.
func single(mask []uint32) bool {
	n := 0
	for _, w := range mask {
		if n += bits.OnesCount32(w); n > 1 {
			return false
		}
	}
	return n == 1
}

// take reads what a step chose for one entry: scores of prompt tokens, a vector's rows, or tokens.
func (x *entry) take(s *step) {
	q := x.seq
	x.first = int32(len(s.tokens))
	if q == nil || q.ended || x.recalled || s.err(x) != nil {
		return
	}
	if !q.plain && q.pools {
		x.pool(s)
		return
	}
	for i := range x.scored {
		c := s.handle.Chosen(int(x.choice + i))
		if c.Err != nil {
			r := s.rareOf(x)
			r.err = fmt.Errorf("engine: prompt position %d: %w", r.from+i, c.Err)
			return
		}
		q.scores = append(q.scores, chosen(&c).token())
	}
	if !x.sample {
		return
	}
	x.takeTokens(s)
}

// takeTokens reads the token after the last known one and, after each proposed token that was chosen, the next.
func (x *entry) takeTokens(s *step) {
	q, first, draft := x.seq, int(x.choice+x.scored), int(x.draft)
	tree := draft > 0 && q.drafting.Parents != nil
	if tree {
		s.rareOf(x).pathAt = int32(len(s.path))
	}
	for at := -1; at < draft; at = x.follow(s, first, at) {
		c := s.handle.Chosen(first + 1 + at)
		if c.Err != nil {
			if at < 0 {
				s.rareOf(x).err = fmt.Errorf("engine: output token %d: %w", q.generated(), c.Err)
			}
			return
		}
		if at >= 0 {
			s.tokens[len(s.tokens)-1].origin = originGuessed
		}
		if at >= 0 && tree {
			s.path = append(s.path, int32(at))
			s.rareOf(x).path++
		}
		t := chosen(&c)
		if !q.plain && q.wide {
			t = x.widen(s, t)
		}
		if x.forced {
			t.origin = originForced
		}
		if q.stopsAt(t.id) && (q.plain || q.search == nil) {
			last := t.token()
			last.Finish = FinishStop
			x.yield(s, briefOf(last))
			return
		}
		x.yield(s, t)
	}
}

// widen makes a token's alternatives of the logits that it was chosen from. Its own log probability tells the
// distribution's total.
func (x *entry) widen(s *step, t brief) brief {
	q, logits := x.seq, s.handle.Logits(int(s.rareOf(x).read))
	norm := float64(logits[t.id]) - float64(t.logprob)
	whole := t.token()
	add := func(id int32) {
		whole.Top = append(whole.Top, compute.Candidate{Token: id, Logprob: float32(float64(logits[id]) - norm)})
	}
	if ids := q.req.LogprobTokens; len(ids) > 0 {
		whole.Top = make([]compute.Candidate, 0, len(ids))
		for _, id := range ids {
			add(id)
		}
		return briefOf(whole)
	}
	whole.Top = make([]compute.Candidate, 0, len(logits))
	for id := range logits {
		add(int32(id))
	}
	return briefOf(whole)
}

// yield adds a token to what was chosen for the entry that is being taken.
func (x *entry) yield(s *step, t brief) {
	s.tokens, s.ids = append(s.tokens, t), append(s.ids, t.id)
	x.n++
}

// tokens returns what was chosen for an entry.
func (x *entry) tokens(s *step) []brief { return s.tokens[x.first:][:x.n] }

// result sets what the scheduler is told of an entry.
func (x *entry) result(s *step, r *sched.Result) {
	r.Tokens, r.Path = s.ids[x.first:][:x.n], nil
	if x.rare > 0 {
		if o := &s.rare[x.rare-1]; o.path > 0 {
			r.Path = s.path[o.pathAt:][:o.path]
		}
	}
	r.Finished = x.n > 0 && s.tokens[x.first+x.n-1].last()
}

// follow returns the proposed token that was chosen after another, by number; x.draft: none was.
func (x *entry) follow(s *step, first, at int) int {
	draft := int(x.draft)
	for i := at + 1; i < draft; i++ {
		if x.seq.drafting.Parent(i) == at {
			if c := s.handle.Chosen(first + 1 + i); c.Token >= 0 || c.Err != nil {
				return i
			}
		}
	}
	return draft
}

// chosen copies a choice out of the device's memory.
func chosen(c *compute.Chosen) brief {
	t := brief{id: c.Token, rank: c.Rank, logprob: c.Logprob}
	if len(c.Top) > 0 {
		t.all = &Token{ID: c.Token, Logprob: c.Logprob, Rank: c.Rank, Top: slices.Clone(c.Top)}
	}
	return t
}
