// Package bench measures a model's forward pass and each kernel against the machine's limits, and a serving engine
// under load, in process or behind any OpenAI-compatible URL. Workloads, arrivals and statistics are pure and
// repeatable from a seed; Load is the shell around them. The package knows nothing of an engine's internals. Read Load
// first, then Model.
package bench

import (
	"cmp"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	_ "github.com/kvasir-llm/kvasir/compute/devices" // what is measured is opened by name
	"github.com/kvasir-llm/kvasir/quant"
)

// Work is the indispensable work of a computation. Bytes must come from memory once; operations count a multiply-add as
// two, by the unit that does them: float32, pairs of bfloat16, dot products of bytes, or F8_E4M3.
type Work struct {
	Bytes, FloatOps, PairOps, ByteOps, Float8Ops float64
}

// product returns the work of a product with n weights of a type: it reads them once and does n multiply-adds a row.
func product(n, bytes int64, t quant.Type) Work {
	w := Work{Bytes: float64(bytes)}
	switch ops := 2 * float64(n); {
	case t.BlockValues() > 1:
		w.ByteOps = ops
	case t == quant.BF16 || t == quant.F16:
		w.PairOps = ops
	case t == quant.F8_E4M3:
		w.Float8Ops = ops
	default:
		w.FloatOps = ops
	}
	return w
}

func (w Work) plus(o Work) Work {
	return Work{w.Bytes + o.Bytes, w.FloatOps + o.FloatOps, w.PairOps + o.PairOps, w.ByteOps + o.ByteOps, w.Float8Ops + o.Float8Ops}
}

// operations returns all of them.
func (w Work) operations() float64 { return w.FloatOps + w.PairOps + w.ByteOps + w.Float8Ops }

// rows returns the work of n rows: n times the operations, on the same bytes.
func (w Work) rows(n float64) Work {
	return Work{w.Bytes, n * w.FloatOps, n * w.PairOps, n * w.ByteOps, n * w.Float8Ops}
}

// Floor returns the least seconds that the work takes: reading overlaps with computing, and the kinds of operations run
// one after another.
func (w Work) Floor(p compute.Peaks) float64 {
	seconds := w.FloatOps/p.Floats + w.PairOps/p.Pairs + w.ByteOps/p.Bytes + w.Float8Ops/cmp.Or(p.Float8, p.Floats)
	return max(w.Bytes/p.Read, seconds)
}

// median returns the median of values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	return percentile(values, 50)
}

// percentile returns the p-th percentile of sorted values, by linear interpolation between the two nearest; 0 if there
// are none.
func percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := p / 100 * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-1)
	next := sorted[min(i+1, len(sorted)-1)]
	return sorted[i] + (at-float64(i))*(next-sorted[i])
}
