package choose

import (
	"math/bits"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
)

// State is what a slot chooses by: its Choosing and, if a penalty is on, how often each token came so far.
type State struct {
	by     *compute.Choosing
	seen   []seen  // by ascending token; empty if no penalty is on
	prompt int     // how many of tokens are the prompt's
	tokens []int32 // of prompt and output, if DRY or bad words ask
	dry    repeats
}

// seen says how often the output holds a token; 0 means that only the prompt holds it.
type seen struct{ id, count int32 }

// Reset begins to choose by c.
func (s *State) Reset(c *compute.Choosing) {
	s.by, s.seen, s.tokens = c, s.seen[:0], s.tokens[:0]
	if s.remembers() {
		s.prompt, s.tokens = len(c.Prompt), append(s.tokens, c.Prompt...)
	}
	if c.Penalties() && c.Repetition != 1 {
		ids := slices.Clone(c.Prompt)
		slices.Sort(ids)
		for _, id := range slices.Compact(ids) {
			s.seen = append(s.seen, seen{id: id})
		}
	}
	for _, id := range c.Output {
		s.accept(id)
	}
}

// accept appends a token to the output.
func (s *State) accept(token int32) {
	if s.remembers() {
		s.tokens = append(s.tokens, token)
	}
	if !s.by.Penalties() {
		return
	}
	i, found := slices.BinarySearchFunc(s.seen, token, func(e seen, id int32) int { return int(e.id) - int(id) })
	if !found {
		s.seen = slices.Insert(s.seen, i, seen{id: token})
	}
	s.seen[i].count++
}

// remembers reports whether the tokens so far decide, not only how often each came.
func (s *State) remembers() bool { return s.by.DRY != nil || len(s.by.BadWords) > 0 }

// forbidden is the logits of the tokens of a word that are.
var forbidden = [32]float32(slices.Repeat([]float32{negInf}, 32))

// adjust applies biases, penalties, DRY, bad words, bans and a mask, nil for none, to logits.
func (s *State) adjust(logits []float32, ban bool, mask []uint32) {
	c := s.by
	for _, b := range c.Bias {
		logits[b.Token] += b.Add
	}
	for _, e := range s.seen {
		l := logits[e.id]
		if l > 0 {
			l /= c.Repetition
		} else {
			l *= c.Repetition
		}
		if e.count > 0 {
			l -= c.Frequency * float32(e.count)
			l -= c.Presence
		}
		logits[e.id] = l
	}
	if c.DRY != nil {
		s.dry.lower(logits, s.tokens, c.DRY)
	}
	for _, word := range c.BadWords { // whose last token must not come after the others
		if last := len(word) - 1; last <= len(s.tokens)-s.prompt && slices.Equal(s.tokens[len(s.tokens)-last:], word[:last]) {
			logits[word[last]] = negInf
		}
	}
	if ban {
		for _, id := range c.Banned {
			logits[id] = negInf
		}
	}
	for i, word := range mask {
		if word == 0 && 32*i+32 <= len(logits) { // most words of most masks
			copy(logits[32*i:], forbidden[:])
			continue
		}
		for off := ^word; off != 0; off &= off - 1 {
			if id := 32*i + bits.TrailingZeros32(off); id < len(logits) {
				logits[id] = negInf
			}
		}
	}
}
