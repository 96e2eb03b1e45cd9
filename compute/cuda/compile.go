package cuda

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// operation queues the kernels of one or several operations of a graph for a step.
type operation func(s *shape) error

// buffer is one of a graph's buffers. Sums of a residual stream, angles, logits and what a recurrent layer takes are
// float32, the rest bfloat16.
type buffer struct {
	rows
	domain   compute.Domain
	capacity int // rows
}

// rowMultiple is what the rows of buffers are rounded up to: kernels may read whole blocks of rows past a batch's end.
const rowMultiple = 256

// compiler makes the operations of a program.
type compiler struct {
	p    *program
	ops  []compute.Op
	wide map[int]bool // by buffer's number
	at   int          // the operation that is compiled

	routes map[int]routeShape  // of buffers that have rows of routes, by number
	joined map[int]bool        // operations that were compiled with one before them
	gates  map[int]*adaptation // what adapters add to the gate before an operation
	turned *turner             // the product before, which may do what is compiled now

	turnedFew *turnerFew         // attention that may do what was compiled before
	normed    *compute.Normalize // the norm whose results are the rows of the product at hand, and of nothing else
}

// compile fills p.buffers and p.ops.
func (p *program) compile() error {
	c := &compiler{p: p, ops: p.routersApart(p.graph.Ops), wide: wideBuffers(p.graph.Ops), routes: map[int]routeShape{}, joined: map[int]bool{}, gates: map[int]*adaptation{}}
	for _, r := range p.graph.Routings {
		p.routings = append(p.routings, routing{Routing: r})
	}
	routed := routedWidths(p.graph)
	for i, b := range p.graph.Buffers {
		wide := int32(0)
		if c.wide[i+1] {
			wide = 1
		}
		width := max(b.Width, routed[i+1])
		p.buffers = append(p.buffers, buffer{rows: rows{ld: int32(roundUp(width, inputsMultiple)), wide: wide}, domain: b.Domain})
	}
	for c.at < len(c.ops) {
		if c.joined[c.at] {
			c.at++
			continue
		}
		op, n, err := c.next()
		if err != nil {
			return err
		}
		if op != nil {
			p.ops = append(p.ops, op)
		}
		c.at += n
	}
	return nil
}

// wideBuffers returns the buffers that are float32.
func wideBuffers(ops []compute.Op) map[int]bool {
	wide := map[int]bool{}
	for _, op := range ops {
		switch o := op.(type) {
		case compute.Embed:
			wide[o.Dst.Buffer] = true
		case compute.Angles:
			wide[o.Dst.Buffer] = true
		case compute.Add:
			wide[o.Dst.Buffer] = true
		case compute.Gather:
			wide[o.Dst.Buffer] = wide[o.Src.Buffer]
		case compute.Head:
			wide[o.Product.Dst.Buffer] = true
		case compute.Route:
			wide[o.Logits.Buffer] = true
		case compute.DeltaRule:
			wide[o.QKV.Buffer], wide[o.A.Buffer], wide[o.B.Buffer], wide[o.Dst.Buffer] = true, true, true, true
		}
	}
	return wide
}

// routersApart returns the operations, with a router's product taken out of those with a shared expert's gate and what
// it gates. Then the norm before can become one kernel with the choice of experts, and the gate one with its
// activation.
func (p *program) routersApart(ops []compute.Op) []compute.Op {
	ops = slices.Clone(ops)
	for i := 0; i < len(ops); i++ { // there are more with each product that is taken out
		m, ok := ops[i].(compute.MatMul)
		if !ok || len(m.Products) != 3 || i+3 >= len(ops) || slices.ContainsFunc(m.Products, p.inFloat8) {
			continue
		}
		route, first := ops[i+1].(compute.Route)
		_, second := ops[i+2].(compute.MatMulExperts)
		a, third := ops[i+3].(compute.Activate)
		n := slices.IndexFunc(m.Products, func(q compute.Product) bool { return q.Dst == route.Logits })
		if !first || !second || !third || n < 0 {
			continue
		}
		gated := compute.MatMul{X: m.X, Products: slices.Delete(slices.Clone(m.Products), n, n+1)}
		if !slices.ContainsFunc(gated.Products, func(q compute.Product) bool { return q.Dst == a.Gate }) {
			continue
		}
		m.Products = m.Products[n : n+1]
		ops[i] = m
		ops = slices.Insert(ops, i+3, compute.Op(gated))
	}
	return ops
}

