package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

func latentCase(kv quant.Type, heads, rank, rope int) opsCase {
	spec := compute.CacheSpec{Layers: []compute.CacheLayer{{KVHeads: 1, KDim: rank + rope, VDim: rank, Latent: true}}}
	return opsCase{name: fmt.Sprintf("latent of %d, %v", rank, kv), cache: spec, kv: kv, off: offOf(kv), graph: func(t testing.TB, d compute.Device, g *compute.Graph, r *rand.Rand, inputs func(int, float64) compute.Tensor) compute.Tensor {
		q, k, dst := inputs(heads*(rank+rope), 1), inputs(rank+rope, 1), g.Buffer(heads*rank, compute.AllRows)
		g.Add(compute.Store{K: k}, compute.Attend{Q: q, Dst: dst, Attention: compute.Attention{Heads: heads, Scale: float32(1.6 / math.Sqrt(float64(rank)))}})
		return dst
	}}
}

// latentRowsCase is latent attention from products with the hidden state on, as a model has it.
func latentRowsCase(heads, nope, rank, rope int, interleaved bool) opsCase {
	c := latentCase(quant.BF16, heads, rank, rope)
	c.name = fmt.Sprintf("queries and latents of %d, interleaved: %t", rank, interleaved)
	c.graph = func(t testing.TB, d compute.Device, g *compute.Graph, r *rand.Rand, inputs func(int, float64) compute.Tensor) compute.Tensor {
		const in = 64
		x, angles := inputs(in, 1), g.Buffer(rope, compute.AllRows)
		q, latent := g.Buffer(heads*(nope+rope), compute.AllRows), g.Buffer(rank+rope, compute.AllRows)
		wide, context, mixed := g.Buffer(heads*(rank+rope), compute.AllRows), g.Buffer(heads*rank, compute.AllRows), g.Buffer(heads*nope, compute.AllRows)
		freqs := make([]float32, rope/2)
		for i := range freqs {
			freqs[i] = 1 / float32(i+1)
		}
		heavy := func(out, in int) compute.Matrix {
			return weight(t, d, bell(r, out*in, 1/math.Sqrt(float64(in))), out, in)
		}
		var keys, values []compute.Matrix
		for range heads {
			keys, values = append(keys, heavy(rank, nope)), append(values, heavy(nope, rank))
		}
		rotary := compute.Rotary{Heads: heads, HeadDim: nope + rope, Skip: nope, Interleaved: interleaved}
		g.Add(compute.Angles{Dst: angles, Freqs: vectorOf(t, d, freqs), Scale: 1},
			compute.MatMul{X: x, Products: []compute.Product{{Dst: q, W: heavy(q.Cols, in)}, {Dst: latent, W: heavy(latent.Cols, in)}}},
			compute.Normalize{Dst: latent, Src: latent, Norm: compute.Norm{Gain: vectorOf(t, d, bell(r, rank, 1)), Eps: 1e-5, Width: rank}},
			compute.Rotate{X: q, Angles: angles, Rotary: rotary},
			compute.Rotate{X: latent, Angles: angles, Rotary: compute.Rotary{Heads: 1, HeadDim: rank + rope, Skip: rank, Interleaved: interleaved}},
			compute.Store{K: latent}, compute.MatMulHeads{Dst: wide, X: q, W: keys},
			compute.Attend{Q: wide, Dst: context, Attention: compute.Attention{Heads: heads, Scale: float32(1 / math.Sqrt(float64(rank)))}},
			compute.MatMulHeads{Dst: mixed, X: context, W: values})
		return mixed
	}
	return c
}

// TestRoutersApart takes routers' products of many layers out of those with a shared expert's gate and what it gates.
func TestRoutersApart(t *testing.T) {
	g := &compute.Graph{Routings: []compute.Routing{{Experts: 4, Chosen: 2}}}
	x, logits, gate, up := g.Buffer(64, compute.AllRows), g.Buffer(4, compute.AllRows), g.Buffer(64, compute.AllRows), g.Buffer(64, compute.AllRows)
	const layers = 60
	for range layers {
		m := compute.MatMul{X: x}
		for _, dst := range []compute.Tensor{up, gate, logits} {
			m.Products = append(m.Products, compute.Product{Dst: dst, W: &matrix{}})
		}
		g.Add(m, compute.Route{Logits: logits}, compute.MatMulExperts{X: x}, compute.Activate{Dst: gate, Gate: gate, Up: up})
	}
	ops := (&program{}).routersApart(g.Ops)
	if len(ops) != 5*layers {
		t.Fatalf("%d operations of %d layers; want 5 in each", len(ops), layers)
	}
	for i, op := range ops {
		if m, ok := op.(compute.MatMul); ok && len(m.Products) != []int{1, 0, 0, 2, 0}[i%5] {
			t.Errorf("operation %d has %d products", i, len(m.Products))
		}
	}
}

