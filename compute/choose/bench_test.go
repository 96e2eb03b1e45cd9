package choose

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
)

// settings are the ways to sample that differ in cost.
var settings = []struct {
	name string
	top  int
	edit func(*compute.Choosing)
}{
	{"greedy", -1, func(p *compute.Choosing) { p.Temperature = 0 }},
	{"plain", -1, func(*compute.Choosing) {}},
	{"top_p", -1, func(p *compute.Choosing) { p.TopP = 0.9 }},
	{"top_k", -1, func(p *compute.Choosing) { p.TopK = 40 }},
	{"min_p", -1, func(p *compute.Choosing) { p.MinP = 0.05 }},
	{"all", -1, func(p *compute.Choosing) {
		p.Temperature, p.TopP, p.TopK, p.MinP = 0.7, 0.8, 20, 0.01
		p.Repetition, p.Presence, p.Frequency = 1.1, 0.5, 0.5
		p.Bias = bias(5, 1)
	}},
	{"chain", -1, func(p *compute.Choosing) {
		p.TopP = 0.9
		p.Chain = &compute.Chain{Stages: []compute.Stage{compute.StageTemperature, compute.StageTypical, compute.StageTopP,
			compute.StageXTC}, TypicalP: 0.9, XTCProbability: 0.5, XTCThreshold: 0.1}
	}},
	{"dry", -1, func(p *compute.Choosing) {
		p.DRY = &compute.DRY{Multiplier: 0.8, Base: 1.75, Allowed: 2, LastN: 1024}
		p.Prompt = slices.Repeat([]int32{1, 2, 3, 4}, 1000)
	}},
	{"logprobs", 20, func(p *compute.Choosing) { p.Temperature = 0 }},
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
			p := plain()
			set.edit(&p)
			var s Sampler
			p.Prompt = append(p.Prompt, 1, 2, 3)
			state := stateOf(p)
			step := func() {
				copy(logits, source)
				if c := s.Choose(state, logits, next(0, set.top), nil); c.Err != nil {
					t.Fatal(c.Err)
				}
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
			p := plain()
			set.edit(&p)
			var s Sampler
			p.Prompt = append(p.Prompt, 1, 2, 3)
			state := stateOf(p)
			b.ReportAllocs()
			for b.Loop() {
				copy(logits, adjusted)
				if c := s.Choose(state, logits, next(0, set.top), nil); c.Err != nil {
					b.Fatal(c.Err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
