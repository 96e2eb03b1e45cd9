package loader

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/model"
)

// mixer loads the mixer of layer i. Each kind has a file of its own.
func (l *loader) mixer(i int, spec *model.Spec) model.MixerWeights {
	switch m := spec.Layers[i].Mixer.(type) {
	case model.GQA:
		return l.gqa(i, m, spec)
	case model.Latent:
		return l.latent(i, m, spec)
	case model.Delta:
		return l.delta(i, m, spec)
	default:
		l.keep(fmt.Errorf("model: layer %d: a mixer of type %T cannot be loaded", i, m))
		return nil
	}
}
