package cpu

import (
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
)

// routedRows are a product's rows by route: each row of the batch once for every expert that it goes to.
type routedRows struct {
	x []float32    // [routes, In], for weights of float types
	q kernel.Rows8 // for weights of block types
}

// matMulExperts does compute.MatMulExperts. An item is a chunk of one expert's rows and a group of panels of one
// product.
func (d *Device) matMulExperts(x Tensor, routed bool, t *routes, products []expertProduct) {
	for _, c := range t.chunks { // one with several chunks is packed first
		for _, p := range products {
			d.read(p.W[c.expert].(*matrix))
		}
	}
	for len(products) > 0 {
		n := 0
		for n < min(len(products), maxProducts) && !anyOrder(products[n].W) {
			n++
		}
		if n > 0 {
			d.matmulExperts(x, routed, t, products[:n])
		} else {
			n = 1
			d.orderedExperts(x, routed, t, products[:1])
		}
		products = products[n:]
	}
}

// anyOrder reports whether the inputs of any expert are in an order of their own.
func anyOrder(w []compute.Matrix) bool {
	return slices.ContainsFunc(w, func(m compute.Matrix) bool { return m.(*matrix).order != nil })
}

// orderedExperts does a product with weights whose inputs are in orders of their own, which differ between experts.
func (d *Device) orderedExperts(x Tensor, routed bool, t *routes, product []expertProduct) {
	d.flush()
	o, n := &d.op, d.rows*t.chosen
	*o = operation{src: x, routes: t, experts: product, routed: routed}
	o.panels[0] = product[0].W[0].(*matrix).panels
	d.split(len(t.chunks), kernel.GroupPanels)
	d.roomForQuantised(n, x.Cols)
	d.each(n, d.jobs.quantiseRoute)
	o.quantised = d.xq
	d.each(len(t.chunks)*o.perChunk, d.jobs.expert)
}

func (d *Device) quantiseRoute(worker, i int) {
	o, row := &d.op, i
	if !o.routed {
		row = int(o.routes.from[i])
	}
	d.quantiseTo(worker, i, rowOf(o.src, row), o.experts[0].W[o.routes.expert[i]].(*matrix).order)
}

func (d *Device) matmulExperts(x Tensor, routed bool, t *routes, products []expertProduct) {
	rows := d.rows
	if routed {
		rows *= t.chosen
	}
	o := &d.op
	*o = operation{src: x, routes: t, experts: products}
	var kinds rowKind
	for i, p := range products {
		w := p.W[0].(*matrix)
		o.panels[i] = w.panels
		kinds |= w.rows
	}
	d.split(len(t.chunks), kernel.GroupPanels)
	blocks, floats := kinds&blockRows != 0, kinds&floatRows != 0
	d.prepare(rows, x, kinds&blockRows, products[0].W[0].(*matrix), false)
	o.quantised = d.xq
	o.routed = routed
	if n := d.rows * t.chosen; kinds&pairRows != 0 {
		d.roomForRounded(n, x.Cols)
		d.each(n, d.jobs.roundRoute)
	}
	if !routed && (blocks || floats) {
		d.gatherRoutes(d.rows*t.chosen, x, blocks, floats)
	}
	d.each(len(t.chunks)*o.perChunk, d.jobs.expert)
}

func (d *Device) roundRoute(_, i int) {
	o, row := &d.op, i
	if !o.routed {
		row = int(o.routes.from[i])
	}
	d.roundTo(i, rowOf(o.src, row))
}

// gatherRoutes copies the rows of x, quantised or as they are, to where their routes stand.
func (d *Device) gatherRoutes(n int, x Tensor, blocks, floats bool) {
	r := &d.routed
	r.q.Ld, r.q.Blocks, r.q.LdSums = d.xq.Ld, d.xq.Blocks, d.xq.LdSums
	if blocks {
		r.q.Q, r.q.Sums = kernel.Grown(r.q.Q, n*r.q.Ld), kernel.Grown(r.q.Sums, n*r.q.LdSums)
	}
	if floats {
		r.x = kernel.Grown(r.x, n*x.Cols)
	}
	d.op.blocks, d.op.floats = blocks, floats
	if n <= rowChunk { // not worth waking a thread
		for i := range n {
			d.gatherRoute(0, i)
		}
	} else {
		d.each(n, d.jobs.gather)
	}
	if floats {
		d.op.src.Host = r.x
	}
	d.op.quantised = r.q
}

func (d *Device) gatherRoute(_, i int) {
	o, r, row := &d.op, &d.routed, int(d.op.routes.from[i])
	if o.floats {
		copy(r.x[i*o.src.Cols:][:o.src.Cols], rowOf(o.src, row))
	}
	if o.blocks {
		from, to := d.xq.From(row), r.q.From(i)
		copy(to.Q[:to.Blocks*32], from.Q)
		copy(to.Sums[:to.Spans()], from.Sums)
	}
}

// expertItem computes one group of panels for one chunk of an expert's rows.
func (d *Device) expertItem(worker, item int) {
	o := &d.op
	c := o.routes.chunks[item/o.perChunk]
	i, from := o.product(item % o.perChunk)
	e := &o.experts[i]
	p := Product{Dst: e.Dst, W: e.W[c.expert]}
	if e.Bias != nil {
		p.Bias = e.Bias[c.expert]
	}
	d.outputs(worker, p, from, min(from+o.group, o.panels[i]), c.first, c.rows)
}
