package model

import (
	"math"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// attention takes over the attention of layer i.
func (l *loader) attention(out *layer, i int, spec *Spec) {
	a, hidden := spec.Layers[i].Attn, spec.Hidden
	switch {
	case a.Delta.ValueHeads > 0:
		l.recurrent(out, i, spec)
		return
	case a.Latent.Rank > 0:
		l.latents(out, i, a, hidden)
	case a.Gated:
		l.gated(out, i, a, hidden)
	default:
		qkv := l.linears("qkv", i, hidden, a.QKVBias,
			part{"q", a.Heads * a.HeadDim}, part{"k", a.KVHeads * a.HeadDim}, part{"v", a.KVHeads * a.ValueDim})
		out.q, out.k, out.v = qkv[0], qkv[1], qkv[2]
	}
	out.o = l.linear("o", i, hidden, a.Heads*a.ValueDim, a.OBias)
	if a.QKNorm {
		out.qNorm = l.headNorm("q.norm", i, spec.Norm, a.Heads, a.HeadDim)
		out.kNorm = l.headNorm("k.norm", i, spec.Norm, a.KVHeads, a.HeadDim)
	}
	if a.Sinks {
		out.sinks = l.vector("sinks", "", i, a.Heads)
	}
}

// gated takes over queries whose heads each have a gate behind them, in the same tensor.
func (l *loader) gated(out *layer, i int, a Attention, hidden int) {
	rows, query, gate := 2*a.Heads*a.HeadDim, span{0, a.HeadDim}, span{a.HeadDim, 2 * a.HeadDim}
	w := l.weight("q", i, rows, hidden)
	out.q.w, out.outGate.w = l.take(subset(w, a.Heads, query)), l.take(subset(w, a.Heads, gate))
	if a.QKVBias {
		bias := l.values("q", ".bias", i, rows)
		out.q.bias, out.outGate.bias = l.upload(picked(bias, 1, 2*a.HeadDim, query)), l.upload(picked(bias, 1, 2*a.HeadDim, gate))
	}
	out.k = l.linear("k", i, a.KVHeads*a.HeadDim, hidden, a.QKVBias)
	out.v = l.linear("v", i, a.KVHeads*a.ValueDim, hidden, a.QKVBias)
}

// latents takes over latent attention. Of the weight that makes keys and values of a latent, the rows of each head's keys
// are turned over, so that they multiply queries.
func (l *loader) latents(out *layer, i int, a Attention, hidden int) {
	m, nope := a.Latent, a.HeadDim-a.Latent.RopeDim
	norm := Norm{Eps: m.Eps}
	if m.QueryRank > 0 {
		out.v = l.linear("q.latent", i, m.QueryRank, hidden, a.QKVBias)
		out.qNorm = l.norm("q.latent.norm", i, norm, m.QueryRank)
		out.q = l.linear("q.up", i, a.Heads*a.HeadDim, m.QueryRank, false)
	} else {
		out.q = l.linear("q", i, a.Heads*a.HeadDim, hidden, false)
	}
	out.k = l.linear("kv.latent", i, m.Rank+m.RopeDim, hidden, a.QKVBias)
	out.kNorm = l.norm("kv.latent.norm", i, norm, m.Rank)
	out.kNorm.Width = m.Rank
	if l.has("k.up", i) { // apart and turned over, in newer GGUFs
		out.keysUp = l.byHead("k.up", i, a.Heads, m.Rank, nope)
		out.valuesUp = l.byHead("v.up", i, a.Heads, a.ValueDim, m.Rank)
		return
	}
	w := l.weight("kv.up", i, a.Heads*(nope+a.ValueDim), m.Rank)
	for h := 0; h < a.Heads && l.err == nil; h++ {
		from := h * (nope + a.ValueDim)
		k, err := turnedOver(subset(w, 1, span{from, from + nope}))
		l.keep(err)
		out.keysUp = append(out.keysUp, l.take(k))
		out.valuesUp = append(out.valuesUp, l.take(subset(w, 1, span{from + nope, from + nope + a.ValueDim})))
	}
}

// byHead takes over the weights of each head from a tensor [heads, out, in].
func (l *loader) byHead(slot string, i, heads, out, in int) []compute.Matrix {
	t, ok := l.tensor(l.slots.name(slot, i)+".weight", heads, out, in)
	var all []compute.Matrix
	for h := 0; h < heads && ok; h++ {
		size := len(t.Data) / heads
		all = append(all, l.take(compute.Source{Name: t.Name, Type: t.Type, Out: out, In: in, Data: t.Data[h*size:][:size]}))
	}
	return all
}

// recurrent takes over a gated delta net. Its queries, keys, values and gates stand in one tensor by key head, or, in newer
// GGUFs, in one of queries, keys and values and one of gates; strengths and decays in one by key head.
func (l *loader) recurrent(out *layer, i int, spec *Spec) {
	d, hidden := spec.Layers[i].Attn.Delta, spec.Hidden
	share, width := d.ValueHeads/d.KeyHeads, d.ValueHeads*d.ValueDim
	if l.has("delta.qkvz", i) {
		w := l.weight("delta.qkvz", i, d.Channels()+width, hidden)
		k, v, z := d.KeyDim, 2*d.KeyDim, 2*d.KeyDim+share*d.ValueDim
		out.q.w = l.take(subset(w, d.KeyHeads, span{0, k}, span{k, v}, span{v, z}))
		out.outGate.w = l.take(subset(w, d.KeyHeads, span{z, z + share*d.ValueDim}))
	} else {
		out.q.w, out.outGate.w = l.matrix("qkv", i, d.Channels(), hidden), l.matrix("delta.z", i, width, hidden)
	}
	ba := l.weight("delta.ba", i, 2*d.ValueHeads, hidden)
	out.v.w, out.k.w = l.take(subset(ba, d.KeyHeads, span{0, share})), l.take(subset(ba, d.KeyHeads, span{share, 2 * share}))
	out.o = l.linear("delta.out", i, hidden, width, false)
	out.qNorm = l.norm("delta.norm", i, Norm{Eps: spec.Norm.Eps}, d.ValueDim)
	d.Bias = l.vector("delta.bias", "", i, d.ValueHeads)
	decay := l.values("delta.decay", "", i, d.ValueHeads)
	shape := []int{d.Channels(), d.Window}
	if l.ckpt.Format() != weights.GGUF {
		shape = []int{d.Channels(), 1, d.Window}
		for h, v := range decay {
			decay[h] = float32(-math.Exp(float64(v)))
		}
	}
	d.Decay = l.upload(decay)
	stored := l.named(l.slots.name("delta.conv", i)+".weight", shape...)
	taps := make([]float32, len(stored))
	for at, v := range stored {
		taps[at%d.Window*d.Channels()+at/d.Window] = v
	}
	d.Taps = l.upload(taps)
	out.delta = d
}

// span is a part of each head's rows of a weight: from row from up to before row to.
type span struct{ from, to int }

// picked returns some rows of a weight whose heads have size rows each, of stride elements: for each span in turn, that of
// every head.
func picked[T any](v []T, stride, size int, spans ...span) []T {
	var out []T
	for _, s := range spans {
		for at := 0; at < len(v); at += size * stride {
			out = append(out, v[at+s.from*stride:at+s.to*stride]...)
		}
	}
	return out
}

// subset returns the weight of the rows of heads that picked returns.
func subset(src compute.Source, heads int, spans ...span) compute.Source {
	if src.Out == 0 {
		return src // it was not found
	}
	rows := make([]int, src.Out)
	for n := range rows {
		rows[n] = n
	}
	rows = picked(rows, 1, src.Out/heads, spans...)
	if row := src.Row; row != nil {
		src.Row = func(dst []byte, n int) { row(dst, rows[n]) }
	}
	src.Data = picked(src.Data, len(src.Data)/src.Out, src.Out/heads, spans...)
	src.Scales = picked(src.Scales, len(src.Scales)/src.Out, src.Out/heads, spans...)
	src.Out = len(rows)
	return src
}

// turnedOver returns a weight with its inputs as outputs. One that is not plain numbers becomes F32.
func turnedOver(src compute.Source) (compute.Source, error) {
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
	data, err := transposed(t)
	return compute.Source{Name: src.Name, Type: t.Type, Out: src.In, In: src.Out, Data: data}, err
}
