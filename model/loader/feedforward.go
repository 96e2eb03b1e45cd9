package loader

import (
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
)

// feedForward loads the feed-forward of layer i.
func (l *loader) feedForward(out *model.LayerWeights, i int, f model.FeedForward, hidden int) {
	e, m := f.Experts, &out.Mixture
	if e.Count == 0 {
		l.dense(out, "", i, f, f.Width, hidden)
		return
	}
	m.Router = l.linear("router", i, e.Count, hidden, e.RouterBias)
	if e.ScoreBias {
		m.ScoreBias = l.vector("scores.bias", "", i, e.Count)
	}
	if e.Shared > 0 {
		l.dense(out, "shared.", i, f, e.Shared, hidden)
	}
	if e.SharedGate {
		m.SharedGate = model.Linear{W: l.sharedGate(i, hidden), Target: l.adaptable("shared.factor", i, 1, hidden)}
	}
	l.routed(m, i, f, hidden)
}

// routed uploads the experts of a mixture that a router chooses from.
func (l *loader) routed(m *model.Mixture, i int, f model.FeedForward, hidden int) {
	of := map[string]*model.ExpertWeights{"experts.gate": &m.Gate, "experts.up": &m.Up, "experts.down": &m.Down}
	from, width := l.part.Even(f.Width)
	l.Experts(i, f, hidden, func(slot string, w compute.Source, bias []float32) {
		to, down := of[slot], slot == "experts.down"
		if down {
			w = l.columns(w, from, width)
		} else if w = w.Rows(from, width); bias != nil {
			bias = bias[from:][:width]
		}
		to.W = append(to.W, l.take(w))
		if bias != nil && (!down || l.part.First()) {
			to.Bias = append(to.Bias, l.upload(bias))
		}
	})
}

// dense loads a dense feed-forward, or the shared expert of a mixture.
func (l *loader) dense(out *model.LayerWeights, prefix string, i int, f model.FeedForward, width, hidden int) {
	if f.Gated {
		in := l.linears(prefix+"gate_up", i, hidden, f.Bias, l.share(prefix+"gate", width), l.share(prefix+"up", width))
		out.Gate, out.Up = in[0], in[1]
	} else {
		out.Up = l.outputs(l.share(prefix+"up", width), i, hidden, f.Bias)
	}
	out.Down = l.inputs(prefix+"down", i, hidden, width, f.Bias)
}

// sharedGate loads the one row of the shared expert's gate, which is a vector in a GGUF.
func (l *loader) sharedGate(i, hidden int) compute.Matrix {
	name := l.slots.Name("shared.factor", i) + ".weight"
	shape := []int{1, hidden}
	if t, ok := l.ckpt.Tensor(name); ok && len(t.Shape) == 1 {
		shape = []int{hidden}
	}
	t, _ := l.tensor(name, shape...)
	return l.take(compute.Source{Name: t.Name, Type: t.Type, Out: 1, In: hidden, Data: t.Data})
}
