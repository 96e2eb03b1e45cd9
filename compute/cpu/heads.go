package cpu

import "github.com/kvasir-llm/kvasir/compute"

// MatMulHeads implements compute.Device. An item is a chunk of rows and a head; the heads of a row are rows of src.
func (d *Device) MatMulHeads(dst, x compute.Tensor, w []compute.Matrix) {
	rows, heads, m := d.batch.Rows(), len(w), w[0].(*matrix)
	src := compute.Tensor{Rows: rows * heads, Cols: x.Cols / heads, Host: x.Host}
	d.op = operation{rows: rows, dst: dst, src: src, heads: w}
	d.prepare(src.Rows, src, m.rows, m, false)
	d.each((rows+rowChunk-1)/rowChunk*heads, d.jobs.heads)
}

func (d *Device) headsItem(worker, item int) {
	o, heads := &d.op, len(d.op.heads)
	head, row := item%heads, item/heads*rowChunk
	w, m, first := o.heads[head].(*matrix), min(rowChunk, o.rows-row), row*heads+head
	size, ldd, whole := o.dst.Cols/heads, o.dst.Cols, w.out/lanes
	dst := o.dst.Host[row*ldd+head*size:]
	if whole > 0 {
		d.headPanels(dst, ldd, w, 0, whole, first, m)
	}
	if whole < w.panels {
		edge := d.scratch[worker].edge[:]
		d.headPanels(edge, lanes, w, whole, 1, first, m)
		for r := range m {
			copy(dst[r*ldd+whole*lanes:r*ldd+w.out], edge[r*lanes:])
		}
	}
	for r := range m {
		copy(dst[r*ldd+w.out:r*ldd+size], rowOf(o.src, first+r*heads)[w.in:])
	}
}

// headPanels multiplies m rows of one head, from row first of src on, with n panels of w.
func (d *Device) headPanels(dst []float32, ldd int, w *matrix, from, n, first, m int) {
	src, heads, data := d.op.src, len(d.op.heads), w.data[from*w.stride:(from+n)*w.stride]
	switch w.rows {
	case blockRows:
		q := d.xq.from(first)
		q.ld, q.lds = heads*q.ld, heads*q.lds
		d.k.matAffine(w.typ, dst, ldd, q, data, w.stride, n, m)
	case pairRows:
		x := d.x16.from(first)
		x.ld *= heads
		d.k.matPairs(dst, ldd, x, view[uint32](data), w.stride/4, n, m)
	default:
		d.k.plain(dst, ldd, src.Host[first*src.Cols:], heads*src.Cols, w, from, n, m)
	}
}
