package bench

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// refusal is an error of a device that does not take a type or an operation.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// refused marks an error, if there is one, as the device's refusal.
func refused(err error) error {
	if err != nil {
		return refusal{err}
	}
	return nil
}

// kernelBench builds cases on a device and times them.
type kernelBench struct {
	dev     compute.Device
	size    int // width of matrices and rows
	memory  int // bytes of operands that a case goes through
	periods map[quant.Type][]byte

	cache   compute.Cache    // of cases that need none
	taps    bool             // the device takes a compute.Tap
	inputs  map[int]inputs   // by width, if it does not
	weights []compute.Matrix // of the type that the group's products have
}

// inputs are what rows of a width are made of.
type inputs struct {
	table compute.Matrix
	gain  compute.Vector
}

func newKernelBench(dev compute.Device, size, memory int, periods map[quant.Type][]byte) (*kernelBench, error) {
	k := &kernelBench{dev: dev, size: size, memory: memory, periods: periods, inputs: map[int]inputs{}}
	var err error
	if k.cache, err = dev.Cache(cacheSpec(dev.KVTypes()[0], 1, maxRows, 1, compute.CacheLayer{KVHeads: 1, KDim: 64, VDim: 64})); err != nil {
		return nil, err
	}
	var g compute.Graph
	x := g.Buffer(size, compute.AllRows)
	g.Add(compute.Tap{X: x, F: func(int, func(int) []float32) {}})
	if p, err := dev.Compile(&g, k.cache, compute.Limits{Rows: 1, Slots: 1}); err == nil {
		k.taps = true
		return k, p.Close()
	}
	for _, width := range []int{size, attentionHeads * attentionDim} {
		gain := slices.Repeat([]float32{1}, width)
		table, errT := randomTable(dev, width)
		norm, errN := dev.Vector(gain)
		if err := errors.Join(errT, errN); err != nil {
			return nil, err
		}
		k.inputs[width] = inputs{table, norm}
	}
	return k, nil
}

// operand adds a buffer of random numbers. Where the host can write to it, the first step does. Elsewhere each step
// fills it if fill is set, as models do, with normalised embeddings; else it holds what the device left there.
func (k *kernelBench) operand(g *compute.Graph, cols int, fill bool) compute.Tensor {
	t := g.Buffer(cols, compute.AllRows)
	switch {
	case k.taps:
		filled := false
		g.Add(compute.Tap{X: t, F: func(rows int, row func(int) []float32) {
			for r := 0; r < rows && !filled; r++ {
				for i, v := 0, row(r); i < len(v); i++ {
					v[i] = float32((r*31+i*17)%1024)/1024 - 0.5
				}
			}
			filled = true
		}})
	case fill:
		in, embedded := k.inputs[cols], g.Buffer(cols, compute.AllRows)
		g.Add(compute.Embed{Dst: embedded, Table: in.table, Scale: 1})
		g.Add(compute.Normalize{Dst: t, Src: embedded, Norm: compute.Norm{Gain: in.gain, Eps: 1e-5}})
	}
	return t
}

// part is a program that does a case's operation n times.
type part struct {
	compute.Program
	n int
}

// compile makes a program of n operations of a case, and runs it once.
func (k *kernelBench) compile(c kernelCase, from, n int) (part, error) {
	cache := c.cache
	if cache == nil {
		cache = k.cache
	}
	p, err := k.dev.Compile(c.graph(from, n), cache, compute.Limits{Rows: c.seqs * c.rows, Slots: c.seqs})
	if err != nil {
		return part{}, refused(err)
	}
	b := c.batch()
	b.Edits = editsOf(tablesOf(cache.Spec(), c.seqs, c.start+c.rows, blockTokens))
	if err := runStep(p, b); err != nil {
		return part{}, errors.Join(err, p.Close())
	}
	return part{p, n}, nil
}

// batch returns a batch of a case, for sequences that have their tables.
func (c kernelCase) batch() *compute.Batch {
	b := new(compute.Batch)
	for s := range c.seqs {
		ids := make([]int32, c.rows)
		for i := range ids {
			ids[i] = int32((s*c.rows + i) % fillRows)
		}
		b.AppendSeq(compute.Seq{Start: int32(c.start), Slot: int32(s)}, ids, len(ids))
	}
	return b
}

// stepTime is how long a step should take at least, so that starting it does not count.
const stepTime = 5 * time.Millisecond

// time returns the median seconds of an operation. A step does as many of a case as stepTime needs; steps take turns
// until all operands have been used.
func (k *kernelBench) time(ctx context.Context, d time.Duration, c kernelCase) (seconds float64, err error) {
	var parts []part
	defer func() {
		for _, p := range parts {
			err = errors.Join(err, p.Close())
		}
	}()
	first, err := k.compile(c, 0, 1)
	if err != nil {
		return 0, err
	}
	b, start := c.batch(), time.Now()
	err = runStep(first, b)
	took := time.Since(start)
	if err := errors.Join(err, first.Close()); err != nil {
		return 0, err
	}
	each := min(int(stepTime/(took+1))+1, c.count)
	for from := 0; from < c.count; from += each {
		p, err := k.compile(c, from, min(each, c.count-from))
		if err != nil {
			return 0, err
		}
		parts = append(parts, p)
	}
	var calls []float64
	for begin := time.Now(); len(calls) < 1 || time.Since(begin) < d && len(calls) < 1<<16; {
		p, start := parts[len(calls)%len(parts)], time.Now()
		if err := runStep(p, b); err != nil {
			return 0, err
		}
		calls = append(calls, time.Since(start).Seconds()/float64(p.n))
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
	return median(calls), nil
}
