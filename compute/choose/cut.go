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

// weighed are how many logits total weighs at a time: their weights stay in the nearest cache.
const weighed = 64 * scan.Block

// total is weigh for those that need no weights but the sums: it returns the same.
func (s *Sampler) total(logits []float32, most float32, scale float64) (total float64) {
	s.weights = resized(s.weights, weighed)
	s.sums = resized(s.sums, scan.Blocks(len(logits)))
	for i := 0; i < len(logits); i += weighed {
		part := logits[i:min(i+weighed, len(logits))]
		scan.Weigh(s.weights[:len(part)], s.sums[i/scan.Block:][:scan.Blocks(len(part))], part, most, scale)
	}
	for _, sum := range s.sums {
		total += float64(sum)
	}
	return total
}

// weightless is how far below the greatest a logit, divided by the temperature, weighs nothing.
const weightless = -88

// filter returns the logits of the tokens that min_p, top_k and top_p leave, in the tokens' order; some may be -Inf.
// The i-th is that of token ids[at[i]], of ids[i] if at is nil, and of i if ids is nil. s.peaks are those of the
// logits, of which most is the greatest.
func (s *Sampler) filter(logits []float32, most float32, p *compute.Choosing) (ids, at []int32, left []float32) {
	if p.MinP == 0 && p.TopK <= 0 && p.TopP == 1 {
		return nil, nil, logits
	}
	floor := float64(weightless)
	if p.MinP > 0 {
		floor = max(floor, math.Log(float64(p.MinP)))
	}
	least, all := below(most, floor, p), logits
	switch {
	case p.TopK > 0 && p.TopK < len(logits):
		least, all = s.best(logits, p.TopK, most, least), nil
	case p.MinP > 0 || p.TopP == 1:
		s.above(logits, least)
		all = nil
	}
	if p.TopP == 1 {
		return s.ids, nil, s.kept
	}
	s.share(all, most, least, p)
	return s.ids, s.at, s.kept
}

// below returns the logit whose weight is e^exponent, if most weighs 1.
func below(most float32, exponent float64, p *compute.Choosing) float32 {
	return float32(max(float64(most)+float64(exponent*float64(p.Temperature)), -math.MaxFloat32))
}

// best sets s.kept to the n best of all logits from least on, or to all of those if they are fewer, and returns the
// last. s.peaks are those of the logits; they are lost.
func (s *Sampler) best(logits []float32, n int, most, least float32) float32 {
	if n <= len(s.peaks) {
		// So many logits are at least as great as the n-th of the peaks.
		least = max(least, s.cut(s.peaks, nil, most, max(slices.Min(s.peaks), most+weightless), n, 0))
	}
	s.above(logits, least)
	if n < len(s.kept) {
		least = s.cut(s.kept, nil, most, max(least, most+weightless), n, 0)
		s.keep(least)
	}
	return least
}

// share leaves the best of the logits, of those in s.kept if logits is nil: as few as make up the share TopP of the
// weight of all. Those below least weigh nothing. It sets s.ids and s.at as filter returns them.
func (s *Sampler) share(logits []float32, most, least float32, p *compute.Choosing) {
	scale, values := 1/float64(p.Temperature), logits
	if logits == nil {
		values = s.kept
	}
	sum := s.total(values, most, scale)
	limit := float64(p.TopP) * sum
	low := s.guess(values, most, least, scale, sum-limit)
	if s.at = resized(s.at, len(values)); low > least {
		s.near = resized(s.near, len(values))
		s.near = s.near[:scan.Keep(s.at, s.near, values, low)]
		if s.weigh(s.near, most, scale) < limit {
			low = least // it was a bad guess
		}
	}
	if low <= least {
		// If each of those that go weighs less than an equal part of what may go, it is not too much.
		if part := 0.999 * (sum - limit) / float64(len(values)); part > 0 {
			low = max(least, below(most, math.Log(part), p))
		}
		s.near = resized(s.near, len(values))
		s.near = s.near[:scan.Keep(s.at, s.near, values, low)]
		s.weigh(s.near, most, scale)
	}
	if s.kept, s.near = s.near, s.kept; logits == nil {
		s.gather()
	} else {
		s.ids, s.at = s.at[:len(s.kept)], s.ids
	}
	s.place(s.cut(s.kept, s.weights, most, low, len(s.kept), limit))
}

// keep drops the tokens left whose logit is below least. One is always left.
func (s *Sampler) keep(least float32) {
	s.place(least)
	s.gather()
}

// place is keep, but for s.ids: it sets s.at to the places in them of the tokens left.
func (s *Sampler) place(least float32) {
	s.at = resized(s.at, len(s.kept))
	n := scan.Keep(s.at, s.kept, s.kept, least)
	s.at, s.kept = s.at[:n], s.kept[:n]
}

// gather sets s.ids to those at the places s.at, as many as s.kept has.
func (s *Sampler) gather() {
	for i, at := range s.at[:len(s.kept)] {
		s.ids[i] = s.ids[at]
	}
	s.ids = s.ids[:len(s.kept)]
}

// guess returns a limit below which the values weigh most of excess, by a sample of them; least if there is none. Most
// of the excess are many small weights, of which a sample tells.
func (s *Sampler) guess(values []float32, most, least float32, scale, excess float64) float32 {
	const share = 0.85 // of the excess
	if len(values) < 32*scan.Block {
		return least
	}
	s.near = s.near[:0]
	for i := 0; i < len(values); i += scan.Block {
		s.near = append(s.near, values[i])
	}
	s.weigh(s.near, most, scale)
	clear(s.classes[:])
	perLogit := (classes - 1) / max(most-least, 1e-30)
	for i, l := range s.near {
		s.classes[classOf(most-l, perLogit)].weight += float64(s.weights[i])
	}
	at, left := classes, share*excess/scan.Block
	for ; at > 0; at-- {
		if left -= s.classes[at-1].weight; left < 0 {
			break
		}
	}
	return max(least, most-float32(at)/perLogit)
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
// fewer. It returns the last of them; those that are equal to it and rank behind it become -Inf. most is
// the greatest logit. The fewer lie below least, the less is sorted: only the class that the last one is in.
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
	at, kept, sum := 0, 0, 0.0
	for ; at < classes-1 && kept+s.classes[at].n < n && (weights == nil || sum+s.classes[at].weight < limit); at++ {
		kept += s.classes[at].n
		sum += s.classes[at].weight
	}
	s.edge = s.edge[:0]
	near, far := float32(at-1)/perLogit, float32(at+2)/perLogit // around the class
	if at == classes-1 {
		far = float32(math.Inf(1))
	}
	for i, l := range logits {
		if d := most - l; d >= near && d <= far && classOf(d, perLogit) == at {
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
