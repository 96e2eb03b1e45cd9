package sampling

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// distribution is what Params make of logits, written down as plainly as possible: sort everything, then filter.
func distribution(p Params, logits []float32) map[int32]float64 {
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
		p := Params{
			Temperature: rapid.SampledFrom([]float32{0.1, 0.7, 1, 2}).Draw(t, "temperature"),
			// Shares that no sum of a few equal probabilities is near, where rounding would decide.
			TopP: rapid.SampledFrom([]float32{1e-9, 0.1234567, 0.61803, 0.8765432, 0.98765, 1}).Draw(t, "top_p"),
			TopK: rapid.SampledFrom([]int{-1, 0, 1, 2, 7, 50, 1000}).Draw(t, "top_k"),
			MinP: rapid.SampledFrom([]float32{0, 0.01234, 0.4567, 1}).Draw(t, "min_p"),
			Seed: rapid.Uint64().Draw(t, "seed"), RepetitionPenalty: 1,
		}
		want := distribution(p, logits)
		token, err := s.choose(NewSequence(p, nil), logits)
		if err != nil {
			t.Fatal(err)
		}
		if want[token] == 0 {
			t.Fatalf("drew token %d, which is not among %v", token, want)
		}
		got, sum := map[int32]float64{}, 0.0
		for i, c := range s.cands {
			got[c.id] = c.weight
			sum += c.weight
			if i > 0 && c.id <= s.cands[i-1].id {
				t.Fatalf("candidates are out of order: %v", s.cands)
			}
		}
		for id, w := range got {
			if math.Abs(w/sum-want[id]) > 1e-8 {
				t.Fatalf("token %d has probability %v; want %v", id, w/sum, want[id])
			}
		}
		for id, w := range want {
			if _, ok := got[id]; !ok && w > 1e-300 {
				t.Fatalf("token %d is missing; it has probability %v", id, w)
			}
		}
	})
}

// TestFrequencies draws from a known distribution. Draws are a function of seed and index, so the counts are always the
// same.
func TestFrequencies(t *testing.T) {
	probs := []float64{0.5, 0.25, 0.15, 0.1}
	logits := make([]float32, len(probs))
	const n = 20000
	counts := make([]int, len(probs))
	var s Sampler
	p := Defaults()
	p.Seed = 7
	seq := NewSequence(p, nil)
	for range n {
		for i, q := range probs {
			logits[i] = float32(math.Log(q))
		}
		c, err := s.Sample(seq, logits, -1)
		if err != nil {
			t.Fatal(err)
		}
		seq.Accept(c.Token)
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
		p := Defaults()
		p.Temperature = 0.3
		p.LogitBias = map[int32]float32{0: 9} // must not show in the logprobs
		c, err := s.Sample(NewSequence(p, nil), slices.Clone(logits), top)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(float64(c.Logprob)-logprob(c.Token)) > 1e-5 {
			t.Fatalf("logprob of %d is %v; want %v", c.Token, c.Logprob, logprob(c.Token))
		}
		if len(c.Top) != min(top, len(logits)) {
			t.Fatalf("%d alternatives; want %d", len(c.Top), min(top, len(logits)))
		}
		for i, a := range c.Top {
			if a.Token != ranked[i] || math.Abs(float64(a.Logprob)-logprob(a.Token)) > 1e-5 {
				t.Fatalf("alternative %d is %v; want token %d at %v", i, a, ranked[i], logprob(ranked[i]))
			}
		}
	})
}
