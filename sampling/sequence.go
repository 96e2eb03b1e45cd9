package sampling

import "slices"

// Sequence is what sampling remembers of one request: its parameters and, if a penalty is on, the tokens so far.
type Sequence struct {
	// Banned are tokens that must not be chosen next, such as the end of the text before a minimum length. The caller
	// sets it, and may change it between tokens.
	Banned []int32

	params    Params
	bias      []bias
	penalties bool
	seen      []seen // by ascending token
	n         uint64 // output tokens so far
}

// seen says how often the output holds a token; 0 means that only the prompt holds it.
type seen struct{ id, count int32 }

// NewSequence starts a request with parameters that passed Check and a prompt whose tokens are within the vocabulary.
func NewSequence(p Params, prompt []int32) *Sequence {
	s := &Sequence{params: p, bias: sortedBias(p.LogitBias)}
	s.penalties = p.RepetitionPenalty != 1 || p.PresencePenalty != 0 || p.FrequencyPenalty != 0
	if p.RepetitionPenalty != 1 {
		ids := slices.Clone(prompt)
		slices.Sort(ids)
		for _, id := range slices.Compact(ids) {
			s.seen = append(s.seen, seen{id: id})
		}
	}
	return s
}

// Accept appends a token to the output.
func (s *Sequence) Accept(token int32) {
	s.n++
	if !s.penalties {
		return
	}
	i, found := slices.BinarySearchFunc(s.seen, token, func(e seen, id int32) int { return int(e.id) - int(id) })
	if !found {
		s.seen = slices.Insert(s.seen, i, seen{id: token})
	}
	s.seen[i].count++
}

// adjust applies biases, penalties and bans to logits.
func (s *Sequence) adjust(logits []float32) {
	for _, b := range s.bias {
		logits[b.id] += b.add
	}
	if s.penalties {
		p := &s.params
		for _, e := range s.seen {
			l := logits[e.id]
			if l > 0 {
				l /= p.RepetitionPenalty
			} else {
				l *= p.RepetitionPenalty
			}
			if e.count > 0 {
				l -= p.FrequencyPenalty * float32(e.count)
				l -= p.PresencePenalty
			}
			logits[e.id] = l
		}
	}
	for _, id := range s.Banned {
		logits[id] = negInf
	}
}
