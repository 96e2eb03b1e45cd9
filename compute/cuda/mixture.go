package cuda

import (
	"fmt"
	"math"

	"github.com/kvasir-llm/kvasir/compute"
)

// expertProducts are products with the weights of a mixture's experts. An expert's routes are a group.
type expertProducts struct {
	t      *routing
	x      compute.Tensor
	routed bool // x has a row for each route
	narrow operation
	format format
	float8 scaling // scaledOtherwise: as bfloat16
	dsts   []compute.Tensor
	tables []int64 // in p.groupTable
}

// matMulExperts compiles products with the weights of experts, with the operations after them where they can be one:
// the activation of a gate and what it gates; or the sum of what a row's experts yield, and its addition to the
// residual stream.
func (c *compiler) matMulExperts(o compute.MatMulExperts) (op operation, n int, err error) {
	t, err := c.routing(o.Routing)
	if err != nil {
		return nil, 0, err
	}
	if len(o.Products) > maxProducts {
		return nil, 0, fmt.Errorf("cuda: %d products of experts at once: %w", len(o.Products), compute.ErrUnsupported)
	}
	for i := range o.Products {
		if f := formatOfExperts(o.Products[i]); f != formatOfExperts(o.Products[0]) || f < 0 {
			op, err = c.expertsApart(o, t)
			return op, 1, err
		}
	}
	a, at := c.activatedExperts(&o, t)
	e, err := c.expertProducts(o, t)
	switch {
	case err != nil:
		return nil, 0, err
	case c.wide[o.Products[0].Dst.Buffer] || c.wide[o.Products[len(o.Products)-1].Dst.Buffer]:
		return nil, 0, fmt.Errorf("cuda: operation %d: results of experts are to be added to: %w", c.at, compute.ErrUnsupported)
	case at > 0:
		c.joined[at] = true
		return c.p.gatedExperts(e, a), 1, nil
	}
	if sum, add, n := c.summedExperts(o); n > 0 {
		op, err = c.downExperts(e, sum, add)
		return op, n, err
	}
	t.ordered = true
	return func(s *shape) error { return c.p.multiplyExperts(s, e, groupedArgs{scale: 1}, nil) }, 1, nil
}

// expertProducts lists the weights.
func (c *compiler) expertProducts(o compute.MatMulExperts, t *routing) (*expertProducts, error) {
	p := c.p
	e := &expertProducts{t: t, x: o.X, routed: o.Routed, format: formatOfExperts(o.Products[0]), float8: p.expertsInFloat8(o, t)}
	if !o.Routed {
		e.x, e.narrow = c.narrow(o.X)
	}
	if e.float8 != scaledOtherwise {
		p.float8.inputs = max(p.float8.inputs, t.Chosen*e.x.Cols)
	}
	for _, q := range o.Products {
		if len(q.W) != t.Experts || q.Bias != nil && len(q.Bias) != t.Experts {
			return nil, fmt.Errorf("cuda: %d weights and %d biases of %d experts", len(q.W), len(q.Bias), t.Experts)
		}
		groups := make([]group, len(q.W))
		for i, w := range q.W {
			if out, in := w.Dims(); out != q.Dst.Cols || in != e.x.Cols {
				return nil, fmt.Errorf("cuda: expert %d has a weight [%d, %d] between rows of %d and %d", i, out, in, e.x.Cols, q.Dst.Cols)
			}
			var bias compute.Vector
			if q.Bias != nil {
				bias = q.Bias[i]
			}
			groups[i] = groupOf(w, bias)
		}
		e.dsts, e.tables = append(e.dsts, q.Dst), append(e.tables, p.keep(groups))
		c.routes[q.Dst.Buffer] = routeShape{q.Dst.Cols, t.Chosen}
	}
	return e, nil
}

