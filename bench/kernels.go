package bench

import (
	"context"
	"fmt"
	"regexp"
	"time"

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
	Size   int            // width of rows, and of square matrices; a multiple of 256
	Memory int            // bytes of weights that products go through in turn; more than caches hold measures memory
	Rows   []int          // of products; nil is 1, 8, 32 and 256, or 1 and 8 for portable Go, which takes its time
}

// productTypes are the types of weights that kernels multiply with.
var productTypes = []quant.Type{
	quant.F32, quant.F16, quant.BF16, quant.F8_E4M3, quant.Q8_0, quant.Q4_0, quant.Q4_1, quant.Q5_0, quant.Q5_1,
	quant.Q2_K, quant.Q3_K, quant.Q4_K, quant.Q5_K, quant.Q6_K, quant.IQ4_NL, quant.IQ4_XS, quant.MXFP4, quant.U4_32, quant.U4_128, quant.U8_128,
}

// Kernels measures the operations of every implementation on data that comes from memory: products of each weight type,
// attention by type of the cache, and the operations on rows. found hears of each implementation's peaks and then of its rows.
func Kernels(ctx context.Context, o KernelOptions, found func(name string, p cpu.Peaks, row *KernelRow)) error {
	if o.Device.Threads == 0 {
		o.Device.Threads = cpu.DefaultThreads()
	}
	if o.Size < 256 || o.Size%256 != 0 || o.Size > 1<<15 || o.Memory < 0 {
		return fmt.Errorf("bench: kernels of size %d and %d bytes of memory; want a multiple of 256 up to %d, and at least 0 bytes", o.Size, o.Memory, 1<<15)
	}
	for _, rows := range o.Rows {
		if rows < 1 || rows > 1<<14 {
			return fmt.Errorf("bench: products of %d rows; want 1 to %d", rows, 1<<14)
		}
	}
	names := cpu.Kernels()
	if o.Device.Kernels != "" {
		names = []string{o.Device.Kernels}
	}
	periods := map[quant.Type]period{}
	for _, name := range names {
		o.Device.Kernels = name
		if err := o.measure(ctx, periods, found); err != nil {
			return fmt.Errorf("bench: kernels %s: %w", name, err)
		}
	}
	return nil
}

// peaksLast is how long the peaks are taken for those of the machine, which other work changes.
const peaksLast = 10 * time.Second

// measure runs all cases with one implementation. What cases need is built when its turn comes, and forgotten after it.
func (o KernelOptions) measure(ctx context.Context, periods map[quant.Type]period, found func(string, cpu.Peaks, *KernelRow)) error {
	meter, err := cpu.NewMeter(o.Device)
	if err != nil {
		return err
	}
	defer meter.Close()
	dev, err := cpu.New(o.Device)
	if err != nil {
		return err
	}
	defer dev.Close()
	peaks, err := meter.Peaks()
	if err != nil {
		return err
	}
	found(o.Device.Kernels, peaks, nil)
	measured := time.Now()
	k := &kernelBench{dev: dev, size: o.Size, memory: max(o.Memory, 1), periods: periods}
	wanted := func(kernel, typ string, rows int) bool {
		label := fmt.Sprintf("%s/%s/%s/%d", o.Device.Kernels, kernel, typ, rows)
		return k.err == nil && (o.Filter == nil || o.Filter.MatchString(label))
	}
	measure := func(kernel, typ string, rows int, build func(rows int) kernelCase) {
		if !wanted(kernel, typ, rows) {
			return
		}
		c := build(rows)
		if k.err == nil && time.Since(measured) > peaksLast {
			peaks, k.err = meter.Peaks()
			measured = time.Now()
		}
		if k.err != nil {
			return
		}
		c.Kernels, c.Kernel, c.Type, c.Rows, c.Threads = o.Device.Kernels, kernel, typ, rows, o.Device.Threads
		seconds := k.time(ctx, o.Time, c)
		c.Bandwidth, c.Rate = c.work.Bytes/seconds/1e9, (c.work.FloatOps+c.work.PairOps+c.work.ByteOps)/seconds/1e9
		c.Share = c.work.Floor(peaks) / seconds
		if k.err == nil {
			found(o.Device.Kernels, peaks, &c.KernelRow)
		}
	}
	counts := o.Rows
	if counts == nil {
		if counts = []int{1, 8, 32, 256}; o.Device.Kernels == "portable" {
			counts = counts[:2]
		}
	}
	for _, t := range productTypes {
		var w *weightSet
		for _, rows := range counts {
			measure("matmul", t.String(), rows, func(rows int) kernelCase {
				if w == nil {
					w = k.weights(t)
				}
				return k.product(w, rows)
			})
		}
	}
	for _, t := range cpu.KVTypes {
		measure("decode", t.String(), 8, func(rows int) kernelCase { return k.attention(t, rows, 1, k.size) })
		measure("prefill", t.String(), 256, func(rows int) kernelCase { return k.attention(t, 1, rows, 2*rows) })
	}
	measure("quantise", "F32", k.size, k.quantise)
	measure("norm", "F32", k.size, k.norm)
	measure("add", "F32", k.size, k.add)
	measure("activate", "F32", k.size, k.activate)
	measure("rotate", "F32", k.size, k.rotate)
	return k.err
}
