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
	ordered      bool    // some product takes routes by expert, however few rows there are
	known        bool    // what comes next in the step that is being queued begins once routes are ordered
}

// apart reports whether the routes of so many rows are not sorted: each is computed by itself, and an expert that two
// rows choose is read twice. Where routes are more than half as many as experts, that takes longer than to sort them.
func (r *routing) apart(rows int) bool {
	const most = 4
	return rows <= most && (rows <= 1 || 2*rows*r.Chosen <= r.Experts) && !r.ordered
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

// routedWidths returns the least width of each buffer that has rows of routes: room for all routes of a row, each
// rounded up to a multiple of inputsMultiple numbers.
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

// routed returns the view of a tensor of routes, which has a row of t.Cols numbers for each.
func (p *program) routed(t compute.Tensor) rows {
	v := p.view(t)
	v.ld = int32(roundUp(t.Cols, inputsMultiple))
	return v
}

// routeWarps is the rows of a block of route.
const routeWarps = 4

// routeArgs returns what the choice of experts takes.
func (c *compiler) routeArgs(o compute.Route) (args routeArgs, t *routing, err error) {
	p, r := c.p, o.Router
	t, err = c.routing(o.Routing)
	if err != nil {
		return args, nil, err
	}
	if t.Chosen < 1 || t.Chosen > t.Experts || o.Logits.Cols != t.Experts {
		return args, nil, fmt.Errorf("cuda: %d of %d experts are chosen by %d logits", t.Chosen, t.Experts, o.Logits.Cols)
	}
	shared := routeWarps * 4 * (2*t.Experts + r.Groups)
	if shared > 48<<10 {
		return args, nil, fmt.Errorf("cuda: %d experts: %w", t.Experts, compute.ErrUnsupported)
	}
	f := p.kernel["route"]
	f.shared = max(f.shared, uint32(shared))
	args = routeArgs{experts: int32(t.Experts), chosen: int32(t.Chosen), groups: int32(r.Groups), kept: int32(r.Kept), groupBest: int32(r.GroupBest), scale: r.Scale}
	if r.Sigmoid {
		args.sigmoid = 1
	}
	if r.Normalise {
		args.normalise = 1
	}
	if bias, ok := r.Bias.(*vector); ok && bias != nil {
		args.bias = bias.at
	}
	return args, t, nil
}

// route compiles the choice of experts, and the order of routes.
func (c *compiler) route(o compute.Route) (operation, error) {
	args, t, err := c.routeArgs(o)
	if err != nil {
		return nil, err
	}
	p := c.p
	return func(s *shape) error {
		a := args
		rows := s.count[compute.AllRows]
		a.logits, a.slot, a.ids, a.weights, a.rows = p.view(o.Logits), s.slot, t.ids, t.weights, int32(rows)
		if err := run(p, "route", grid{blocksOf(rows, routeWarps), 1, 1}, 32*routeWarps, &a); err != nil {
			return err
		}
		if t.apart(rows) {
			return nil
		}
		order := orderArgs{ids: t.ids, at: t.at, from: t.from, ends: t.ends, n: int32(rows * t.Chosen), chosen: int32(t.Chosen)}
		return run(p, "route_order", grid{uint32(t.Experts), 1, 1}, 512, &order)
	}, nil
}

// routeShape says of a buffer that it has rows of cols numbers, one for each route, which are chosen to a row of the
// batch.
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

// addedTo returns the addition after a sum of experts that can be part of it, if there is one, and how many operations
// both are.
func (c *compiler) addedTo(o compute.Combine) (*compute.Add, int) {
	if c.at+1 < len(c.ops) {
		if a, ok := c.ops[c.at+1].(compute.Add); ok && a.Src == o.Dst && a.Dst.Buffer != o.Dst.Buffer && a.Dst.Buffer != o.Src.Buffer &&
			c.deadAfter(c.at+1, a.Src.Buffer) {
			return &a, 2
		}
	}
	return nil, 1
}

// combine compiles the sum of what a row's experts yield, and its addition to the residual stream, if there is one.
func (c *compiler) combine(o compute.Combine, add *compute.Add) (operation, error) {
	p := c.p
	t, err := c.routing(o.Routing)
	if err != nil {
		return nil, err
	}
	args := combineArgs{cols: int32(o.Dst.Cols), chosen: int32(t.Chosen)}
	dst := o.Dst
	if add != nil {
		args.adds, args.scale, dst = 1, add.Scale, add.Dst
	}
	return func(s *shape) error {
		const threads = 128
		a := args
		a.dst, a.src, a.shared, a.factor = p.view(dst), p.routed(o.Src), p.view(o.Shared), p.view(o.Factor)
		a.at, a.slot, a.weights = t.at, s.slot, t.weights
		return run(p, "combine", grid{uint32(s.count[compute.AllRows]), blocksOf(o.Dst.Cols, 8*threads), 1}, threads, &a)
	}, nil
}
