package choose

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvasir-llm/kvasir/compute"
)

// distribution is what compute.Choosing make of logits, written down as plainly as possible: sort everything, then
// filter.
func distribution(p compute.Choosing, logits []float32) map[int32]float64 {
	type token struct {
		id    int32
		logit float32
		prob  float64
	}
	var all []token
	most := slices.Max(logits)
	for i, l := range logits {
		if l > negInf {
			all = append(all, token{int32(i), l, math.Exp((float64(l) - float64(most)) / float64(p.Temperature))})
		}
	}
	slices.SortStableFunc(all, func(a, b token) int {
		switch {
		case a.logit > b.logit:
			return -1
		case a.logit < b.logit:
			return 1
		}
		return 0
	})
	normalize := func() {
		sum := 0.0
		for _, t := range all {
			sum += t.prob
		}
		for i := range all {
			all[i].prob /= sum
		}
	}
	normalize()
	for i, t := range all {
		if t.prob < float64(p.MinP)*all[0].prob {
			all = all[:i]
			break
		}
	}
	if p.TopK > 0 {
		all = all[:min(p.TopK, len(all))]
	}
	normalize()
	mass := 0.0
	for i, t := range all {
		if mass >= float64(p.TopP) {
			all = all[:i]
			break
		}
		mass += t.prob
	}
	normalize()
	out := map[int32]float64{}
	for _, t := range all {
		out[t.id] = t.prob
	}
	return out
}

// TestCandidates compares the tokens that may be drawn, and how likely each is, with the plain definition.
func TestCandidates(t *testing.T) {
	var s Sampler
	rapid.Check(t, func(t *rapid.T) {
		level := rapid.OneOf(rapid.Float32Range(-20, 20), rapid.SampledFrom([]float32{0, 1, 2, negInf, -1e30}))
		logits := rapid.SliceOfN(level, 1, 400).Draw(t, "logits")
		logits[rapid.IntRange(0, len(logits)-1).Draw(t, "finite")] = 1
		p := compute.Choosing{
			Temperature: rapid.SampledFrom([]float32{0.1, 0.7, 1, 2}).Draw(t, "temperature"),
			// Shares that no sum of a few equal probabilities is near, where rounding would decide.
			TopP: rapid.SampledFrom([]float32{1e-9, 0.1234567, 0.61803, 0.8765432, 0.98765, 1}).Draw(t, "top_p"),
			TopK: rapid.SampledFrom([]int{-1, 0, 1, 2, 7, 50, 1000}).Draw(t, "top_k"),
			MinP: rapid.SampledFrom([]float32{0, 0.01234, 0.4567, 1}).Draw(t, "min_p"),
			Seed: rapid.Uint64().Draw(t, "seed"), Repetition: 1,
		}
		checkCandidates(t, &s, p, logits)
	})
}

// TestManyCandidates does so with vocabularies of many blocks: one that hardly has ties, and one that has little else.
func TestManyCandidates(t *testing.T) {
	var s Sampler
	source := bellCurve(20000)
	source[77] = negInf
	coarse := slices.Clone(source)
	for i, l := range coarse {
		coarse[i] = float32(math.Round(float64(l)))
	}
	for _, temperature := range []float32{0.5, 1, 2} {
		for _, topP := range []float32{1e-9, 0.31, 0.93, 0.9987, 1} {
			for _, topK := range []int{0, 1, 40, 300, 5000} {
				for _, minP := range []float32{0, 1e-4, 0.07} {
					p := compute.Choosing{Temperature: temperature, TopP: topP, TopK: topK, MinP: minP, Repetition: 1}
					checkCandidates(t, &s, p, slices.Clone(source))
					checkCandidates(t, &s, p, slices.Clone(coarse))
				}
			}
		}
	}
}

// checkCandidates compares what p leaves of logits with the plain definition. Where a candidate's probability is
// e^-10 or less, its logit's distance from the greatest is rounded more.
func checkCandidates(t interface{ Fatalf(string, ...any) }, s *Sampler, p compute.Choosing, logits []float32) {
	want := distribution(p, logits)
	_, most, err := s.greatest(logits)
	if err != nil {
		t.Fatalf("%v", err)
	}
	ids, left := s.left(logits, most, &p)
	got, sum := map[int32]float64{}, 0.0
	total := s.weigh(left, most, 1/float64(p.Temperature))
	for i, w := range s.weights {
		id := int32(i)
		if ids != nil {
			id = ids[i]
		}
		if ids != nil && i > 0 && id <= ids[i-1] {
			t.Fatalf("candidates are out of order: %v", ids)
		}
		if w > 0 {
			got[id] = float64(w)
			sum += float64(w)
		}
	}
	if math.Abs(sum-total) > 1e-6*sum {
		t.Fatalf("the weights add up to %v, by blocks to %v", sum, total)
	}
	for id, w := range got {
		q := want[id]
		if math.Abs(w/sum-q) > 1e-6*q*max(1, -math.Log(q)/10) {
			t.Fatalf("%+v: token %d has probability %v; want %v", p, id, w/sum, q)
		}
	}
	for id, q := range want {
		if _, ok := got[id]; !ok && q > 1e-37 {
			t.Fatalf("%+v: token %d is missing; it has probability %v", p, id, q)
		}
	}
	if token, err := s.choose(&p, 0, logits); err != nil || want[token] == 0 {
		t.Fatalf("%+v: drew token %d, error %v, from %v", p, token, err, want)
	}
}