// activatedExperts returns the activation of a gate and what it gates, and its place among the operations, if o has the
// products of both and nothing else needs them. It puts the gate's product first. The place is 0 if there is none.
func (c *compiler) activatedExperts(o *compute.MatMulExperts, t *routing) (a compute.Activate, at int) {
	if len(o.Products) != 2 || o.Routed {
		return a, 0
	}
	gate, up := o.Products[0], o.Products[1]
	for at = c.at + 1; at < len(c.ops); at++ {
		a, ok := c.ops[at].(compute.Activate)
		if ok && (a.Gate.Buffer == gate.Dst.Buffer || a.Gate.Buffer == up.Dst.Buffer) {
			if a.Gate.Buffer == up.Dst.Buffer {
				gate, up = up, gate
			}
			all := gate.Dst.Cols * t.Chosen
			fits := a.Dst.Buffer == a.Gate.Buffer && a.Up.Buffer == up.Dst.Buffer && gate.Dst.Buffer != up.Dst.Buffer && gate.Dst.Cols == up.Dst.Cols &&
				a.Gate.Cols == all && a.Up.Cols == all && a.Dst.Cols == all && o.X.Buffer != gate.Dst.Buffer && o.X.Buffer != up.Dst.Buffer &&
				!c.wide[gate.Dst.Buffer] && !c.wide[up.Dst.Buffer] && c.deadAfter(at, up.Dst.Buffer)
			if !fits {
				return a, 0
			}
			o.Products = []compute.ExpertProduct{gate, up}
			return a, at
		}
		reads, writes := uses(c.ops[at])
		for _, x := range append(reads, writes...) {
			if x.Buffer == gate.Dst.Buffer || x.Buffer == up.Dst.Buffer {
				return a, 0
			}
		}
	}
	return a, 0
}

// summedExperts returns the sum after a product of experts, the addition after that, if there is one, and how many
// operations these and the product are: 0 if there is no such sum, or something else needs the product.
func (c *compiler) summedExperts(o compute.MatMulExperts) (sum compute.Combine, add *compute.Add, n int) {
	if len(o.Products) != 1 || !o.Routed || c.at+1 == len(c.ops) {
		return sum, nil, 0
	}
	sum, ok := c.ops[c.at+1].(compute.Combine)
	if !ok || sum.Src != o.Products[0].Dst || sum.Routing != o.Routing || sum.Dst.Buffer == sum.Src.Buffer || !c.deadAfter(c.at+1, sum.Src.Buffer) {
		return sum, nil, 0
	}
	c.at++
	add, n = c.addedTo(sum)
	c.at--
	return sum, add, 1 + n
}

// apartPlan says how a kernel of grouped_few.cu computes: the warps of a block for each route, which share the route's
// row in shared memory, and so many parts of `steps` steps of 64 inputs of each tile there.
type apartPlan struct {
	warps, parts, steps int
	most                int // blocks of a multiprocessor at a time, which all have equal shares of them; 0: any number
}

func (f format) apart() (gated, down apartPlan) {
	switch {
	case f == formatBF16:
		return apartPlan{1, 4, 2, 0}, apartPlan{1, 3, 2, 0}
	case f.small():
		return apartPlan{2, 2, 8, 6}, apartPlan{1, 3, 4, 4}
	}
	return apartPlan{1, 6, 2, 0}, apartPlan{1, 4, 2, 0}
}

// shared is the shared memory of the warps of a route, which has so many tiles.
func (a apartPlan) shared(f format, in, tiles int) int {
	return a.parts*tiles*a.steps*f.recordBytes() + roundUp(in, a.steps*64)*2
}

// launchApart queues a kernel of grouped_few.cu, whose blocks have so much shared memory, or more. If there are more
// blocks than a multiprocessor may have at a time, the others begin where these end first.
func (p *program) launchApart(few *function, plan apartPlan, g grid, threads, shared int, a *fewArgs) error {
	k := *few
	if blocks := int(g.x * g.y); k.early && plan.most > 0 {
		shared = max(shared, p.d.g.info.evenShared(min(blocks, plan.most*p.d.g.info.sms)))
	}
	k.shared = uint32(shared)
	return launch(p.s, &k, g, threads, a)
}

// fewLaunch queues a kernel that computes the products of so many rows route by route.
type fewLaunch func(rows int, a *fewArgs) error

