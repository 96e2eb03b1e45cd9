package model

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
)

// check reports the first contradiction in a mixture, naming both sides.
func (e *Experts) check() error {
	const most = 1 << 16
	r := &e.Router
	switch {
	case e.Count == 0:
		return nil
	case e.Count < 1 || e.Count > most:
		return fmt.Errorf("%d experts; want 1 to %d", e.Count, most)
	case e.Chosen < 1 || e.Chosen > e.Count:
		return fmt.Errorf("each token goes to %d of %d experts", e.Chosen, e.Count)
	case e.Shared < 0 || e.Shared > 1<<24:
		return fmt.Errorf("the shared expert's width is %d", e.Shared)
	case r.Groups == 0:
		return nil
	case r.Groups < 0 || e.Count%r.Groups != 0:
		return fmt.Errorf("%d experts cannot form %d equal groups", e.Count, r.Groups)
	case r.Kept < 1 || r.Kept > r.Groups:
		return fmt.Errorf("each token goes to %d of %d groups of experts", r.Kept, r.Groups)
	case r.GroupBest < 1 || r.GroupBest > 2 || r.GroupBest > e.Count/r.Groups:
		return fmt.Errorf("groups of %d experts are judged by their best %d", e.Count/r.Groups, r.GroupBest)
	case e.Chosen > e.Count/r.Groups*r.Kept:
		return fmt.Errorf("each token goes to %d experts, but only to %d groups of %d", e.Chosen, r.Kept, e.Count/r.Groups)
	}
	return nil
}

// dense returns the width of what is computed for every token.
func (f *FeedForward) dense() int {
	if f.Experts.Count > 0 {
		return f.Experts.Shared
	}
	return f.Width
}

// ffnBuffers are the activations inside feed-forwards.
type ffnBuffers struct {
	gate, up                 compute.Tensor // [rows, widest dense part]
	logits, factor           compute.Tensor // [rows, most experts], [rows, 1]
	expertGate, expertResult compute.Tensor // [rows, Chosen·widest], with a row of experts' outputs for each route
	routings                 map[[2]int]int
}

// feedForwardBuffers makes the buffers that the layers' feed-forwards share.
func (g *graph) feedForwardBuffers() {
	b, hidden := &g.ffn, g.m.Spec.Hidden
	var dense, count, width, result int
	b.routings = map[[2]int]int{}
	for _, l := range g.m.Spec.Layers {
		dense = max(dense, l.FFN.dense())
		e := &l.FFN.Experts
		if e.Count == 0 {
			continue
		}
		count, width = max(count, e.Count), max(width, e.Chosen*l.FFN.Width)
		result = max(result, e.Chosen*max(hidden, l.FFN.Width))
		shape := [2]int{e.Count, e.Chosen}
		if _, ok := b.routings[shape]; !ok {
			b.routings[shape] = len(g.Routings)
			g.Routings = append(g.Routings, compute.Routing{Experts: e.Count, Chosen: e.Chosen})
		}
	}
	all := func(width int) compute.Tensor { return g.Buffer(width, compute.AllRows) }
	if dense > 0 {
		b.gate, b.up = all(dense), all(dense)
	}
	if count > 0 {
		b.logits, b.factor = all(count), all(1)
		b.expertGate, b.expertResult = all(width), all(result)
	}
}

// feedForward writes the feed-forward of layer i on in to g.added. If both parts run side by side, add adds the
// attention's output in g.added to the residual stream first.
func (g *graph) feedForward(i int, in compute.Tensor, add func()) {
	l, w, b := &g.m.Spec.Layers[i], &g.m.w.Layers[i], &g.ffn
	f := &l.FFN
	e, dense := &f.Experts, f.dense()
	gate, up := b.gate.Narrow(dense), b.up.Narrow(dense)
	var products []compute.Product
	if dense > 0 {
		products = append(products, w.Up.to(up))
		if f.Gated {
			products = append(products, w.Gate.to(gate))
		}
	}
	if e.Count > 0 {
		products = append(products, w.Mixture.Router.to(b.logits.Narrow(e.Count)))
		if e.SharedGate {
			products = append(products, w.Mixture.SharedGate.to(b.factor))
		}
	}
	g.matmul(in, products...)
	var mix func()
	if e.Count > 0 {
		mix = g.experts(i, in)
	}
	if l.Parallel {
		add()
	}
	if dense > 0 {
		g.activate(f, gate, up)
		g.matmul(gate, w.Down.to(g.added))
	}
	if mix != nil {
		mix()
	}
}

// experts routes the rows of in and computes the inner products of their experts. The function that it returns adds
// the rest.
func (g *graph) experts(i int, in compute.Tensor) func() {
	w, f, b := &g.m.w.Layers[i].Mixture, &g.m.Spec.Layers[i].FFN, &g.ffn
	e := &f.Experts
	routing, router := b.routings[[2]int{e.Count, e.Chosen}], e.Router
	router.Bias = w.ScoreBias
	g.Add(compute.Route{Routing: routing, Logits: b.logits.Narrow(e.Count), Router: router})
	inner := []compute.ExpertProduct{w.Up.to(b.expertResult.Narrow(f.Width))}
	if f.Gated {
		inner = append(inner, w.Gate.to(b.expertGate.Narrow(f.Width)))
	}
	g.expertProducts(routing, in, 0, inner...)
	return func() {
		g.activate(f, b.expertGate.Narrow(e.Chosen*f.Width), b.expertResult.Narrow(e.Chosen*f.Width))
		result := b.expertResult.Narrow(g.m.Spec.Hidden)
		g.expertProducts(routing, b.expertGate.Narrow(f.Width), e.Chosen, w.Down.to(result))
		c := compute.Combine{Routing: routing, Dst: g.added, Src: result}
		if e.Shared > 0 {
			c.Shared = g.added
		}
		if e.SharedGate {
			c.Factor = b.factor
		}
		g.Add(c)
	}
}

// expertProducts multiplies x, which has perRow rows of routes for each row, or 0 if it has rows of the batch.
func (g *graph) expertProducts(routing int, x compute.Tensor, perRow int, products ...compute.ExpertProduct) {
	g.tapped(compute.MatMulExperts{Routing: routing, X: x, Routed: perRow > 0, Products: products}, x, perRow)
}

func (e ExpertWeights) to(dst compute.Tensor) compute.ExpertProduct {
	return compute.ExpertProduct{Dst: dst, W: e.W, Bias: e.Bias}
}

// activate writes the activation to gate.
func (g *graph) activate(f *FeedForward, gate, up compute.Tensor) {
	if f.Gated {
		g.Add(compute.Activate{Dst: gate, Gate: gate, Up: up, Act: f.Act})
	} else {
		g.Add(compute.Activate{Dst: gate, Gate: up, Act: f.Act})
	}
}
