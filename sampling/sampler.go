package sampling

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/compute/scan"
)

// MaxTop is the most alternatives that are reported beside a token.
const MaxTop = 128

// Candidate is a token and the natural logarithm of its probability.
type Candidate struct {
	Token   int32
	Logprob float32
}

// Choice is a token that was chosen. Its Logprob and Top are those of the model's own distribution, before biases,
// penalties, temperature and filters; they are set if they were asked for.
type Choice struct {
	Token   int32
	Logprob float32     // right to 1e-5
	Top     []Candidate // the most likely tokens, best first; valid until the Sampler's next call
}

// ErrNaN is why logits of which one is NaN or +Inf give no token.
var ErrNaN = errors.New("a logit is not a finite number")

// ErrForbidden is why logits that are all -Inf give no token.
var ErrForbidden = errors.New("every token is forbidden")

var negInf = float32(math.Inf(-1))

// Sampler chooses tokens. It holds memory for one call at a time, kept for the next, and remembers nothing else: any
// Sampler can serve any Sequence. The zero Sampler is ready.
type Sampler struct {
	raw     []float32 // the logits before adjustment, if logprobs are wanted
	peaks   []float32 // the greatest of each block of logits
	kept    []float32 // the logits of candidates
	ids     []int32   // whose they are, ascending
	weights []float32
	sums    []float32 // of blocks of weights
	classes [classes]class
	edge    []ranked // of the class that a cut is in
	top     []Candidate
}

// Sample chooses the next token of seq from the logits [vocab] of its last position, which it may change. top is how
// many alternatives the Choice names, at most MaxTop; if it is negative, the Choice has no Logprob either. The order is:
// bias, penalties, bans; then the best token if the temperature is 0, else temperature, min_p, top_k, top_p and the
// draw. The lower token wins a tie. The Sequence does not change; Accept is the caller's.
func (s *Sampler) Sample(seq *Sequence, logits []float32, top int) (Choice, error) {
	if top < 0 {
		seq.adjust(logits)
		token, err := s.choose(seq, logits)
		return Choice{Token: token}, err
	}
	s.raw = append(s.raw[:0], logits...)
	seq.adjust(logits)
	token, err := s.choose(seq, logits)
	if err != nil {
		return Choice{}, err
	}
	return s.Logprobs(s.raw, token, top)
}

// Logprobs describes a token that is known already, such as one of a prompt: its own probability and the top most likely
// alternatives, as in Sample. It does not change the logits.
func (s *Sampler) Logprobs(logits []float32, token int32, top int) (Choice, error) {
	_, most, err := s.greatest(logits)
	if err != nil {
		return Choice{}, err
	}
	norm := float64(most) + math.Log(s.weigh(logits, most, 1))
	s.top = s.top[:0]
	if n := min(top, MaxTop, len(logits)); n > 0 {
		least, _ := s.best(logits, n, most, negInf)
		s.edge = s.edge[:0]
		for i, l := range s.above(logits, least) {
			s.edge = append(s.edge, ranked{s.ids[i], l})
		}
		slices.SortFunc(s.edge, better)
		for _, r := range s.edge[:n] {
			s.top = append(s.top, Candidate{r.at, float32(float64(r.logit) - norm)})
		}
	}
	return Choice{Token: token, Logprob: float32(float64(logits[token]) - norm), Top: s.top}, nil
}

// choose picks a token from adjusted logits.
func (s *Sampler) choose(seq *Sequence, logits []float32) (int32, error) {
	best, most, err := s.greatest(logits)
	p := &seq.params
	if err != nil || p.Temperature == 0 {
		return best, err
	}
	ids, left := s.filter(logits, most, p)
	i := s.draw(left, most, 1/float64(p.Temperature), uniform(p.Seed, seq.n))
	if ids == nil {
		return i, nil
	}
	return ids[i], nil
}

// draw returns the index of the logit in whose part of the weight of all u lies, a number from 0 to below 1. Within a block the
// weights' own sum counts, not the rounded one, so that no weight gains what rounding leaves.
func (s *Sampler) draw(logits []float32, most float32, scale, u float64) int32 {
	total := s.weigh(logits, most, scale)
	at, sum, block := float64(u*total), 0.0, 0
	for sum+float64(s.sums[block]) <= at { // ends, because u·total is below total, the same sum
		sum += float64(s.sums[block])
		block++
	}
	first := block * scan.Block
	weights, own := s.weights[first:min(first+scan.Block, len(logits))], 0.0
	for _, w := range weights {
		own += float64(w)
	}
	at, sum = (at-sum)/float64(s.sums[block])*own, 0
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

// greatest returns the first of the greatest logits, and sets s.peaks to those of blocks. A logit that is no number, or +Inf, is
// an error.
func (s *Sampler) greatest(logits []float32) (id int32, most float32, err error) {
	s.peaks = resized(s.peaks, scan.Blocks(len(logits)))
	if !scan.Peaks(s.peaks, logits) {
		i := slices.IndexFunc(logits, func(l float32) bool { return !(l <= math.MaxFloat32) })
		return -1, logits[i], fmt.Errorf("sampling: token %d has logit %v: %w", i, logits[i], ErrNaN)
	}
	block, most := -1, negInf
	for b, p := range s.peaks {
		if p > most {
			block, most = b, p
		}
	}
	if block < 0 {
		return -1, most, fmt.Errorf("sampling: %w", ErrForbidden)
	}
	first := block * scan.Block
	return int32(first + slices.Index(logits[first:], most)), most, nil
}