// fewGated returns that of a gate and what it gates; nil if there is none, and then routes are always ordered.
func (p *program) fewGated(e *expertProducts) fewLaunch {
	if e.float8 != scaledOtherwise {
		return p.fewFloat8Experts(e, true)
	}
	plan, _ := e.format.apart()
	shared, tiles := plan.shared(e.format, e.x.Cols, 2), blocksOf(e.dsts[0].Cols, tileOuts)
	few := p.kernel[e.format.kernel("few_gated")]
	if few == nil || shared > int(few.shared) || !e.oneRange() {
		return nil
	}
	return func(rows int, a *fewArgs) error {
		return p.launchApart(few, plan, grid{tiles, uint32(rows * e.t.Chosen), 1}, 32*plan.warps, shared, a)
	}
}

// fewDown returns that of the last product, with the sum, in the same way.
func (p *program) fewDown(e *expertProducts) fewLaunch {
	if e.float8 != scaledOtherwise {
		return p.fewFloat8Experts(e, false)
	}
	const mostWarps = 32
	_, plan := e.format.apart()
	shared, tiles := e.t.Chosen*plan.shared(e.format, e.x.Cols, 1), blocksOf(e.dsts[0].Cols, tileOuts)
	few := p.kernel[e.format.kernel("few_down")]
	if few == nil || e.t.Chosen > mostWarps || shared > int(few.shared) || !e.oneRange() {
		return nil
	}
	return func(rows int, a *fewArgs) error {
		return p.launchApart(few, plan, grid{tiles, uint32(rows), 1}, 32*e.t.Chosen, shared, a)
	}
}

// gatedExperts compiles act(gate)·up.
func (p *program) gatedExperts(e *expertProducts, o compute.Activate) operation {
	few := p.fewGated(e)
	if few == nil {
		e.t.ordered = true
	}
	args := groupedArgs{mode: modeGated, act: int32(o.Act), scale: 1}
	// Rows can be spread to where what is gated would be.
	var room *compute.Tensor
	if p.buffers[e.dsts[1].Buffer-1].ld >= int32(e.t.Chosen*roundUp(e.x.Cols, inputsMultiple)) {
		room = &e.dsts[1]
	}
	return func(s *shape) error {
		rows := s.count[compute.AllRows]
		if !e.t.apart(rows) {
			return p.multiplyExperts(s, e, args, room)
		}
		if e.narrow != nil {
			if err := e.narrow(s); err != nil {
				return err
			}
		}
		return few(rows, &fewArgs{x: p.view(e.x), dst: p.routed(e.dsts[0]), gate: p.groupTable.at(e.tables[0]), up: p.groupTable.at(e.tables[1]), ids: e.t.ids,
			slot: s.slot, weights: e.t.weights, experts: int32(e.t.Experts), chosen: int32(e.t.Chosen), act: int32(o.Act), in: int32(e.x.Cols)})
	}
}

// downExperts compiles a product and the sum of what a row's experts yield.
func (c *compiler) downExperts(e *expertProducts, sum compute.Combine, add *compute.Add) (operation, error) {
	p := c.p
	combine, err := c.combine(sum, add)
	if err != nil {
		return nil, err
	}
	few := p.fewDown(e)
	if few == nil {
		e.t.ordered = true
	}
	return func(s *shape) error {
		rows := s.count[compute.AllRows]
		if !e.t.apart(rows) {
			if err := p.multiplyExperts(s, e, groupedArgs{scale: 1}, nil); err != nil {
				return err
			}
			return combine(s)
		}
		a := fewArgs{x: p.routed(e.x), dst: p.view(sum.Dst), gate: p.groupTable.at(e.tables[0]), ids: e.t.ids, slot: s.slot, weights: e.t.weights,
			shared: p.view(sum.Shared), factor: p.view(sum.Factor), experts: int32(e.t.Experts), chosen: int32(e.t.Chosen), in: int32(e.x.Cols)}
		if add != nil {
			a.mode, a.scale, a.dst = modeAdd, add.Scale, p.view(add.Dst)
		}
		return few(rows, &a)
	}, nil
}

