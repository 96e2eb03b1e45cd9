package sampling

import (
	"cmp"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/compute/scan"
)

// candidates are tokens that may be drawn, and their logits.
type candidates struct {
	ids    []int32 // ascending; nil: all tokens
	logits []float32
}

// resized returns memory for n values, that of s if it is enough.
func resized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// keep leaves the candidates whose logits are at least least.
func (s *Sampler) keep(c candidates, least float32) candidates {
	if c.ids == nil {
		s.ids, s.logits = resized(s.ids, len(c.logits)), resized(s.logits, len(c.logits))
		n := scan.Keep(s.ids, s.logits, c.logits, least)
		return candidates{s.ids[:n], s.logits[:n]}
	}
	s.at = resized(s.at, len(c.logits))
	n := scan.Keep(s.at, c.logits, c.logits, least)
	for j, i := range s.at[:n] {
		c.ids[j] = c.ids[i]
	}
	return candidates{c.ids[:n], c.logits[:n]}
}

// weigh sets s.weights to e^((logit - most)·scale) for each logit, s.sums to the sums of blocks of them, and returns the sum of
// all.
func (s *Sampler) weigh(logits []float32, most float32, scale float64) (total float64) {
	s.weights = resized(s.weights, len(logits))
	s.sums = resized(s.sums, scan.Blocks(len(logits)))
	scan.Weigh(s.weights, s.sums, logits, most, scale)
	for _, sum := range s.sums {
		total += float64(sum)
	}
	return total
}

// weightless is how far below the greatest a logit, divided by the temperature, weighs nothing.
const weightless = -88

// filter returns the tokens that min_p, top_k and top_p leave. s.peaks are the logits', of which most is the greatest. Each
// filter leaves the tokens that rank before some last one.
func (s *Sampler) filter(logits []float32, most float32, p *Params) candidates {
	c := candidates{logits: logits}
	floor := float64(weightless)
	if p.MinP > 0 {
		floor = max(floor, math.Log(float64(p.MinP)))
	}
	least := below(most, floor, p)
	if p.TopK > 0 && p.TopK < len(logits) {
		c, least = s.best(c, p.TopK, most, least)
	} else if p.MinP > 0 {
		c = s.keep(c, least)
	}
	if p.TopP < 1 {
		c = s.share(c, most, least, p)
	}
	return c
}

// below returns the logit whose weight is e^exponent, if most weighs 1.
func below(most float32, exponent float64, p *Params) float32 {
	return float32(max(float64(most)+float64(exponent*float64(p.Temperature)), -math.MaxFloat32))
}

// best leaves the n best candidates, of all tokens those from least on, and returns the logit of the last. s.peaks are those of
// the logits; they are lost.
func (s *Sampler) best(c candidates, n int, most, least float32) (candidates, float32) {
	if n <= len(s.peaks) {
		// So many logits are at least as great as the n-th of the peaks.
		lowest := max(slices.Min(s.peaks), most+weightless)
		least = max(least, s.cut(s.peaks, nil, most, lowest, n, 0))
	}
	c = s.keep(c, least)
	if n < len(c.logits) {
		least = s.cut(c.logits, nil, most, max(least, most+weightless), n, 0)
		c = s.keep(c, least)
	}
	return c, least
}

// share leaves the best candidates, as few as make up the share TopP of the weight of all. least is at most the least logit that
// weighs anything.
func (s *Sampler) share(c candidates, most, least float32, p *Params) candidates {
	scale := 1 / float64(p.Temperature)
	sum := s.weigh(c.logits, most, scale)
	limit := float64(p.TopP) * sum
	for range 2 {
		// If each of those that go weighs less than an equal part of what may go, it is not too much.
		if part := 0.999 * (sum - limit) / float64(len(c.logits)); part > 0 {
			least = max(least, below(most, math.Log(part), p))
		}
		c = s.keep(c, least)
		sum = s.weigh(c.logits, most, scale)
	}
	return s.keep(c, s.cut(c.logits, s.weights, most, least, len(c.logits), limit))
}

// A cut sorts logits into classes of nearby ones, between the greatest and the least that counts.
const classes = 1024

// class counts the logits of one class and adds up their weights.
type class struct {
	n      int
	weight float64
}

// ranked is a logit that a cut may be at.
type ranked struct {
	at    int32
	logit float32
}

// better orders by rank: the greater logit first, of equals the earlier.
func better(a, b ranked) int {
	if c := cmp.Compare(b.logit, a.logit); c != 0 {
		return c
	}
	return cmp.Compare(a.at, b.at)
}

// cut returns the n-th best of logits; if weights is not nil, the first with which those of the best reach limit, if that comes
// earlier. Those that are equal to it and rank behind it become -Inf. most is the greatest logit. The fewer of those that count
// are below least, the less is sorted: only the class that the cut is in.
func (s *Sampler) cut(logits, weights []float32, most, least float32, n int, limit float64) float32 {
	clear(s.classes[:])
	perLogit := (classes - 1) / max(most-least, 1e-30)
	for i, l := range logits {
		k := &s.classes[classOf(most-l, perLogit)]
		k.n++
		if weights != nil {
			k.weight += float64(weights[i])
		}
	}
	at, sum := 0, 0.0
	for ; at < classes-1 && s.classes[at].n < n && (weights == nil || sum+s.classes[at].weight < limit); at++ {
		n -= s.classes[at].n
		sum += s.classes[at].weight
	}
	s.edge = s.edge[:0]
	for i, l := range logits {
		if classOf(most-l, perLogit) == at {
			s.edge = append(s.edge, ranked{int32(i), l})
		}
	}
	slices.SortFunc(s.edge, better)
	for i, r := range s.edge {
		if weights != nil {
			sum += float64(weights[r.at])
		}
		if i == n-1 || weights != nil && sum >= limit {
			for _, tie := range s.edge[i+1:] {
				if tie.logit == r.logit {
					logits[tie.at] = negInf
				}
			}
			return r.logit
		}
	}
	return least // rounding left a rest
}

// classOf returns the class of a logit that is d below the greatest.
func classOf(d, perLogit float32) int {
	if k := d * perLogit; k < classes-1 {
		return int(k)
	}
	return classes - 1
}
