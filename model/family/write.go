package family

import (
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/weights"
)

// Written is the configuration of a checkpoint as a file format writes it.
type Written struct {
	Spec     *model.Spec
	From, To Layout         // how the checkpoint holds its tensors, and how files of the format do
	Meta     []weights.KV   // of a GGUF: the architecture and its keys; nil if the checkpoint is one
	Config   map[string]any // of safetensors: config.json; nil if the checkpoint has one
	Ropes    []RopeFactors  // tensors that a GGUF has beside those of the model; nil if the checkpoint is one
}

// RopeFactors is a tensor of a GGUF by which the frequencies of a rope are divided.
type RopeFactors struct {
	Name    string
	Factors []float32
}

// The tensors by which GGUF files stretch a rope: in sequences of all lengths, or in short and in long ones.
const (
	ropeFactors = "rope_freqs.weight"
	ropeShort   = "rope_factors_short.weight"
	ropeLong    = "rope_factors_long.weight"
)

// IsRopeFactors reports whether a GGUF's tensor of that name stretches ropes.
func IsRopeFactors(name string) bool {
	return name == ropeFactors || name == ropeShort || name == ropeLong
}

// Write converts the configuration of a checkpoint, of either format, to a format. It does not detect what the format
// cannot express: read the result back and compare the Specs with model.Differ.
func Write(ckpt *weights.Checkpoint, to weights.Format) (*Written, error) {
	c, s, err := readConfig(ckpt)
	if err != nil {
		return nil, err
	}
	if q := s.Quantization; q.Method != "" && q.Method != "mxfp4" {
		return nil, fmt.Errorf("model: weights quantised by %v cannot be converted; convert the checkpoint that they were made of", q)
	}
	f := familyOf(&s.Spec)
	out := &Written{Spec: &s.Spec, From: f.layoutOf(ckpt)}
	switch {
	case (ckpt.Format() == weights.GGUF) == (to == weights.GGUF):
		out.To = out.From
		return out, nil
	case to == weights.GGUF:
		out.To, out.Meta, out.Ropes = f.reader().layoutIn(to), f.metadata(c, s), c.ropeTensors(s)
		return out, c.Err()
	}
	if f, err = f.named(s); err != nil {
		return nil, err
	}
	out.To = f.layoutIn(to)
	if out.Config, err = f.config(c, s, ckpt); err != nil {
		return nil, err
	}
	return out, c.Err()
}

// reader returns the family that reads the family's GGUFs.
func (f *family) reader() *family {
	if f.within != nil {
		return f.within
	}
	return f
}

// named returns the family of the safetensors that a GGUF becomes: the GGUF architecture of Llama covers several
// families.
func (f *family) named(s *draft) (*family, error) {
	switch {
	case f == &llama && s.Layers[0].FFN.Experts.Count > 0:
		return &mixtral, nil
	case f == &deepseek2 && s.lastLayer().FFN.Experts.Router.Sigmoid:
		return &deepseek3, nil
	case f != &llama || !s.slides():
		return f, nil
	case s.Attention().QKVBias || s.Attention().OBias || s.Layers[0].FFN.Bias:
		return nil, fmt.Errorf("model: a llama with a sliding window and biases has no model_type")
	}
	return &mistral, nil
}

// lastLayer returns the last layer that is a mixture, or the last one: others of a mixture may be dense.
func (s *draft) lastLayer() *model.Layer {
	for i := len(s.Layers) - 1; i >= 0; i-- {
		if s.Layers[i].FFN.Experts.Count > 0 {
			return &s.Layers[i]
		}
	}
	return &s.Layers[len(s.Layers)-1]
}

// windowKinds lists the layers as layer_types does.
func (s *draft) windowKinds() []string {
	kinds := slices.Repeat([]string{"full_attention"}, len(s.Layers))
	s.attention(func(i int, a *model.GQA) {
		if a.Window > 0 {
			kinds[i] = "sliding_attention"
		}
	})
	return kinds
}

// slides reports whether a layer has a sliding window.
func (s *draft) slides() bool { return slices.Contains(s.windowKinds(), "sliding_attention") }

// dense lists the layers that are no mixtures.
func (s *draft) dense() []int {
	var list []int
	for i, l := range s.Layers {
		if l.FFN.Experts.Count == 0 {
			list = append(list, i)
		}
	}
	return list
}

// recurrentLayers returns which layers are recurrent.
func (s *draft) recurrentLayers() []bool {
	out := make([]bool, len(s.Layers))
	for i, l := range s.Layers {
		_, out[i] = l.Mixer.(model.Delta)
	}
	return out
}
