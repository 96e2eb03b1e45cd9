package cpu

import (
	"math"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
)

// convChannels is how many channels of a convolution an item takes.
const convChannels = 512

// convolve does compute.Convolve. An item is some channels of a sequence.
func (d *Device) convolve(x Tensor, c compute.Cache, layer int, delta compute.Delta) {
	d.flush()
	d.op = operation{dst: x, cache: c.(*cache), layer: layer, delta: delta}
	for w := range d.scratch {
		d.scratch[w].out = kernel.Grown(d.scratch[w].out, delta.Window*convChannels)
	}
	chunks := (delta.Channels() + convChannels - 1) / convChannels
	d.each(len(d.batch.Seqs)*chunks, d.jobs.convolve)
}

// convolveItem goes from the last row to the first, so that a row's input is there for as long as it is needed.
func (d *Device) convolveItem(worker, item int) {
	delta, channels := &d.op.delta, d.op.delta.Channels()
	chunks := (channels + convChannels - 1) / convChannels
	seq, from := &d.batch.Seqs[item/chunks], item%chunks*convChannels
	n, past := min(convChannels, channels-from), delta.Window-1
	state := d.stateOf(seq)
	before := func(row int) []float32 { // the input of a row of the batch's part of the sequence, or of one before it
		if row < 0 {
			return state[(past+row)*channels+from:][:n]
		}
		return rowOf(d.op.dst, int(seq.Row)+row)[from:][:n]
	}
	if seq.Start == 0 {
		for i := range past {
			clear(before(-1 - i))
		}
	}
	kept := d.scratch[worker].out
	for i := range past {
		copy(kept[i*n:][:n], before(int(seq.Rows)-past+i))
	}
	taps, acc := delta.Taps.(vector), kept[past*n:][:n]
	for row := int(seq.Rows) - 1; row >= 0; row-- {
		clear(acc)
		for t := range delta.Window {
			x, w := before(row-past+t), taps[t*channels+from:][:n]
			for i := range acc {
				acc[i] += float32(w[i] * x[i])
			}
		}
		copy(before(row), acc)
	}
	for i := range past {
		copy(before(i-past), kept[i*n:][:n])
	}
}

// stateOf returns a sequence's state of the running operation's layer.
func (d *Device) stateOf(seq *compute.Seq) []float32 {
	l := &d.op.cache.layers[d.op.layer]
	return l.state[int(seq.State)*l.State:][:l.State]
}

// deltaRule does compute.DeltaRule. An item is a value head of a sequence. Its matrix is kept in panels of 16 values,
// [ValueDim/16][KeyDim][16], so that what it does to a key or a query is a product with a weight.
func (d *Device) deltaRule(dst, qkv, a, b Tensor, c compute.Cache, layer int, delta compute.Delta) {
	d.flush()
	d.op = operation{dst: dst, src: qkv, a: a, b: b, cache: c.(*cache), layer: layer, delta: delta}
	for w := range d.scratch {
		d.scratch[w].q = kernel.Grown(d.scratch[w].q, 2*delta.KeyDim)
		d.scratch[w].out = kernel.Grown(d.scratch[w].out, 2*kernel.Padded(delta.ValueDim))
	}
	d.each(len(d.batch.Seqs)*delta.ValueHeads, d.jobs.delta)
}

func (d *Device) deltaItem(worker, item int) {
	delta, s := &d.op.delta, &d.scratch[worker]
	seq, head := &d.batch.Seqs[item/delta.ValueHeads], item%delta.ValueHeads
	keyHead, keys := head/(delta.ValueHeads/delta.KeyHeads), delta.KeyHeads*delta.KeyDim
	n, pad := delta.ValueDim, kernel.Padded(delta.ValueDim)
	size, panels := delta.KeyDim*pad, pad/kernel.Lanes
	matrix := d.stateOf(seq)[(delta.Window-1)*delta.Channels()+head*size:][:size]
	if seq.Start == 0 {
		clear(matrix)
	}
	q, k := s.q[:delta.KeyDim], s.q[delta.KeyDim:2*delta.KeyDim]
	out, u := s.out[:pad], s.out[pad:2*pad]
	clear(u[n:])
	for r := int(seq.Row); r < int(seq.Row+seq.Rows); r++ {
		row := rowOf(d.op.src, r)
		d.unit(q, row[keyHead*delta.KeyDim:], float32(1/math.Sqrt(float64(delta.KeyDim))))
		d.unit(k, row[keys+keyHead*delta.KeyDim:], 1)
		v := row[2*keys+head*n:][:n]
		gain := softplus(rowOf(d.op.a, r)[head]+delta.Bias.(vector)[head]) * delta.Decay.(vector)[head]
		decay, beta := kernel.Exp(gain), activate(rowOf(d.op.b, r)[head], compute.Sigmoid)
		d.k.MatF32(kernel.Product[float32]{
			Dst: out, Ldd: pad, X: k, Ldx: len(k),
			W: matrix, Stride: len(k) * kernel.Lanes, Panels: panels, M: 1, K: len(k),
		})
		for j, x := range v {
			u[j] = beta * (x - float32(decay*out[j]))
		}
		d.k.DecayAdd(matrix, k, u, decay)
		d.k.MatF32(kernel.Product[float32]{
			Dst: out, Ldd: pad, X: q, Ldx: len(q),
			W: matrix, Stride: len(q) * kernel.Lanes, Panels: panels, M: 1, K: len(q),
		})
		copy(rowOf(d.op.dst, r)[head*n:][:n], out)
	}
}

// unit writes scale·x/|x| to dst.
func (d *Device) unit(dst, x []float32, scale float32) {
	const eps = 1e-6
	x = x[:len(dst)]
	scale *= float32(1 / math.Sqrt(float64(d.k.SumSquares(x, 0)+eps)))
	for i, v := range x {
		dst[i] = v * scale
	}
}

// softplus returns log(1 + exp(x)), which is x to the last bit where x is large.
func softplus(x float32) float32 {
	if x > 20 {
		return x
	}
	return float32(math.Log1p(float64(kernel.Exp(x))))
}
