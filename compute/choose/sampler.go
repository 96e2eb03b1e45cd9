// Package choose goes from the logits of a row to a token, on the host: it is what compute.Choosing and
// compute.Choice mean. It keeps no clock and no hidden randomness: a token is a function of the logits, the Choosing
// and the tokens before it. Read Sampler.Choose first.
package choose

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/scan"
)

// ErrNaN is the error of logits of which one is NaN or +Inf.
var ErrNaN = errors.New("a logit is not a finite number")

// ErrForbidden is the error of logits that are all -Inf.
var ErrForbidden = errors.New("every token is forbidden")

var negInf = float32(math.Inf(-1))

// Sampler chooses tokens. It holds memory for one call at a time, kept for the next, and remembers nothing else: any
// Sampler can serve any State. The zero Sampler is ready.
type Sampler struct {
	raw     []float32 // the logits before adjustment, if log probabilities are wanted
	peaks   []float32 // the greatest of each block of logits
	kept    []float32 // the logits of candidates
	near    []float32 // fewer of these
	at      []int32   // their places among them
	ids     []int32   // their tokens, ascending
	weights []float32
	scores  []float32 // of typical sampling
	sums    []float32 // of blocks of weights
	classes [classes]class
	edge    []ranked // of the class that a cut is in
	top     []compute.Candidate
}

// Choose does what c asks for with the logits [vocab] of its row, which it may change, and adds the token to the
// state. mask is nil, or the words of Choice.Mask. The result's Top is valid until the Sampler's next call.
func (s *Sampler) Choose(state *State, logits []float32, c compute.Choice, mask []uint32) compute.Chosen {
	if c.Given >= 0 {
		chosen := s.describe(logits, c.Given, c.Top)
		if c.Rank && chosen.Err == nil {
			chosen.Rank = rank(logits, c.Given)
		}
		return chosen
	}
	if c.Top >= 0 {
		s.raw = append(s.raw[:0], logits...)
	}
	state.adjust(logits, c.Ban, mask)
	token, err := s.choose(state.by, c.N, logits)
	if err != nil {
		return compute.Chosen{Token: -1, Err: err}
	}
	state.accept(token)
	if c.Top < 0 {
		return compute.Chosen{Token: token}
	}
	return s.describe(s.raw, token, c.Top)
}

// describe returns a token's own probability and the top most likely alternatives. It does not change the logits.
func (s *Sampler) describe(logits []float32, token, top int32) compute.Chosen {
	_, most, err := s.greatest(logits)
	if err != nil {
		return compute.Chosen{Token: -1, Err: err}
	}
	norm := float64(most) + math.Log(s.total(logits, most, 1))
	s.top = s.top[:0]
	if n := min(int(top), len(logits)); n > 0 {
		least := s.best(logits, n, most, negInf)
		s.edge = s.edge[:0]
		for i, l := range s.above(logits, least) {
			s.edge = append(s.edge, ranked{s.ids[i], l})
		}
		slices.SortFunc(s.edge, better)
		for _, r := range s.edge[:n] {
			s.top = append(s.top, compute.Candidate{Token: r.at, Logprob: float32(float64(r.logit) - norm)})
		}
	}
	return compute.Chosen{Token: token, Logprob: float32(float64(logits[token]) - norm), Top: s.top}
}

// rank returns the place of a token in the order of the logits: 1 is the greatest, and of equals the lower token's.
func rank(logits []float32, token int32) int32 {
	own, n := logits[token], int32(1)
	for i, l := range logits {
		if l > own || l == own && int32(i) < token {
			n++
		}
	}
	return n
}

// choose picks token n of an output from adjusted logits.
func (s *Sampler) choose(p *compute.Choosing, n uint64, logits []float32) (int32, error) {
	best, most, err := s.greatest(logits)
	if err != nil || p.Temperature == 0 {
		return best, err
	}
	if p.Chain != nil {
		return s.chained(logits, most, p, n), nil
	}
	ids, at, left := s.filter(logits, most, p)
	i := s.draw(left, most, 1/float64(p.Temperature), uniform(p.Seed, n))
	if at != nil {
		i = at[i]
	}
	if ids != nil {
		i = ids[i]
	}
	return i, nil
}

// draw returns the index of the logit in whose part of the weight of all u lies, a number from 0 to below 1. Within a
// block the weights' own sum counts, not the rounded one, so that no weight gains what rounding leaves.
func (s *Sampler) draw(logits []float32, most float32, scale, u float64) int32 {
	total := s.total(logits, most, scale)
	at, sum, block := float64(u*total), 0.0, 0
	for sum+float64(s.sums[block]) <= at { // ends, because u·total is below total, the same sum
		sum += float64(s.sums[block])
		block++
	}
	first, part := block*scan.Block, s.sums[block]
	logits = logits[first:min(first+scan.Block, len(logits))]
	weights, own := s.weights[:len(logits)], 0.0
	scan.Weigh(weights, s.sums[:1], logits, most, scale)
	for _, w := range weights {
		own += float64(w)
	}
	at, sum = (at-sum)/float64(part)*own, 0
	drawn := 0
	for i, w := range weights {
		if w > 0 {
			drawn = i
			if sum += float64(w); sum > at {
				break
			}
		}
	}
	return int32(first + drawn)
}

// greatest returns the first of the greatest logits, and sets s.peaks to those of blocks. A logit that is no number,
// or +Inf, is an error.
func (s *Sampler) greatest(logits []float32) (id int32, most float32, err error) {
	s.peaks = resized(s.peaks, scan.Blocks(len(logits)))
	if !scan.Peaks(s.peaks, logits) {
		i := slices.IndexFunc(logits, func(l float32) bool { return !(l <= math.MaxFloat32) })
		return -1, logits[i], fmt.Errorf("token %d has logit %v: %w", i, logits[i], ErrNaN)
	}
	block, most := -1, negInf
	for b, p := range s.peaks {
		if p > most {
			block, most = b, p
		}
	}
	if block < 0 {
		return -1, most, ErrForbidden
	}
	first := block * scan.Block
	return int32(first + slices.Index(logits[first:], most)), most, nil
}
