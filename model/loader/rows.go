package loader

import (
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// Span is a part of each head's rows of a weight: from its row [0] up to, but not including, its row [1].
type Span [2]int

// HeadRows returns some rows of a weight whose rows belong to heads heads, in equal runs: for each span, that part of
// every head.
func HeadRows(src compute.Source, heads int, spans ...Span) compute.Source {
	if src.Out == 0 {
		return src // it was not found
	}
	rows := make([]int, src.Out)
	for n := range rows {
		rows[n] = n
	}
	rows = gather(rows, 1, src.Out/heads, spans...)
	if row := src.Row; row != nil {
		src.Row, src.Run = func(dst []byte, n int) { row(dst, rows[n]) }, nil
	}
	src.Data = gather(src.Data, len(src.Data)/src.Out, src.Out/heads, spans...)
	src.Scales = gather(src.Scales, len(src.Scales)/src.Out, src.Out/heads, spans...)
	src.Out = len(rows)
	return src
}

// gather returns some rows of width elements from heads of size rows: for each span, that part of every head.
func gather[T any](v []T, width, size int, spans ...Span) []T {
	var out []T
	for _, s := range spans {
		for at := 0; at < len(v); at += size * width {
			out = append(out, v[at+s[0]*width:at+s[1]*width]...)
		}
	}
	return out
}

// storedHeads returns in which order files of a layout have the rows of a slot of a layer.
func storedHeads(layout family.Layout, spec *model.Spec, slot string, layer int) compute.Heads {
	if !layout.Permuted || !slices.Contains([]string{"q", "k", "q.norm", "k.norm"}, slot) {
		return compute.Heads{}
	}
	a := spec.Layers[layer].Mixer.(model.GQA) // as the families with a permuted layout have
	h := compute.Heads{Size: a.HeadDim, Turned: a.HeadDim &^ 1}
	if a.Rope >= 0 {
		h.Turned = 2 * len(spec.Ropes[a.Rope].Freqs)
	}
	return h
}

// heads returns in which order the checkpoint has the rows of a slot of layer i.
func (l *loader) heads(slot string, i int) compute.Heads {
	return storedHeads(l.layout, l.whole, slot, i)
}

// ordered is Values in the order of the model's rows.
func (l *loader) ordered(slot, suffix string, i, size int) []float32 {
	return inOrder(l.heads(slot, i), l.Values(slot, suffix, i, size))
}

// inOrder returns values that are stored in the order of heads.
func inOrder(h compute.Heads, v []float32) []float32 {
	if h.Size == 0 {
		return v
	}
	out := make([]float32, len(v))
	for n := range out {
		out[n] = v[h.Stored(n)]
	}
	return out
}

// transposedSource returns a weight with its inputs as outputs. One that is not plain numbers becomes F32.
func transposedSource(src compute.Source) (compute.Source, error) {
	t := weights.Tensor{Info: weights.Info{Name: src.Name, Type: src.Type, Shape: []int{src.Out, src.In}}, Data: src.Data}
	if src.Type.BlockValues() != 1 || src.Scales != nil {
		v, err := expanded(src)
		if err != nil {
			return src, err
		}
		t.Type, t.Data = quant.F32, make([]byte, 4*len(v))
		if err := quant.Encode(t.Data, v, quant.F32); err != nil {
			return src, err
		}
	}
	data, err := Transposed(t)
	return compute.Source{Name: src.Name, Type: t.Type, Out: src.In, In: src.Out, Data: data}, err
}
