package model

import (
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// Model is a Spec with its weights on a device. It serves any number of Runners.
type Model struct {
	Spec  *Spec
	Bytes int64 // of the weights on the device

	// KVType is the type of keys and values in the caches of Runners, 0 for the device's default. It may change
	// before NewRunner.
	KVType quant.Type
	// Tap, if not nil, sees what weights are multiplied with in Runners made afterwards.
	Tap Tap

	dev         compute.Device
	w           Weights
	freqs, long []compute.Vector // of each of Spec.Ropes; an entry of long may be nil
	targets     int              // weights that adapters may change
	slots       int              // for adapters
}

// Weights are the weights of a Spec on a device. Those that the Spec does not have are zero.
type Weights struct {
	Embed, Positions compute.Matrix // [Vocab, Hidden], [Spec.Positions, Hidden]
	Types            compute.Matrix // [TokenTypes, Hidden]
	EmbedNorm        compute.Norm
	Layers           []LayerWeights // of each of Spec.Layers
	Norm             compute.Norm   // after the last layer
	Pooler, Head     Linear
	Modules          []Module // what adapters may change
	Bytes            int64    // of all of them on the device
}

// LayerWeights are the weights of one layer. Norms that the Spec does not have are zero.
type LayerWeights struct {
	AttnNorm, FFNNorm, AttnPost, FFNPost compute.Norm
	Mixer                                MixerWeights
	Gate, Up, Down                       Linear // of a dense feed-forward, or of the shared expert
	Mixture                              Mixture
}

// Linear is a weight and its bias, nil if it has none.
type Linear struct {
	W      compute.Matrix
	Bias   compute.Vector
	Target *Target // nil if it takes no adapters
}

// Mixture holds the weights of a mixture of experts beside those of the shared one.
type Mixture struct {
	Router, SharedGate Linear
	ScoreBias          compute.Vector
	Gate, Up, Down     ExpertWeights
}

// ExpertWeights are one weight of each expert, and their biases, nil if they have none.
type ExpertWeights struct {
	W    []compute.Matrix
	Bias []compute.Vector
}

// New makes a Model of a Spec and its weights on a device, without room for adapters (MakeSlots).
func New(spec *Spec, w Weights, dev compute.Device) (*Model, error) {
	m := &Model{Spec: spec, Bytes: w.Bytes, dev: dev, w: w}
	for i, r := range spec.Ropes {
		v, err := dev.Vector(r.Freqs)
		if err != nil {
			return nil, err
		}
		m.freqs, m.long = append(m.freqs, v), append(m.long, nil)
		if r.Long != nil {
			if m.long[i], err = dev.Vector(r.Long); err != nil {
				return nil, err
			}
		}
	}
	for _, module := range w.Modules {
		for _, t := range module.Targets {
			if t.number == 0 {
				m.targets++
				t.number = m.targets
			}
		}
	}
	return m, nil
}