// multiplyExperts queues products of routes that are ordered by expert. If the rows are the batch's and a kernel of
// manies is to take them, they are copied to their routes' places first: into room, if that is not nil.
func (p *program) multiplyExperts(s *shape, e *expertProducts, a groupedArgs, room *compute.Tensor) error {
	if e.narrow != nil {
		if err := e.narrow(s); err != nil {
			return err
		}
	}
	if e.float8 != scaledOtherwise {
		return p.multiplyFloat8Experts(s, e, &a)
	}
	count, from := s.count[compute.AllRows], p.view(e.x)
	a.groups, a.pads, a.aligned = int32(e.t.Experts), 1, 1
	a.ends, a.from, a.rows = e.t.ends, e.t.from, int32(count*e.t.Chosen)
	if e.routed {
		from, a.from = p.routed(e.x), 0
	}
	outs := make([]int, len(e.dsts))
	for i, dst := range e.dsts {
		outs[i] = dst.Cols
		a.p[i] = groupedProductArgs{x: from.at, groups: p.groupTable.at(e.tables[i]), dst: p.routed(dst), ldx: from.ld}
	}
	m, ok := p.manyFor(e, int(a.rows))
	if !ok || count == 0 || !e.routed && room == nil {
		e.t.known = false
		return p.multiplyGroups(e.format, &a, outs)
	}
	if !e.routed {
		to := rows{at: p.view(*room).at, ld: int32(roundUp(e.x.Cols, inputsMultiple))}
		spread := spreadArgs{x: from.at, dst: to.at, at: e.t.at, slot: s.slot, ldx: from.ld, lddst: to.ld, cols: int32(e.x.Cols), chosen: int32(e.t.Chosen)}
		if err := run(p, "spread", grid{uint32(count), 1, 1}, 128, &spread); err != nil {
			return err
		}
		for i := range e.dsts {
			a.p[i].x, a.p[i].ldx = to.at, to.ld
		}
		e.t.known = true // spread, and all that follows it, begins once routes are ordered
	}
	if e.t.known {
		a.known = 1
	}
	return m.run(p, e.format, &a, outs, e.x.Cols/boxInputs)
}

// many is a kernel of grouped_wgmma.cuh: the most rows of a part, the steps of a stage, the warpgroups that multiply,
// and the least rows of a group, on average, for which it is the fastest: of BF16, if it is compiled for that, or of
// F8_E4M3; and of codes that become BF16.
type many struct{ rows, steps, warpgroups, least, codes int }

var manies = []many{{256, 1, 2, 96, 96}, {128, 2, 2, 5, 48}, {64, 2, 4, noKernel, 8}}

// noKernel is more rows than there are.
const noKernel = math.MaxInt32

// leastOf is the least rows for a format.
func (m many) leastOf(f format) int {
	if f == formatBF16 {
		return m.least
	}
	return m.codes
}

// threads is those of a block: another warpgroup fetches.
func (m many) threads() int { return 128 * (m.warpgroups + 1) }

// mostGroups is how many groups kernels of grouped_wgmma.cuh take.
const mostGroups = 512

// name returns the kernel's name; that of a gate and what it gates has one of its own.
func (m many) name(gated bool) string {
	if gated {
		return fmt.Sprintf("grouped_wgmma_%d_gated", m.rows)
	}
	return fmt.Sprintf("grouped_wgmma_%d", m.rows)
}

// oneRange reports whether the inputs are one range, as most kernels take them.
func (e *expertProducts) oneRange() bool { return roundUp(e.x.Cols, 64) <= mostChain }

// manyFor returns the kernel of grouped_wgmma.cu for so many routes, if there is one.
func (p *program) manyFor(e *expertProducts, routes int) (many, bool) {
	for _, m := range manies {
		if routes >= m.leastOf(e.format)*e.t.Experts && p.kernel[e.format.kernel(m.name(false))] != nil &&
			e.x.Cols%boxInputs == 0 && e.oneRange() && e.t.Experts <= mostGroups {
			return m, true
		}
	}
	return many{}, false
}

// run queues the kernel for products of rows that are ordered by group.
func (m many) run(p *program, f format, a *groupedArgs, outs []int, steps int) error {
	args := manyArgs{steps: int32(steps)}
	for i := range args.x {
		var err error
		if args.x[i], err = p.g.mapRows(a.p[0].x, steps*boxInputs, int(a.rows), int(a.p[0].ldx), 32*(i+1), 1); err != nil {
			return err
		}
	}
	a.products = int32(len(outs))
	for i, n := range outs {
		a.p[i].tiles = int32(blocksOf(n, tileOuts))
	}
	args.a = *a
	blocks := p.d.g.info.sms / clusterSize * clusterSize
	return run(p, f.kernel(m.name(a.mode == modeGated)), grid{uint32(blocks), 1, 1}, m.threads(), &args)
}

