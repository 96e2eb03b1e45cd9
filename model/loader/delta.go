package loader

import (
	"math"

	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/weights"
)

// delta loads a gated delta net. Its queries, keys, values and gates are in one tensor by key head, or, in newer
// GGUFs, in one of queries, keys and values and one of gates; strengths and decays are in one by key head.
func (l *loader) delta(i int, m model.Delta, spec *model.Spec) *model.DeltaWeights {
	out, d, hidden := &model.DeltaWeights{}, m.Shape(), spec.Hidden
	share, width := d.ValueHeads/d.KeyHeads, d.ValueHeads*d.ValueDim
	if l.Has("delta.qkvz", i) {
		w := l.Weight("delta.qkvz", i, d.Channels()+width, hidden)
		k, v, z := d.KeyDim, 2*d.KeyDim, 2*d.KeyDim+share*d.ValueDim
		out.QKV.W = l.take(HeadRows(w, d.KeyHeads, Span{0, k}, Span{k, v}, Span{v, z}))
		out.Gate.W = l.take(HeadRows(w, d.KeyHeads, Span{z, z + share*d.ValueDim}))
	} else {
		out.QKV.W, out.Gate.W = l.matrix("qkv", i, d.Channels(), hidden), l.matrix("delta.z", i, width, hidden)
	}
	ba := l.Weight("delta.ba", i, 2*d.ValueHeads, hidden)
	out.B.W, out.A.W = l.take(HeadRows(ba, d.KeyHeads, Span{0, share})), l.take(HeadRows(ba, d.KeyHeads, Span{share, 2 * share}))
	out.O = l.linear("delta.out", i, hidden, width, false)
	out.Norm = l.norm("delta.norm", i, model.Norm{Eps: spec.Norm.Eps}, d.ValueDim)
	d.Bias = l.vector("delta.bias", "", i, d.ValueHeads)
	decay := l.Values("delta.decay", "", i, d.ValueHeads)
	shape := []int{d.Channels(), d.Window}
	if l.ckpt.Format() != weights.GGUF {
		shape = []int{d.Channels(), 1, d.Window}
		for h, v := range decay {
			decay[h] = float32(-math.Exp(float64(v)))
		}
	}
	d.Decay = l.upload(decay)
	stored := l.Values("delta.conv", ".weight", i, shape...)
	taps := make([]float32, len(stored))
	for at, v := range stored {
		taps[at%d.Window*d.Channels()+at/d.Window] = v
	}
	d.Taps = l.upload(taps)
	out.Delta = d
	return out
}
