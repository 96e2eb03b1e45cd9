package cuda

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
)

// routing is where a mixture keeps the routes of a step (kernels/experts.cu).
type routing struct {
	compute.Routing
	ids, weights pointer // [rows, chosen]
	at, from     pointer // [rows·chosen]
	ends         pointer // [experts]
}

// bytes returns the memory of the routes of so many rows.
func (r *routing) bytes(rows int) int64 {
	return 4 * (4*int64(rows)*int64(r.Chosen) + int64(r.Experts))
}

// lay places the routes in memory.
func (r *routing) lay(at pointer, rows int) {
	n := 4 * int64(rows) * int64(r.Chosen)
	r.ids, r.weights, r.at, r.from, r.ends = at, at.at(n), at.at(2*n), at.at(3*n), at.at(4*n)
}

// routedWidths returns the least width of the buffers that have a row for each route, so that each of a row's routes
// has a whole number of inputsMultiple numbers.
func routedWidths(g *compute.Graph) map[int]int {
	widths := map[int]int{}
	for _, op := range g.Ops {
		if o, ok := op.(compute.MatMulExperts); ok && o.Routing >= 0 && o.Routing < len(g.Routings) {
			for _, q := range o.Products {
				n := g.Routings[o.Routing].Chosen * roundUp(q.Dst.Cols, inputsMultiple)
				widths[q.Dst.Buffer] = max(widths[q.Dst.Buffer], n)
			}
		}
	}
	return widths
}

// routing returns one of the graph's routings.
func (c *compiler) routing(n int) (*routing, error) {
	if n < 0 || n >= len(c.p.routings) {
		return nil, fmt.Errorf("cuda: operation %d: routing %d of %d", c.at, n, len(c.p.routings))
	}
	return &c.p.routings[n], nil
}

// routed returns a tensor of routes: rows of t.Cols numbers.
func (p *program) routed(t compute.Tensor) rows {
	v := p.view(t)
	v.ld = int32(roundUp(t.Cols, inputsMultiple))
	return v
}

// route compiles the choice of experts, and the order of routes.
func (c *compiler) route(o compute.Route) (operation, error) {
	p, r := c.p, o.Router
	t, err := c.routing(o.Routing)
	if err != nil {
		return nil, err
	}
	if t.Chosen < 1 || t.Chosen > t.Experts || o.Logits.Cols != t.Experts {
		return nil, fmt.Errorf("cuda: %d of %d experts are chosen by %d logits", t.Chosen, t.Experts, o.Logits.Cols)
	}
	shared := 4 * (2*t.Experts + r.Groups)
	if shared > 48<<10 {
		return nil, fmt.Errorf("cuda: %d experts: %w", t.Experts, compute.ErrUnsupported)
	}
	f := p.kernel["route"]
	f.shared = max(f.shared, uint32(shared))
	args := routeArgs{experts: int32(t.Experts), chosen: int32(t.Chosen), groups: int32(r.Groups), kept: int32(r.Kept), groupBest: int32(r.GroupBest), scale: r.Scale}
	if r.Sigmoid {
		args.sigmoid = 1
	}
	if r.Normalise {
		args.normalise = 1
	}
	if bias, ok := r.Bias.(*vector); ok && bias != nil {
		args.bias = bias.at
	}
	return func(s *shape) error {
		a := args
		a.logits, a.slot, a.ids, a.weights = p.view(o.Logits), s.slot, t.ids, t.weights
		rows := s.count[compute.AllRows]
		if err := run(p, "route", grid{uint32(rows), 1, 1}, 32, &a); err != nil {
			return err
		}
		order := orderArgs{ids: t.ids, at: t.at, from: t.from, ends: t.ends, n: int32(rows * t.Chosen), chosen: int32(t.Chosen)}
		return run(p, "route_order", grid{uint32(t.Experts), 1, 1}, 256, &order)
	}, nil
}

