package sampling

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// settings are the ways to sample that differ in cost.
var settings = []struct {
	name string
	top  int
	edit func(*Params)
}{
	{"greedy", -1, func(p *Params) { p.Temperature = 0 }},
	{"plain", -1, func(*Params) {}},
	{"top_p", -1, func(p *Params) { p.TopP = 0.9 }},
	{"top_k", -1, func(p *Params) { p.TopK = 40 }},
	{"min_p", -1, func(p *Params) { p.MinP = 0.05 }},
	{"all", -1, func(p *Params) {
		p.Temperature, p.TopP, p.TopK, p.MinP = 0.7, 0.8, 20, 0.01
		p.RepetitionPenalty, p.PresencePenalty, p.FrequencyPenalty = 1.1, 0.5, 0.5
		p.LogitBias = map[int32]float32{5: 1}
	}},
	{"logprobs", 20, func(p *Params) { p.Temperature = 0 }},
}

// bellCurve returns logits as spread out as a language model's.
func bellCurve(vocab int) []float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	return logits
}

func TestAllocations(t *testing.T) {
	const vocab = 5000
	source, logits := bellCurve(vocab), make([]float32, vocab)
	for _, set := range settings {
		t.Run(set.name, func(t *testing.T) {
			p := Defaults()
			set.edit(&p)
			var s Sampler
			seq := NewSequence(p, []int32{1, 2, 3})
			step := func() {
				copy(logits, source)
				if _, err := s.Sample(seq, logits, set.top); err != nil {
					t.Fatal(err)
				}
				seq.Accept(7)
			}
			if n := testing.AllocsPerRun(100, step); n != 0 {
				t.Errorf("%v allocations a token", n)
			}
		})
	}
}

func BenchmarkSample(b *testing.B) {
	const vocab = 128 << 10
	logits := bellCurve(vocab)
	adjusted := slices.Clone(logits[:8]) // the only ones that settings adjust
	for _, set := range settings {
		b.Run(set.name, func(b *testing.B) {
			p := Defaults()
			set.edit(&p)
			var s Sampler
			seq := NewSequence(p, []int32{1, 2, 3})
			b.ReportAllocs()
			for b.Loop() {
				copy(logits, adjusted)
				if _, err := s.Sample(seq, logits, set.top); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
