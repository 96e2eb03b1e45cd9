package sampling

import (
	"errors"
	"fmt"
	"math"
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
	Logprob float32
	Top     []Candidate // the most likely tokens, best first; valid until the Sampler's next call
}

// ErrNaN is why logits of which one is NaN or +Inf give no token.
var ErrNaN = errors.New("a logit is not a finite number")

// ErrForbidden is why logits that are all -Inf give no token.
var ErrForbidden = errors.New("every token is forbidden")

// Sampler chooses tokens. It holds memory for one call at a time, kept for the next, and remembers nothing else: any
// Sampler can serve any Sequence. The zero Sampler is ready.
type Sampler struct {
	raw     []float32   // the logits before adjustment, if logprobs are wanted
	cands   []candidate // by ascending token
	edge    []candidate // of the bucket that a cut falls in
	buckets [buckets]bucket
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
	_, best, err := greatest(logits)
	if err != nil {
		return Choice{}, err
	}
	sum := 0.0
	for _, l := range logits {
		sum += exp(float64(l) - float64(best))
	}
	norm := float64(best) + math.Log(sum)
	s.top = s.top[:0]
	for id, l := range logits {
		if len(s.top) < min(top, MaxTop) {
			s.top = append(s.top, Candidate{Logprob: negInf})
		} else if len(s.top) == 0 || l <= s.top[len(s.top)-1].Logprob {
			continue
		}
		i := len(s.top) - 1
		for ; i > 0 && s.top[i-1].Logprob < l; i-- {
			s.top[i] = s.top[i-1]
		}
		s.top[i] = Candidate{Token: int32(id), Logprob: l}
	}
	for i := range s.top {
		s.top[i].Logprob = float32(float64(s.top[i].Logprob) - norm)
	}
	return Choice{Token: token, Logprob: float32(float64(logits[token]) - norm), Top: s.top}, nil
}

// choose picks a token from adjusted logits.
func (s *Sampler) choose(seq *Sequence, logits []float32) (int32, error) {
	best, most, err := greatest(logits)
	p := &seq.params
	if err != nil || p.Temperature == 0 {
		return best, err
	}
	sum := s.collect(logits, most, p)
	at := uniform(p.Seed, seq.n) * sum
	for _, c := range s.cands {
		if at -= c.weight; at < 0 {
			return c.id, nil
		}
	}
	return s.cands[len(s.cands)-1].id, nil // rounding left a rest
}

// greatest returns the first of the greatest logits. A logit that is no number, or +Inf, is an error.
func greatest(logits []float32) (id int32, logit float32, err error) {
	id, logit = -1, negInf
	for i, l := range logits {
		if !(l <= logit) { // also of a NaN
			if l != l || l > math.MaxFloat32 {
				return -1, l, fmt.Errorf("sampling: token %d has logit %v: %w", i, l, ErrNaN)
			}
			id, logit = int32(i), l
		}
	}
	if id < 0 {
		return id, logit, fmt.Errorf("sampling: %w", ErrForbidden)
	}
	return id, logit, nil
}
