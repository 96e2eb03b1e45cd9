package engine

import (
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/sched"
)

// entry is the part of one sequence in a step.
type entry struct {
	seq      *sequence // nil if it ended before the step was packed
	err      error
	choice   int32 // its first in batch.Choose
	scored   int32 // of these, the first ones score the prompt's tokens after so many positions
	from     int32 // the first of these positions
	draft    int32 // proposed tokens among its rows
	mask     int32 // its mask; -1: none
	read     int32 // its row in batch.Read
	hidden   int32 // its first in batch.Hidden
	pooled   int32 // rows there
	first, n int32 // what was chosen for it: n tokens of step.tokens, from first on
	pathAt   int32 // of a tree: where its proposed ones among them begin in step.path, by number
	path     int32 // how many these are
	sample   bool  // then the last rows yield tokens
	recalled bool  // tokens were forced meanwhile: what it yields does not count
}

// fill fills the mask of an entry. A panic is the fault of its constraint alone.
func (x *entry) fill(mask []uint32) {
	defer func() {
		if v := recover(); v != nil {
			x.err = fmt.Errorf("engine: a constraint panicked: %v", v)
		}
	}()
	if ids := x.seq.forced; len(ids) > 0 {
		mask[ids[0]/32] |= 1 << (ids[0] % 32)
		return
	}
	x.seq.constraint.Mask(mask)
}

// take reads what a step chose for one entry: scores of prompt tokens, a vector's rows, or tokens.
func (x *entry) take(s *step) {
	q := x.seq
	x.first = int32(len(s.tokens))
	if q == nil || q.ended || x.recalled || x.err != nil {
		return
	}
	if q.pools {
		x.pool(s)
		return
	}
	for i := range x.scored {
		c := s.handle.Chosen(int(x.choice + i))
		if c.Err != nil {
			x.err = fmt.Errorf("engine: prompt position %d: %w", x.from+i, c.Err)
			return
		}
		q.scores = append(q.scores, tokenOf(c))
	}
	if !x.sample {
		return
	}
	x.takeTokens(s)
}

// takeTokens reads the token after the last known one and, after each proposed token that was chosen, the next.
func (x *entry) takeTokens(s *step) {
	q, first, draft := x.seq, int(x.choice+x.scored), int(x.draft)
	x.pathAt = int32(len(s.path))
	for at := -1; at < draft; at = x.follow(s, first, at) {
		c := s.handle.Chosen(first + 1 + at)
		if c.Err != nil {
			if at < 0 {
				x.err = fmt.Errorf("engine: output token %d: %w", q.generated(), c.Err)
			}
			return
		}
		if at >= 0 && q.draft.Parents != nil {
			s.path = append(s.path, int32(at))
			x.path++
		}
		t := tokenOf(c)
		if q.search == nil && slices.Contains(q.stops, t.ID) {
			t.Finish = FinishStop
		}
		x.yield(s, t)
		if t.Finish != "" {
			return
		}
	}
}

// yield adds a token to what was chosen for the entry that is being taken.
func (x *entry) yield(s *step, t Token) {
	s.tokens, s.ids = append(s.tokens, t), append(s.ids, t.ID)
	x.n++
}

// tokens returns what was chosen for an entry.
func (x *entry) tokens(s *step) []Token { return s.tokens[x.first:][:x.n] }

// result returns what the scheduler is told of an entry.
func (x *entry) result(s *step) (r sched.Result) {
	r.Tokens = s.ids[x.first:][:x.n]
	if x.path > 0 {
		r.Path = s.path[x.pathAt:][:x.path]
	}
	if x.n > 0 {
		r.Finished = s.tokens[x.first+x.n-1].Finish != ""
	}
	return r
}

// follow returns the proposed token that was chosen after another, by number; x.draft: none was.
func (x *entry) follow(s *step, first, at int) int {
	draft := int(x.draft)
	for i := at + 1; i < draft; i++ {
		if x.seq.draft.Parent(i) == at {
			if c := s.handle.Chosen(first + 1 + i); c.Token >= 0 || c.Err != nil {
				return i
			}
		}
	}
	return draft
}

// tokenOf copies a choice out of the device's memory.
func tokenOf(c compute.Chosen) Token {
	t := Token{ID: c.Token, Logprob: c.Logprob, Rank: c.Rank}
	if len(c.Top) > 0 {
		t.Top = slices.Clone(c.Top)
	}
	return t
}
