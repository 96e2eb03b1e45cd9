package sched

// Tokens are those of a sequence whose values are known: its prompt, and what Commit and Force told. The newest are
// kept beside what else a step touches of the sequence, and are moved to the others from time to time: each list of a
// whole context is in pages of its own, and to write one token to each in every step takes longer than to plan it.
type Tokens struct {
	n      int // of recent
	all    []int32
	recent [16]int32
}

// Len returns how many there are.
func (t *Tokens) Len() int { return len(t.all) + t.n }

// All returns all of them. They must not be changed, and are valid until more are known.
func (t *Tokens) All() []int32 {
	if t.n > 0 {
		t.all = append(t.all, t.recent[:t.n]...)
		t.n = 0
	}
	return t.all
}

// add appends tokens.
func (t *Tokens) add(tokens []int32) {
	for _, id := range tokens {
		if t.n == len(t.recent) {
			t.All()
		}
		t.recent[t.n] = id
		t.n++
	}
}

// Tokens returns those of a sequence, nil if there is none of that name. They stay as they are when it ends.
func (s *Scheduler) Tokens(id SeqID) *Tokens {
	if q := s.byID[id]; q != nil {
		return &q.tokens
	}
	return nil
}
