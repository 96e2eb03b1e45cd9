package sampling

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/fault"
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
		{"", func(p *Params) { p.TypicalP, p.XTCProbability, p.Mirostat, p.DRYMultiplier = 0.5, 1, true, 2 }},
		{"", func(p *Params) { p.Samplers, p.XTCProbability = []Stage{StageNames["xtc"]}, 0.5 }},
		{"typical_p", func(p *Params) { p.TypicalP = 1.5 }},
		{"top_n_sigma", func(p *Params) { p.TopNSigma = nan }},
		{"xtc_probability", func(p *Params) { p.XTCProbability = 2 }},
		{"xtc_probability", func(p *Params) { p.Samplers, p.XTCProbability = []Stage{StageNames["top_k"]}, 0.5 }},
		{"xtc_threshold", func(p *Params) { p.XTCThreshold = -1 }},
		{"dynatemp_range", func(p *Params) { p.DynamicRange = 3 }},
		{"dynatemp_exponent", func(p *Params) { p.DynamicExponent = nan }},
		{"mirostat_tau", func(p *Params) { p.MirostatTau = -1 }},
		{"mirostat_eta", func(p *Params) { p.MirostatEta = 2 }},
		{"dry_multiplier", func(p *Params) { p.DRYMultiplier = -1 }},
		{"dry_base", func(p *Params) { p.DRYBase = 0.5 }},
		{"dry_allowed_length", func(p *Params) { p.DRYAllowed = -1 }},
		{"dry_penalty_last_n", func(p *Params) { p.DRYLastN = -1 }},
		{"samplers", func(p *Params) { p.Samplers = []Stage{1, 1} }},
		{"samplers", func(p *Params) { p.Samplers, p.Mirostat = []Stage{1}, true }},
		{"bad_words", func(p *Params) { p.BadWords = [][]int32{{1, 100}} }},
		{"bad_words", func(p *Params) { p.BadWords = [][]int32{{}} }},
		{"logit_bias", func(p *Params) { p.LogitBias = map[int32]float32{1: 101} }},
		{"logit_bias", func(p *Params) { p.LogitBias = map[int32]float32{1: nan} }},
		{"logit_bias", func(p *Params) { p.LogitBias = map[int32]float32{100: 1} }},
		{"logit_bias", func(p *Params) { p.LogitBias = map[int32]float32{-1: 1} }},
	}
	for _, tt := range tests {
		p := Defaults()
		tt.edit(&p)
		err := p.Check(100)
		var pe *fault.Error
		if tt.field == "" {
			if err != nil {
				t.Errorf("%+v: %v", p, err)
			}
		} else if !errors.As(err, &pe) || string(pe.Field) != tt.field || !strings.Contains(err.Error(), tt.field) {
			t.Errorf("%+v: error %v; want one about %s", p, err, tt.field)
		}
	}
}
