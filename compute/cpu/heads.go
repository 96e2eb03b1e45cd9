package cpu

import (
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
)

// matMulHeads does compute.MatMulHeads. An item is a chunk of rows and a head; the heads of a row are rows of src.
func (d *Device) matMulHeads(dst, x Tensor, w []compute.Matrix) {
	rows, heads, m := d.rows, len(w), w[0].(*matrix)
	for _, w := range w {
		d.read(w.(*matrix))
	}
	src := Tensor{Rows: rows * heads, Cols: x.Cols / heads, Host: x.Host}
	d.op = operation{rows: rows, dst: dst, src: src, heads: w}
	d.prepare(src.Rows, src, m.rows, m, false)
	d.each((rows+rowChunk-1)/rowChunk*heads, d.jobs.heads)
}

func (d *Device) headsItem(worker, item int) {
	o, heads := &d.op, len(d.op.heads)
	head, row := item%heads, item/heads*rowChunk
	w, m, first := o.heads[head].(*matrix), min(rowChunk, o.rows-row), row*heads+head
	size, ldd, whole := o.dst.Cols/heads, o.dst.Cols, w.out/kernel.Lanes
	dst := o.dst.Host[row*ldd+head*size:]
	if whole > 0 {
		d.headPanels(worker, dst, ldd, w, 0, whole, first, m)
	}
	if whole < w.panels {
		edge := d.scratch[worker].edge[:]
		d.headPanels(worker, edge, kernel.Lanes, w, whole, 1, first, m)
		for r := range m {
			copy(dst[r*ldd+whole*kernel.Lanes:r*ldd+w.out], edge[r*kernel.Lanes:])
		}
	}
	for r := range m {
		copy(dst[r*ldd+w.out:r*ldd+size], rowOf(o.src, first+r*heads)[w.in:])
	}
}

// headPanels multiplies m rows of one head, from row first of src on, with n panels of w.
func (d *Device) headPanels(worker int, dst []float32, ldd int, w *matrix, from, n, first, m int) {
	src, heads, data := d.op.src, len(d.op.heads), d.packed(worker, w, from, n)
	switch w.rows {
	case blockRows:
		q := d.xq.From(first)
		q.Ld, q.LdSums = heads*q.Ld, heads*q.LdSums
		d.k.MatAffine(kernel.AffineProduct{
			Type: w.typ, Dst: dst, Ldd: ldd, X: q, W: data, Stride: w.stride, Panels: n, M: m,
		})
	case pairRows:
		x := d.x16.From(first)
		x.Ld *= heads
		d.k.MatPairs(kernel.PairProduct{
			Dst: dst, Ldd: ldd, X: x, W: kernel.View[uint32](data), Stride: w.stride / 4, Panels: n, M: m,
		})
	default:
		d.plain(dst, ldd, src.Host[first*src.Cols:], heads*src.Cols, w, from, n, m)
	}
}