// next compiles the next n operations as one.
func (c *compiler) next() (op operation, n int, err error) {
	p := c.p
	switch o := c.ops[c.at].(type) {
	case compute.Embed:
		return p.embed(embedding{dst: o.Dst, table: o.Table, scale: o.Scale}), 1, nil
	case compute.AddPositions:
		return p.embed(embedding{dst: o.Dst, table: o.Table, scale: 1, by: byPosition}), 1, nil
	case compute.AddTypes:
		return p.embed(embedding{dst: o.Dst, table: o.Table, scale: 1, by: byType}), 1, nil
	case compute.Normalize:
		if c.normedInFloat8(o) {
			return c.normFloat8(o)
		}
		if h, ok := c.heads(c.at); ok {
			return c.rotateHeads(h), h.n, nil
		}
		if op, err := c.latentRows(o); op != nil || err != nil {
			return op, 5, err
		}
		if op, err := c.normedRoute(o); op != nil || err != nil {
			return op, 3, err
		}
		m, ok := c.productAfter(o)
		return p.normalize(o, ok && m.Products[0].W.(*matrix).format != formatBF16), 1, nil
	case compute.MatMul:
		return c.matMul(o)
	case compute.Angles:
		return p.angles(o), 1, nil
	case compute.Rotate:
		return c.rotate(o)
	case compute.Store:
		return p.store(nil, nil, &o, nil), 1, nil
	case compute.Attend:
		op, err := c.attend(o)
		return op, 1, err
	case compute.Clamp:
		return p.activate(o.X, o.X, compute.Tensor{}, noActivation, o.Limit), 1, nil
	case compute.Activate:
		op, err := c.activate(o)
		return op, 1, err
	case compute.MatMulHeads:
		op, err := c.matMulHeads(o, true)
		return op, 1, err
	case compute.Convolve:
		op, err := p.convolve(o)
		return op, 1, err
	case compute.DeltaRule:
		op, err := p.deltaRule(o)
		return op, 1, err
	case compute.Route:
		op, err := c.route(o)
		return op, 1, err
	case compute.MatMulExperts:
		return c.matMulExperts(o)
	case compute.Combine:
		add, n := c.addedTo(o)
		op, err := c.combine(o, add)
		return op, n, err
	case compute.Add:
		return p.add(o.Dst, o.Src, o.Scale, false), 1, nil
	case compute.Keep:
		p.keepAt = len(p.ops) + 1
		return p.keepRows(o), 1, nil
	case compute.Gather:
		return p.add(o.Dst, o.Src, 1, true), 1, nil
	case compute.Head:
		o.Product.Target = 0 // it takes no adapters
		m := compute.MatMul{X: o.X, Products: []compute.Product{o.Product}}
		op, err := c.products(m, gemmArgs{mode: modePlain, scale: o.Scale, softcap: o.Softcap})
		return op, 1, err
	case compute.Choose:
		p.choose, p.chooses = o, true
		if c.at != len(c.ops)-1 {
			return nil, 0, fmt.Errorf("cuda: operation %d of %d is Choose, which must be the last", c.at, len(c.ops))
		}
		return nil, 1, nil
	}
	return nil, 0, fmt.Errorf("cuda: operation %d: this device does not compute %T: %w", c.at, c.ops[c.at], compute.ErrUnsupported)
}

// matMul compiles products and, where both can be one kernel, the operation after them: an addition to the residual
// stream, or the activation of a gate and what it gates.
func (c *compiler) matMul(o compute.MatMul) (operation, int, error) {
	var after compute.Op
	if c.at+1 < len(c.ops) {
		after = c.ops[c.at+1]
	}
	switch a := after.(type) {
	case compute.Add:
		if len(o.Products) == 1 && a.Src == o.Products[0].Dst && a.Dst.Buffer != o.X.Buffer && c.deadAfter(c.at+1, a.Src.Buffer) {
			product := o.Products[0]
			product.Dst = a.Dst
			op, err := c.products(compute.MatMul{X: o.X, Products: []compute.Product{product}}, gemmArgs{mode: modeAdd, scale: a.Scale})
			return op, 2, err
		}
	case compute.Activate:
		if gate, up, ok := c.gated(o, a); ok {
			adapts := c.p.graph.Adapters > 0 // to what the activation takes
			if adapts && gate.Target > 0 && up.Target > 0 && !c.wide[a.Gate.Buffer] && !c.wide[a.Up.Buffer] {
				op, err := c.adaptedGate(o.X, gate, up, a)
				return op, 2, err
			}
			if !adapts || gate.Target == 0 && up.Target == 0 {
				gate.Dst = a.Dst
				m := compute.MatMul{X: o.X, Products: []compute.Product{gate, up}}
				op, err := c.products(m, gemmArgs{mode: modeGated, act: int32(a.Act), scale: 1})
				return op, 2, err
			}
		}
	}
	c.turned = c.turns(o)
	op, err := c.products(o, gemmArgs{mode: modePlain, scale: 1})
	return op, 1, err
}

