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

// rowValues returns the numbers that a feed-forward keeps of each row.
func (f *FeedForward) rowValues(hidden int) int {
	e := &f.Experts
	return 2*f.dense() + e.Count + e.Chosen*(f.Width+max(f.Width, hidden))
}

// ffnBuffers are a Runner's activations inside feed-forwards.
type ffnBuffers struct {
	gate, up                 compute.Tensor // [rows, widest dense part]
	logits, factor           compute.Tensor // [rows, most experts], [rows, 1]
	expertGate, expertResult compute.Tensor // [routes, widest expert], [routes, widest expert or Hidden]
	routes                   map[[2]int]compute.Routes
}

// ffnStep is one layer's feed-forward with its operands. Where routed is nil it is dense.
type ffnStep struct {
	gate, up         compute.Tensor // of the dense part or the shared expert
	in, down         []compute.Product
	shared           compute.Tensor // what the shared expert gives
	factor           compute.Tensor // by which it counts
	logits           compute.Tensor
	router           compute.Router
	routed           compute.Routes
	expertGate       compute.Tensor // [routes, Width], what the experts' activation gives
	gateRows, upRows compute.Tensor // the experts' gate and up, all of a row's side by side: [rows, Chosen·Width]
	expertIn         []compute.ExpertProduct
	expertDown       []compute.ExpertProduct
}

// makeFFN makes the buffers that the layers' feed-forwards share.
func (r *Runner) makeFFN(tensor func(rows, cols int) compute.Tensor) error {
	b, hidden := &r.ffn, r.m.Spec.Hidden
	var dense, count, routes, width, result int
	b.routes = map[[2]int]compute.Routes{}
	for _, l := range r.m.Spec.Layers {
		dense = max(dense, l.FFN.dense())
		e := &l.FFN.Experts
		if e.Count == 0 {
			continue
		}
		count, routes, width = max(count, e.Count), max(routes, e.Chosen*r.rows), max(width, e.Chosen*r.rows*l.FFN.Width)
		result = max(result, e.Chosen*r.rows*max(hidden, l.FFN.Width))
		shape := [2]int{e.Count, e.Chosen}
		if b.routes[shape] == nil {
			routes, err := r.dev.Routes(r.rows, e.Count, e.Chosen)
			if err != nil {
				return err
			}
			b.routes[shape] = routes
		}
	}
	if dense > 0 {
		b.gate, b.up = tensor(r.rows, dense), tensor(r.rows, dense)
	}
	if count > 0 {
		b.logits, b.factor = tensor(r.rows, count), tensor(r.rows, 1)
		b.expertGate, b.expertResult = tensor(1, width), tensor(1, result)
	}
	return nil
}

// ffnStep puts the operands of layer i's feed-forward together.
func (r *Runner) ffnStep(i int) ffnStep {
	w, f, b := &r.m.layers[i], r.m.Spec.Layers[i].FFN, &r.ffn
	e := f.Experts
	s := ffnStep{gate: narrow(b.gate, f.dense()), up: narrow(b.up, f.dense())}
	if f.dense() > 0 {
		s.in = []compute.Product{w.up.to(s.up)}
		if f.Gated {
			s.in = append(s.in, w.gate.to(s.gate))
		}
		s.down = []compute.Product{w.down.to(r.added)}
	}
	if e.Count == 0 {
		return s
	}
	s.routed, s.router, s.logits = b.routes[[2]int{e.Count, e.Chosen}], e.Router, narrow(b.logits, e.Count)
	s.router.Bias = w.mixture.scoreBias
	s.in = append(s.in, w.mixture.router.to(s.logits))
	if e.Shared > 0 {
		s.shared = r.added
	}
	if e.SharedGate {
		s.factor = b.factor
		s.in = append(s.in, w.mixture.sharedGate.to(s.factor))
	}
	s.expertGate = narrow(b.expertGate, f.Width)
	s.gateRows, s.upRows = narrow(b.expertGate, e.Chosen*f.Width), narrow(b.expertResult, e.Chosen*f.Width)
	s.expertIn = []compute.ExpertProduct{w.mixture.up.to(narrow(b.expertResult, f.Width))}
	if f.Gated {
		s.expertIn = append(s.expertIn, w.mixture.gate.to(s.expertGate))
	}
	s.expertDown = []compute.ExpertProduct{w.mixture.down.to(narrow(b.expertResult, r.m.Spec.Hidden))}
	return s
}

func (e experts) to(dst compute.Tensor) compute.ExpertProduct {
	return compute.ExpertProduct{Dst: dst, W: e.w, Bias: e.bias}
}

// feedForward writes the feed-forward of layer i on in to r.added, whose attention is added first if both run side by side.
func (r *Runner) feedForward(i int, in compute.Tensor) {
	l, s, dev := &r.m.Spec.Layers[i], &r.steps[i].ffn, r.dev
	f := &l.FFN
	dev.MatMul(in, s.in)
	if s.routed != nil {
		dev.Route(s.routed, s.logits, s.router)
		dev.MatMulExperts(in, false, s.routed, s.expertIn)
	}
	if l.Parallel {
		dev.Add(r.hidden, r.added, r.m.Spec.ResidualScale)
	}
	if s.down != nil {
		r.activate(f, s.gate, s.up)
		dev.MatMul(s.gate, s.down)
	}
	if s.routed != nil {
		r.activate(f, s.gateRows, s.upRows)
		dev.MatMulExperts(s.expertGate, true, s.routed, s.expertDown)
		dev.Combine(r.added, s.expertDown[0].Dst, s.routed, s.shared, s.factor)
	}
}

// activate writes the activation to gate.
func (r *Runner) activate(f *FeedForward, gate, up compute.Tensor) {
	if f.Gated {
		r.dev.Activate(gate, gate, up, f.Act)
	} else {
		r.dev.Activate(gate, up, compute.Tensor{}, f.Act)
	}
}
