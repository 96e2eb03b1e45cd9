package loader

import (
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
)

// latent loads latent attention. Of the weight that makes keys and values from a latent, the rows of each head's keys
// are transposed, so that they multiply queries.
func (l *loader) latent(i int, a model.Latent, spec *model.Spec) *model.LatentWeights {
	out, hidden, nope := &model.LatentWeights{Latent: a}, spec.Hidden, a.HeadDim-a.RopeDim
	heads := l.whole.Layers[i].Mixer.(model.Latent).Heads
	first, _ := l.part.Even(heads)
	norm := model.Norm{Eps: a.Eps}
	if a.QueryRank > 0 {
		out.QueryLatent = l.linear("q.latent", i, a.QueryRank, hidden, a.Bias)
		out.QueryNorm = l.norm("q.latent.norm", i, norm, a.QueryRank)
		out.Query = l.outputs(l.share("q.up", heads*a.HeadDim), i, a.QueryRank, false)
	} else {
		out.Query = l.outputs(l.share("q", heads*a.HeadDim), i, hidden, false)
	}
	out.KVLatent = l.linear("kv.latent", i, a.Rank+a.RopeDim, hidden, a.Bias)
	out.KVNorm = l.norm("kv.latent.norm", i, norm, a.Rank)
	out.KVNorm.Width = a.Rank
	out.O = l.inputs("o", i, hidden, heads*a.ValueDim, a.OBias)
	if l.Has("k.up", i) { // apart and transposed, in newer GGUFs
		out.KeysUp = l.perHead("k.up", i, heads, a.Rank, nope)
		out.ValuesUp = l.perHead("v.up", i, heads, a.ValueDim, a.Rank)
		return out
	}
	w := l.Weight("kv.up", i, heads*(nope+a.ValueDim), a.Rank)
	for h := first; h < first+a.Heads && l.err == nil; h++ {
		from := h * (nope + a.ValueDim)
		k, err := transposedSource(HeadRows(w, 1, Span{from, from + nope}))
		l.keep(err)
		out.KeysUp = append(out.KeysUp, l.take(k))
		out.ValuesUp = append(out.ValuesUp, l.take(HeadRows(w, 1, Span{from + nope, from + nope + a.ValueDim})))
	}
	return out
}

// perHead uploads this part's share of the weights of each head, from a tensor [heads, out, in].
func (l *loader) perHead(slot string, i, heads, out, in int) []compute.Matrix {
	t, ok := l.tensor(l.slots.Name(slot, i)+".weight", heads, out, in)
	var all []compute.Matrix
	first, n := l.part.Even(heads)
	for h := first; h < first+n && ok; h++ {
		size := len(t.Data) / heads
		all = append(all, l.take(compute.Source{Name: t.Name, Type: t.Type, Out: out, In: in, Data: t.Data[h*size:][:size]}))
	}
	return all
}
