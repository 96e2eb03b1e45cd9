package sampling

import (
	"cmp"
	"math"
	"slices"
)

// candidate is a token that may be drawn. weight is its probability but for a factor that all share.
type candidate struct {
	id     int32
	logit  float32
	weight float64
}

// better orders candidates by rank: the greater logit first, of equals the lower token.
func better(a, b candidate) int {
	if c := cmp.Compare(b.logit, a.logit); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

// collect fills s.cands with the tokens that min_p leaves, in token order, and returns the sum of their weights
// exp((logit - most) / temperature).
func (s *Sampler) collect(logits []float32, most float32, p *Params) (sum float64) {
	scale, floor := 1/float64(p.Temperature), -700.0
	if p.MinP > 0 {
		floor = max(floor, math.Log(float64(p.MinP)))
	}
	if cap(s.cands) < len(logits) {
		s.cands = make([]candidate, 0, len(logits))
	}
	cands := s.cands[:0]
	for i, l := range logits {
		x := (float64(l) - float64(most)) * scale
		if x >= floor {
			w := exp(x)
			sum += w
			cands = append(cands, candidate{int32(i), l, w})
		}
	}
	s.cands = cands
	return sum
}

// buckets is how many classes of nearby logits a cut sorts the candidates into.
const buckets = 2048

// bucket counts the candidates of one class and adds up their weights.
type bucket struct {
	n      int
	weight float64
}

// cut keeps the best candidates, in token order: at most n, and no more than it takes for their weights to reach weight.
// It returns the sum of the weights kept. Nothing is sorted but the candidates of the bucket where the limit falls: the
// others are known to be in or out by their bucket.
func (s *Sampler) cut(most float32, n int, weight float64) (sum float64) {
	least := most
	for _, c := range s.cands {
		least = min(least, c.logit)
	}
	scale := 0.0
	if least < most {
		scale = (buckets - 1) / (float64(most) - float64(least))
	}
	class := func(logit float32) int { return int((float64(most) - float64(logit)) * scale) }
	clear(s.buckets[:])
	for _, c := range s.cands {
		b := &s.buckets[class(c.logit)]
		b.n++
		b.weight += c.weight
	}
	at := 0 // the bucket where the limit falls
	for ; at < buckets-1 && s.buckets[at].n < n && sum+s.buckets[at].weight < weight; at++ {
		n -= s.buckets[at].n
		sum += s.buckets[at].weight
	}
	s.edge = s.edge[:0]
	for _, c := range s.cands {
		if class(c.logit) == at {
			s.edge = append(s.edge, c)
		}
	}
	slices.SortFunc(s.edge, better)
	last := candidate{logit: float32(math.Inf(1))}
	for i := 0; i < len(s.edge) && i < n && sum < weight; i++ {
		last = s.edge[i]
		sum += last.weight
	}
	kept := s.cands[:0]
	for _, c := range s.cands {
		if b := class(c.logit); b < at || b == at && better(c, last) <= 0 {
			kept = append(kept, c)
		}
	}
	s.cands = kept
	return sum
}