// TestLatentsOfFewRows compares latent attention of few rows with that of tiles, bit for bit, in steps with one long
// row and with many, so that rows are whole and cut at different chunks. All slots have the same blocks. Steps are
// queued kernel by kernel and as graphs.
func TestLatentsOfFewRows(t *testing.T) {
	d := gpuDevice(t)
	const keys, blockTokens, slots = latentKeys, 16, 260
	heads, long, last := less(20, 17), less(5000, 700), less(200, 30)
	layer := compute.CacheLayer{KVHeads: 1, KDim: keys, VDim: latentValues, Latent: true}
	blocks := (long + blockTokens - 1) / blockTokens
	c, err := d.Cache(compute.CacheSpec{Blocks: blocks, BlockTokens: blockTokens, Type: quant.BF16, Layers: []compute.CacheLayer{layer}})
	if err != nil {
		t.Fatal(err)
	}
	r, g := rand.New(rand.NewPCG(3, 9)), &compute.Graph{Vocab: long}
	input := func(width int) compute.Tensor {
		x := g.Buffer(width, compute.AllRows)
		g.Add(compute.Embed{Dst: x, Table: weight(t, d, bell(r, long*width, 1), long, width), Scale: 1})
		return x
	}
	q, k, dst := input(heads*keys), input(keys), g.Buffer(heads*latentValues, compute.AllRows)
	hidden := g.Buffer(dst.Cols, compute.HiddenRows)
	g.Add(compute.Store{K: k}, compute.Attend{Q: q, Dst: dst, Attention: compute.Attention{Heads: heads, Scale: 0.06, Sinks: vectorOf(t, d, bell(r, heads, 1))}},
		compute.Gather{Dst: hidden, Src: dst}, compute.Choose{Hidden: hidden})
	p := compileGraph(t, d, g, c, compute.Limits{Rows: 256, Slots: slots}).(*program)
	edited := map[int]bool{}
	batch := func(parts ...part) *compute.Batch {
		b := &compute.Batch{}
		for _, q := range parts {
			var tokens []int32
			for i := range q.n {
				tokens = append(tokens, int32(q.from+i))
			}
			b.AppendSeq(compute.Seq{Start: int32(q.from), Slot: int32(q.slot)}, tokens, q.n)
			for i := 0; !edited[q.slot] && i < blocks; i++ {
				b.Edits = append(b.Edits, compute.TableEdit{Slot: int32(q.slot), At: int32(i), Block: int32(i)})
			}
			edited[q.slot] = true
		}
		return b
	}
	for from := 0; from < long; from += 256 { // latents alone count
		wait(t, p, batch(part{slot: 0, from: from, n: min(256, long-from)}))
	}
	want := map[int][]float32{} // by position
	for _, from := range []int{0, long / 2, long - last} {
		for i, row := range runHidden(t, p, batch(part{slot: 0, from: from, n: last})) {
			want[from+i] = row
		}
	}
	for n, ends := range [][]int{ // how far before the end, or else how far from the middle, rows are
		{1}, {1, 2, 3}, {last - 4, -2}, {5, -1, 9, -7, 20, 3, 8, -12}, {}, {},
	} {
		var parts []part
		for _, e := range ends {
			if e < 0 {
				e += last + long/2
			} else {
				e = long - e
			}
			parts = append(parts, part{slot: 1 + len(parts), from: e, n: 1})
		}
		for i := 0; len(ends) == 0 && i < less([]int{230, 60}, []int{40, 20})[n%2]; i++ {
			parts = append(parts, part{slot: 1 + i, from: []int{long - 1 - i%last, i % last, long/2 + i%last}[i%(2+n%2)], n: 1})
		}
		for _, more := range []int{0, 1, 3} { // rows that the first slot has besides
			parts[0].from, parts[0].n = parts[0].from-more, 1+more
			got := runHidden(t, p, batch(parts...))
			wait(t, p, batch(parts...)) // as a graph
			replayed := (&turnProgram{p: p}).read(t, p.view(dst).at, 2*len(got)*int(p.view(dst).ld))
			row := 0
			for _, q := range parts {
				for at := q.from; at < q.from+q.n; at, row = at+1, row+1 {
					if w := want[at]; w == nil || !slices.Equal(got[row], w) {
						t.Fatalf("step %d, %d more: position %d has other bits than in a tile, or none there", n, more, at)
					}
					for i, v := range want[at] {
						if bits := math.Float32bits(v) >> 16; uint16(bits) != uint16(replayed[2*(row*int(p.view(dst).ld)+i)])|uint16(replayed[2*(row*int(p.view(dst).ld)+i)+1])<<8 {
							t.Fatalf("step %d, %d more: position %d has other bits in a graph", n, more, at)
						}
					}
				}
			}
			parts[0].from, parts[0].n = parts[0].from+more, 1
		}
	}
}
