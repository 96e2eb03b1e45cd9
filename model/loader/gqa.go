package loader

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
)

// gqa loads grouped-query attention.
func (l *loader) gqa(i int, a model.GQA, spec *model.Spec) *model.GQAWeights {
	w, hidden, whole := &model.GQAWeights{GQA: a}, spec.Hidden, l.whole.Layers[i].Mixer.(model.GQA)
	k, v := l.kvHeads("k", whole, a.HeadDim), l.kvHeads("v", whole, a.ValueDim)
	if a.Gated {
		l.gated(w, i, hidden)
		w.K, w.V = l.outputs(k, i, hidden, a.QKVBias), l.outputs(v, i, hidden, a.QKVBias)
	} else {
		qkv := l.linears("qkv", i, hidden, a.QKVBias, l.share("q", whole.Heads*a.HeadDim), k, v)
		w.Q, w.K, w.V = qkv[0], qkv[1], qkv[2]
	}
	w.O = l.inputs("o", i, hidden, whole.Heads*a.ValueDim, a.OBias)
	if a.QKNorm {
		w.QNorm = l.headNorm("q.norm", i, spec.Norm, a.Heads, a.HeadDim)
		w.KNorm = l.headNorm("k.norm", i, spec.Norm, a.KVHeads, a.HeadDim)
	}
	if a.Sinks {
		sinks := l.Values("sinks", "", i, whole.Heads)
		if from, n := l.part.Even(whole.Heads); l.err == nil {
			w.Sinks = l.upload(sinks[from:][:n])
		}
	}
	return w
}

// kvHeads is this part's share of the KV heads of a weight with dim outputs a head. Where there are more parts than
// heads, a head is on several.
func (l *loader) kvHeads(slot string, whole model.GQA, dim int) part {
	if of := max(l.part.Of, 1); whole.KVHeads%of != 0 {
		return part{slot, whole.KVHeads * dim, l.part.Rank * whole.KVHeads / of * dim, dim}
	}
	return l.share(slot, whole.KVHeads*dim)
}

// gated loads queries whose heads are each followed by a gate in the same tensor.
func (l *loader) gated(w *model.GQAWeights, i, hidden int) {
	a, query, gate := w.GQA, Span{0, w.HeadDim}, Span{w.HeadDim, 2 * w.HeadDim}
	p := l.share("q", 2*l.whole.Layers[i].Mixer.(model.GQA).Heads*a.HeadDim)
	src := l.Weight("q", i, p.all, hidden)
	if l.err != nil {
		return
	}
	src = src.Rows(p.from, p.out)
	w.Q.W, w.Gate.W = l.take(HeadRows(src, a.Heads, query)), l.take(HeadRows(src, a.Heads, gate))
	if a.QKVBias {
		bias := l.Values("q", ".bias", i, p.all)
		if l.err != nil {
			return
		}
		bias = bias[p.from:][:p.out]
		w.Q.Bias, w.Gate.Bias = l.upload(gather(bias, 1, 2*a.HeadDim, query)), l.upload(gather(bias, 1, 2*a.HeadDim, gate))
	}
}

// headNorm loads the norm of queries or keys. It spans a row if the stored gain is that long; else a head, with gains
// of its own for each head if they have the shape [heads, headDim].
func (l *loader) headNorm(slot string, i int, n model.Norm, heads, headDim int) compute.Norm {
	t, ok := l.ckpt.Tensor(l.slots.Name(slot, i) + ".weight")
	switch {
	case ok && t.Values() != headDim && l.part.Of > 1:
		l.keep(fmt.Errorf("model: tensor %q has gains for more than one head; such norms cannot be divided by %d", t.Name, l.part.Of))
		return compute.Norm{}
	case ok && len(t.Shape) == 2:
		return compute.Norm{Eps: n.Eps, Center: n.Center, Group: headDim, Gain: l.upload(inOrder(l.heads(slot, i), l.named(t.Name, heads, headDim)))}
	case ok && t.Values() == heads*headDim:
		return l.norm(slot, i, n, heads*headDim)
	}
	return l.norm(slot, i, n, headDim)
}
