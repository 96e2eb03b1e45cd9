package choose

import (
	"cmp"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/scan"
)

// resized returns memory for n values, that of s if it is enough.
func resized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// above sets s.kept to the logits that are at least least, and s.ids to their indices. The logits may be those of
// s.kept.
func (s *Sampler) above(logits []float32, least float32) []float32 {
	s.ids, s.kept = resized(s.ids, len(logits)), resized(s.kept, len(logits))
	n := scan.Keep(s.ids, s.kept, logits, least)
	s.ids, s.kept = s.ids[:n], s.kept[:n]
	return s.kept
}

// weigh sets s.weights to e^((logit - most)·scale) for each logit, s.sums to the sums of blocks of them, and returns
// the sum of all.
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

// filter returns the tokens that min_p, top_k and top_p leave, ascending, nil if they leave all, and their logits, of
// which some may be -Inf. s.peaks are those of the logits, of which most is the greatest.
func (s *Sampler) filter(logits []float32, most float32, p *compute.Choosing) (ids []int32, left []float32) {
	if p.MinP == 0 && p.TopK <= 0 && p.TopP == 1 {
		return nil, logits
	}
	floor := float64(weightless)
	if p.MinP > 0 {
		floor = max(floor, math.Log(float64(p.MinP)))
	}
	least, n, values := below(most, floor, p), len(logits), logits
	if p.TopK > 0 && p.TopK < n {
		least, n = s.best(logits, p.TopK, most, least)
		values = s.kept
	} else if p.MinP > 0 {
		values = s.above(values, least)
	}
	if p.TopP < 1 {
		least, n = s.share(values, most, least, p)
	}
	s.above(logits, least)
	for i, more := len(s.kept)-1, len(s.kept)-n; more > 0; i-- {
		if s.kept[i] == least { // and ranks behind the last that is left
			s.kept[i] = negInf
			more--
		}
	}
	return s.ids, s.kept
}

// below returns the logit whose weight is e^exponent, if most weighs 1.
func below(most float32, exponent float64, p *compute.Choosing) float32 {
	return float32(max(float64(most)+float64(exponent*float64(p.Temperature)), -math.MaxFloat32))
}

// best finds the n best of all logits from least on, or all of those if they are fewer: it returns the last and n,
// and sets s.kept to them. s.peaks are those of the logits; they are lost.
func (s *Sampler) best(logits []float32, n int, most, least float32) (float32, int) {
	if n <= len(s.peaks) {
		// So many logits are at least as great as the n-th of the peaks.
		last, _ := s.cut(s.peaks, nil, most, max(slices.Min(s.peaks), most+weightless), n, 0)
		least = max(least, last)
	}
	values := s.above(logits, least)
	if n < len(values) {
		least, n = s.cut(values, nil, most, max(least, most+weightless), n, 0)
		s.above(values, least)
	}
	return least, n
}

// share finds the best of the values, as few as make up the share TopP of the weight of all, and returns the last and
// how many they are. Values below least weigh nothing.
func (s *Sampler) share(values []float32, most, least float32, p *compute.Choosing) (float32, int) {
	scale := 1 / float64(p.Temperature)
	sum := s.weigh(values, most, scale)
	limit := float64(p.TopP) * sum
	for range 2 {
		// If each of those that go weighs less than an equal part of what may go, it is not too much.
		if part := 0.999 * (sum - limit) / float64(len(values)); part > 0 {
			least = max(least, below(most, math.Log(part), p))
		}
		values = s.above(values, least)
		sum = s.weigh(values, most, scale)
	}
	return s.cut(values, s.weights, most, least, len(values), limit)
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

// cut finds the n best of logits or, if weights is not nil, the best with which theirs reach limit, if they are
// fewer. It returns the last of them and how many they are; those that are equal to it and rank behind it become
// -Inf. most is the greatest logit. The fewer lie below least, the less is sorted: only the class that the last one
// is in.
func (s *Sampler) cut(logits, weights []float32, most, least float32, n int, limit float64) (last float32, kept int) {
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
	for ; at < classes-1 && kept+s.classes[at].n < n && (weights == nil || sum+s.classes[at].weight < limit); at++ {
		kept += s.classes[at].n
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
		kept++
		if weights != nil {
			sum += float64(weights[r.at])
		}
		if kept == n || weights != nil && sum >= limit {
			for _, tie := range s.edge[i+1:] {
				if tie.logit == r.logit {
					logits[tie.at] = negInf
				}
			}
			return r.logit, kept
		}
	}
	return least, len(logits) // rounding left a rest
}

// classOf returns the class of a logit that is d below the greatest.
func classOf(d, perLogit float32) int {
	if k := d * perLogit; k < classes-1 {
		return int(k)
	}
	return classes - 1
}
