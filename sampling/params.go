// Package sampling says what a request may ask of the choice of its tokens: parameters with their ranges, and beam
// search. The choice itself is a device's (compute.Choosing). It knows nothing of models, text or requests. Read Params
// first, then Beams.
package sampling

import (
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/fault"
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
	// BadWords are runs of tokens that the output does not hold.
	BadWords [][]int32
	// What follows is off at 0, or has the default that is said. compute.Chain and compute.DRY say what it does.

	TypicalP        float32 // 1 is off, too
	TopNSigma       float32
	XTCProbability  float32
	XTCThreshold    float32 // 0 is 0.1
	DynamicRange    float32
	DynamicExponent float32   // 0 is 1
	Mirostat        bool      // version 2: it takes the place of all stages but the temperature
	MirostatTau     float32   // 0 is 5 bits
	MirostatEta     float32   // 0 is 0.1
	DRYMultiplier   float32   // the factor of the penalty
	DRYBase         float32   // 0 is 1.75
	DRYAllowed      int       // 0 is 2
	DRYLastN        int       // 0 is all
	DRYBreakers     [][]int32 // ascending
	Samplers        []Stage   // their order, nil for the usual one; the others are off

	// Seed and the index of an output token decide that token's draw, and nothing else does.
	Seed uint64
}

// Defaults returns the parameters of a plain draw from the model's own distribution.
func Defaults() Params { return Params{Temperature: 1, TopP: 1, RepetitionPenalty: 1} }

// Names of Params in errors.
const (
	FieldTemperature       fault.Field = "temperature"
	FieldTopP              fault.Field = "top_p"
	FieldTopK              fault.Field = "top_k"
	FieldMinP              fault.Field = "min_p"
	FieldRepetitionPenalty fault.Field = "repetition_penalty"
	FieldPresencePenalty   fault.Field = "presence_penalty"
	FieldFrequencyPenalty  fault.Field = "frequency_penalty"
	FieldLogitBias         fault.Field = "logit_bias"
	FieldBadWords          fault.Field = "bad_words"
	FieldTypicalP          fault.Field = "typical_p"
	FieldTopNSigma         fault.Field = "top_n_sigma"
	FieldXTCProbability    fault.Field = "xtc_probability"
	FieldXTCThreshold      fault.Field = "xtc_threshold"
	FieldDynamicRange      fault.Field = "dynatemp_range"
	FieldDynamicExponent   fault.Field = "dynatemp_exponent"
	FieldMirostat          fault.Field = "mirostat"
	FieldMirostatTau       fault.Field = "mirostat_tau"
	FieldMirostatEta       fault.Field = "mirostat_eta"
	FieldDRYMultiplier     fault.Field = "dry_multiplier"
	FieldDRYBase           fault.Field = "dry_base"
	FieldDRYAllowed        fault.Field = "dry_allowed_length"
	FieldDRYLastN          fault.Field = "dry_penalty_last_n"
	FieldSamplers          fault.Field = "samplers"
)

