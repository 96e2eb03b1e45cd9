package model

import (
	"math"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/weights"
)

// delta translates the tensors of a gated delta net that the formats lay out in other ways, and marks those that it has read:
// queries, keys, values and gates stand in one tensor by key head in safetensors, and in one of queries, keys and values and one
// of gates in a GGUF, which has decays as they are and not their logarithms, and no dimension of 1 in a convolution.
func (t *translator) delta(layer int) ([]Translated, error) {
	d := t.spec.Layers[layer].Attn.Delta
	if !t.changes || d.ValueHeads == 0 {
		return nil, nil
	}
	l := &loader{ckpt: t.ckpt, dev: &keeper{}, family: t.f, slots: t.from, used: t.used}
	share, width := d.ValueHeads/d.KeyHeads, d.ValueHeads*d.ValueDim
	k, v, z := d.KeyDim, 2*d.KeyDim, 2*d.KeyDim+share*d.ValueDim
	end, keys := z+share*d.ValueDim, d.KeyHeads*d.KeyDim
	var out []Translated
	add := func(slot string, w compute.Source) {
		out = append(out, Translated{Name: t.names.name(slot, layer) + ".weight", Slot: slot, Layer: layer, Type: w.Type,
			Shape: []int{w.Out, w.In}, Read: func() ([]byte, error) { return w.Data, nil }})
	}
	toGGUF := t.to == weights.GGUF
	switch {
	case toGGUF:
		w := l.weight("delta.qkvz", layer, d.Channels()+width, t.spec.Hidden)
		if l.err == nil {
			add("qkv", subset(w, d.KeyHeads, span{0, k}, span{k, v}, span{v, z}))
			add("delta.z", subset(w, d.KeyHeads, span{z, end}))
		}
	case !l.has("delta.qkvz", layer):
		w, gates := l.weight("qkv", layer, d.Channels(), t.spec.Hidden), l.weight("delta.z", layer, width, t.spec.Hidden)
		if l.err == nil {
			add("delta.qkvz", byHead(d.KeyHeads, subset(w, 1, span{0, keys}), subset(w, 1, span{keys, 2 * keys}),
				subset(w, 1, span{2 * keys, d.Channels()}), gates))
		}
	}
	shapes := [][]int{{d.Channels(), 1, d.Window}, {d.Channels(), d.Window}} // of safetensors and of a GGUF
	if !toGGUF {
		shapes[0], shapes[1] = shapes[1], shapes[0]
	}
	taps := l.named(l.slots.name("delta.conv", layer)+".weight", shapes[0]...)
	out = append(out, floats(t.names.name("delta.conv", layer)+".weight", "delta.conv", layer, shapes[1], func() []float32 { return taps }))
	decay := l.values("delta.decay", "", layer, d.ValueHeads)
	for h, x := range decay {
		if toGGUF {
			decay[h] = float32(-math.Exp(float64(x)))
		} else {
			decay[h] = float32(math.Log(-float64(x)))
		}
	}
	out = append(out, floats(t.names.name("delta.decay", layer), "delta.decay", layer, []int{d.ValueHeads}, func() []float32 { return decay }))
	return out, l.err
}

// byHead joins weights head by head: the rows of the first head of each, then those of the second, and so on.
func byHead(heads int, parts ...compute.Source) compute.Source {
	out := parts[0]
	out.Out, out.Data = 0, nil
	for h := range heads {
		for _, p := range parts {
			n := p.Out / heads
			out.Data = append(out.Data, subset(p, 1, span{h * n, (h + 1) * n}).Data...)
			out.Out += n
		}
	}
	return out
}
