package bench

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/quant"
)

// kernelCase is an operation with its operands.
type kernelCase struct {
	KernelRow
	batch *compute.Batch
	work  Work
	run   func()
}

// kernelBench builds cases on a device and keeps the first fault.
type kernelBench struct {
	dev    *cpu.Device
	size   int // width of matrices and rows
	memory int
	err    error

	periods map[quant.Type]period
}

// time returns the median seconds of a call, after one that warms up.
func (k *kernelBench) time(ctx context.Context, d time.Duration, c kernelCase) float64 {
	k.dev.Begin(c.batch)
	c.run()
	k.keep(k.dev.Sync())
	var calls []float64
	for begin := time.Now(); len(calls) < 1 || time.Since(begin) < d && len(calls) < 1<<16; {
		start := time.Now()
		c.run()
		k.keep(k.dev.Sync())
		calls = append(calls, time.Since(start).Seconds())
		if ctx.Err() != nil {
			k.keep(context.Cause(ctx))
			break
		}
	}
	return median(calls)
}

func (k *kernelBench) keep(err error) {
	if k.err == nil {
		k.err = err
	}
}

// period returns random blocks of a type, made once.
func (k *kernelBench) period(t quant.Type) period {
	if k.periods[t].data == nil {
		var err error
		k.periods[t], err = randomPeriod(t)
		k.keep(err)
	}
	return k.periods[t]
}

func (k *kernelBench) tensor(rows, cols int) compute.Tensor {
	t, err := k.dev.Tensor(rows, cols)
	k.keep(err)
	r := rand.New(rand.NewPCG(3, uint64(cols)))
	for i := range t.Host {
		t.Host[i] = r.Float32() - 0.5
	}
	return t
}

// batchOf returns a batch of seqs sequences of rows rows each that end at length tokens, with blocks of their own.
func batchOf(seqs, rows, length, blockTokens int) *compute.Batch {
	b, blocks := new(compute.Batch), (length+blockTokens-1)/blockTokens
	for s := range seqs {
		table := make([]int32, blocks)
		for i := range table {
			table[i] = int32(s*blocks + i)
		}
		b.Append(make([]int32, rows), length-rows, false, table)
	}
	return b
}

// weightSet is square matrices of one type, to be used one after the other.
type weightSet struct {
	typ   quant.Type
	bytes int // of one
	all   []compute.Matrix
}

func (k *kernelBench) weights(t quant.Type) *weightSet {
	n, err := t.RowBytes(k.size * k.size)
	k.keep(err)
	data := bytes.NewBuffer(make([]byte, 0, n))
	k.keep(k.period(t).repeat(0, n)(data))
	src := compute.Source{Name: "random", Type: t, Out: k.size, In: k.size, Data: data.Bytes()}
	if t == quant.F8_E4M3 {
		src.Group, src.Scales = 128, slices.Repeat([]float32{1}, k.size*k.size/128)
	}
	w := &weightSet{typ: t, bytes: n}
	for total := 0; total < k.memory && k.err == nil; total += n {
		m, err := k.dev.Matrix(src)
		k.keep(err)
		w.all = append(w.all, m)
	}
	return w
}

// product multiplies rows with the matrices.
func (k *kernelBench) product(w *weightSet, rows int) kernelCase {
	x, dst := k.tensor(rows, k.size), k.tensor(rows, k.size)
	next, products := 0, make([]compute.Product, 1)
	return kernelCase{
		KernelRow: KernelRow{Shape: fmt.Sprintf("%dx%d", k.size, k.size)}, batch: batchOf(1, rows, rows, lanes),
		work: product(int64(k.size*k.size), int64(w.bytes), w.typ).rows(float64(rows)),
		run: func() {
			products[0] = compute.Product{Dst: dst, W: w.all[next]}
			k.dev.MatMul(x, products)
			next = (next + 1) % len(w.all)
		},
	}
}

// lanes is a number of tokens that every device takes as a block.
const lanes = 16