// gated returns the products of a gate and of what it gates, if these are o's, and an activation takes both.
func (c *compiler) gated(o compute.MatMul, a compute.Activate) (gate, up compute.Product, ok bool) {
	if len(o.Products) != 2 || a.Dst.Buffer == o.X.Buffer || c.wide[a.Dst.Buffer] {
		return gate, up, false
	}
	if gate, up = o.Products[0], o.Products[1]; gate.Dst != a.Gate {
		gate, up = up, gate
	}
	return gate, up, gate.Dst == a.Gate && up.Dst == a.Up && launchable(o.Products) == 2
}

// rotate compiles a rotation, or queries' and keys' with what follows them.
func (c *compiler) rotate(o compute.Rotate) (operation, int, error) {
	if h, ok := c.heads(c.at); ok {
		return c.rotateHeads(h), h.n, nil
	}
	return c.p.store(nil, &o, nil, nil), 1, nil
}

// deadAfter reports whether nothing after operation at reads what a buffer holds then.
func (c *compiler) deadAfter(at, buffer int) bool {
	for _, op := range c.ops[at+1:] {
		reads, writes := uses(op)
		for _, t := range reads {
			if t.Buffer == buffer {
				return false
			}
		}
		for _, t := range writes {
			if t.Buffer == buffer {
				return true
			}
		}
	}
	return true
}

// uses returns what an operation reads, and what it writes without reading it first.
func uses(op compute.Op) (reads, writes []compute.Tensor) {
	type tensors = []compute.Tensor
	switch o := op.(type) {
	case compute.Embed:
		return nil, tensors{o.Dst}
	case compute.AddPositions:
		return tensors{o.Dst}, nil
	case compute.AddTypes:
		return tensors{o.Dst}, nil
	case compute.Normalize:
		return tensors{o.Src}, tensors{o.Dst}
	case compute.MatMul:
		for _, p := range o.Products {
			writes = append(writes, p.Dst)
		}
		return tensors{o.X}, writes
	case compute.MatMulHeads:
		return tensors{o.X}, tensors{o.Dst}
	case compute.Convolve:
		return tensors{o.X}, nil
	case compute.DeltaRule:
		return tensors{o.QKV, o.A, o.B}, tensors{o.Dst}
	case compute.Route:
		return tensors{o.Logits}, nil
	case compute.MatMulExperts:
		for _, p := range o.Products {
			writes = append(writes, p.Dst)
		}
		return tensors{o.X}, writes
	case compute.Combine:
		return tensors{o.Src, o.Shared, o.Factor}, tensors{o.Dst}
	case compute.Angles:
		return nil, tensors{o.Dst}
	case compute.Rotate:
		return tensors{o.X, o.Angles}, nil
	case compute.Store:
		return tensors{o.K, o.V}, nil
	case compute.Attend:
		return tensors{o.Q}, tensors{o.Dst}
	case compute.Clamp:
		return tensors{o.X}, nil
	case compute.Activate:
		return tensors{o.Gate, o.Up}, tensors{o.Dst}
	case compute.Add:
		return tensors{o.Dst, o.Src}, nil
	case compute.Keep:
		return o.X, nil
	case compute.Gather:
		return tensors{o.Src}, tensors{o.Dst}
	case compute.Head:
		return tensors{o.X}, tensors{o.Product.Dst}
	case compute.Choose:
		return tensors{o.Logits, o.Hidden}, nil
	}
	return nil, nil
}

// view returns a tensor's memory as kernels take it.
func (p *program) view(t compute.Tensor) rows {
	if t.Buffer == 0 {
		return rows{}
	}
	return p.buffers[t.Buffer-1].rows
}

// count returns the rows of a tensor's domain in a step.
func (p *program) count(t compute.Tensor, s *shape) uint32 {
	return uint32(s.count[p.buffers[t.Buffer-1].domain])
}

