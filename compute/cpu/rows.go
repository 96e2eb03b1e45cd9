package cpu

import (
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
)

// rowOp is an operation in which no row depends on another one, with its arguments. It waits until an operation of
// another kind is called. One job then takes each row through all that wait, while it is in the first cache. Row r of
// one operation is row r of the next, so tensors that share memory have the same width in all that wait.
type rowOp struct {
	row func(d *Device, o *rowOp, worker, r int) // does it to row r

	dst, src, aux, gate Tensor
	table               *matrix
	scale, cap          float32
	norm                compute.Norm
	freqs, long         vector
	rotary              compute.Rotary
	act                 compute.Activation
	routes              *routes
	router              compute.Router
	cache               *cache
	layer               int
	order               []int32 // of the products' inputs
}

// mostWaiting is how many operations wait at most.
const mostWaiting = 16

// rowsAtOnce is how many rows a worker takes at once, at most.
const rowsAtOnce = 8

// wait keeps an operation on the batch's rows until flush.
func (d *Device) wait(o rowOp) {
	if len(d.waiting) == mostWaiting {
		d.flush()
	}
	d.waiting = append(d.waiting, o)
}

// flush does what waits.
func (d *Device) flush() { d.flushRows(d.rows) }

func (d *Device) flushRows(n int) {
	if len(d.waiting) > 0 {
		d.spread(n, rowsAtOnce, d.jobs.rows)
		d.waiting = d.waiting[:0]
	}
}

func (d *Device) rowItems(worker, from, to int) {
	for r := from; r < to; r++ {
		for i := range d.waiting {
			o := &d.waiting[i]
			o.row(d, o, worker, r)
		}
	}
}

// prepare does what waits and makes of rows of x what products with weights of some kinds read: m is one of them, and
// tiles says whether they may take tiles.
func (d *Device) prepare(rows int, x Tensor, kinds rowKind, m *matrix, tiles bool) {
	if rows != d.rows {
		d.flush()
	}
	if kinds&blockRows != 0 {
		if d.roomForQuantised(rows, m.in); tiles && d.k.TileRows > 0 && rows >= d.k.TileRows {
			d.roomForTiles(rows)
			for w := range d.scratch {
				if s := &d.scratch[w]; s.work == nil {
					s.work = aligned(kernel.WorkBytes)
				}
			}
		}
		d.wait(rowOp{row: quantiseRow, src: x, order: m.order})
	}
	if kinds&pairRows != 0 {
		d.roomForRounded(rows, m.in)
		d.wait(rowOp{row: roundRow, src: x})
	}
	d.flushRows(rows)
}