// Check returns a *fault.Error for the first parameter out of its range. vocab is the number of tokens.
func (p *Params) Check(vocab int) error {
	ranges := []struct {
		field fault.Field
		value float32
		ok    bool // of a NaN it is always false
		want  string
	}{
		{FieldTemperature, p.Temperature, p.Temperature >= 0 && p.Temperature <= 2, "from 0 to 2"},
		{FieldTopP, p.TopP, p.TopP > 0 && p.TopP <= 1, "more than 0 and at most 1"},
		{FieldMinP, p.MinP, p.MinP >= 0 && p.MinP <= 1, "from 0 to 1"},
		{FieldRepetitionPenalty, p.RepetitionPenalty, p.RepetitionPenalty > 0 && p.RepetitionPenalty <= math.MaxFloat32,
			"more than 0 and finite"},
		{FieldPresencePenalty, p.PresencePenalty, p.PresencePenalty >= -2 && p.PresencePenalty <= 2, "from -2 to 2"},
		{FieldFrequencyPenalty, p.FrequencyPenalty, p.FrequencyPenalty >= -2 && p.FrequencyPenalty <= 2, "from -2 to 2"},
		{FieldTypicalP, p.TypicalP, p.TypicalP >= 0 && p.TypicalP <= 1, "more than 0 and at most 1"},
		{FieldTopNSigma, p.TopNSigma, p.TopNSigma >= 0 && p.TopNSigma <= 100, "from 0 to 100"},
		{FieldXTCProbability, p.XTCProbability, p.XTCProbability >= 0 && p.XTCProbability <= 1, "from 0 to 1"},
		{FieldXTCThreshold, p.XTCThreshold, p.XTCThreshold >= 0 && p.XTCThreshold <= 1, "more than 0 and at most 1"},
		{FieldDynamicRange, p.DynamicRange, p.DynamicRange >= 0 && p.DynamicRange <= 2, "from 0 to 2"},
		{FieldDynamicExponent, p.DynamicExponent, p.DynamicExponent >= 0 && p.DynamicExponent <= 100, "more than 0 and at most 100"},
		{FieldMirostatTau, p.MirostatTau, p.MirostatTau >= 0 && p.MirostatTau <= 100, "more than 0 and at most 100"},
		{FieldMirostatEta, p.MirostatEta, p.MirostatEta >= 0 && p.MirostatEta <= 1, "more than 0 and at most 1"},
		{FieldDRYMultiplier, p.DRYMultiplier, p.DRYMultiplier >= 0 && p.DRYMultiplier <= 100, "from 0 to 100"},
		{FieldDRYBase, p.DRYBase, p.DRYBase == 0 || p.DRYBase >= 1 && p.DRYBase <= 100, "from 1 to 100"},
	}
	for _, r := range ranges {
		if !r.ok {
			return fault.New(r.field, "is %v; want %s", r.value, r.want)
		}
	}
	if p.TopK < -1 {
		return fault.New(FieldTopK, "is %d; want at least 1, or 0 or -1 for all", p.TopK)
	}
	if p.DRYAllowed < 0 {
		return fault.New(FieldDRYAllowed, "is %d; want at least 1", p.DRYAllowed)
	}
	if p.DRYLastN < 0 {
		return fault.New(FieldDRYLastN, "is %d; want at least 1, or -1 for all", p.DRYLastN)
	}
	if err := p.checkStages(); err != nil {
		return err
	}
	for _, word := range p.BadWords {
		for _, id := range word {
			if id < 0 || int(id) >= vocab {
				return fault.New(FieldBadWords, "names token %d; the vocabulary has %d", id, vocab)
			}
		}
		if len(word) == 0 {
			return fault.New(FieldBadWords, "has one of no tokens")
		}
	}
	for _, b := range sortedBias(p.LogitBias) {
		if b.Token < 0 || int(b.Token) >= vocab {
			return fault.New(FieldLogitBias, "names token %d; the vocabulary has %d", b.Token, vocab)
		}
		if !(b.Add >= -100 && b.Add <= 100) {
			return fault.New(FieldLogitBias, "of token %d is %v; want from -100 to 100", b.Token, b.Add)
		}
	}
	return nil
}

// Choosing returns what a device is told of the parameters, for a sequence of prompt and output tokens that it does not
// change. banned are the tokens that a Choice with Ban must not choose.
func (p *Params) Choosing(prompt, output, banned []int32) *compute.Choosing {
	return &compute.Choosing{
		Temperature: p.Temperature, TopP: p.TopP, TopK: p.TopK, MinP: p.MinP, Repetition: p.RepetitionPenalty,
		Presence: p.PresencePenalty, Frequency: p.FrequencyPenalty, Bias: sortedBias(p.LogitBias), Banned: banned,
		Seed: p.Seed, Prompt: prompt, Output: output, BadWords: p.BadWords, DRY: p.dry(), Chain: p.chain(),
	}
}

// sortedBias returns the entries of m by ascending token.
func sortedBias(m map[int32]float32) []compute.TokenBias {
	out := make([]compute.TokenBias, 0, len(m))
	for id, add := range m {
		out = append(out, compute.TokenBias{Token: id, Add: add})
	}
	slices.SortFunc(out, func(a, b compute.TokenBias) int { return int(a.Token) - int(b.Token) })
	return out
}
