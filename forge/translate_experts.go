package forge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// expertSlots are the weights that a GGUF stacks, [experts, out, in].
var expertSlots = []string{"experts.gate", "experts.up", "experts.down"}

// experts is one weight of every expert, and their biases, nil if they have none.
type experts struct {
	w    []compute.Source
	bias [][]float32
}

// experts translates the experts of one layer as far as they are not vectors or routers, and marks the tensors that
// it has read. Safetensors have a tensor for each expert or, as gpt-oss, stacks in which gates and ups alternate.
func (t *translator) experts(layer int) ([]Translated, error) {
	f := t.Spec.Layers[layer].FFN
	if !t.changes || f.Experts.Count == 0 {
		return nil, nil
	}
	r, all := t.reader(), map[string]*experts{}
	r.Experts(layer, f, t.Spec.Hidden, func(slot string, w compute.Source, bias []float32) {
		if all[slot] == nil {
			all[slot] = &experts{}
		}
		e := all[slot]
		e.w = append(e.w, w)
		if bias != nil {
			e.bias = append(e.bias, bias)
		}
	})
	if err := t.read(r); err != nil {
		return nil, err
	}
	if t.To.PairedExperts {
		gateUp := alternating(t.To.Slots.Name("experts.gate_up", layer), "experts.gate_up", layer, all["experts.gate"], all["experts.up"])
		return append(gateUp, alternating(t.To.Slots.Name("experts.down", layer), "experts.down", layer, all["experts.down"])...), nil
	}
	var out []Translated
	for _, slot := range expertSlots {
		switch e := all[slot]; {
		case e == nil:
		case t.to == weights.GGUF:
			all, err := stack(t.To.Slots.Name(slot, layer), slot, layer, e)
			if err != nil {
				return nil, err
			}
			out = append(out, all...)
		default:
			out = append(out, t.apart(slot, layer, e)...)
		}
	}
	return out, nil
}

// read marks the tensors that a Reader has read, and returns its fault.
func (t *translator) read(r *loader.Reader) error {
	for _, info := range t.ckpt.Tensors() {
		t.used[info.Name] = t.used[info.Name] || r.Used(info.Name)
	}
	return r.Err()
}

// stack joins a weight of every expert, and their biases. Experts of one layer that have different types, or scales
// apart from their values, cannot be joined.
func stack(name, slot string, layer int, e *experts) ([]Translated, error) {
	all, err := compute.Stack(name+".weight", e.w...)
	if err == nil && all.Scales != nil {
		err = fmt.Errorf("forge: weight %q: a GGUF has no scales apart from values of %v", all.Name, all.Type)
	}
	if err != nil {
		return nil, err
	}
	var from []string
	for _, w := range e.w {
		from = append(from, w.Name)
	}
	shape := []int{len(e.w), e.w[0].Out, all.In}
	out := []Translated{{Name: all.Name, Slot: slot, Layer: layer, From: from, Type: all.Type, Shape: shape,
		Read: func() ([]byte, error) { return rowsOf(all) }}}
	if e.bias != nil {
		out = append(out, floats(name+".bias", slot, layer, shape[:2], func() []float32 { return slices.Concat(e.bias...) }))
	}
	return out, nil
}

// rowsOf returns the bytes of a weight that is written row by row.
func rowsOf(w compute.Source) ([]byte, error) {
	size, err := w.Type.RowBytes(w.In)
	if err != nil {
		return nil, fmt.Errorf("forge: weight %q: %w", w.Name, err)
	}
	data := make([]byte, w.Out*size)
	for n := range w.Out {
		w.Row(data[n*size:][:size], n)
	}
	return data, nil
}

// apart writes a tensor for each expert.
func (t *translator) apart(slot string, layer int, e *experts) []Translated {
	var out []Translated
	for i, w := range e.w {
		name := t.To.Slots.Expert(slot, layer, i)
		out = append(out, Translated{Name: name + ".weight", Slot: slot, Layer: layer, Type: w.Type, Shape: []int{w.Out, w.In},
			Read: func() ([]byte, error) { return w.Data, nil }})
		if e.bias != nil {
			out = append(out, floats(name+".bias", slot, layer, []int{w.Out}, func() []float32 { return e.bias[i] }))
		}
	}
	return out
}

// alternating writes a stack [experts, in, out], in which the outputs of the parts alternate, and their biases.
func alternating(name, slot string, layer int, parts ...*experts) []Translated {
	first := parts[0].w[0]
	count, width := len(parts[0].w), first.Out*len(parts)
	name = strings.TrimSuffix(name, ".weight")
	matrix := Translated{Name: name, Slot: slot, Layer: layer, Type: quant.F32, Shape: []int{count, first.In, width}, Read: func() ([]byte, error) {
		all := make([]float32, count*first.In*width)
		row := make([]float32, first.Out*first.In)
		for e := range count {
			for n, p := range parts {
				if err := quant.Decode(row, p.w[e].Data, p.w[e].Type); err != nil {
					return nil, fmt.Errorf("model: tensor %q: %w", name, err)
				}
				for i, v := range row {
					all[(e*first.In+i%first.In)*width+i/first.In*len(parts)+n] = v
				}
			}
		}
		return bytesOfF32(all)
	}}
	bias := floats(name+"_bias", slot, layer, []int{count, width}, func() []float32 {
		all := make([]float32, count*width)
		for e := range count {
			for n, p := range parts {
				for i, v := range p.bias[e] {
					all[e*width+i*len(parts)+n] = v
				}
			}
		}
		return all
	})
	return []Translated{matrix, bias}
}

// floats is a tensor of float32 values that are made when it is read.
func floats(name, slot string, layer int, shape []int, values func() []float32) Translated {
	return Translated{Name: name, Slot: slot, Layer: layer, Type: quant.F32, Shape: shape, Read: func() ([]byte, error) { return bytesOfF32(values()) }}
}

func bytesOfF32(v []float32) ([]byte, error) {
	out := make([]byte, 4*len(v))
	return out, quant.Encode(out, v, quant.F32)
}
