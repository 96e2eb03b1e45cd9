package bench

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/quant"
)

// KernelRow is the speed of one operation with one implementation. The rates are those of the Work that the operation cannot
// do without; the share is the floor of that work over the time it took, at the peaks of the implementation's own
// instructions.
type KernelRow struct {
	Kernels   string  `json:"kernels"` // the implementation
	Kernel    string  `json:"kernel"`  // the operation
	Type      string  `json:"type"`    // of the weights, or of what it reads
	Shape     string  `json:"shape"`
	Rows      int     `json:"rows"`
	Threads   int     `json:"threads"`
	Bandwidth float64 `json:"gb_per_second"`
	Rate      float64 `json:"gop_per_second"`
	Share     float64 `json:"share"`
}

// KernelOptions say which kernels are measured, and how.
type KernelOptions struct {
	Device cpu.Options    // Kernels is one implementation, or "" for all of the machine
	Filter *regexp.Regexp // of "kernels/kernel/type/rows"; nil is all
	Time   time.Duration  // spent on each
	Size   int            // width of rows, and of square matrices; a multiple of 64
	Memory int            // bytes of weights that products go through in turn; more than caches hold measures memory
}

// kernelCase is an operation with its operands.
type kernelCase struct {
	KernelRow
	batch *compute.Batch
	work  Work
	run   func()
}

// Kernels measures the operations of every implementation on data that comes from memory: products of each weight type,
// attention, and the operations on rows. found hears of each implementation's peaks and then of its rows.
func Kernels(ctx context.Context, o KernelOptions, found func(name string, p cpu.Peaks, row *KernelRow)) error {
	if o.Device.Threads == 0 {
		o.Device.Threads = runtime.GOMAXPROCS(0)
	}
	if o.Size < 64 || o.Size%64 != 0 || o.Size > 1<<15 || o.Memory < 0 {
		return fmt.Errorf("bench: kernels of size %d and %d bytes of memory; want a multiple of 64 up to %d, and at least 0 bytes", o.Size, o.Memory, 1<<15)
	}
	names := cpu.Kernels()
	if o.Device.Kernels != "" {
		names = []string{o.Device.Kernels}
	}
	for _, name := range names {
		o.Device.Kernels = name
		peaks, err := cpu.MeasurePeaks(o.Device)
		if err != nil {
			return err
		}
		found(name, peaks, nil)
		if err := o.measure(ctx, peaks, func(row *KernelRow) { found(name, peaks, row) }); err != nil {
			return fmt.Errorf("bench: kernels %s: %w", name, err)
		}
	}
	return nil
}