// formatOfExperts returns the format of the weights of a product's experts, -1 if they have different ones.
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

// expertsApart compiles products that have different formats, each by itself.
func (c *compiler) expertsApart(o compute.MatMulExperts, t *routing) (operation, error) {
	var all []*expertProducts
	t.ordered = true
	for _, q := range o.Products {
		if formatOfExperts(q) < 0 {
			return nil, fmt.Errorf("cuda: operation %d: this device does not compute experts whose weights are stored differently: %w", c.at, compute.ErrUnsupported)
		}
		o.Products = []compute.ExpertProduct{q}
		e, err := c.expertProducts(o, t)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return func(s *shape) error {
		for _, e := range all {
			if err := c.p.multiplyExperts(s, e, groupedArgs{scale: 1}, nil); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// normedRoute compiles a norm, the product that makes a router's logits of its results, and the choice of experts, if
// that is what follows and route_few can do it for a few rows to which no adapter adds; else it returns nil.
func (c *compiler) normedRoute(n compute.Normalize) (operation, error) {
	const blocks, threads, mostWarps, mostExperts = 8, 512, 16, 512
	if c.at+2 >= len(c.ops) {
		return nil, nil
	}
	m, ok := c.ops[c.at+1].(compute.MatMul)
	o, second := c.ops[c.at+2].(compute.Route)
	if !ok || !second || m.X != n.Dst || len(m.Products) != 1 || m.Products[0].Dst != o.Logits || !c.deadAfter(c.at+2, o.Logits.Buffer) {
		return nil, nil
	}
	p, q := c.p, m.Products[0]
	w, gain := q.W.(*matrix), n.Norm.Gain.(*vector)
	k := p.kernel[w.format.kernel("route_few")]
	ownTiles := int(blocksOf(w.tiles(), blocks))
	shared := ownTiles*w.tileBytes() + 2*w.in
	if k == nil || p.inFloat8(q) || !c.plainNorm(n, w.in) || w.in%boxInputs != 0 ||
		shared > int(k.shared) || ownTiles*int(w.ranges()) > mostWarps || w.out > mostExperts {
		return nil, nil
	}
	args, t, err := c.routeArgs(o)
	if err != nil {
		return nil, err
	}
	norm := p.normalize(n, false)
	product, err := c.products(m, gemmArgs{mode: modePlain, scale: 1})
	if err != nil {
		return nil, err
	}
	route, err := c.route(o)
	if err != nil {
		return nil, err
	}
	a := routeFewArgs{gain: gain.at, w: w.at, width: int32(w.in), ranges: w.ranges(), eps: n.Norm.Eps, tiles: int32(w.tiles())}
	if b, ok := q.Bias.(*vector); ok && b != nil {
		a.bias = b.at
	}
	return func(s *shape) error {
		rows := s.count[compute.AllRows]
		if rows > 0 && t.apart(rows) && !s.adapted {
			a := a
			a.r = args
			a.r.slot, a.r.ids, a.r.weights = s.slot, t.ids, t.weights
			a.src, a.dst = p.view(n.Src), p.view(n.Dst)
			f := *k
			f.shared = uint32(shared)
			return launch(p.s, &f, grid{uint32(blocks * rows), 1, 1}, threads, &a)
		}
		for _, op := range []operation{norm, product, route} {
			if err := op(s); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// plainNorm reports whether a norm is one that norm_wide computes, of whole rows of so many numbers, from float32 to
// bfloat16: kernels that normalise rows themselves give its bits.
func (c *compiler) plainNorm(n compute.Normalize, width int) bool {
	bias, biased := n.Norm.Bias.(*vector)
	gain := n.Norm.Gain.(*vector)
	return !n.Norm.Center && !(biased && bias != nil) && gain.n == width && (n.Norm.Group == 0 || n.Norm.Group == width) &&
		(n.Norm.Width == 0 || n.Norm.Width == width) && n.Dst.Cols == width && width%4 == 0 && width > 512 && c.wide[n.Src.Buffer] && !c.wide[n.Dst.Buffer]
}
