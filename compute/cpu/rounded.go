package cpu

import "github.com/kvasir-llm/kvasir/compute/kernel"

// roomForRounded shapes x16. The distances of its rows are odd numbers of cache lines, so that rows do not share sets
// of the first cache.
func (d *Device) roomForRounded(rows, cols int) {
	x := &d.x16
	x.Cols, x.Blocks = cols, (cols+31)/32
	if d.k.Pairs == kernel.PairFloats {
		x.Ld = x.Blocks*32 + kernel.Lanes
		x.X = kernel.Grown(x.X, rows*x.Ld)
		return
	}
	x.Ld = (x.Blocks | 1) * 32
	if n := rows * x.Ld; cap(x.Half) < n {
		x.Half = kernel.View[uint16](aligned(2 * max(n+n/2, hugePage)))[:n]
	} else {
		x.Half = x.Half[:n]
	}
	if d.k.Pairs != kernel.PairTiles {
		return
	}
	for w := range d.scratch {
		if s := &d.scratch[w]; s.sums == nil {
			s.sums = kernel.View[float32](aligned(kernel.PairPanels * d.k.PairChunk * kernel.Lanes * 4))
		}
	}
}

func roundRow(d *Device, o *rowOp, _, r int) { d.roundTo(r, rowOf(o.src, r)) }

// roundTo rounds a row to row r of x16.
func (d *Device) roundTo(r int, row []float32) {
	x := d.x16.From(r)
	row = row[:x.Cols]
	if d.k.Pairs == kernel.PairFloats {
		d.k.Round(x.X, row)
		clear(x.X[x.Cols : x.Blocks*32])
	} else {
		d.k.Narrow(x.Half[:x.Blocks*32], row)
	}
}