// run queues a kernel if it has blocks.
func run[T any](p *program, name string, blocks grid, threads int, args *T) error {
	if blocks.x == 0 || blocks.y == 0 || blocks.z == 0 {
		return nil
	}
	return launch(p.s, p.kernel[name], blocks, threads, args)
}

// What chooses a row of an embedding's table.
const (
	byToken = iota
	byPosition
	byType
)

// embedding is one of the operations that add rows of a table.
type embedding struct {
	dst   compute.Tensor
	table compute.Matrix
	scale float32
	by    int
}

func (p *program) embed(e embedding) operation {
	m := e.table.(*matrix)
	return func(s *shape) error {
		a := embedArgs{dst: p.view(e.dst), table: m.at, ids: s.id, from: s.from, chosen: p.chosen,
			tilesIn: int32(m.tilesIn()), width: int32(e.dst.Cols), limit: int32(m.out), scale: e.scale, format: int32(m.format)}
		switch e.by {
		case byPosition:
			a.ids, a.from, a.added = s.pos, 0, 1
		case byType:
			a.ids, a.from, a.added = s.types, 0, 1
		}
		return run(p, "embed", grid{p.count(e.dst, s), 1, 1}, 256, &a)
	}
}

// productAfter returns the products that follow a norm, and take its results.
func (c *compiler) productAfter(o compute.Normalize) (m compute.MatMul, ok bool) {
	if c.at+1 < len(c.ops) {
		m, ok = c.ops[c.at+1].(compute.MatMul)
	}
	return m, ok && m.X == o.Dst
}

// normalize compiles a norm; packed says that a product of packed weights follows.
func (p *program) normalize(o compute.Normalize, packed bool) operation {
	const (
		fewPacked   = 16 // up to so many rows, blocks of such a product are small, and many on a multiprocessor
		wideThreads = 512
		kept        = 2 * 4 * wideThreads // numbers of a row that norm_many keeps in registers
	)
	n := o.Norm
	gain := n.Gain.(*vector)
	group, width := n.Group, n.Width
	if group == 0 {
		group = gain.n
	}
	if width == 0 {
		width = o.Dst.Cols
	}
	args := normArgs{gain: gain.at, group: int32(group), eps: n.Eps}
	if bias, ok := n.Bias.(*vector); ok && bias != nil {
		args.bias = bias.at
	}
	if n.Center {
		args.center = 1
	}
	if gain.n > group {
		args.perGroup = 1
	}
	return func(s *shape) error {
		a := args
		a.dst, a.src = p.view(o.Dst), p.view(o.Src)
		count := p.count(o.Dst, s)
		if a.src.wide == 1 && a.dst.wide == 0 && a.center == 0 && a.bias == 0 && group == width && group%4 == 0 && group > 512 {
			if count > asideRows && group <= kept {
				return run(p, "norm_many", grid{count, 1, 1}, wideThreads, &a)
			}
			shared := uint32(0)
			if packed && count > fewPacked {
				shared = asideShared(int(count))
			}
			return runAside(p, "norm_wide", grid{count, 1, 1}, wideThreads, shared, &a)
		}
		threads := 256
		if group <= 512 {
			threads = 32
		}
		return run(p, "norm_groups", grid{uint32(width / group), count, 1}, threads, &a)
	}
}

// add compiles a sum, or a copy of the rows of dst's domain.
func (p *program) add(dst, src compute.Tensor, scale float32, gather bool) operation {
	return func(s *shape) error {
		a := addArgs{dst: p.view(dst), src: p.view(src), cols: int32(dst.Cols), scale: scale}
		if gather {
			a.gather, a.rows = 1, s.rowsOf[p.buffers[dst.Buffer-1].domain]
		}
		return run(p, "add", grid{blocksOf(dst.Cols, 256), p.count(dst, s), 1}, 256, &a)
	}
}

// keepRows compiles the dropping of rows.
func (p *program) keepRows(o compute.Keep) operation {
	return func(s *shape) error {
		n := s.kept.count[compute.AllRows]
		if s.kept == s || n == 0 {
			return nil
		}
		for _, t := range o.X {
			x, word := p.view(t), int32(8) // numbers in 16 bytes
			if x.wide == 1 {
				word = 4
			}
			words := blocksOf(t.Cols, int(word))
			a := keepArgs{x: x.at, rows: s.keptRows, n: int32(n), words: int32(words), ld: x.ld / word}
			if err := run(p, "keep", grid{blocksOf(int(words), 256), 1, 1}, 256, &a); err != nil {
				return err
			}
		}
		return nil
	}
}

