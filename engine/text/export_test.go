package text

import (
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
)

// Measure computes the largest batch of a model.
func Measure(loaded *model.Model, o Options, dev compute.Device) error {
	m := &Model{Spec: loaded.Spec}
	m.loaded.Store(loaded)
	return m.measure(new(memory), o, dev)
}
