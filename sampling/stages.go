package sampling

import (
	"cmp"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/fault"
)

// Stage is one of those that Params.Samplers may list.
type Stage = compute.Stage

// StageNames are the names of the stages that Params.Samplers may list, those of llama.cpp.
var StageNames = map[string]Stage{
	"temperature": compute.StageTemperature, "top_n_sigma": compute.StageTopNSigma, "min_p": compute.StageMinP,
	"top_k": compute.StageTopK, "typ_p": compute.StageTypical, "typical_p": compute.StageTypical,
	"top_p": compute.StageTopP, "xtc": compute.StageXTC,
}

// usual is the order of the stages when Samplers says none.
var usual = []Stage{
	compute.StageTemperature, compute.StageTopNSigma, compute.StageMinP, compute.StageTopK, compute.StageTypical,
	compute.StageTopP, compute.StageXTC,
}

// further lists the parameters that only a compute.Chain has, with their stages.
func (p *Params) further() []further {
	return []further{
		{FieldTypicalP, compute.StageTypical, p.TypicalP > 0 && p.TypicalP < 1},
		{FieldTopNSigma, compute.StageTopNSigma, p.TopNSigma > 0},
		{FieldXTCProbability, compute.StageXTC, p.XTCProbability > 0},
		{FieldDynamicRange, compute.StageTemperature, p.DynamicRange > 0},
	}
}

type further struct {
	field fault.Field
	stage compute.Stage
	on    bool
}

// Beyond returns the name of a parameter that is on and that a search by the model's own probabilities has no use for,
// of those that are off at 0; "" if there is none.
func (p *Params) Beyond() fault.Field {
	for _, f := range append(p.further(), further{FieldMirostat, 0, p.Mirostat}, further{FieldSamplers, 0, p.Samplers != nil},
		further{FieldDRYMultiplier, 0, p.DRYMultiplier > 0}, further{FieldBadWords, 0, len(p.BadWords) > 0}) {
		if f.on {
			return f.field
		}
	}
	return ""
}

// checkStages returns a *fault.Error if Samplers does not fit the other parameters.
func (p *Params) checkStages() error {
	if p.Samplers == nil {
		return nil
	}
	if p.Mirostat {
		return fault.New(FieldSamplers, "cannot be given with mirostat, which takes the place of all stages but the temperature")
	}
	for i, s := range p.Samplers {
		if slices.Contains(p.Samplers[:i], s) {
			return fault.New(FieldSamplers, "lists stage %d twice", i)
		}
	}
	for _, f := range p.further() {
		if f.on && !slices.Contains(p.Samplers, f.stage) {
			return fault.New(f.field, "means nothing: samplers does not list its stage")
		}
	}
	return nil
}

// chain returns the stages, nil if those of compute.Choosing are all.
func (p *Params) chain() *compute.Chain {
	on := func(f further) bool { return f.on }
	if p.Temperature == 0 || !p.Mirostat && p.Samplers == nil && !slices.ContainsFunc(p.further(), on) {
		return nil
	}
	c := &compute.Chain{
		Stages: p.Samplers, TypicalP: cmp.Or(p.TypicalP, 1), TopNSigma: p.TopNSigma, XTCProbability: p.XTCProbability,
		XTCThreshold: cmp.Or(p.XTCThreshold, 0.1), DynamicRange: p.DynamicRange, DynamicExponent: cmp.Or(p.DynamicExponent, 1),
	}
	switch {
	case p.Mirostat:
		c.Stages = []Stage{compute.StageTemperature, compute.StageMirostat}
		c.Mirostat = &compute.Mirostat{Target: cmp.Or(p.MirostatTau, 5), Rate: cmp.Or(p.MirostatEta, 0.1)}
	case c.Stages == nil:
		c.Stages = usual
	}
	return c
}

func (p *Params) dry() *compute.DRY {
	if p.DRYMultiplier == 0 {
		return nil
	}
	return &compute.DRY{Multiplier: p.DRYMultiplier, Base: cmp.Or(p.DRYBase, 1.75), Allowed: cmp.Or(p.DRYAllowed, 2),
		LastN: p.DRYLastN, Breakers: p.DRYBreakers}
}
