//go:build amd64 && !noasm

package cpu

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/quant"
)

// headShape is a layer's heads.
type headShape struct {
	heads, kvHeads, dim int
	latent              bool
}

var headShapes = []headShape{{32, 8, 128, false}, {32, 4, 64, false}, {16, 1, 576, true}}

func (s headShape) String() string {
	if s.latent {
		return fmt.Sprintf("%dx%d-latent", s.heads, s.dim)
	}
	return fmt.Sprintf("%d-%dx%d", s.heads, s.kvHeads, s.dim)
}

// benchAttend attends with rows rows of a sequence of length tokens on two threads and returns the median seconds of a
// call, the bytes of the cache that it reads, and its operations, a multiply-add as two. The last rows are a tree, if
// there are parents.
func benchAttend(b *testing.B, kernels string, s headShape, t quant.Type, rows, length int, parents ...int32) (seconds, bytes, ops float64) {
	d, err := New(Options{Threads: 2, Kernels: kernels})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	l := compute.CacheLayer{KVHeads: s.kvHeads, KDim: s.dim, VDim: s.dim, Latent: s.latent}
	if s.latent {
		l.VDim = 512
	}
	spec := compute.CacheSpec{Blocks: length / kernel.Lanes, BlockTokens: kernel.Lanes, Type: t, Layers: []compute.CacheLayer{l}}
	cache, err := d.Cache(spec)
	if err != nil {
		b.Fatal(err)
	}
	table := make([]int32, spec.Blocks)
	for i := range table {
		table[i] = int32((i*7 + 3) % spec.Blocks)
	}
	tensor := func(rows, cols int) Tensor {
		return Tensor{Rows: rows, Cols: cols, Host: normals(rand.New(rand.NewPCG(3, 4)), rows*cols)}
	}
	batch := new(compute.Batch)
	const step = 512
	k, v := tensor(step, l.KVHeads*l.KDim), tensor(step, l.KVHeads*l.VDim)
	for at := 0; at < length; at += step {
		batch.Reset()
		batch.Append(make([]int32, min(step, length-at)), at, false, table)
		d.Begin(batch)
		d.store(cache, 0, k, v)
	}
	batch.Reset()
	batch.Append(make([]int32, rows), length-rows, false, table)
	if len(parents) > 0 {
		batch.Tree(parents)
	}
	d.Begin(batch)
	q, dst := tensor(rows, s.heads*l.KDim), tensor(rows, s.heads*l.VDim)
	var times []time.Duration
	for b.Loop() {
		start := time.Now()
		d.attend(dst, q, cache, 0, compute.Attention{Heads: s.heads, Scale: 0.1})
		times = append(times, time.Since(start))
	}
	seen := float64(rows) * (float64(length-rows) + float64(rows+1)/2)
	return medianOf(times), float64(d.CacheBytes(spec)), 2 * seen * float64(s.heads) * float64(l.KDim+l.VDim)
}

func benchAttention(b *testing.B, rows int, lengths []int) {
	for _, kernels := range Kernels() {
		if kernels == "portable" || kernels == "avx512" {
			continue
		}
		m, err := newMeter(Options{Threads: 2, Kernels: kernels})
		if err != nil {
			b.Fatal(err)
		}
		peaks, err := m.Peaks()
		if err := errors.Join(err, m.Close()); err != nil {
			b.Fatal(err)
		}
		for _, s := range headShapes {
			for _, t := range kernel.KVTypes {
				for _, length := range lengths {
					b.Run(fmt.Sprintf("%s/%v/%v/%d", kernels, s, t, length), func(b *testing.B) {
						seconds, bytes, ops := benchAttend(b, kernels, s, t, rows, length)
						b.ReportMetric(ops/seconds/1e9, "Gop/s")
						b.ReportMetric(100*ops/peaks.Floats/seconds, "%float")
						b.ReportMetric(bytes/seconds/1e9, "GB/s")
						b.ReportMetric(100*bytes/peaks.Read/seconds, "%read")
						b.ReportMetric(0, "ns/op")
					})
				}
			}
		}
	}
}

// BenchmarkAttentionPrefill computes the last 512 rows of prompts of several lengths, BenchmarkAttentionDecode one
// more.
func BenchmarkAttentionPrefill(b *testing.B) { benchAttention(b, 512, []int{512, 4096, 16384}) }
func BenchmarkAttentionDecode(b *testing.B)  { benchAttention(b, 1, []int{1024, 8192, 32768}) }

// BenchmarkAttentionTree computes a sequence's last token and eight proposed ones, as a list and as trees of two
// branches from the first proposed token on and from the last token on, and one token alone.
func BenchmarkAttentionTree(b *testing.B) {
	trees := []struct {
		name    string
		rows    int
		parents []int32
	}{
		{"one", 1, nil},
		{"list", 9, nil},
		{"tree1", 9, []int32{-1, 0, 1, 2, 3, 0, 5, 6}},
		{"tree0", 9, []int32{-1, 0, 1, 2, -1, 4, 5, 6}},
	}
	for _, s := range headShapes {
		for _, t := range []quant.Type{quant.BF16, quant.F32} {
			for _, length := range []int{1024, 8192} {
				for _, c := range trees {
					b.Run(fmt.Sprintf("%v/%v/%d/%s", s, t, length, c.name), func(b *testing.B) {
						seconds, _, _ := benchAttend(b, "", s, t, c.rows, length, c.parents...)
						b.ReportMetric(seconds*1e6, "µs")
						b.ReportMetric(0, "ns/op")
					})
				}
			}
		}
	}
}
