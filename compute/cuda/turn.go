package cuda

import (
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// turned is a kernel of gemm_turned.cuh, and the one that does the same but for turning.
type turned struct {
	name string
	warpgroups
}

var (
	turnedBF16   = turned{"gemm_wgmma_128x256_turned", warpgroupKernels[0]}
	turnedFloat8 = turned{"gemm_float8_128x256_turned", float8Warpgroups[0]}
)

const (
	turnedHeads = 128 // numbers of a head
	turnedKept  = 8   // keptSums of its parts
	angleRows   = 64  // rows of a box of angles
)

// turnTime is the nanoseconds that turning adds to a part, as measured on an H100, and perTime the numbers of queries,
// keys and values that rotate_store takes one for. Tests alone change turnTime.
var turnTime = 1500

const perTime = 450

// shared is the shared memory that a block needs: Plan of gemm_wgmma.cuh.
func (k turned) shared(f format) int {
	return k.sharedBeside(f, turnedKept*16*2*k.outs+4*k.rows)
}

// pays reports whether turning makes products faster that take so many nanoseconds by another kernel.
func (k turned) pays(a *gemmArgs, sms, otherwise int) bool {
	tiles, rows := a.tiles(), int(a.rows)
	rounds := int(blocksOf(k.parts(tiles, rows), sms/clusterSize))
	return rows > 0 && k.fits(a) && k.cost(a, tiles, sms)+rounds*turnTime < otherwise+rows*tiles*tileOuts/perTime
}

// heads are n operations that one kernel can do: the rotations of queries and of keys, and the storing of keys and
// values; before them the norms of queries' and of keys' heads, or nil.
type heads struct {
	q, k  compute.Rotate
	s     compute.Store
	norms *[2]compute.Norm
	n     int
}

// heads returns these operations, if they come from number at on.
func (c *compiler) heads(at int) (h heads, ok bool) {
	var norms []compute.Normalize
	for ; at < len(c.ops) && len(norms) < 2; at++ {
		n, ok := c.ops[at].(compute.Normalize)
		if !ok {
			break
		}
		norms = append(norms, n)
	}
	if len(norms) == 1 || at+2 >= len(c.ops) {
		return h, false
	}
	h.n = len(norms) + 3
	var first, second, third bool
	h.q, first = c.ops[at].(compute.Rotate)
	h.k, second = c.ops[at+1].(compute.Rotate)
	h.s, third = c.ops[at+2].(compute.Store)
	ok = first && second && third && h.s.K == h.k.X && h.k.Angles == h.q.Angles && h.k.Rotary.Skip == h.q.Rotary.Skip &&
		h.k.Rotary.Interleaved == h.q.Rotary.Interleaved && c.deadAfter(at+2, h.k.X.Buffer) &&
		(c.p.cache.spec.Type == quant.BF16 || c.p.rotatesWhole(&h.q, &h.k, &h.s))
	if ok && norms != nil {
		ok = normsHeads(norms[0], h.q) && normsHeads(norms[1], h.k)
		h.norms = &[2]compute.Norm{norms[0].Norm, norms[1].Norm}
	}
	return h, ok
}

// normsHeads reports whether a norm is one of each head by itself, all of whose numbers rotate then.
func normsHeads(n compute.Normalize, r compute.Rotate) bool {
	dim := r.Rotary.HeadDim
	gain, plain := n.Norm.Gain.(*vector)
	bias, biased := n.Norm.Bias.(*vector)
	return plain && !(biased && bias != nil) && !n.Norm.Center && gain.n == dim && (n.Norm.Group == 0 || n.Norm.Group == dim) &&
		(n.Norm.Width == 0 || n.Norm.Width == n.Dst.Cols) && n.Dst == r.X && n.Dst == n.Src && n.Dst.Cols == dim*r.Rotary.Heads &&
		r.Rotary.Skip == 0 && r.Angles.Cols == dim
}

// rotateHeads compiles what is done with heads, unless the products before, or the attention after, do it.
func (c *compiler) rotateHeads(h heads) operation {
	t := c.turned
	c.turned = nil
	op := c.p.store(&h.q, &h.k, &h.s, h.norms)
	if t != nil {
		op = t.unlessTurned(op)
	}
	return c.unlessTurnedFew(op, &turnerFew{p: c.p, heads: h, many: t, at: c.at + h.n})
}

// turner may have products of queries, keys and values, of many rows, rotate and store what they yield.
type turner struct {
	p *program
	heads
	done bool // by the products that were queued last
}

// turns returns a turner, if products are those of queries, keys and values, of which nothing but what follows takes
// keys and values, and a kernel can do that; else nil.
func (c *compiler) turns(o compute.MatMul) *turner {
	p := c.p
	h, ok := c.heads(c.at + 1)
	q, k, s := h.q, h.k, h.s
	if !ok || len(o.Products) != 3 || o.Products[0].Dst != q.X || o.Products[1].Dst != k.X || o.Products[2].Dst != s.V ||
		launchable(o.Products) < 3 || !c.deadAfter(c.at+h.n, s.V.Buffer) {
		return nil
	}
	for _, r := range o.Products {
		if r.Dst.Cols%turnedHeads != 0 {
			return nil
		}
	}
	kernel, layer := o.Products[0].W.(*matrix).format.kernel(turnedBF16.name), p.cache.spec.Layers[s.Layer]
	if p.inFloat8(o.Products[0]) {
		kernel = formatFP8.kernel(turnedFloat8.name)
	}
	if p.kernel[kernel] == nil || p.cache.spec.Type != quant.BF16 || !p.rotatesWhole(&q, &k, &s) || layer.KDim != turnedHeads ||
		q.X.Cols != q.Rotary.Heads*turnedHeads || k.X.Cols != layer.KVHeads*turnedHeads || s.V.Cols != k.X.Cols ||
		p.cache.places[p.cache.of[s.Layer]].bytes%(2*turnedHeads) != 0 {
		return nil
	}
	return &turner{p: p, heads: h}
}

// unlessTurned is an operation that the products before may have done.
func (t *turner) unlessTurned(op operation) operation {
	return func(s *shape) error {
		if t.done {
			return nil
		}
		return op(s)
	}
}

// chosen reports whether products are faster if they turn what they yield, to which no adapter adds first. It says so
// to what follows them.
func (t *turner) chosen(f format, s *shape, a *gemmArgs) bool {
	t.done = false
	if !s.adapted && int(a.rows) > fews[len(fews)-1].rows {
		_, cost := t.p.warpgroups(f, a, a.tiles())
		t.done = cost > 0 && turnedBF16.pays(a, t.p.d.g.info.sms, cost)
	}
	return t.done
}

// chosenFloat8 is chosen of products in F8_E4M3.
func (t *turner) chosenFloat8(s *shape, a *float8Args) bool {
	t.done = false
	if !s.adapted && a.groups == 0 && a.a.storable() {
		sms := t.p.d.g.info.sms
		_, _, cost := float8KernelFor(a, sms)
		t.done = turnedFloat8.pays(&a.a, sms, cost)
	}
	return t.done
}

// turning is what the kernels do with what products yield.
func (t *turner) turning(s *shape, rows int) (turning, error) {
	p := t.p
	angles, err := p.g.mapResults(p.view(t.q.Angles), turnedHeads, rows, angleRows)
	to := turning{angles: angles, cache: p.cache.layer(t.s.Layer, p.tables, p.limits.Slots, p.stride), pos: s.pos, slot: s.slot}
	if t.norms != nil {
		for i, n := range t.norms {
			to.norms[i] = headNorm{gain: n.Gain.(*vector).at, eps: n.Eps}
		}
	}
	return to, err
}

// run queues the kernel for all rows of a.
func (t *turner) run(f format, s *shape, a *gemmArgs) error {
	p, k := t.p, turnedBF16
	if err := p.untilMoved(t.s.Layer); err != nil {
		return err
	}
	args, err := k.args(p, a)
	if err != nil {
		return err
	}
	turning, err := t.turning(s, int(a.rows))
	if err != nil {
		return err
	}
	return run(p, f.kernel(k.name), k.grid(a.tiles(), int(a.rows), p.d.g.info.sms), k.threads(), &turnedArgs{wgmmaArgs: args, turning: turning})
}

// runFloat8 is run of products in F8_E4M3.
func (t *turner) runFloat8(s *shape, a *float8Args) error {
	p, k := t.p, turnedFloat8
	if err := p.untilMoved(t.s.Layer); err != nil {
		return err
	}
	args, err := k.argsFloat8(p, a)
	if err != nil {
		return err
	}
	turning, err := t.turning(s, int(a.a.rows))
	if err != nil {
		return err
	}
	return run(p, formatFP8.kernel(k.name), k.grid(a.a.tiles(), int(a.a.rows), p.d.g.info.sms), k.threads(),
		&float8TurnedArgs{weights: args.weights, to: args.to, float8Args: args.float8Args, turning: turning})
}

// fewTurned is the end of the names of attend_few that turn queries and keys, and store keys and values.
const fewTurned = "_turned"

// mostTurnedFew is the most rows of a step of which they do, as measured. Tests alone change it.
var mostTurnedFew = 256

// turnerFew may have attention of few rows rotate queries and keys, normalised first if there are norms, and store keys
// and values: where each row is the only one of its sequence, so that no other sees its key.
type turnerFew struct {
	p *program
	heads
	many *turner // which may have done it already; or nil
	at   int     // the attention's operation
	done bool    // by it, in the step that is being queued
}

// unlessTurnedFew is the operation that rotates and stores, where attention does not: it follows at once, nothing else
// takes queries and keys, and there is a kernel.
func (c *compiler) unlessTurnedFew(op operation, t *turnerFew) operation {
	p := c.p
	if t.at >= len(c.ops) {
		return op
	}
	o, ok := c.ops[t.at].(compute.Attend)
	if !ok || o.Layer != t.s.Layer || o.Q != t.q.X || o.Dst.Buffer == t.k.X.Buffer || o.Dst.Buffer == t.s.V.Buffer || c.wide[o.Dst.Buffer] ||
		p.cache.spec.Type != quant.BF16 || !p.rotatesWhole(&t.q, &t.k, &t.s) || !c.deadAfter(t.at, t.q.X.Buffer) {
		return op
	}
	l := p.cache.spec.Layers[o.Layer]
	if l.KVHeads < 1 || o.Attention.Heads%l.KVHeads != 0 || t.q.X.Cols != o.Attention.Heads*l.KDim || t.k.X.Cols != l.KVHeads*l.KDim || t.s.V.Cols != t.k.X.Cols {
		return op
	}
	if k, fits := p.attender(o.Attention, l); !fits || p.kernel[k.few+fewTurned] == nil {
		return op
	}
	c.turnedFew, p.turnsFew = t, true
	return func(s *shape) error {
		if t.done = s.alone && (t.many == nil || !t.many.done); t.done {
			return nil
		}
		return op(s)
	}
}

// args is what the kernel takes.
func (t *turnerFew) args(a *attendArgs) *attendTurnedArgs {
	p := t.p
	args := &attendTurnedArgs{attendArgs: *a, k: p.view(t.k.X), v: p.view(t.s.V), angles: p.view(t.q.Angles)}
	if n := t.norms; n != nil {
		args.qGain, args.qEps = n[0].Gain.(*vector).at, n[0].Eps
		args.kGain, args.kEps = n[1].Gain.(*vector).at, n[1].Eps
	}
	return args
}

// alone reports whether a step of so many rows may have attention turn queries and keys, or read latents before the
// kernels in front end: each row is the only one of its sequence, and of its slot.
func (p *program) alone(b *compute.Batch, rows int) bool {
	if !p.turnsFew && !p.latents || rows > mostTurnedFew {
		return false
	}
	clear(p.seen)
	for _, q := range b.Seqs {
		if q.Rows > 1 || p.seen[q.Slot] {
			return false
		}
		p.seen[q.Slot] = true
	}
	return true
}
