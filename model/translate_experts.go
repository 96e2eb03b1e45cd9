package model

import (
	"fmt"
	"strings"

	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// expertSlots are the weights that a GGUF stacks, [experts, out, in].
var expertSlots = []string{"experts.gate", "experts.up", "experts.down"}

// experts translates the experts of one layer as far as they are not vectors or routers, and marks the tensors that it has
// read. Safetensors have a tensor for each expert or, as gpt-oss, stacks with gates and ups by turns.
func (t *translator) experts(layer int) ([]Translated, error) {
	if !t.changes || t.spec.Layers[layer].FFN.Experts.Count == 0 {
		return nil, nil
	}
	l := &loader{ckpt: t.ckpt, dev: &keeper{}, family: t.f, slots: t.from, used: t.used}
	l.transposed = false
	var m mixture
	f := t.spec.Layers[layer].FFN
	l.routed(&m, layer, f, t.spec.Hidden)
	if l.err != nil {
		return nil, l.err
	}
	var out []Translated
	for i, e := range []experts{m.gate, m.up, m.down} {
		if len(e.w) == 0 {
			continue
		}
		if t.to == weights.GGUF {
			out = append(out, stack(t.names.name(expertSlots[i], layer), expertSlots[i], layer, e)...)
		} else if !t.f.pairedExperts {
			out = append(out, t.apart(expertSlots[i], layer, e)...)
		}
	}
	if t.to != weights.GGUF && t.f.pairedExperts {
		out = append(out, t.byTurns(layer, m)...)
	}
	return out, nil
}

// stack joins a weight of every expert, and their biases.
func stack(name, slot string, layer int, e experts) []Translated {
	first := e.w[0].(*kept)
	var from []string
	for _, w := range e.w {
		from = append(from, w.(*kept).Name)
	}
	out := []Translated{{Name: name + ".weight", Slot: slot, Layer: layer, From: from, Type: first.Source.Type, Shape: []int{len(e.w), first.Out, first.In},
		Read: func() ([]byte, error) {
			var data []byte
			for _, w := range e.w {
				data = append(data, w.(*kept).Data...)
			}
			return data, nil
		}}}
	if len(e.bias) > 0 {
		out = append(out, floats(name+".bias", slot, layer, []int{len(e.w), first.Out}, func() []float32 {
			var all []float32
			for _, b := range e.bias {
				all = append(all, b.(keptVector)...)
			}
			return all
		}))
	}
	return out
}

// apart writes a tensor for each expert.
func (t *translator) apart(slot string, layer int, e experts) []Translated {
	var out []Translated
	for i, w := range e.w {
		w := w.(*kept)
		name := t.names.expert(slot, layer, i)
		out = append(out, Translated{Name: name + ".weight", Slot: slot, Layer: layer, Type: w.Source.Type, Shape: []int{w.Out, w.In},
			Read: func() ([]byte, error) { return w.Data, nil }})
		if len(e.bias) > 0 {
			out = append(out, floats(name+".bias", slot, layer, []int{w.Out}, func() []float32 { return e.bias[i].(keptVector) }))
		}
	}
	return out
}

// byTurns writes stacks [experts, in, out], of gates and ups by turns, and their biases.
func (t *translator) byTurns(layer int, m mixture) []Translated {
	join := func(slot string, parts ...experts) []Translated {
		w := parts[0].w[0].(*kept)
		count, width := len(parts[0].w), w.Out*len(parts)
		name := strings.TrimSuffix(t.names.name(slot, layer), ".weight")
		matrix := Translated{Name: name, Slot: slot, Layer: layer, Type: quant.F32, Shape: []int{count, w.In, width}, Read: func() ([]byte, error) {
			all := make([]float32, count*w.In*width)
			row := make([]float32, w.Out*w.In)
			for e := range count {
				for n, p := range parts {
					if err := quant.Decode(row, p.w[e].(*kept).Data, p.w[e].(*kept).Source.Type); err != nil {
						return nil, fmt.Errorf("model: tensor %q: %w", name, err)
					}
					for i, v := range row {
						all[(e*w.In+i%w.In)*width+i/w.In*len(parts)+n] = v
					}
				}
			}
			return bytesOfF32(all)
		}}
		bias := floats(name+"_bias", slot, layer, []int{count, width}, func() []float32 {
			all := make([]float32, count*width)
			for e := range count {
				for n, p := range parts {
					for i, v := range p.bias[e].(keptVector) {
						all[e*width+i*len(parts)+n] = v
					}
				}
			}
			return all
		})
		return []Translated{matrix, bias}
	}
	return append(join("experts.gate_up", m.gate, m.up), join("experts.down", m.down)...)
}

// floats is a tensor of float32 values that are made when it is read.
func floats(name, slot string, layer int, shape []int, values func() []float32) Translated {
	return Translated{Name: name, Slot: slot, Layer: layer, Type: quant.F32, Shape: shape, Read: func() ([]byte, error) { return bytesOfF32(values()) }}
}

func bytesOfF32(v []float32) ([]byte, error) {
	out := make([]byte, 4*len(v))
	return out, quant.Encode(out, v, quant.F32)
}
