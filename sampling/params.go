// Package sampling goes from the logits of a position to a token. It knows nothing of models, text or requests, and it
// keeps no clock and no hidden randomness: a token is a function of the logits, the parameters and the tokens before it.
// Read Params first, then Sampler.Sample.
package sampling

import (
	"fmt"
	"math"
	"slices"
)

// Params says how tokens are chosen. The meanings are those of the OpenAI API and, for what that lacks, of vLLM.
type Params struct {
	// Temperature divides the logits. 0 always takes the most likely token.
	Temperature float32
	// TopP keeps the most likely tokens, as few as make up this share of the probability. 1 keeps all.
	TopP float32
	// TopK keeps that many of the most likely tokens. 0 and -1 keep all.
	TopK int
	// MinP drops tokens less likely than this share of the most likely one's probability. 0 keeps all.
	MinP float32
	// RepetitionPenalty divides positive and multiplies negative logits of tokens that the prompt or the output holds
	// already (arXiv:1909.05858). 1 is off.
	RepetitionPenalty float32
	// PresencePenalty is taken from the logits of tokens that the output holds already. 0 is off.
	PresencePenalty float32
	// FrequencyPenalty is taken once for each time that the output holds the token already. 0 is off.
	FrequencyPenalty float32
	// LogitBias is added to the logits of single tokens, before anything else.
	LogitBias map[int32]float32
	// Seed and the index of an output token decide that token's draw, and nothing else does.
	Seed uint64
}

// Defaults returns the parameters of a plain draw from the model's own distribution.
func Defaults() Params { return Params{Temperature: 1, TopP: 1, RepetitionPenalty: 1} }

// ParamError says which parameter of a request cannot be used. Field is its name in the OpenAI API, or vLLM's.
type ParamError struct {
	Field   string
	Problem string // what was found and what was expected
}

func (e *ParamError) Error() string { return e.Field + " " + e.Problem }

// Check returns a *ParamError for the first parameter out of its range. vocab is the number of tokens.
func (p *Params) Check(vocab int) error {
	ranges := []struct {
		field string
		value float32
		ok    bool // of a NaN it is always false
		want  string
	}{
		{"temperature", p.Temperature, p.Temperature >= 0 && p.Temperature <= 2, "from 0 to 2"},
		{"top_p", p.TopP, p.TopP > 0 && p.TopP <= 1, "more than 0 and at most 1"},
		{"min_p", p.MinP, p.MinP >= 0 && p.MinP <= 1, "from 0 to 1"},
		{"repetition_penalty", p.RepetitionPenalty, p.RepetitionPenalty > 0 && p.RepetitionPenalty <= math.MaxFloat32,
			"more than 0 and finite"},
		{"presence_penalty", p.PresencePenalty, p.PresencePenalty >= -2 && p.PresencePenalty <= 2, "from -2 to 2"},
		{"frequency_penalty", p.FrequencyPenalty, p.FrequencyPenalty >= -2 && p.FrequencyPenalty <= 2, "from -2 to 2"},
	}
	for _, r := range ranges {
		if !r.ok {
			return &ParamError{r.field, fmt.Sprintf("is %v; want %s", r.value, r.want)}
		}
	}
	if p.TopK < -1 {
		return &ParamError{"top_k", fmt.Sprintf("is %d; want at least 1, or 0 or -1 for all", p.TopK)}
	}
	for _, b := range sortedBias(p.LogitBias) {
		if b.id < 0 || int(b.id) >= vocab {
			return &ParamError{"logit_bias", fmt.Sprintf("names token %d; the vocabulary has %d", b.id, vocab)}
		}
		if !(b.add >= -100 && b.add <= 100) {
			return &ParamError{"logit_bias", fmt.Sprintf("of token %d is %v; want from -100 to 100", b.id, b.add)}
		}
	}
	return nil
}

// bias is one entry of Params.LogitBias.
type bias struct {
	id  int32
	add float32
}

// sortedBias returns the entries of m by ascending token.
func sortedBias(m map[int32]float32) []bias {
	out := make([]bias, 0, len(m))
	for id, add := range m {
		out = append(out, bias{id, add})
	}
	slices.SortFunc(out, func(a, b bias) int { return int(a.id) - int(b.id) })
	return out
}
