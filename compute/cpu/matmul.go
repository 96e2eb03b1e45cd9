package cpu

import (
	"slices"

	"github.com/kvasir-llm/kvasir/compute/kernel"
)

const (
	maxProducts = 4
	rowChunk    = 32        // rows that share one pass over a group of panels, where kernels do not say otherwise
	fewPanels   = 4         // fewest panels of an item: a single row reads several at once to hide latency
	itemsWanted = 8         // items for each thread, so that threads end at about the same time
	mergedRows  = 256       // rows times the groups of panels that a thread takes together
	aheadBytes  = 512 << 10 // of the next weights that a waiting thread fetches: a part of a second cache
)

// matMul does compute.MatMul.
func (d *Device) matMul(x Tensor, products []Product) {
	for rest := products; len(rest) > 0; {
		n := sameOrder(rest)
		d.matmul(d.rows, x, rest[:n])
		rest = rest[n:]
	}
	if len(d.lora.groups) > 0 {
		d.adapt(x, products)
	}
}

// sameOrder returns how many of the first products read their inputs in one order, so that the quantised rows serve
// all.
func sameOrder(products []Product) int {
	n := 1
	for n < min(len(products), maxProducts) && slices.Equal(products[n].W.(*matrix).order, products[0].W.(*matrix).order) {
		n++
	}
	return n
}

// headOp does compute.Head.
func (d *Device) headOp(dst, x Tensor, p Product, scale, softcap float32) {
	n := d.rows
	p.Dst = dst
	d.head[0] = p
	d.matmul(n, x, d.head[:])
	if scale == 1 && softcap == 0 {
		return
	}
	d.op = operation{dst: dst, scale: scale, cap: softcap}
	d.each(n, d.jobs.squash)
}

func (d *Device) squashRow(_, r int) {
	row := rowOf(d.op.dst, r)
	for i := range row {
		row[i] *= d.op.scale
	}
	if limit := d.op.cap; limit > 0 {
		d.k.Softcap(row, limit)
	}
}

// matmul multiplies rows rows of x with every product. An item is a chunk of rows and a group of panels of one product;
// items of one chunk follow each other, so that its rows stay in cache.
func (d *Device) matmul(rows int, x Tensor, products []Product) {
	if rows == 0 {
		return
	}
	raw := false
	for _, p := range products {
		raw = d.read(p.W.(*matrix)) || raw
	}
	o := &d.op
	*o = operation{rows: rows, src: x, products: products}
	var kinds rowKind
	for i, p := range products {
		o.panels[i] = p.W.(*matrix).panels
		kinds |= p.W.(*matrix).rows
	}
	most := kernel.GroupPanels
	if o.chunk = d.k.RowChunk; kinds == pairRows {
		if o.chunk = d.k.PairChunk; d.k.Pairs == kernel.PairTiles && rows > 32 {
			most = kernel.PairPanels
		}
	}
	if raw { // each chunk packs its panels again
		o.chunk = kernel.MaxRowChunk
	}
	chunks := (rows + o.chunk - 1) / o.chunk
	d.split(chunks, most)
	d.prepare(rows, x, kinds, products[0].W.(*matrix), true)
	o.quantised = d.xq
	if raw {
		d.before = nil
	} else {
		d.foresee()
	}
	d.spread(chunks*o.perChunk, max(1, mergedRows/rows), d.jobs.product)
}

// foresee tells the pool what follows the running product's weights, which is what followed them the last time, so that
// threads that wait can fetch it: decoding goes through the same weights in the same order in every step.
func (d *Device) foresee() {
	o := &d.op
	w := o.products[0].W.(*matrix)
	if before := d.before; before != nil && (before.ahead == nil || before.ahead.of != w) {
		a := &ahead{of: w}
		for id := range d.scratch {
			i, from := o.product(o.perChunk * id / len(d.scratch))
			m := o.products[i].W.(*matrix)
			part := m.data[from*m.stride:]
			a.parts = append(a.parts, part[:min(len(part), aheadBytes)])
		}
		before.ahead = a
	}
	d.before = w
	if w.ahead != nil {
		d.pool.ahead.Store(w.ahead)
	}
}

// split cuts the products of the running operation into groups of at most most panels, for so many chunks of rows.
func (d *Device) split(chunks, most int) {
	o, total := &d.op, 0
	for _, panels := range o.panels {
		total += panels
	}
	o.group = fewPanels
	for o.group < most && total*chunks >= 2*o.group*len(d.scratch)*itemsWanted { // kernels take four panels at a time, so not between
		o.group *= 2
	}
	for i, panels := range o.panels {
		o.firsts[i] = o.perChunk
		o.perChunk += (panels + o.group - 1) / o.group
	}
}

