package main

import (
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/server"
	"github.com/kvasir-llm/kvasir/weights"
)

// about says what a checkpoint is made of, for clients. template takes the place of its own, if it is not "".
func about(name string, ckpt *weights.Checkpoint, o *text.Options) (server.About, error) {
	spec, err := family.Read(ckpt)
	if err != nil {
		return server.About{}, err
	}
	s, err := outline(name, ckpt)
	if err != nil {
		return server.About{}, err
	}
	a := server.About{Format: s.Format, Family: s.Family, Parameters: s.Parameters, Context: s.Context, Hidden: s.Hidden,
		Layers: s.Layers, Quantization: commonType(s.Types), Template: o.Template, Generates: spec.Generates()}
	if s.Quantized != "none" {
		a.Quantization = s.Quantized
	}
	if a.Template == "" {
		if a.Template, err = text.TemplateSource(ckpt); err != nil {
			return a, nil // whose template cannot be used
		}
	}
	if t, err := o.OpenTemplate(ckpt); err == nil {
		tools, reasoning, err := t.Formats(o.ToolFormat, o.ReasoningFormat)
		a.Tools, a.Reasons = err == nil && tools != nil, err == nil && reasoning != nil
	}
	return a, nil
}

// commonType returns the type that most tensors have but for float32, which norms and biases have.
func commonType(types map[string]int) string {
	best, most := "F32", 0
	for t, n := range types {
		if t != best && t != "F32" && (n > most || n == most && t < best) {
			best, most = t, n
		}
	}
	return best
}
