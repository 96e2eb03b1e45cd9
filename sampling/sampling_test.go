package sampling

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var nan = float32(math.NaN())

func TestCheck(t *testing.T) {
	tests := []struct {
		field string // "" is fine
		edit  func(*Params)
	}{
		{"", func(*Params) {}},
		{"", func(p *Params) { p.Temperature, p.TopP, p.TopK, p.MinP = 0, 0.001, -1, 1 }},
		{"", func(p *Params) { p.PresencePenalty, p.FrequencyPenalty, p.RepetitionPenalty = -2, 2, 1e9 }},
		{"", func(p *Params) { p.LogitBias = map[int32]float32{0: -100, 99: 100} }},
		{"temperature", func(p *Params) { p.Temperature = -0.1 }},
		{"temperature", func(p *Params) { p.Temperature = 2.1 }},
		{"temperature", func(p *Params) { p.Temperature = nan }},
		{"top_p", func(p *Params) { p.TopP = 0 }},
		{"top_p", func(p *Params) { p.TopP = 1.01 }},
		{"top_k", func(p *Params) { p.TopK = -2 }},
		{"min_p", func(p *Params) { p.MinP = -1 }},
		{"min_p", func(p *Params) { p.MinP = nan }},
		{"repetition_penalty", func(p *Params) { p.RepetitionPenalty = 0 }},
		{"repetition_penalty", func(p *Params) { p.RepetitionPenalty = float32(math.Inf(1)) }},
		{"presence_penalty", func(p *Params) { p.PresencePenalty = 2.5 }},
		{"frequency_penalty", func(p *Params) { p.FrequencyPenalty = -2.5 }},
		{"logit_bias", func(p *Params) { p.LogitBias = map[int32]float32{1: 101} }},
		{"logit_bias", func(p *Params) { p.LogitBias = map[int32]float32{1: nan} }},
		{"logit_bias", func(p *Params) { p.LogitBias = map[int32]float32{100: 1} }},
		{"logit_bias", func(p *Params) { p.LogitBias = map[int32]float32{-1: 1} }},
	}
	for _, tt := range tests {
		p := Defaults()
		tt.edit(&p)
		err := p.Check(100)
		var pe *ParamError
		if tt.field == "" {
			if err != nil {
				t.Errorf("%+v: %v", p, err)
			}
		} else if !errors.As(err, &pe) || pe.Field != tt.field || !strings.Contains(err.Error(), tt.field) {
			t.Errorf("%+v: error %v; want one about %s", p, err, tt.field)
		}
	}
}

