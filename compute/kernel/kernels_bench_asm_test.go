//go:build (amd64 || arm64) && !noasm

package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// benchWeights is memory that no cache holds; benchmarks of products go through it group by group.
var benchWeights = sync.OnceValue(func() []byte {
	w := AlignedTo(192<<20, 2<<20)
	compute.AdviseHuge(w) // as the CPU device keeps weights
	r := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < len(w); i += 4 { // 0.0xx as float32, bfloat16 and as pairs of small float16
		w[i], w[i+1], w[i+2], w[i+3] = byte(r.Uint32()), 0x3c, byte(r.Uint32()), 0x3c
	}
	return w
})

// rate returns the greatest of several rates of work amount done by f, per second.
func rate(amount float64, f func()) float64 {
	best := 0.0
	for range 7 {
		start := time.Now()
		f()
		best = max(best, amount/time.Since(start).Seconds())
	}
	return best
}

// roofs returns what one core of this machine can do at most: operations per second in float32, on pairs and on bytes
// (a multiply-add is two), and bytes read per second.
func roofs(name string) (floats, pairs, dots, read float64) {
	const n = 200_000
	w, l := benchWeights(), PeakLoops(name)
	read = rate(float64(len(w)), func() { l.Read(w) })
	if l.Pairs.Run == nil {
		l.Pairs = l.Floats
	}
	of := func(a Loop) float64 { return rate(float64(n*a.Ops), func() { a.Run(n) }) }
	return of(l.Floats), of(l.Pairs), of(l.Dots), read
}

// BenchmarkRoofs reports the machine's roofs.
func BenchmarkRoofs(b *testing.B) {
	for _, k := range nativeKernels() {
		b.Run(k.Name, func(b *testing.B) {
			for b.Loop() {
				floats, pairs, dots, read := roofs(k.Name)
				b.ReportMetric(floats/1e9, "GFLOP/s")
				b.ReportMetric(pairs/1e9, "GFLOP/s-of-pairs")
				b.ReportMetric(dots/1e9, "Gop/s")
				b.ReportMetric(read/1e9, "GB/s")
			}
		})
	}
}

// BenchmarkMat multiplies m rows of 4096 with groups of 8 panels that come from memory. It reports the rate of
// operations, the rate at which weights are read, and how near the time is to the greater of the two roofs' times.
func BenchmarkMat(b *testing.B) {
	const k, panels, most = 4096, 8, 512
	x := numbersOf(most * k)
	const blocks = k / 32
	rounded := Rows16{Ld: k + Lanes, Blocks: blocks, X: make([]float32, most*(k+Lanes))}
	q := emptyRows(most, blocks, 2)
	for i := range most {
		row := q.From(i)
		quantize(row.Q[:k], row.Sums[:q.Spans()], x[i*k:][:k], SpanValues)
		round(rounded.X[i*rounded.Ld:], x[i*k:][:k])
	}
	q.spread(most)
	dst, weights := make([]float32, most*panels*Lanes), benchWeights()
	const ldd = panels * Lanes
	for _, set := range nativeKernels() {
		floats, pairs, dots, read := roofs(set.Name)
		rows := rounded.as(set)
		types := []quant.Type{quant.F32, quant.BF16}
		for _, a := range affineTypes {
			types = append(types, a.typ)
		}
		for _, t := range types {
			roof := floats
			if Quantised(t) {
				roof = dots
			} else if t == quant.BF16 {
				roof = pairs
			}
			for _, m := range []int{1, 2, 4, 8, 16, 32, 64, 128, 512} {
				b.Run(fmt.Sprintf("%s/%v/m=%d", set.Name, t, m), func(b *testing.B) {
					stride := PanelBytes(t, k)
					at, times := 0, make([]time.Duration, 0, 1<<16)
					for b.Loop() {
						w, start := weights[at:at+panels*stride], time.Now()
						switch t {
						case quant.F32:
							set.MatF32(Product[float32]{dst, ldd, x, k, View[float32](w), stride / 4, panels, m, k,
								false})
						case quant.BF16:
							set.MatPairs(PairProduct{dst, ldd, rows, View[uint32](w), stride / 4, panels, m})
						default:
							set.MatAffine(AffineProduct{t, dst, ldd, q, w, stride, panels, m})
						}
						times = append(times, time.Since(start))
						if at += panels * stride; at+panels*stride > len(weights) {
							at = 0
						}
					}
					seconds := median(times)
					ops, bytes := float64(2*m*k*panels*Lanes), float64(panels*stride)
					b.ReportMetric(ops/seconds/1e9, "Gop/s")
					b.ReportMetric(bytes/seconds/1e9, "GB/s")
					b.ReportMetric(100*max(ops/roof, bytes/read)/seconds, "%roof")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// BenchmarkAttentionProducts runs the products of one KV head over one block of 64 tokens, for heads of 128: scores,
// then values.
func BenchmarkAttentionProducts(b *testing.B) {
	const tokens, dim = 64, 128
	kv, x, dst := numbersOf(tokens*dim), numbersOf(64*dim), make([]float32, 64*dim)
	for _, set := range nativeKernels() {
		roof, _, _, _ := roofs(set.Name)
		for _, m := range []int{1, 4, 16, 64} {
			report := func(b *testing.B) {
				seconds := b.Elapsed().Seconds() / float64(b.N)
				ops := float64(2 * m * tokens * dim)
				b.ReportMetric(ops/seconds/1e9, "Gop/s")
				b.ReportMetric(100*ops/roof/seconds, "%roof")
			}
			b.Run(fmt.Sprintf("%s/keys/m=%d", set.Name, m), func(b *testing.B) {
				for b.Loop() {
					set.MatF32(Product[float32]{dst, tokens, x, dim, kv, dim * Lanes, tokens / Lanes, m, dim, false})
				}
				report(b)
			})
			b.Run(fmt.Sprintf("%s/values/m=%d", set.Name, m), func(b *testing.B) {
				for b.Loop() {
					set.MatF32(Product[float32]{dst, dim, x, tokens, kv, tokens * Lanes, dim / Lanes, m, tokens, true})
				}
				report(b)
			})
		}
	}
}

// BenchmarkRows runs the operations on a row of 4096 values.
func BenchmarkRows(b *testing.B) {
	const n = 4096
	rows := rowsFor(n)
	x, y, z := rows[0], rows[1], numbersOf(n)
	q, sums := make([]int8, n), make([]SpanSums, n/SpanValues)
	for _, k := range Implementations() {
		run := func(name string, f func()) {
			b.Run(k.Name+"/"+name, func(b *testing.B) {
				for b.Loop() {
					f()
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gvalue/s")
			})
		}
		for _, c := range rowCalls {
			run(c.name, func() { c.call(k, rows[0], rows[1], rows[2], rows[3], 0) })
		}
		run("quantize", func() { k.Quantize(q, sums, x, SpanValues) })
		run("weigh", func() { copy(z, x); k.Weigh(y[:1], y[1:2], z, 0, len(z)) })
		run("blend", func() { k.Blend(z, x, len(x), y[:1], y, y) })
	}
}

// median returns the median in seconds: other work on the machine makes the mean useless.
func median(times []time.Duration) float64 {
	slices.Sort(times)
	return times[len(times)/2].Seconds()
}
