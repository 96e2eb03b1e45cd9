package ptx

import (
	"fmt"
	"math/bits"
	"strings"
)

// hopperWarp is what a warp has begun of Hopper's and not waited for.
type hopperWarp struct {
	products   []begun
	groups     int  // of products, committed
	fenced     bool // wgmma.fence came before the first product of the group
	sums       []*sums
	rows, cols []float64 // room for operands

	stores      []bulkStore
	storeGroups [32]int // committed, of each lane

	arrivals int // at the cluster's barrier
	waited   int // those of them that the warp waited for

	at *mbarrier // the one that a lane waited for last
}

func (h *hopperWarp) start() {
	*h = hopperWarp{products: h.products[:0], sums: h.sums, rows: h.rows, cols: h.cols, stores: h.stores[:0]}
	for _, s := range h.sums {
		s.uses = 0
	}
}

// waits says what a statement waits for at which the warp stands.
func (h *hopperWarp) waits(s *statement) string {
	if h.at != nil && strings.HasPrefix(s.name, "mbarrier.try_wait") {
		return fmt.Sprint(", for ", h.at)
	}
	return ""
}

// wgmma is a compiled wgmma.mma_async.
type wgmma struct {
	product
	s     *statement
	d     []int32 // registers of a thread's sums
	a     [4]int32
	aFrom int32 // a descriptor, if a is not in registers; else -1
	b     int32 // a descriptor
	keep  int32 // a predicate: without it, d counts as zero
}

// sums are what a thread's registers hold when products that are under way are done, in the order of multiply. The
// registers themselves hold NaNs until then, so that reading them too early shows.
type sums struct {
	d    []int32
	x    []float32
	uses int // products under way
}

const early = 1<<32 - 1 // what registers hold while products are under way

// begun is a product under way. It happens when it is waited for, and all warps of the warpgroup have begun it: what
// is in shared memory then counts.
type begun struct {
	of    *wgmma
	to    *sums
	a     [4]lanes
	aFrom matrix
	b     matrix
	fresh bool
	group int
	nth   int // of the warp's
}

// warpgroup checks that its four warps begin the same products.
type warpgroup struct {
	begun [4]int // products, of each warp
	first int    // the number of log's first
	log   []mark
}

// mark is what must be the same in all warps of a warpgroup.
type mark struct {
	of    *wgmma
	a, b  uint64
	fresh bool
}

// uniform returns the value that a register has in all lanes.
func uniform(l *lanes) (v uint64, same bool) {
	v = l[0]
	for _, x := range l {
		if x != v {
			return 0, false
		}
	}
	return v, true
}

// whole waits for all lanes of a warp, and fails if some of them do not execute the instruction.
func (w *warp) whole(mask uint32) result {
	switch {
	case mask == everyone:
		return next
	case mask == w.active && w.live == everyone:
		return again
	}
	return w.fail(bits.TrailingZeros32(mask), "lanes %#x of a warp only", mask)
}

// begin begins a product.
func (p *wgmma) begin(w *warp, mask uint32) result {
	h := &w.hopper
	if r := w.whole(mask); r != next {
		return r
	}
	if !h.fenced {
		return w.fail(0, "no wgmma.fence came before the first product of a group: what registers hold may not be there yet")
	}
	keep := w.preds[p.keep]
	if keep != 0 && keep != everyone {
		return w.fail(0, "scale-d differs between lanes: %#x", keep)
	}
	m := mark{of: p, fresh: keep == 0}
	op := begun{of: p, fresh: m.fresh, group: h.groups}
	var same bool
	var err error
	if p.aFrom < 0 {
		for i, r := range p.a {
			op.a[i] = w.regs[r]
		}
	} else {
		if m.a, same = uniform(&w.regs[p.aFrom]); !same {
			return w.fail(0, "the descriptor of A differs between lanes")
		}
		if op.aFrom, err = describedBy(m.a); err != nil {
			return w.fail(0, "A: %v", err)
		}
	}
	if m.b, same = uniform(&w.regs[p.b]); !same {
		return w.fail(0, "the descriptor of B differs between lanes")
	}
	if op.b, err = describedBy(m.b); err != nil {
		return w.fail(0, "B: %v", err)
	}
	g := w.warpgroup()
	op.nth = g.begun[w.index%4]
	if r := w.agree(g, m); r != next {
		return r
	}
	op.to = h.sumsOf(w, p.d)
	op.to.uses++
	h.products = append(h.products, op)
	return next
}

