package sched

// Tokens are those of a sequence whose values are known: its prompt, and what Commit and Force told. The newest are
// kept beside what else a step touches of the sequence, and are moved to the others from time to time: each list of a
// whole context is in pages of its own, and to write one token to each in every step takes longer than to plan it.
type Tokens struct {
	recent [16]int32 // of token i, if it is not among the older ones, i modulo 16
	known  int       // tokens
	older  *[]int32  // the first of them
}

// tokensOf returns the given tokens.
func tokensOf(all []int32) Tokens { return Tokens{known: len(all), older: &all} }

// Len returns how many there are.
func (t *Tokens) Len() int { return t.known }

// All returns all of them. They must not be changed, and are valid until more are known.
func (t *Tokens) All() []int32 {
	all := *t.older
	for i := len(all); i < t.known; i++ {
		all = append(all, t.recent[i%len(t.recent)])
	}
	*t.older = all
	return all
}

// add appends tokens.
func (t *Tokens) add(tokens []int32) {
	for _, id := range tokens {
		i := t.known % len(t.recent)
		if i == 0 {
			t.All()
		}
		t.recent[i] = id
		t.known++
	}
}

// Tokens returns those of a sequence, nil if there is none of that name. They stay as they are when it ends.
func (s *Scheduler) Tokens(id SeqID) *Tokens {
	if q := s.byID[id]; q != nil {
		return &q.Tokens
	}
	return nil
}
