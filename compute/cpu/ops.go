package cpu

import (
	"math"
	"sort"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
)

// operation holds the arguments of the running operation. Jobs are methods that read it, so that nothing is allocated
// for a call.
type operation struct {
	rows           int
	dst, src       Tensor
	scale, cap     float32
	cache          *cache
	layer          int
	attn           compute.Attention
	delta          compute.Delta
	a, b           Tensor
	heads          []compute.Matrix
	products       []Product
	experts        []expertProduct
	routes         *routes
	routed         bool             // whether src has a row for each route
	blocks, floats bool             // how the rows of src are gathered by route
	quantised      kernel.Rows8     // the rows of src, for products that want them so
	panels         [maxProducts]int // of each product, 0 for no product
	firsts         [maxProducts]int // first item of each product within a chunk of rows
	group          int              // panels that one item takes
	chunk          int              // rows that one item takes
	perChunk       int              // items of one chunk of rows
}

// embed does compute.Embed.
func (d *Device) embed(dst Tensor, table compute.Matrix, scale float32) {
	d.wait(rowOp{row: embedRow, dst: dst, table: table.(*matrix), scale: scale})
}

func embedRow(d *Device, o *rowOp, worker, r int) {
	row := rowOf(o.dst, r)
	d.row(worker, row, o.table, int(d.batch.IDs[r]))
	if s := o.scale; s != 1 {
		for i := range row {
			row[i] *= s
		}
	}
}

// addPositions does compute.AddPositions.
func (d *Device) addPositions(dst Tensor, table compute.Matrix) {
	for w := range d.scratch {
		d.scratch[w].out = kernel.Grown(d.scratch[w].out, dst.Cols)
	}
	d.wait(rowOp{row: positionsRow, dst: dst, table: table.(*matrix)})
}

func positionsRow(d *Device, o *rowOp, worker, r int) {
	position := d.scratch[worker].out[:o.dst.Cols]
	d.row(worker, position, o.table, int(d.batch.Pos[r]))
	addBias(rowOf(o.dst, r), position)
}

// addTypes does compute.AddTypes.
func (d *Device) addTypes(dst Tensor, table compute.Matrix) {
	for w := range d.scratch {
		d.scratch[w].out = kernel.Grown(d.scratch[w].out, dst.Cols)
	}
	d.wait(rowOp{row: typesRow, dst: dst, table: table.(*matrix)})
}

func typesRow(d *Device, o *rowOp, worker, r int) {
	kind := d.scratch[worker].out[:o.dst.Cols]
	if t := d.batch.Types; len(t) > 0 {
		d.row(worker, kind, o.table, int(t[r]))
	} else {
		d.row(worker, kind, o.table, 0)
	}
	addBias(rowOf(o.dst, r), kind)
}

// norm does compute.Normalize.
func (d *Device) norm(dst, src Tensor, n compute.Norm) {
	d.wait(rowOp{row: normRow, dst: dst, src: src, norm: n})
}

func normRow(d *Device, o *rowOp, _, r int) {
	n := &o.norm
	gains := n.Gain.(vector)
	size := n.Group
	if size == 0 {
		size = len(gains)
	}
	x, y := rowOf(o.src, r), rowOf(o.dst, r)
	if n.Width > 0 {
		x = x[:n.Width]
	}
	for at := 0; at < len(x); at += size {
		in, out, from := x[at:][:size], y[at:][:size], at%len(gains)
		mean := float32(0)
		if n.Center {
			mean = kernel.Sum(in) / float32(size)
		}
		variance := d.k.SumSquares(in, mean) / float32(size)
		d.k.ScaleGain(out, in, gains[from:][:size], mean, float32(1/math.Sqrt(float64(variance+n.Eps))))
		if n.Bias != nil {
			addBias(out, n.Bias.(vector)[from:][:size])
		}
	}
}

// clamp does compute.Clamp.
func (d *Device) clamp(x Tensor, limit float32) {
	d.wait(rowOp{row: clampRow, dst: x, cap: limit})
}

func clampRow(d *Device, o *rowOp, _, r int) {
	row, limit := rowOf(o.dst, r), o.cap
	for i, v := range row {
		row[i] = min(max(v, -limit), limit)
	}
}

func addBias(x []float32, bias vector) {
	for i, b := range bias {
		x[i] += b
	}
}

