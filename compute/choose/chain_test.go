package choose

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvasir-llm/kvasir/compute"
)

// logs returns the logits of probabilities.
func logs(p ...float64) (l []float32) {
	for _, x := range p {
		l = append(l, float32(math.Log(x)))
	}
	return l
}

// left returns the probabilities that stages leave of logits, 0 for a token that they drop.
func left(t interface{ Fatal(...any) }, logits []float32, p compute.Choosing, stages ...compute.Stage) []float64 {
	var s Sampler
	_, most, err := s.greatest(logits)
	if err != nil {
		t.Fatal(err)
	}
	c := *p.Chain
	c.Stages = stages
	p.Chain = &c
	s.chained(logits, most, &p, 0)
	out, sum := make([]float64, len(logits)), 0.0
	top := slices.Max(s.kept)
	for i, id := range s.ids {
		out[id] = math.Exp(float64(s.kept[i]) - float64(top))
		sum += out[id]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

func near(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) < 1e-5 })
}

// TestStages has known answers of llama.cpp's samplers.
func TestStages(t *testing.T) {
	tests := []struct {
		name   string
		stage  compute.Stage
		edit   func(*compute.Choosing)
		logits []float32
		want   []float64
	}{
		{"typical, one likely", compute.StageTypical, func(p *compute.Choosing) { p.Chain.TypicalP = 0.5 },
			logs(0.97, 0.01, 0.01, 0.01), []float64{1, 0, 0, 0}},
		{"typical, an unusually likely one goes", compute.StageTypical, func(p *compute.Choosing) { p.Chain.TypicalP = 0.5 },
			logs(0.4, 0.2, 0.2, 0.2), []float64{0, 1. / 3, 1. / 3, 1. / 3}},
		{"xtc, 0.09", compute.StageXTC, func(p *compute.Choosing) { p.Chain.XTCThreshold = 0.09 }, logs(0.4, 0.3, 0.2, 0.1),
			[]float64{0, 0, 0, 1}},
		{"xtc, 0.19", compute.StageXTC, func(p *compute.Choosing) { p.Chain.XTCThreshold = 0.19 }, logs(0.4, 0.3, 0.2, 0.1),
			[]float64{0, 0, 2. / 3, 1. / 3}},
		{"xtc, 0.29", compute.StageXTC, func(p *compute.Choosing) { p.Chain.XTCThreshold = 0.29 }, logs(0.4, 0.3, 0.2, 0.1),
			[]float64{0, 0.5, 1. / 3, 1. / 6}},
		{"xtc, one likely stays", compute.StageXTC, func(p *compute.Choosing) { p.Chain.XTCThreshold = 0.39 },
			logs(0.4, 0.3, 0.2, 0.1), []float64{0.4, 0.3, 0.2, 0.1}},
		{"top-n-sigma, 1", compute.StageTopNSigma, func(p *compute.Choosing) { p.Chain.TopNSigma = 1 },
			logs(0.1, 0.2, 0.3, 0.4), []float64{0, 0, 0.428571, 0.571429}},
		{"top-n-sigma, off", compute.StageTopNSigma, func(*compute.Choosing) {}, logs(0.1, 0.2, 0.3, 0.4),
			[]float64{0.1, 0.2, 0.3, 0.4}},
		{"top-n-sigma, 3", compute.StageTopNSigma, func(p *compute.Choosing) { p.Chain.TopNSigma = 3 },
			logs(0.1, 0.2, 0.3, 0.4), []float64{0.1, 0.2, 0.3, 0.4}},
		{"top-k", compute.StageTopK, func(p *compute.Choosing) { p.TopK = 3 }, logs(0.1, 0.2, 0.3, 0.4),
			[]float64{0, 0.22222, 0.33333, 0.44444}},
		{"top-p", compute.StageTopP, func(p *compute.Choosing) { p.TopP = 0.8 }, logs(0.1, 0.2, 0.3, 0.4),
			[]float64{0, 0.22222, 0.33333, 0.44444}},
		{"min-p", compute.StageMinP, func(p *compute.Choosing) { p.MinP = 0.74 }, logs(0.1, 0.2, 0.3, 0.4),
			[]float64{0, 0, 0.3 / 0.7, 0.4 / 0.7}},
		{"temperature", compute.StageTemperature, func(p *compute.Choosing) { p.Temperature = 0.5 }, logs(0.1, 0.2, 0.3, 0.4),
			[]float64{1. / 30, 4. / 30, 9. / 30, 16. / 30}},
		{"dynamic temperature, even", compute.StageTemperature, func(p *compute.Choosing) { p.Chain.DynamicRange = 0.5 },
			logs(0.25, 0.25, 0.25, 0.25), []float64{0.25, 0.25, 0.25, 0.25}},
	}
	for _, tt := range tests {
		p := plain()
		p.Chain = &compute.Chain{TypicalP: 1, XTCProbability: 1, DynamicExponent: 1}
		tt.edit(&p)
		if got := left(t, tt.logits, p, tt.stage); !near(got, tt.want) {
			t.Errorf("%s: %v; want %v", tt.name, got, tt.want)
		}
	}
}

