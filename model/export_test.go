package model

import "github.com/kvasir-llm/kvasir/compute"

// Weights is for tests of package model_test.
func (m *Model) Weights() *Weights { return &m.w }

// Piece is a part of a forward pass that a test runs alone: on the embeddings of tokens, or on the rows of a table.
type Piece struct {
	Layer  int
	FFN    bool           // of the layer; else its mixer
	Head   bool           // the last norm and the head
	Inputs compute.Matrix // [rows, Hidden]; nil is the embedding table, of which nothing else is computed
}

// Graph returns a graph of the piece. Its hidden states are what the mixer or the feed-forward yields, or the
// embeddings.
func (p Piece) Graph(m *Model, rows int) *compute.Graph {
	g := &graph{m: m}
	g.Vocab, g.Targets = max(rows, m.Spec.Vocab), m.targets
	all := func(width int) compute.Tensor { return g.Buffer(width, compute.AllRows) }
	g.hidden, g.normed, g.added = all(m.Spec.Hidden), all(m.Spec.Hidden), all(m.Spec.Hidden)
	g.feedForwardBuffers()
	out, choose := g.hidden, compute.Choose{}
	if p.Inputs == nil {
		g.embed()
	} else {
		g.Add(compute.Embed{Dst: g.hidden, Table: p.Inputs, Scale: 1})
	}
	for i, rope := range m.Spec.Ropes {
		g.angles = append(g.angles, all(2*len(rope.Freqs)))
		g.Add(compute.Angles{Dst: g.angles[i], Freqs: m.freqs[i], Long: m.long[i], Scale: rope.Scale})
	}
	w := &m.w.Layers[p.Layer]
	switch {
	case p.Inputs == nil:
	case p.Head:
		last, logits := g.Buffer(m.Spec.Hidden, compute.LogitRows), g.Buffer(m.Spec.Outputs(), compute.LogitRows)
		g.Add(compute.Gather{Dst: last, Src: g.hidden})
		g.norm(last, last, m.w.Norm)
		g.Add(compute.Head{X: last, Product: m.w.Head.to(logits), Scale: m.Spec.LogitScale, Softcap: m.Spec.LogitSoftcap})
		choose.Logits = logits
	case p.FFN:
		g.norm(g.normed, g.hidden, w.FFNNorm)
		g.feedForward(p.Layer, g.normed, nil)
		out = g.added
	default:
		g.norm(g.normed, g.hidden, w.AttnNorm)
		w.Mixer.ops(g, p.Layer, g.normed, g.added)
		out = g.added
	}
	choose.Hidden = g.Buffer(m.Spec.Hidden, compute.HiddenRows)
	g.Add(compute.Gather{Dst: choose.Hidden, Src: out}, choose)
	return &g.Graph
}