// warpgroup returns the one that a warp belongs to.
func (w *warp) warpgroup() *warpgroup {
	all := w.block.hopper.warpgroups
	for len(all) <= w.index/4 {
		all = append(all, &warpgroup{})
	}
	w.block.hopper.warpgroups = all
	return all[w.index/4]
}

// all is how many products all warps have begun.
func (g *warpgroup) all() int { return min(g.begun[0], g.begun[1], g.begun[2], g.begun[3]) }

// agree compares what a warp begins with what the others of its warpgroup begin.
func (w *warp) agree(g *warpgroup, m mark) result {
	me := w.index % 4
	i := g.begun[me] - g.first
	g.begun[me]++
	if i == len(g.log) {
		g.log = append(g.log, m)
		return next
	}
	if g.log[i] != m {
		o := g.log[i]
		return w.fail(0, "warps of a warpgroup multiply different things: here, of descriptors %#x and %#x, fresh: %t; line %d, of %#x and %#x, fresh: %t", m.a, m.b, m.fresh, o.of.s.line, o.a, o.b, o.fresh)
	}
	if done := g.all(); done-g.first >= 64 {
		g.log = append(g.log[:0], g.log[done-g.first:]...)
		g.first = done
	}
	return next
}

// sumsOf returns the sums of registers that products under way already add to, or new ones.
func (h *hopperWarp) sumsOf(w *warp, d []int32) *sums {
	var free *sums
	for _, s := range h.sums {
		switch {
		case s.uses == 0:
			if free == nil || cap(free.x) < 32*len(d) {
				free = s
			}
		case s.d[0] == d[0] && len(s.d) == len(d):
			return s
		}
	}
	if free == nil {
		free = &sums{}
		h.sums = append(h.sums, free)
	}
	free.d = d
	if n := 32 * len(d); cap(free.x) < n {
		free.x = make([]float32, n)
	} else {
		free.x = free.x[:n]
	}
	for i, r := range d {
		reg := &w.regs[r]
		x := (*[32]float32)(free.x[32*i:])
		for lane := range reg {
			x[lane] = f32(reg[lane])
			reg[lane] = early
		}
	}
	return free
}

// waitProducts waits for all groups but the last ones.
func (w *warp) waitProducts(mask uint32, but int) result {
	h := &w.hopper
	if r := w.whole(mask); r != next {
		return r
	}
	n := 0
	for n < len(h.products) && h.products[n].group < h.groups-but {
		n++
	}
	if n > 0 && h.products[n-1].nth >= w.warpgroup().all() {
		return again
	}
	for i := range n {
		if r := h.products[i].finish(w); r != next {
			return r
		}
	}
	h.products = append(h.products[:0], h.products[n:]...)
	return next
}

// finish does what a product is for.
func (op *begun) finish(w *warp) result {
	p, h, x := op.of, &w.hopper, op.to.x
	if op.fresh {
		clear(x)
	}
	h.rows, h.cols = room(h.rows, 16*p.k), room(h.cols, p.n*p.k)
	if p.aFrom < 0 {
		for i, r := range p.a {
			for lane, v := range w.regs[r] {
				if uint32(v) != uint32(op.a[i][lane]) {
					return w.fail(lane, "register %d of operand A of the product of line %d was written before the product was waited for", i, p.s.line)
				}
			}
		}
		p.numbers.readLanes(h.rows, &op.a, p.k)
	} else if err := op.aFrom.read(h.rows, w.block.shared, &w.block.hopper.unfenced, p.numbers, w.index%4*16, p.k, p.acrossA); err != nil {
		return w.fail(0, "operand A of the product of line %d: %v", p.s.line, err)
	}
	if err := op.b.read(h.cols, w.block.shared, &w.block.hopper.unfenced, p.numbers, 0, p.k, p.acrossB); err != nil {
		return w.fail(0, "operand B of the product of line %d: %v", p.s.line, err)
	}
	if p.minusA != p.minusB {
		negate(h.rows)
	}
	multiplyRows(x, h.rows, h.cols, p.n, p.k)
	if op.to.uses--; op.to.uses > 0 {
		return next
	}
	for i, r := range op.to.d {
		reg := &w.regs[r]
		for lane := range reg {
			if uint32(reg[lane]) != early {
				return w.fail(lane, "register %d of the sums of the product of line %d was written, or given to another product, before it was waited for", i, p.s.line)
			}
			reg[lane] = bits32(x[32*i+lane])
		}
	}
	return next
}

// room returns n numbers, of the slice that is there if it has so many.
func room(x []float64, n int) []float64 {
	if cap(x) < n {
		return make([]float64, n)
	}
	return x[:n]
}