// TestDraw goes through the numbers from 0 to 1: each draws the token in whose part it lies.
func TestDraw(t *testing.T) {
	const vocab, draws = 1000, 30000
	logits := bellCurve(vocab)
	logits[0], logits[130], logits[vocab-1] = negInf, -200, negInf
	for i := 256; i < 384; i++ {
		logits[i] = negInf // two blocks
	}
	most, before, total := slices.Max(logits), make([]float64, vocab+1), 0.0
	for i, l := range logits {
		total += math.Exp(float64(l - most))
		before[i+1] = total
	}
	var s Sampler
	seen := map[int32]bool{}
	for i := range draws + 1 {
		u := min(float64(i)/draws, 1-0x1p-53)
		token := s.draw(logits, most, 1, u)
		if from, to := before[token]/total, before[token+1]/total; u < from-1e-6 || u > to+1e-6 || logits[token] < -100 {
			t.Fatalf("%v draws token %d, with logit %v, from %v to %v", u, token, logits[token], from, to)
		}
		seen[token] = true
	}
	if len(seen) < 500 {
		t.Errorf("only %d tokens were drawn", len(seen))
	}
}

// TestFrequencies draws from a known distribution. Draws are a function of seed and index, so the counts are always the
// same.
func TestFrequencies(t *testing.T) {
	probs := []float64{0.5, 0.25, 0.15, 0.1}
	logits := make([]float32, len(probs))
	const n = 20000
	counts := make([]int, len(probs))
	var s Sampler
	p := plain()
	p.Seed = 7
	state := stateOf(p)
	for n := range n {
		for i, q := range probs {
			logits[i] = float32(math.Log(q))
		}
		c := s.Choose(state, logits, next(n, -1), nil)
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		counts[c.Token]++
	}
	for i, q := range probs {
		// Five standard deviations of a binomial count.
		if d := math.Abs(float64(counts[i]) - n*q); d > 5*math.Sqrt(n*q*(1-q)) {
			t.Errorf("token %d was drawn %d times of %d; want about %.0f", i, counts[i], n, n*q)
		}
	}
}

func TestLogprobs(t *testing.T) {
	var s Sampler
	rapid.Check(t, func(t *rapid.T) {
		logits := rapid.SliceOfN(rapid.Float32Range(-30, 30), 1, 300).Draw(t, "logits")
		top := rapid.IntRange(0, 20).Draw(t, "top")
		sum := 0.0
		for _, l := range logits {
			sum += math.Exp(float64(l))
		}
		logprob := func(id int32) float64 { return float64(logits[id]) - math.Log(sum) }
		var ranked []int32
		for i := range logits {
			ranked = append(ranked, int32(i))
		}
		slices.SortStableFunc(ranked, func(a, b int32) int {
			if logits[a] > logits[b] {
				return -1
			} else if logits[a] < logits[b] {
				return 1
			}
			return 0
		})
		p := plain()
		p.Temperature = 0.3
		p.Bias = bias(0, 9) // must not show in the logprobs
		c := s.Choose(stateOf(p), slices.Clone(logits), next(0, top), nil)
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		if math.Abs(float64(c.Logprob)-logprob(c.Token)) > 1e-5 {
			t.Fatalf("logprob of %d is %v; want %v", c.Token, c.Logprob, logprob(c.Token))
		}
		if len(c.Top) != min(top, len(logits)) {
			t.Fatalf("%d alternatives; want %d", len(c.Top), min(top, len(logits)))
		}
		given := ranked[rapid.IntRange(0, len(ranked)-1).Draw(t, "rank")]
		d := s.Choose(nil, slices.Clone(logits), compute.Choice{Given: given, Rank: true, Top: -1}, nil)
		if int(d.Rank) != slices.Index(ranked, given)+1 || math.Abs(float64(d.Logprob)-logprob(given)) > 1e-5 {
			t.Fatalf("token %d is described as %+v; want rank %d", given, d, slices.Index(ranked, given)+1)
		}
		for i, a := range c.Top {
			if a.Token != ranked[i] || math.Abs(float64(a.Logprob)-logprob(a.Token)) > 1e-5 {
				t.Fatalf("alternative %d is %v; want token %d at %v", i, a, ranked[i], logprob(ranked[i]))
			}
		}
	})
}

// left is filter with every token's id.
func (s *Sampler) left(logits []float32, most float32, p *compute.Choosing) (ids []int32, left []float32) {
	ids, at, left := s.filter(logits, most, p)
	if at == nil {
		return ids, left
	}
	out := make([]int32, len(at))
	for i, place := range at {
		out[i] = ids[place]
	}
	return out, left
}