// angles does compute.Angles. An angle is the float32 product of position and frequency, as in the models' own
// code; its sine and cosine are taken in float64.
func (d *Device) angles(dst Tensor, freqs, long compute.Vector, scale float32) {
	o := rowOp{row: anglesRow, dst: dst, freqs: freqs.(vector), scale: scale}
	if long != nil {
		o.long = long.(vector)
	}
	d.wait(o)
}

func anglesRow(d *Device, o *rowOp, _, r int) {
	row, n, pos, freqs := rowOf(o.dst, r), len(o.freqs), float32(d.batch.Pos[r]), o.freqs
	if o.long != nil {
		after := sort.Search(len(d.batch.Seqs), func(i int) bool { return int(d.batch.Seqs[i].Row) > r })
		if d.batch.Seqs[after-1].Long {
			freqs = o.long
		}
	}
	for i, f := range freqs {
		sin, cos := math.Sincos(float64(pos * f))
		row[i], row[n+i] = float32(cos)*o.scale, float32(sin)*o.scale
	}
}

// rotate does compute.Rotate.
func (d *Device) rotate(x, angles Tensor, r compute.Rotary) {
	d.wait(rowOp{row: rotateRow, dst: x, aux: angles, rotary: r})
}

func rotateRow(d *Device, o *rowOp, _, r int) {
	x, angles, rot := rowOf(o.dst, r), rowOf(o.aux, r), o.rotary
	n := len(angles) / 2
	cos, sin := angles[:n], angles[n:]
	for h := range rot.Heads {
		if head := x[h*rot.HeadDim+rot.Skip:][:2*n]; rot.Interleaved {
			d.k.RotateInterleaved(head, cos, sin)
		} else {
			d.k.Rotate(head[:n], head[n:], cos, sin)
		}
	}
}

// activate does compute.Activate.
func (d *Device) activate(dst, gate, up Tensor, act compute.Activation) {
	d.wait(rowOp{row: activateRow, dst: dst, src: gate, aux: up, act: act})
}

func activateRow(d *Device, o *rowOp, _, r int) {
	dst, gate := rowOf(o.dst, r), rowOf(o.src, r)
	var up []float32
	if o.aux.Host != nil {
		up = rowOf(o.aux, r)
	}
	if o.act == compute.SwiGLUClamped {
		clampSwiGLU(gate, up)
	}
	if (o.act == compute.SiLU || o.act == compute.SwiGLUClamped) && up != nil {
		d.k.Silu(dst, gate, up)
		return
	}
	for i, g := range gate {
		v := activate(g, o.act)
		if up != nil {
			v *= up[i]
		}
		dst[i] = v
	}
}

// clampSwiGLU prepares gate and up for silu: g·sigmoid(1.702g)·(u + 1) is silu(1.702g)·((u + 1) / 1.702).
func clampSwiGLU(gate, up []float32) {
	const limit, alpha = 7, 1.702
	for i, g := range gate {
		gate[i] = min(g, limit) * alpha
		up[i] = (min(max(up[i], -limit), limit) + 1) * (1 / float32(alpha))
	}
}

// activate applies one activation to one value.
func activate(x float32, act compute.Activation) float32 {
	switch act {
	case compute.GELUTanh:
		return 0.5 * x * (1 + kernel.Tanh(float32(0.7978845608028654)*kernel.FMA(0.044715, x*x*x, x)))
	case compute.GELU:
		return float32(0.5 * float64(x) * (1 + math.Erf(float64(x)*math.Sqrt2/2)))
	case compute.ReLU:
		return max(x, 0)
	case compute.Sigmoid:
		return 1 / (1 + kernel.Exp(-x))
	}
	return x / (1 + kernel.Exp(-x))
}

// add does compute.Add.
func (d *Device) add(dst, src Tensor, scale float32) {
	d.wait(rowOp{row: addRow, dst: dst, src: src, scale: scale})
}

func addRow(d *Device, o *rowOp, _, r int) {
	d.k.AddScaled(rowOf(o.dst, r), rowOf(o.src, r), o.scale)
}

// gather does compute.Gather. Where dst is src, rows ascend: what a row overwrites has been copied.
func (d *Device) gather(dst, src Tensor, rows []int32) {
	d.flush()
	for i, r := range rows {
		copy(rowOf(dst, i), rowOf(src, int(r)))
	}
}
