package cpu

import (
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/quant"
)

// adaption is the work of the adapters in a batch: rows that share an adapter are computed together, wherever they
// stand.
type adaption struct {
	rows   []int32 // of sequences with an adapter, by adapter and then ascending
	groups []group // of rows

	products []Product
	x        Tensor
	y        []float32 // [products, rows, ldy] the rows times each product's A
	ldy      int
	shrinks  []share
	expands  []share
	scratch  [][]float32 // of each worker
}

// group is the rows [from, to) of adaption.rows, which belong to one adapter.
type group struct{ adapter, from, to int32 }

// share is an item: some rows of a group times some panels of a matrix of its adapter.
type share struct{ product, adapter, from, to, panel, panels int32 }

// expandPanels is how many panels of a B one item takes, at most.
const expandPanels = 8

// group sorts the batch's rows by adapter.
func (a *adaption) group(b *compute.Batch) {
	a.rows, a.groups = a.rows[:0], a.groups[:0]
	for id := int32(0); ; {
		next := int32(0)
		for i := range b.Seqs {
			if n := b.Seqs[i].Adapter; n > id && (next == 0 || n < next) {
				next = n
			}
		}
		if next == 0 {
			return
		}
		id = next
		from := int32(len(a.rows))
		for i := range b.Seqs {
			if s := &b.Seqs[i]; s.Adapter == id {
				for r := s.Row; r < s.Row+s.Rows; r++ {
					a.rows = append(a.rows, r)
				}
			}
		}
		a.groups = append(a.groups, group{id, from, int32(len(a.rows))})
	}
}

// adapt adds the adapters' parts to products of x: first each row times its A, then that times its B.
func (d *Device) adapt(x Tensor, products []Product) {
	a := &d.lora
	a.products, a.x, a.ldy = products, x, 0
	a.shrinks, a.expands = a.shrinks[:0], a.expands[:0]
	for i := range products {
		if products[i].Adapters == nil {
			continue
		}
		for _, g := range a.groups {
			if low := &products[i].Adapters[g.adapter]; low.A != nil {
				a.plan(int32(i), g, low)
			}
		}
	}
	if len(a.shrinks) == 0 {
		return
	}
	a.y = kernel.Grown(a.y, len(products)*len(a.rows)*a.ldy)
	a.scratch = kernel.Grown(a.scratch, len(d.scratch))
	for i := range a.scratch {
		a.scratch[i] = kernel.Grown(a.scratch[i], rowChunk*max(x.Cols, expandPanels*kernel.Lanes))
	}
	d.each(len(a.shrinks), d.jobs.shrink)
	d.each(len(a.expands), d.jobs.expand)
}

// plan adds the items of one product for the rows of one group.
func (a *adaption) plan(product int32, g group, low *compute.LowRank) {
	down, up := int32(low.A.(*matrix).panels), int32(low.B.(*matrix).panels)
	a.ldy = max(a.ldy, int(down)*kernel.Lanes)
	for from := g.from; from < g.to; from += rowChunk {
		to := min(from+rowChunk, g.to)
		a.shrinks = append(a.shrinks, share{product, g.adapter, from, to, 0, down})
		for p := int32(0); p < up; p += expandPanels {
			a.expands = append(a.expands, share{product, g.adapter, from, to, p, min(expandPanels, up-p)})
		}
	}
}

// low returns an item's adapter, and where its rows' products with A are.
func (a *adaption) low(s *share) (*compute.LowRank, []float32) {
	return &a.products[s.product].Adapters[s.adapter], a.y[(int(s.product)*len(a.rows)+int(s.from))*a.ldy:]
}

// shrinkItem multiplies rows with an A. Rows that do not follow one another are copied together.
func (d *Device) shrinkItem(worker, item int) {
	a := &d.lora
	s := &a.shrinks[item]
	low, y := a.low(s)
	rows := a.rows[s.from:s.to]
	x, ldx := a.x.Host[int(rows[0])*a.x.Cols:], a.x.Cols
	if rows[len(rows)-1]-rows[0] != int32(len(rows)-1) {
		x = a.scratch[worker]
		for i, r := range rows {
			copy(x[i*ldx:], rowOf(a.x, int(r)))
		}
	}
	d.plain(y, a.ldy, x, ldx, low.A.(*matrix), int(s.panel), int(s.panels), len(rows))
}

// expandItem multiplies what shrinkItem left with some panels of a B and adds it to the output.
func (d *Device) expandItem(worker, item int) {
	a := &d.lora
	s := &a.expands[item]
	low, y := a.low(s)
	b, rows, z := low.B.(*matrix), a.rows[s.from:s.to], a.scratch[worker]
	width := int(s.panels) * kernel.Lanes
	d.plain(z, width, y, a.ldy, b, int(s.panel), int(s.panels), len(rows))
	first := int(s.panel) * kernel.Lanes
	for i, r := range rows {
		out := rowOf(a.products[s.product].Dst, int(r))[first:min(first+width, b.out)]
		d.k.AddScaled(out, z[i*width:][:len(out)], low.Scale)
	}
}

// plain multiplies m rows of x with n panels of a weight that is not of a block type.
func (d *Device) plain(dst []float32, ldd int, x []float32, ldx int, w *matrix, from, n, m int) {
	data := w.data[from*w.stride : (from+n)*w.stride]
	switch w.typ {
	case quant.F32:
		d.k.MatF32(kernel.Product[float32]{
			Dst: dst, Ldd: ldd, X: x, Ldx: ldx,
			W: kernel.View[float32](data), Stride: w.stride / 4, Panels: n, M: m, K: w.in,
		})
	case quant.F16:
		d.k.MatF16(kernel.Product[uint16]{
			Dst: dst, Ldd: ldd, X: x, Ldx: ldx,
			W: kernel.View[uint16](data), Stride: w.stride / 2, Panels: n, M: m, K: w.in,
		})
	case quant.BF16:
		d.k.MatBF16(kernel.Product[uint16]{
			Dst: dst, Ldd: ldd, X: x, Ldx: ldx,
			W: kernel.View[uint16](data), Stride: w.stride / 2, Panels: n, M: m, K: w.in,
		})
	case quant.F8_E4M3:
		d.matF8(dst, ldd, x, ldx, w, from, n, m)
	}
}
