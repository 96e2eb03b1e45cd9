package bench

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// kernelCase is an operation that is there several times, each time with operands of its own, so that they come from
// memory.
type kernelCase struct {
	shape string
	work  Work // of one
	count int  // how often it is there
	// graph makes a graph of n of them, from number from on.
	graph func(from, n int) *compute.Graph
	cache compute.Cache // nil if any will do
	// A batch has seqs sequences of rows rows each, from position start on.
	seqs, rows, start int
}

// blockTokens is a number of tokens that every device accepts as a block.
const blockTokens = 16

// cacheSpec returns the shape of a cache for layers of a type and seqs sequences of a length.
func cacheSpec(t quant.Type, seqs, length, layers int, l compute.CacheLayer) compute.CacheSpec {
	return compute.CacheSpec{
		Blocks: seqs * ((length + blockTokens - 1) / blockTokens), BlockTokens: blockTokens, Type: t,
		Layers: slices.Repeat([]compute.CacheLayer{l}, layers),
	}
}

// repeats returns how many operations with operands of so many bytes go through the memory that is to be read.
func (k *kernelBench) repeats(bytes float64, most int) int {
	return min(max(int((float64(k.memory)+bytes-1)/bytes), 1), most)
}

// loadWeights loads square matrices of a type, once for all cases of a group.
func (k *kernelBench) loadWeights(t quant.Type) error {
	if k.weights != nil {
		return nil
	}
	n, err := t.RowBytes(k.size * k.size)
	if err != nil {
		return err
	}
	if k.periods[t] == nil {
		if k.periods[t], err = randomPool(t, 0); err != nil {
			return err
		}
	}
	data := bytes.NewBuffer(make([]byte, 0, n))
	if err := repeat(k.periods[t], 0, n)(data); err != nil {
		return err
	}
	src := compute.Source{Name: "random", Type: t, Out: k.size, In: k.size, Data: data.Bytes()}
	if t == quant.F8_E4M3 {
		src.Group, src.Scales = 128, slices.Repeat([]float32{1}, k.size*k.size/128)
	}
	for total := 0; total < k.memory; total += n {
		m, err := k.dev.Matrix(src)
		if err != nil {
			return refused(err)
		}
		k.weights = append(k.weights, m)
	}
	return nil
}

// product multiplies rows with square matrices of a type.
func (k *kernelBench) product(t quant.Type, rows int) (kernelCase, error) {
	c := kernelCase{shape: fmt.Sprintf("%dx%d", k.size, k.size), seqs: 1, rows: rows}
	if err := k.loadWeights(t); err != nil {
		return c, err
	}
	stored, err := t.RowBytes(k.size * k.size)
	if err != nil {
		return c, err
	}
	c.work = product(int64(k.size*k.size), int64(stored), t).rows(float64(rows))
	c.count = len(k.weights)
	c.graph = func(from, n int) *compute.Graph {
		g := &compute.Graph{Vocab: fillRows}
		x, dst := k.operand(g, k.size, true), g.Buffer(k.size, compute.AllRows)
		for _, w := range k.weights[from:][:n] {
			g.Add(compute.MatMul{X: x, Products: []compute.Product{{Dst: dst, W: w}}})
		}
		return g
	}
	return c, nil
}

// attentionHeads and attentionDim are the query heads of attention and their size.
const attentionHeads, attentionDim = 32, 128

