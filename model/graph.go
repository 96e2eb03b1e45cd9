package model

import "github.com/kvasir-llm/kvasir/compute"

// graph builds a compute.Graph of a model. The residual stream and the inputs and outputs of layers have buffers of
// their own; those inside mixers and feed-forwards are shared by all layers.
type graph struct {
	compute.Graph
	m   *Model
	tap Tap

	hidden, normed, added compute.Tensor   // [rows, Hidden]
	mixing                []compute.Tensor // [rows, widest of any mixer], the buffers of mixers (scratch)
	ffn                   ffnBuffers
	angles                []compute.Tensor // [rows, 2·frequencies] of each rope
}

// Tap returns what is to see the inputs of a MatMul, MatMulExperts or Head, as compute.Tap's F, or nil.
type Tap func(op compute.Op) func(rows int, row func(i int) []float32)

// Graph returns the model's forward pass, with taps if tap is not nil.
func (m *Model) Graph(tap Tap) *compute.Graph {
	spec := m.Spec
	g := &graph{m: m, tap: tap}
	g.Vocab, g.Targets, g.Adapters = spec.Vocab, m.targets, m.slots
	all := func(width int) compute.Tensor { return g.Buffer(width, compute.AllRows) }
	g.hidden, g.normed, g.added = all(spec.Hidden), all(spec.Hidden), all(spec.Hidden)
	g.feedForwardBuffers()
	g.embed()
	for i, rope := range spec.Ropes {
		g.angles = append(g.angles, all(2*len(rope.Freqs)))
		g.Add(compute.Angles{Dst: g.angles[i], Freqs: m.freqs[i], Long: m.long[i], Scale: rope.Scale})
	}
	for i := range spec.Layers {
		g.layer(i)
	}
	g.outputs()
	return &g.Graph
}

// embed writes the embeddings of the batch to g.hidden.
func (g *graph) embed() {
	spec, m := g.m.Spec, g.m
	g.Add(compute.Embed{Dst: g.hidden, Table: m.w.Embed, Scale: spec.EmbedScale})
	if spec.TokenTypes > 0 {
		g.Add(compute.AddTypes{Dst: g.hidden, Table: m.w.Types})
	}
	if spec.Positions > 0 {
		g.Add(compute.AddPositions{Dst: g.hidden, Table: m.w.Positions})
	}
	if spec.EmbedNorm {
		g.norm(g.hidden, g.hidden, m.w.EmbedNorm)
	}
}

func (g *graph) norm(dst, src compute.Tensor, n compute.Norm) {
	g.Add(compute.Normalize{Dst: dst, Src: src, Norm: n})
}

// matmul multiplies x with weights.
func (g *graph) matmul(x compute.Tensor, products ...compute.Product) {
	g.tapped(compute.MatMul{X: x, Products: products}, x, 0)
}

// tapped adds an operation on x, which has perRow rows for each row if that is not 0, behind its Tap if there is one.
func (g *graph) tapped(op compute.Op, x compute.Tensor, perRow int) {
	if g.tap != nil {
		if f := g.tap(op); f != nil {
			g.Add(compute.Tap{X: x, PerRow: perRow, F: f})
		}
	}
	g.Add(op)
}

// layer runs one layer on the residual stream g.hidden.
func (g *graph) layer(i int) {
	spec, l, w := g.m.Spec, &g.m.Spec.Layers[i], &g.m.w.Layers[i]
	add := func() { g.Add(compute.Add{Dst: g.hidden, Src: g.added, Scale: spec.ResidualScale}) }
	in := g.hidden
	if l.PreNorm {
		g.norm(g.normed, g.hidden, w.AttnNorm)
		in = g.normed
	}
	w.Mixer.ops(g, i, in, g.added)
	if l.PostNorm {
		g.norm(g.added, g.added, w.AttnPost)
	}
	if !l.Parallel {
		add()
		if l.SumNorm {
			g.norm(g.hidden, g.hidden, w.AttnPost)
		}
		if in = g.hidden; l.PreNorm {
			g.norm(g.normed, g.hidden, w.FFNNorm)
			in = g.normed
		}
	}
	g.feedForward(i, in, add)
	if l.PostNorm {
		g.norm(g.added, g.added, w.FFNPost)
	}
	add()
	if l.SumNorm {
		g.norm(g.hidden, g.hidden, w.FFNPost)
	}
}

// keep ends the mixing of tokens in layer i, with what it yields: in the last layer, only rows that are wanted are
// computed from there on. Taps see every row.
func (g *graph) keep(i int, mixed compute.Tensor) {
	if i < len(g.m.Spec.Layers)-1 || g.tap != nil {
		return
	}
	x := []compute.Tensor{mixed, g.hidden}
	if g.m.Spec.Layers[i].Parallel {
		x = append(x, g.normed)
	}
	g.Add(compute.Keep{X: x})
}

// outputs takes the wanted rows through the last norm and the head.
func (g *graph) outputs() {
	spec, m := g.m.Spec, g.m
	wanted := func(d compute.Domain) compute.Tensor {
		t := g.Buffer(spec.Hidden, d)
		g.Add(compute.Gather{Dst: t, Src: g.hidden})
		if spec.Normed() {
			g.norm(t, t, m.w.Norm)
		}
		return t
	}
	out := compute.Choose{Hidden: wanted(compute.HiddenRows)}
	if spec.Outputs() > 0 {
		last := wanted(compute.LogitRows)
		head := func(x compute.Tensor, w Linear, width int, scale, softcap float32) compute.Tensor {
			t := g.Buffer(width, compute.LogitRows)
			g.tapped(compute.Head{X: x, Product: w.to(t), Scale: scale, Softcap: softcap}, x, 0)
			return t
		}
		if spec.Classes > 0 {
			last = head(last, m.w.Pooler, spec.Hidden, 1, 1) // whose soft cap of 1 is a tanh
		}
		out.Logits = head(last, m.w.Head, spec.Outputs(), spec.LogitScale, spec.LogitSoftcap)
	}
	g.Add(out)
}

// to returns the product with a weight.
func (l Linear) to(dst compute.Tensor) compute.Product {
	p := compute.Product{Dst: dst, W: l.W, Bias: l.Bias}
	if l.Target != nil {
		p.Target = l.Target.number
	}
	return p
}