// attention is a layer with 32 heads that share 8 of 128: the last rows tokens of each of seqs sequences of a length.
func (k *kernelBench) attention(t quant.Type, seqs, rows, length int) kernelCase {
	const heads, kvHeads, dim = 32, 8, 128
	b := batchOf(seqs, rows, length, lanes)
	spec := compute.CacheSpec{
		Blocks: seqs * ((length + lanes - 1) / lanes), BlockTokens: lanes, Type: t,
		Layers: []compute.CacheLayer{{KVHeads: kvHeads, KDim: dim, VDim: dim}},
	}
	cache, err := k.dev.Cache(spec)
	k.keep(err)
	if k.err != nil {
		return kernelCase{}
	}
	keys, values := k.tensor(seqs*length, kvHeads*dim), k.tensor(seqs*length, kvHeads*dim)
	k.dev.Begin(batchOf(seqs, length, length, lanes))
	k.dev.Store(cache, 0, keys, values)
	q, dst := k.tensor(seqs*rows, heads*dim), k.tensor(seqs*rows, heads*dim)
	seen := 0
	for p := length - rows; p < length; p++ {
		seen += seqs * (p + 1)
	}
	number := float64(t.BlockBytes()) / float64(t.BlockValues())
	return kernelCase{
		KernelRow: KernelRow{Shape: fmt.Sprintf("%d/%d heads of %d over %d", heads, kvHeads, dim, length)}, batch: b,
		work: Work{Bytes: float64(seqs*length) * kvHeads * 2 * dim * number, FloatOps: 4 * float64(seen) * heads * dim},
		run:  func() { k.dev.Attend(dst, q, cache, 0, compute.Attention{Heads: heads, Scale: 0.088}) },
	}
}

func (k *kernelBench) quantise(rows int) kernelCase {
	x := k.tensor(rows, k.size)
	return k.rowCase(rows, 1.25, func() { k.dev.Quantise(x) })
}

func (k *kernelBench) add(rows int) kernelCase {
	x, dst := k.tensor(rows, k.size), k.tensor(rows, k.size)
	return k.rowCase(rows, 3, func() { k.dev.Add(dst, x, 1) })
}

func (k *kernelBench) norm(rows int) kernelCase {
	gain, err := k.dev.Vector(make([]float32, k.size))
	k.keep(err)
	x, dst := k.tensor(rows, k.size), k.tensor(rows, k.size)
	return k.rowCase(rows, 2, func() { k.dev.Norm(dst, x, compute.Norm{Gain: gain, Eps: 1e-5}) })
}

func (k *kernelBench) activate(rows int) kernelCase {
	gate, up, dst := k.tensor(rows, k.size), k.tensor(rows, k.size), k.tensor(rows, k.size)
	return k.rowCase(rows, 3, func() { k.dev.Activate(dst, gate, up, compute.SiLU) })
}

func (k *kernelBench) rotate(rows int) kernelCase {
	const dim = 64
	freqs := make([]float32, dim/2)
	v, err := k.dev.Vector(freqs)
	k.keep(err)
	x, angles := k.tensor(rows, k.size), k.tensor(rows, dim)
	if k.err != nil {
		return kernelCase{}
	}
	k.dev.Begin(batchOf(1, rows, rows, lanes))
	k.dev.Angles(angles, v, nil, 1)
	return k.rowCase(rows, 2, func() { k.dev.Rotate(x, angles, compute.Rotary{Heads: k.size / dim, HeadDim: dim}) })
}

// rowCase is an operation that reads or writes tensors of [rows, size] as often as passes says.
func (k *kernelBench) rowCase(rows int, passes float64, run func()) kernelCase {
	return kernelCase{
		KernelRow: KernelRow{Shape: fmt.Sprintf("%d", k.size)}, batch: batchOf(1, rows, rows, lanes),
		work: Work{Bytes: 4 * passes * float64(rows) * float64(k.size)}, run: run,
	}
}
