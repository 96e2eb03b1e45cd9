package forge

import (
	"math"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/weights"
)

// delta translates the tensors of a gated delta net that the formats lay out in other ways, and marks those that it
// has read: queries, keys, values and gates are one tensor by key head in safetensors; in a GGUF, one of queries,
// keys and values and one of gates. A GGUF holds decays, not their logarithms, and has no dimension of 1 in a
// convolution.
func (t *translator) delta(layer int) ([]Translated, error) {
	m, recurrent := t.Spec.Layers[layer].Mixer.(model.Delta)
	if !t.changes || !recurrent {
		return nil, nil
	}
	d := m.Shape()
	r := t.reader()
	share, width := d.ValueHeads/d.KeyHeads, d.ValueHeads*d.ValueDim
	k, v, z := d.KeyDim, 2*d.KeyDim, 2*d.KeyDim+share*d.ValueDim
	end, keys := z+share*d.ValueDim, d.KeyHeads*d.KeyDim
	var out []Translated
	add := func(slot string, w compute.Source) {
		out = append(out, Translated{Name: t.To.Slots.Name(slot, layer) + ".weight", Slot: slot, Layer: layer, Type: w.Type,
			Shape: []int{w.Out, w.In}, Read: func() ([]byte, error) { return w.Data, nil }})
	}
	toGGUF := t.to == weights.GGUF
	switch {
	case toGGUF:
		w := r.Weight("delta.qkvz", layer, d.Channels()+width, t.Spec.Hidden)
		if r.Err() == nil {
			add("qkv", loader.HeadRows(w, d.KeyHeads, loader.Span{0, k}, loader.Span{k, v}, loader.Span{v, z}))
			add("delta.z", loader.HeadRows(w, d.KeyHeads, loader.Span{z, end}))
		}
	case !r.Has("delta.qkvz", layer):
		w, gates := r.Weight("qkv", layer, d.Channels(), t.Spec.Hidden), r.Weight("delta.z", layer, width, t.Spec.Hidden)
		if r.Err() == nil {
			add("delta.qkvz", joinHeads(d.KeyHeads, loader.HeadRows(w, 1, loader.Span{0, keys}), loader.HeadRows(w, 1, loader.Span{keys, 2 * keys}),
				loader.HeadRows(w, 1, loader.Span{2 * keys, d.Channels()}), gates))
		}
	}
	shapes := [][]int{{d.Channels(), 1, d.Window}, {d.Channels(), d.Window}} // of safetensors and of a GGUF
	if !toGGUF {
		shapes[0], shapes[1] = shapes[1], shapes[0]
	}
	taps := r.Values("delta.conv", ".weight", layer, shapes[0]...)
	out = append(out, floats(t.To.Slots.Name("delta.conv", layer)+".weight", "delta.conv", layer, shapes[1], func() []float32 { return taps }))
	decay := r.Values("delta.decay", "", layer, d.ValueHeads)
	for h, x := range decay {
		if toGGUF {
			decay[h] = float32(-math.Exp(float64(x)))
		} else {
			decay[h] = float32(math.Log(-float64(x)))
		}
	}
	out = append(out, floats(t.To.Slots.Name("delta.decay", layer), "delta.decay", layer, []int{d.ValueHeads}, func() []float32 { return decay }))
	return out, t.read(r)
}

// joinHeads joins weights head by head: the rows of the first head of each, then those of the second, and so on.
func joinHeads(heads int, parts ...compute.Source) compute.Source {
	out := parts[0]
	out.Out, out.Data = 0, nil
	for h := range heads {
		for _, p := range parts {
			n := p.Out / heads
			out.Data = append(out.Data, loader.HeadRows(p, 1, loader.Span{h * n, (h + 1) * n}).Data...)
			out.Out += n
		}
	}
	return out
}