// roomForQuantised shapes xq. The distances of its rows' values are odd numbers of cache lines, so that rows do not
// share sets of the first cache.
func (d *Device) roomForQuantised(rows, cols int) {
	q, blocks := &d.xq, cols/32
	q.Ld, q.Blocks = ((blocks+1)/2|1)*64, blocks
	q.LdSums = q.Spans()
	q.Q, q.Sums = kernel.Grown(q.Q, rows*q.Ld), kernel.Grown(q.Sums, rows*q.LdSums)
	q.RowTiles = 0
}

// roomForTiles shapes the tiles of rows rows of xq.
func (d *Device) roomForTiles(rows int) {
	x, n := &d.xq, 0
	if n, x.RowTiles = x.TileBytes(rows); cap(x.Tiles) < n {
		x.Tiles = aligned(n + n/2)[:n]
	} else {
		x.Tiles = x.Tiles[:n]
	}
}

func quantiseRow(d *Device, o *rowOp, worker, r int) {
	d.quantiseTo(worker, r, rowOf(o.src, r), o.order)
}

// quantiseTo quantises a row, in the given order of its values if there is one, to row r of xq.
func (d *Device) quantiseTo(worker, r int, row []float32, order []int32) {
	q := d.xq.From(r)
	if order != nil {
		s := &d.scratch[worker]
		s.row = kernel.Grown(s.row, len(order))
		for k, i := range order {
			s.row[k] = row[i]
		}
		row = s.row
	}
	d.k.Quantize(q.Q[:q.Blocks*32], q.Sums[:q.Spans()], row[:q.Blocks*32], kernel.SpanValues)
	if d.xq.RowTiles > 0 {
		d.k.Spread(&d.xq, r)
	}
}

// productItems computes some groups of panels, each for one chunk of rows. Neighbours are taken together: the longer
// a run of weights, the better it is read.
func (d *Device) productItems(worker, item, end int) {
	o := &d.op
	for item < end {
		first := item / o.perChunk * o.chunk
		at := item % o.perChunk
		i, from := o.product(at)
		n := min((o.panels[i]-from+o.group-1)/o.group, end-item)
		d.outputs(worker, o.products[i], from, min(from+n*o.group, o.panels[i]), first, min(o.chunk, o.rows-first))
		item += n
	}
}

// product returns the product that an item of a chunk belongs to, and its first panel.
func (o *operation) product(at int) (i, panel int) {
	for i = maxProducts - 1; o.panels[i] == 0 || o.firsts[i] > at; {
		i--
	}
	return i, (at - o.firsts[i]) * o.group
}

// outputs computes the panels [from, to) for m rows from row first on. The last panel may be wider than the output:
// it goes through scratch memory.
func (d *Device) outputs(worker int, p Product, from, to, first, m int) {
	w := p.W.(*matrix)
	whole := min(to, w.out/kernel.Lanes)
	dst := p.Dst.Host[first*p.Dst.Cols:]
	if whole > from {
		d.panels(worker, dst[from*kernel.Lanes:], p.Dst.Cols, w, from, whole-from, first, m)
	}
	if to > whole {
		edge := d.scratch[worker].edge[:]
		d.panels(worker, edge, kernel.Lanes, w, whole, 1, first, m)
		for r := range m {
			copy(dst[r*p.Dst.Cols+whole*kernel.Lanes:r*p.Dst.Cols+w.out], edge[r*kernel.Lanes:])
		}
	}
	if p.Bias != nil {
		bias := p.Bias.(vector)[from*kernel.Lanes : min(to*kernel.Lanes, w.out)]
		for r := range m {
			addBias(dst[r*p.Dst.Cols+from*kernel.Lanes:], bias)
		}
	}
}

// panels multiplies m rows, from row first of the running product on, with n panels of w.
func (d *Device) panels(worker int, dst []float32, ldd int, w *matrix, from, n, first, m int) {
	for end := from + n; from < end; from += n { // at once, if it is packed
		if n = end - from; w.raw != nil {
			n = min(n, fewPanels)
		}
		d.packedPanels(worker, dst, ldd, w, from, n, first, m)
		dst = dst[min(n*kernel.Lanes, len(dst)):]
	}
}

func (d *Device) packedPanels(worker int, dst []float32, ldd int, w *matrix, from, n, first, m int) {
	src, data := d.op.src, d.packed(worker, w, from, n)
	switch w.rows {
	case blockRows:
		d.k.MatAffine(kernel.AffineProduct{
			Type: w.typ, Dst: dst, Ldd: ldd, X: d.op.quantised.FromTile(first, d.scratch[worker].work), W: data,
			Stride: w.stride, Panels: n, M: m,
		})
	case pairRows:
		x := d.x16.From(first)
		x.Work = d.scratch[worker].sums
		d.k.MatPairs(kernel.PairProduct{
			Dst: dst, Ldd: ldd, X: x, W: kernel.View[uint32](data), Stride: w.stride / 4, Panels: n, M: m,
		})
	default:
		d.plain(dst, ldd, src.Host[first*src.Cols:], src.Cols, w, from, n, m)
	}
}