// attention is a layer with 32 query heads that share 8 KV heads of 128 dimensions: the last rows tokens of each of
// seqs sequences of a length.
func (k *kernelBench) attention(t quant.Type, seqs, rows, length int) (kernelCase, error) {
	const heads, kvHeads, dim, mostLayers = attentionHeads, 8, attentionDim, 32
	seen := 0
	for p := length - rows; p < length; p++ {
		seen += seqs * (p + 1)
	}
	number := float64(t.BlockBytes()) / float64(t.BlockValues())
	c := kernelCase{
		shape: fmt.Sprintf("%d/%d heads of %d over %d", heads, kvHeads, dim, length),
		work:  Work{Bytes: float64(seqs*length) * kvHeads * 2 * dim * number, FloatOps: 4 * float64(seen) * heads * dim},
		seqs:  seqs, rows: rows, start: length - rows,
	}
	c.count = k.repeats(c.work.Bytes, mostLayers)
	c.graph = func(from, n int) *compute.Graph {
		g := &compute.Graph{Vocab: fillRows}
		q, dst := k.operand(g, heads*dim, true), g.Buffer(heads*dim, compute.AllRows)
		for i := range n {
			g.Add(compute.Attend{Layer: from + i, Dst: dst, Q: q, Attention: compute.Attention{Heads: heads, Scale: 0.088}})
		}
		return g
	}
	spec := cacheSpec(t, seqs, length, c.count, compute.CacheLayer{KVHeads: kvHeads, KDim: dim, VDim: dim})
	var err error
	if c.cache, err = k.dev.Cache(spec); err != nil {
		return c, refused(err)
	}
	if err := fillCache(k.dev, c.cache, tablesOf(spec, seqs, length, blockTokens), length, 512); err != nil {
		return c, err
	}
	return c, nil
}

// rowOperations are the operations on as many rows as they have numbers.
var rowOperations = []struct {
	name  string
	build func(k *kernelBench) (kernelCase, error)
}{
	{"norm", func(k *kernelBench) (kernelCase, error) {
		gain, err := k.dev.Vector(make([]float32, k.size))
		if err != nil {
			return kernelCase{}, err
		}
		return k.rowCase(2, 2, func(g *compute.Graph) {
			x, dst := k.operand(g, k.size, false), g.Buffer(k.size, compute.AllRows)
			g.Add(compute.Normalize{Dst: dst, Src: x, Norm: compute.Norm{Gain: gain, Eps: 1e-5}})
		})
	}},
	{"add", func(k *kernelBench) (kernelCase, error) {
		return k.rowCase(2, 3, func(g *compute.Graph) {
			x, dst := k.operand(g, k.size, false), k.operand(g, k.size, false)
			g.Add(compute.Add{Dst: dst, Src: x, Scale: 1})
		})
	}},
	{"activate", func(k *kernelBench) (kernelCase, error) {
		return k.rowCase(3, 3, func(g *compute.Graph) {
			gate, up, dst := k.operand(g, k.size, false), k.operand(g, k.size, false), g.Buffer(k.size, compute.AllRows)
			g.Add(compute.Activate{Dst: dst, Gate: gate, Up: up, Act: compute.SiLU})
		})
	}},
	{"rotate", func(k *kernelBench) (kernelCase, error) {
		const dim = 64
		freqs, err := k.dev.Vector(make([]float32, dim/2))
		if err != nil {
			return kernelCase{}, err
		}
		return k.rowCase(1, 2, func(g *compute.Graph) {
			x, angles := k.operand(g, k.size, false), k.operand(g, dim, false)
			if !k.taps {
				g.Add(compute.Angles{Dst: angles, Freqs: freqs, Scale: 1})
			}
			g.Add(compute.Rotate{X: x, Angles: angles, Rotary: compute.Rotary{Heads: k.size / dim, HeadDim: dim}})
		})
	}},
}

// rowCase is an operation with buffers of [size, size] float32 numbers, which it reads or writes passes times in all.
func (k *kernelBench) rowCase(buffers, passes float64, add func(*compute.Graph)) (kernelCase, error) {
	values := 4 * float64(k.size) * float64(k.size)
	c := kernelCase{
		shape: fmt.Sprintf("%d", k.size), work: Work{Bytes: passes * values}, seqs: 1, rows: k.size,
		count: k.repeats(buffers*values, 1<<10),
		graph: func(_, n int) *compute.Graph {
			g := &compute.Graph{Vocab: fillRows}
			for range n {
				add(g)
			}
			return g
		},
	}
	return c, nil
}