// TestDynamicTemperature goes by the definition: the temperature is between 0.5 and 1.5 as the entropy has it.
func TestDynamicTemperature(t *testing.T) {
	probs, entropy := []float64{0.7, 0.2, 0.1}, 0.0
	for _, x := range probs {
		entropy -= x * math.Log(x)
	}
	heat, sum := 0.5+math.Pow(entropy/math.Log(3), 2), 0.0
	want := make([]float64, 3)
	for i, x := range probs {
		want[i] = math.Pow(x, 1/heat)
		sum += want[i]
	}
	for i := range want {
		want[i] /= sum
	}
	p := plain()
	p.Chain = &compute.Chain{DynamicRange: 0.5, DynamicExponent: 2}
	if got := left(t, logs(probs...), p, compute.StageTemperature); !near(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
}

// TestChainOrder makes sure that a chain of the four usual stages leaves what the quick way does, and draws the same.
func TestChainOrder(t *testing.T) {
	usual := []compute.Stage{compute.StageTemperature, compute.StageMinP, compute.StageTopK, compute.StageTopP}
	rapid.Check(t, func(t *rapid.T) {
		level := rapid.OneOf(rapid.Float32Range(-20, 20), rapid.SampledFrom([]float32{0, 1, 2, negInf}))
		logits := rapid.SliceOfN(level, 1, 300).Draw(t, "logits")
		logits[rapid.IntRange(0, len(logits)-1).Draw(t, "finite")] = 1
		p := compute.Choosing{
			Temperature: rapid.SampledFrom([]float32{0.5, 1, 2}).Draw(t, "temperature"),
			TopP:        rapid.SampledFrom([]float32{0.1234567, 0.61803, 0.8765432, 1}).Draw(t, "top_p"),
			TopK:        rapid.SampledFrom([]int{0, 1, 7, 50}).Draw(t, "top_k"),
			MinP:        rapid.SampledFrom([]float32{0, 0.01234, 0.4567}).Draw(t, "min_p"), Repetition: 1,
		}
		want := distribution(p, logits)
		p.Chain = new(compute.Chain)
		for id, q := range left(t, logits, p, usual...) {
			if math.Abs(q-want[int32(id)]) > 1e-5 {
				t.Fatalf("token %d has probability %v; want %v", id, q, want[int32(id)])
			}
		}
	})
}

// TestMirostat makes sure that surprise stays near its target, and that a token chosen again is the same.
func TestMirostat(t *testing.T) {
	var s Sampler
	m := &compute.Mirostat{Target: 3, Rate: 0.1}
	p := plain()
	p.Seed = 5
	p.Chain = &compute.Chain{Stages: []compute.Stage{compute.StageTemperature, compute.StageMirostat}, Mirostat: m}
	state, source := stateOf(p), bellCurve(2000)
	choose := func(n int) int32 {
		logits := slices.Clone(source)
		c := s.Choose(state, logits, next(n, -1), nil)
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		return c.Token
	}
	var tokens []int32
	for n := range 300 {
		tokens = append(tokens, choose(n))
	}
	mean := 0.0
	for n := 100; n < 300; n++ { // of the limits' moves follows what the tokens surprised by
		mean += float64(m.Target) - float64(m.Limits[n+1]-m.Limits[n])/float64(m.Rate)
	}
	if mean /= 200; math.Abs(mean-3) > 0.3 {
		t.Errorf("the mean surprise is %v bits; want 3", mean)
	}
	for _, n := range []int{299, 120, 121, 122, 0} {
		if got := choose(n); got != tokens[n] {
			t.Errorf("token %d is %d when it is chosen again; was %d", n, got, tokens[n])
		}
	}
	if m.Limits = m.Limits[:1]; choose(7) < 0 || len(m.Limits) != 9 {
		t.Errorf("after tokens that nobody chose there are %d limits; want 9", len(m.Limits))
	}
}

// TestDRY has known answers of llama.cpp.
func TestDRY(t *testing.T) {
	const even = 0.25
	hit := math.Exp(-1) / (3 + math.Exp(-1))
	rest := (1 - hit) / 3
	tests := []struct {
		tokens   []int32
		allowed  int
		last     int
		breakers [][]int32
		want     []float64
	}{
		{[]int32{0, 1}, 2, 4, nil, []float64{even, even, even, even}},
		{[]int32{0, 1, 2, 0, 1}, 2, 5, nil, []float64{rest, rest, hit, rest}},
		{[]int32{0, 1, 2, 0, 1}, 2, 0, nil, []float64{rest, rest, hit, rest}},
		{[]int32{0, 1, 2, 0, 1}, 2, 4, nil, []float64{even, even, even, even}}, // the first is forgotten
		{[]int32{0, 1, 3, 2, 0, 1}, 2, 0, nil, []float64{rest, rest, rest, hit}},
		{[]int32{0, 1, 3, 2, 0, 1}, 2, 0, [][]int32{{1}}, []float64{even, even, even, even}},
		{[]int32{0, 1, 3, 2, 0, 1}, 2, 0, [][]int32{{0, 1}}, []float64{even, even, even, even}},
		{[]int32{0, 1, 3, 2, 0, 1}, 2, 0, [][]int32{{2}, {2, 3}}, []float64{rest, rest, rest, hit}},
		{[]int32{2, 0, 1, 3, 2, 0, 1}, 3, 0, [][]int32{{2}}, []float64{even, even, even, even}}, // 0 1 is too short
		{[]int32{2, 0, 1, 3, 2, 0, 1}, 3, 0, nil, []float64{rest, rest, rest, hit}},
	}
	for _, tt := range tests {
		logits := []float32{1, 1, 1, 1}
		p := plain()
		p.DRY = &compute.DRY{Multiplier: 1, Base: 1.1, Allowed: tt.allowed, LastN: tt.last, Breakers: tt.breakers}
		p.Prompt, p.Output = tt.tokens[:1], tt.tokens[1:]
		stateOf(p).adjust(logits, false, nil)
		p.Chain = new(compute.Chain)
		if got := left(t, logits, p); !near(got, tt.want) {
			t.Errorf("%v, %v: %v; want %v", tt.tokens, tt.breakers, got, tt.want)
		}
	}
}

// TestDRYNaive compares with a search for every repetition.
func TestDRYNaive(t *testing.T) {
	var r repeats
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOfN(rapid.Int32Range(0, 3), 0, 40).Draw(t, "tokens")
		d := compute.DRY{Multiplier: 0.5, Base: 2, Allowed: rapid.IntRange(1, 4).Draw(t, "allowed")}
		breaker := rapid.Int32Range(3, 4).Draw(t, "breaker")
		d.Breakers = [][]int32{{breaker}}
		want := make([]float32, 4)
		for next := range int32(4) {
			for i, id := range tokens {
				n := 0
				for id == next && n < i && tokens[i-1-n] == tokens[len(tokens)-1-n] && tokens[len(tokens)-1-n] != breaker {
					n++
				}
				if n >= d.Allowed {
					want[next] = min(want[next], float32(-0.5*math.Pow(2, float64(n-d.Allowed))))
				}
			}
		}
		got := make([]float32, 4)
		if r.lower(got, tokens, &d); !slices.Equal(got, want) {
			t.Fatalf("%v; want %v", got, want)
		}
	})
}

func TestBadWords(t *testing.T) {
	tests := []struct {
		prompt, output []int32
		want           []float32
	}{
		{nil, nil, []float32{1, 1, 1, negInf}},
		{nil, []int32{0}, []float32{1, negInf, 1, negInf}},
		{nil, []int32{0, 1}, []float32{1, 1, negInf, negInf}},
		{[]int32{0}, []int32{1}, []float32{1, 1, 1, negInf}}, // the prompt may hold them
	}
	for _, tt := range tests {
		p := plain()
		p.BadWords = [][]int32{{3}, {0, 1}, {0, 1, 2}}
		p.Prompt, p.Output = tt.prompt, tt.output
		logits := []float32{1, 1, 1, 1}
		if stateOf(p).adjust(logits, false, nil); !slices.Equal(logits, tt.want) {
			t.Errorf("after %v, %v: %v; want %v", tt.prompt, tt.output, logits, tt.want)
		}
	}
}
