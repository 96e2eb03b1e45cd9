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

// behind reports whether a token ranks after c.
func (c *candidate) behind(id int32, logit float32) bool {
	return logit < c.logit || logit == c.logit && id > c.id
}

// collect fills s.cands with the tokens that min_p, top_k and top_p leave, in token order, and returns the sum of their
// weights exp((logit - most) / temperature). Each filter leaves the tokens that rank before some last one.
func (s *Sampler) collect(logits []float32, most float32, p *Params) (sum float64) {
	scale := 1 / float64(p.Temperature)
	floor := -700.0 // exp is 0 below
	if p.MinP > 0 {
		floor = max(floor, math.Log(float64(p.MinP)))
	}
	last := candidate{
		id:    math.MaxInt32,
		logit: float32(max(float64(most)+floor*float64(p.Temperature), -math.MaxFloat32)),
	}
	if p.TopK > 0 && p.TopK < len(logits) {
		last = s.cut(logits, most, scale, last, p.TopK, 1)
	}
	if p.TopP < 1 {
		last = s.cut(logits, most, scale, last, len(logits), float64(p.TopP))
	}
	s.cands = slices.Grow(s.cands[:0], len(logits))
	for i, l := range logits {
		if !last.behind(int32(i), l) {
			w := exp((float64(l) - float64(most)) * scale)
			sum += w
			s.cands = append(s.cands, candidate{int32(i), l, w})
		}
	}
	return sum
}

// A cut sorts the candidates into classes of nearby logits, perLogit of them to one logit. The last class takes all that
// lie 64 and more below the greatest.
const (
	buckets  = 4096
	perLogit = 64
)

// bucket counts the candidates of one class and adds up their weights.
type bucket struct {
	n      int
	weight float64
}

// class returns the bucket of a token whose logit is below the greatest one by d.
func class(d float32) int { return int(min(d*perLogit, buckets-1)) }

// cut finds the best tokens among those not behind last: at most n, and no more than it takes for their weights to reach
// share of the weights of all. It returns the last of them. Nothing is sorted but the bucket where the limit falls: what
// is in the others is known to be in or out.
func (s *Sampler) cut(logits []float32, most float32, scale float64, last candidate, n int, share float64) candidate {
	clear(s.buckets[:])
	all := 0.0
	for i, l := range logits {
		if last.behind(int32(i), l) {
			continue
		}
		b := &s.buckets[class(most-l)]
		b.n++
		if share < 1 {
			w := exp((float64(l) - float64(most)) * scale)
			b.weight += w
			all += w
		}
	}
	limit := share * all
	if share == 1 {
		limit = math.Inf(1)
	}
	at, sum := 0, 0.0
	for ; at < buckets-1 && s.buckets[at].n < n && sum+s.buckets[at].weight < limit; at++ {
		n -= s.buckets[at].n
		sum += s.buckets[at].weight
	}
	s.edge = s.edge[:0]
	for i, l := range logits {
		if !last.behind(int32(i), l) && class(most-l) == at {
			s.edge = append(s.edge, candidate{int32(i), l, exp((float64(l) - float64(most)) * scale)})
		}
	}
	slices.SortFunc(s.edge, better)
	for i := 0; i < len(s.edge) && i < n && sum < limit; i++ {
		last = s.edge[i]
		sum += last.weight
	}
	return last
}