// matMulExperts compiles products with the weights of experts: every expert is a group of its routes.
func (c *compiler) matMulExperts(o compute.MatMulExperts) (operation, error) {
	p := c.p
	t, err := c.routing(o.Routing)
	if err != nil {
		return nil, err
	}
	if len(o.Products) > maxProducts {
		return nil, fmt.Errorf("cuda: %d products of experts at once: %w", len(o.Products), compute.ErrUnsupported)
	}
	for i := range o.Products {
		if f := formatOfExperts(o.Products[i]); f != formatOfExperts(o.Products[0]) || f < 0 {
			return c.expertsApart(o)
		}
	}
	x, narrow := o.X, operation(nil)
	if !o.Routed {
		x, narrow = c.narrow(o.X)
	}
	f := formatOfExperts(o.Products[0])
	outs, tables := make([]int, len(o.Products)), make([]int64, len(o.Products))
	for i, q := range o.Products {
		if len(q.W) != t.Experts || q.Bias != nil && len(q.Bias) != t.Experts {
			return nil, fmt.Errorf("cuda: %d weights and %d biases of %d experts", len(q.W), len(q.Bias), t.Experts)
		}
		groups := make([]group, len(q.W))
		for e, w := range q.W {
			if out, in := w.Dims(); out != q.Dst.Cols || in != x.Cols {
				return nil, fmt.Errorf("cuda: expert %d has a weight [%d, %d] between rows of %d and %d", e, out, in, x.Cols, q.Dst.Cols)
			}
			var bias compute.Vector
			if q.Bias != nil {
				bias = q.Bias[e]
			}
			groups[e] = groupOf(w, bias)
		}
		outs[i], tables[i] = q.Dst.Cols, p.keep(groups)
		c.routes[q.Dst.Buffer] = routeShape{q.Dst.Cols, t.Chosen}
	}
	args := groupedArgs{groups: int32(t.Experts), pads: 1, aligned: 1, scale: 1}
	return func(s *shape) error {
		if narrow != nil {
			if err := narrow(s); err != nil {
				return err
			}
		}
		a, from := args, p.view(x)
		a.ends, a.from, a.rows = t.ends, t.from, int32(s.count[compute.AllRows]*t.Chosen)
		if o.Routed {
			from, a.from = p.routed(x), 0
		}
		for i, q := range o.Products {
			a.p[i] = groupedProductArgs{x: from.at, groups: p.groupTable.at(tables[i]), dst: p.routed(q.Dst), ldx: from.ld}
		}
		return p.multiplyGroups(f, &a, outs)
	}, nil
}

// formatOfExperts returns the format of a product's weights, -1 if they have different ones.
func formatOfExperts(q compute.ExpertProduct) format {
	f := format(-1)
	for i, w := range q.W {
		if own := w.(*matrix).format; i > 0 && own != f {
			return -1
		} else {
			f = own
		}
	}
	return f
}

// expertsApart compiles products whose weights have different formats, each by itself.
func (c *compiler) expertsApart(o compute.MatMulExperts) (operation, error) {
	var all []operation
	for _, q := range o.Products {
		if formatOfExperts(q) < 0 {
			return nil, fmt.Errorf("cuda: operation %d: this device does not compute experts whose weights are stored differently: %w", c.at, compute.ErrUnsupported)
		}
		o.Products = []compute.ExpertProduct{q}
		op, err := c.matMulExperts(o)
		if err != nil {
			return nil, err
		}
		all = append(all, op)
	}
	return func(s *shape) error {
		for _, op := range all {
			if err := op(s); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// routeShape is what a buffer has a row for each route of: rows of cols numbers, chosen for each row of the batch.
type routeShape struct{ cols, chosen int }

// activate compiles an activation. One of tensors of routes goes over these.
func (c *compiler) activate(o compute.Activate) (operation, error) {
	p := c.p
	t, routed := c.routes[o.Gate.Buffer]
	if !routed {
		return p.activate(o.Dst, o.Gate, o.Up, int(o.Act), 0), nil
	}
	if other, ok := c.routes[o.Up.Buffer]; o.Gate.Cols != t.cols*t.chosen || o.Up.Buffer != 0 && (!ok || other != t) {
		return nil, fmt.Errorf("cuda: operation %d: an activation of %d numbers of %d routes of %d", c.at, o.Gate.Cols, t.chosen, t.cols)
	}
	c.routes[o.Dst.Buffer] = t
	view := func(x compute.Tensor) rows { return p.routed(x.Narrow(t.cols)) }
	return func(s *shape) error {
		a := activateArgs{dst: view(o.Dst), gate: view(o.Gate), up: view(o.Up), cols: int32(t.cols), act: int32(o.Act)}
		return run(p, "activation", grid{uint32(s.count[compute.AllRows] * t.chosen), blocksOf(t.cols, 256), 1}, 256, &a)
	}, nil
}

// combine compiles the sum of what a row's experts yield.
func (c *compiler) combine(o compute.Combine) (operation, error) {
	p := c.p
	t, err := c.routing(o.Routing)
	if err != nil {
		return nil, err
	}
	return func(s *shape) error {
		a := combineArgs{dst: p.view(o.Dst), src: p.routed(o.Src), shared: p.view(o.Shared), factor: p.view(o.Factor),
			at: t.at, slot: s.slot, weights: t.weights, cols: int32(o.Dst.Cols), chosen: int32(t.Chosen)}
		return run(p, "combine", grid{uint32(s.count[compute.AllRows]), blocksOf(o.Dst.Cols, 256), 1}, 256, &a)
	}, nil
}