func blocksOf(n, of int) uint32 { return uint32((n + of - 1) / of) }

func (p *program) activate(dst, gate, up compute.Tensor, act int, limit float32) operation {
	return func(s *shape) error {
		a := activateArgs{dst: p.view(dst), gate: p.view(gate), up: p.view(up), cols: int32(dst.Cols), act: int32(act), limit: limit}
		return run(p, "activation", grid{p.count(dst, s), blocksOf(dst.Cols, 256), 1}, 256, &a)
	}
}

func (p *program) angles(o compute.Angles) operation {
	freqs := o.Freqs.(*vector)
	return func(s *shape) error {
		a := anglesArgs{dst: p.view(o.Dst), pos: s.pos, isLong: s.long, freqs: freqs.at, n: int32(freqs.n), scale: o.Scale}
		if long, ok := o.Long.(*vector); ok && long != nil {
			a.longFreqs = long.at
		}
		return run(p, "angles", grid{p.count(o.Dst, s), 1, 1}, 64, &a)
	}
}

// latentRows compiles the norm of latents, their rotation and that of queries, the storing of latents, and the products
// of queries' heads, if that is what follows; else it returns nil.
func (c *compiler) latentRows(n compute.Normalize) (operation, error) {
	const mostRank = 512 // of what norm_groups normalises with one warp, as latent_rows does
	if c.at+4 >= len(c.ops) || c.p.cache.spec.Type != quant.BF16 {
		return nil, nil
	}
	q, ok := c.ops[c.at+1].(compute.Rotate)
	k, second := c.ops[c.at+2].(compute.Rotate)
	s, third := c.ops[c.at+3].(compute.Store)
	m, fourth := c.ops[c.at+4].(compute.MatMulHeads)
	if !ok || !second || !third || !fourth {
		return nil, nil
	}
	heads, rest, rank := len(m.W), q.Angles.Cols, k.Rotary.Skip
	bias, biased := n.Norm.Bias.(*vector)
	gain := n.Norm.Gain.(*vector)
	in, out := 0, 0
	if heads > 0 {
		out, in = m.W[0].Dims()
	}
	if n.Dst != n.Src || n.Dst != k.X || k.X != s.K || q.X != m.X || s.V.Buffer != 0 || !c.p.cache.spec.Layers[s.Layer].Latent ||
		n.Norm.Center || biased && bias != nil || gain.n != rank || n.Norm.Group != 0 && n.Norm.Group != rank || n.Norm.Width != rank || rank > mostRank ||
		k.Rotary.Heads != 1 || q.Rotary.Heads != heads || k.Angles != q.Angles || k.Rotary.Interleaved != q.Rotary.Interleaved ||
		q.Rotary.Skip != in || q.X.Cols != heads*(in+rest) || out != rank || m.Dst.Cols != heads*(rank+rest) || k.X.Cols != rank+rest ||
		c.wide[q.X.Buffer] || c.wide[k.X.Buffer] || !c.deadAfter(c.at+4, q.X.Buffer) || !c.deadAfter(c.at+3, k.X.Buffer) {
		return nil, nil
	}
	products, err := c.matMulHeads(m, false)
	if err != nil {
		return nil, err
	}
	p := c.p
	args := latentArgs{gain: gain.at, eps: n.Norm.Eps, heads: int32(heads), nope: int32(in), rank: int32(rank)}
	args.rotation.pairs = int32(rest / 2)
	if q.Rotary.Interleaved {
		args.rotation.neighbours = 1
	}
	return func(sh *shape) error {
		a := args
		a.q, a.wide, a.latent, a.rotation.angles = p.view(q.X), p.view(m.Dst), p.view(s.K), p.view(q.Angles)
		a.pos, a.slot, a.cache = sh.pos, sh.slot, p.cache.layer(s.Layer, p.tables, p.limits.Slots, p.stride)
		rows, parts := uint32(sh.count[compute.AllRows]), uint32(3)
		if rows > 256 {
			parts = 1
		}
		if err := run(p, "latent_rows", grid{rows, parts, 1}, 256, &a); err != nil {
			return err
		}
		return products(sh)
	}, nil
}

// log2e turns exponents of e into exponents of 2.
const log2e = math.Log2E