// TestAdjust follows vLLM: the repetition penalty covers prompt and output, the other two the output alone.
func TestAdjust(t *testing.T) {
	tests := []struct {
		name           string
		params         Params
		prompt, output []int32
		banned         []int32
		logits, want   []float32
	}{
		{"off", Defaults(), []int32{0}, []int32{1}, nil, []float32{1, 2}, []float32{1, 2}},
		{"repetition", Params{RepetitionPenalty: 2}, []int32{0, 0}, []int32{1, 1}, nil, []float32{4, -4, 4}, []float32{2, -8, 4}},
		{"presence", Params{RepetitionPenalty: 1, PresencePenalty: 0.5}, []int32{0}, []int32{1, 1}, nil, []float32{1, 1, 1}, []float32{1, 0.5, 1}},
		{"frequency", Params{RepetitionPenalty: 1, FrequencyPenalty: 0.5}, []int32{0}, []int32{1, 1, 2}, nil, []float32{1, 1, 1}, []float32{1, 0, 0.5}},
		{"negative frequency", Params{RepetitionPenalty: 1, FrequencyPenalty: -1}, nil, []int32{1}, nil, []float32{1, 1}, []float32{1, 2}},
		{"all three", Params{RepetitionPenalty: 2, PresencePenalty: 1, FrequencyPenalty: 0.25}, []int32{0}, []int32{2, 2, 1}, nil,
			[]float32{8, -1, 8}, []float32{4, -3.25, 2.5}},
		{"bias", Params{RepetitionPenalty: 1, LogitBias: map[int32]float32{0: 1.5, 2: -3}}, nil, nil, nil, []float32{1, 1, 1}, []float32{2.5, 1, -2}},
		{"bias, then penalty", Params{RepetitionPenalty: 2, LogitBias: map[int32]float32{0: 4}}, []int32{0}, nil, nil, []float32{-2}, []float32{1}},
		{"banned", Defaults(), nil, nil, []int32{1}, []float32{1, 2}, []float32{1, negInf}},
		{"forbidden stays", Params{RepetitionPenalty: 2, PresencePenalty: -2, LogitBias: map[int32]float32{0: 100}}, nil, []int32{0}, nil,
			[]float32{negInf}, []float32{negInf}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			seq := NewSequence(tt.params, tt.prompt)
			for _, id := range tt.output {
				seq.Accept(id)
			}
			seq.Banned = tt.banned
			seq.adjust(tt.logits)
			if d := cmp.Diff(tt.want, tt.logits); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestGreedy(t *testing.T) {
	tests := []struct {
		logits []float32
		want   int32
		err    error
	}{
		{[]float32{1, 3, 2}, 1, nil},
		{[]float32{1, 3, 3}, 1, nil},
		{[]float32{negInf, -1e38, negInf}, 1, nil},
		{[]float32{negInf, negInf}, 0, ErrForbidden},
		{nil, 0, ErrForbidden},
		{[]float32{1, nan, 2}, 0, ErrNaN},
		{[]float32{nan, nan}, 0, ErrNaN},
		{[]float32{5, 1, nan}, 0, ErrNaN},
		{[]float32{1, float32(math.Inf(1))}, 0, ErrNaN},
	}
	for _, temperature := range []float32{0, 1e-20} {
		for _, top := range []int{-1, 2} {
			for _, tt := range tests {
				var s Sampler
				p := Defaults()
				p.Temperature = temperature
				p.TopP = 1e-9 // of a tie, the first
				c, err := s.Sample(NewSequence(p, nil), append([]float32(nil), tt.logits...), top)
				if !errors.Is(err, tt.err) || err == nil && c.Token != tt.want {
					t.Errorf("%v: token %d, error %v; want %d, %v", tt.logits, c.Token, err, tt.want, tt.err)
				}
			}
		}
	}
}

// TestNaNNamed makes sure that the error says which token is at fault.
func TestNaNNamed(t *testing.T) {
	var s Sampler
	_, err := s.Sample(NewSequence(Defaults(), nil), []float32{1, 2, nan}, -1)
	if err == nil || !strings.Contains(err.Error(), "token 2") {
		t.Errorf("error %v; want one about token 2", err)
	}
}

// TestPhilox checks the known answers that the authors of the generator publish.
func TestPhilox(t *testing.T) {
	const all = 0xffffffff
	tests := []struct {
		ctr  [4]uint32
		key  [2]uint32
		want [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{all, all, all, all}, [2]uint32{all, all}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	}
	for _, tt := range tests {
		if got := philox(tt.ctr, tt.key); got != tt.want {
			t.Errorf("philox(%x, %x) = %x; want %x", tt.ctr, tt.key, got, tt.want)
		}
	}
}

// TestSeed makes sure that a token is a function of seed and index: not of what a Sampler did before.
func TestSeed(t *testing.T) {
	logits := func() []float32 { return make([]float32, 1000) }
	draw := func(s *Sampler, seed uint64, skip int) int32 {
		p := Defaults()
		p.Seed = seed
		seq := NewSequence(p, nil)
		for range skip {
			seq.Accept(0)
		}
		c, err := s.Sample(seq, logits(), -1)
		if err != nil {
			t.Fatal(err)
		}
		return c.Token
	}
	var used Sampler
	drawn := map[int32]bool{}
	for i := range 50 {
		seed, index := uint64(i/10), i%10
		var fresh Sampler
		a, b := draw(&used, seed, index), draw(&fresh, seed, index)
		if a != b {
			t.Errorf("seed %d, token %d: a used Sampler draws %d, a fresh one %d", seed, index, a, b)
		}
		drawn[a] = true
	}
	if len(drawn) < 40 {
		t.Errorf("50 draws from 1000 tokens gave only %d different ones", len(drawn))
	}
}