// measure runs all cases with one implementation. Each case is built when its turn comes, and forgotten after it.
func (o KernelOptions) measure(ctx context.Context, peaks cpu.Peaks, found func(*KernelRow)) error {
	dev, err := cpu.New(o.Device)
	if err != nil {
		return err
	}
	defer dev.Close()
	k := kernelBench{dev: dev, size: o.Size, memory: max(o.Memory, 1), periods: map[quant.Type]period{}}
	measure := func(kernel, typ string, rows int, build func(rows int) kernelCase) {
		label := fmt.Sprintf("%s/%s/%s/%d", o.Device.Kernels, kernel, typ, rows)
		if k.err != nil || o.Filter != nil && !o.Filter.MatchString(label) {
			return
		}
		c := build(rows)
		if k.err != nil {
			return
		}
		c.Kernels, c.Kernel, c.Type, c.Rows, c.Threads = o.Device.Kernels, kernel, typ, rows, o.Device.Threads
		seconds := k.time(ctx, o.Time, c)
		c.Bandwidth, c.Rate = c.work.Bytes/seconds/1e9, (c.work.FloatOps+c.work.ByteOps)/seconds/1e9
		c.Share = c.work.Floor(peaks) / seconds
		if k.err == nil {
			found(&c.KernelRow)
		}
	}
	for _, t := range []quant.Type{quant.F32, quant.F16, quant.BF16, quant.Q8_0, quant.Q4_0} {
		for _, rows := range []int{1, 8, 64} {
			measure("matmul", t.String(), rows, func(rows int) kernelCase { return k.product(t, rows) })
		}
	}
	measure("attend", "decode", 8, k.attention)
	measure("attend", "prefill", 256, k.attention)
	measure("norm", "F32", k.size, k.norm)
	measure("activate", "F32", k.size, k.activate)
	measure("rotate", "F32", k.size, k.rotate)
	return k.err
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
	var calls []float64
	for begin := time.Now(); len(calls) < 3 || time.Since(begin) < d && len(calls) < 1<<16; {
		start := time.Now()
		c.run()
		calls = append(calls, time.Since(start).Seconds())
		if ctx.Err() != nil {
			k.keep(context.Cause(ctx))
			break
		}
	}
	k.keep(k.dev.Sync())
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

// product multiplies rows with square matrices, one after the other.
func (k *kernelBench) product(t quant.Type, rows int) kernelCase {
	n, err := t.RowBytes(k.size * k.size)
	k.keep(err)
	data := bytes.NewBuffer(make([]byte, 0, n))
	k.keep(k.period(t).repeat(0, n)(data))
	x, dst := k.tensor(rows, k.size), k.tensor(rows, k.size)
	var products [][]compute.Product
	for total := 0; total < k.memory && k.err == nil; total += n {
		w, err := k.dev.Matrix(compute.Source{Name: "random", Type: t, Out: k.size, In: k.size, Data: data.Bytes()})
		k.keep(err)
		products = append(products, []compute.Product{{Dst: dst, W: w}})
	}
	work := Work{Bytes: float64(n)}
	if ops := 2 * float64(rows) * float64(k.size) * float64(k.size); t.BlockValues() > 1 {
		work.ByteOps = ops
	} else {
		work.FloatOps = ops
	}
	next := 0
	return kernelCase{
		KernelRow: KernelRow{Shape: fmt.Sprintf("%dx%d", k.size, k.size)}, batch: batchOf(1, rows, rows, lanes), work: work,
		run: func() {
			k.dev.MatMul(x, products[next])
			next = (next + 1) % len(products)
		},
	}
}

// lanes is a number of tokens that every device takes as a block.
const lanes = 16

// attention is a layer with 32 heads that share 8 of 128: rows sequences decode after k.size tokens each, or, from 256 rows
// on, one sequence computes as many tokens of its prompt after as many others.
func (k *kernelBench) attention(rows int) kernelCase {
	const heads, kvHeads, dim = 32, 8, 128
	seqs, each, length := rows, 1, k.size
	if rows >= 256 {
		seqs, each, length = 1, rows, 2*rows
	}
	b := batchOf(seqs, each, length, lanes)
	spec := compute.CacheSpec{Blocks: seqs * ((length + lanes - 1) / lanes), BlockTokens: lanes, Layers: []compute.CacheLayer{{KVHeads: kvHeads, KDim: dim, VDim: dim}}}
	cache, err := k.dev.Cache(spec)
	k.keep(err)
	if k.err != nil {
		return kernelCase{}
	}
	keys, values := k.tensor(seqs*length, kvHeads*dim), k.tensor(seqs*length, kvHeads*dim)
	k.dev.Begin(batchOf(seqs, length, length, lanes))
	k.dev.Store(cache, 0, keys, values)
	q, dst := k.tensor(rows, heads*dim), k.tensor(rows, heads*dim)
	seen := 0
	for p := length - each; p < length; p++ {
		seen += seqs * (p + 1)
	}
	return kernelCase{
		KernelRow: KernelRow{Shape: fmt.Sprintf("%d/%d heads of %d over %d", heads, kvHeads, dim, length)}, batch: b,
		work: Work{Bytes: float64(seqs*length) * kvHeads * 2 * dim * 4, FloatOps: 4 * float64(seen) * heads * dim},
		run:  func() { k.dev.Attend(dst, q, cache, 0, compute.Attention{Heads: heads, Scale: 0.088}) },
	}
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
func (k *kernelBench) rowCase(rows, passes int, run func()) kernelCase {
	return kernelCase{
		KernelRow: KernelRow{Shape: fmt.Sprintf("%d", k.size)}, batch: batchOf(1, rows, rows, lanes),
		work: Work{Bytes: 4 * float64(passes) * float64(rows) * float64(k.size)}, run: run,
	}
}
