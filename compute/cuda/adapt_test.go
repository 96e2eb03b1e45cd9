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

// adaptAll makes every weight of a graph's layers one that adapters change, and that many adapters.
func adaptAll(g *compute.Graph, adapters, rank int, weight func(out, in int) compute.Matrix) (place []compute.Placement) {
	if g.Adapters = adapters; adapters == 0 {
		return nil
	}
	low := make([][]compute.LowRank, adapters)
	for _, op := range g.Ops {
		if m, ok := op.(compute.MatMul); ok {
			for i := range m.Products {
				g.Targets++
				m.Products[i].Target = g.Targets
				out, in := m.Products[i].W.Dims()
				for a := range low {
					low[a] = append(low[a], compute.LowRank{A: weight(rank, in), B: weight(out, rank), Scale: 0.1})
				}
			}
		}
	}
	for a := range low {
		place = append(place, compute.Placement{Slot: int32(a + 1), Low: low[a]})
	}
	return place
}

// TestAdaptersWithoutRoom computes a gate and what adapters multiply its results by in one kernel and, as where blocks
// have too little shared memory for that, in two: rows have the same bits.
func TestAdaptersWithoutRoom(t *testing.T) {
	d := gpuDevice(t)
	defer func(was int) { d.g.info.shared = was }(d.g.info.shared)
	c := adapterCase(72, less(4000, 1100), 90)
	run := func() [][]float32 {
		return runParts(t, compileCase(t, d, c), part{0, 0, 21, 1}, part{1, 0, 3, 0}, part{2, 0, 40, 2}, part{3, 0, 3, 1})
	}
	want := run()
	d.g.info.shared = gateDownShared(0)
	for r, got := range run() {
		if !slices.Equal(got, want[r]) {
			t.Fatalf("row %d has other bits", r)
		}
	}
}

// TestAdaptersInCompany decodes many sequences with adapters in one step, again and again, and each alone: kernels
// begin before those in front of them end, and must not read too early.
func TestAdaptersInCompany(t *testing.T) {
	d := gpuDevice(t)
	const layers, prompt, adapters = 2, 8, 6
	seqs, vocab, hidden, heads, kv := less(70, 9), less(1000, 200), less(2048, 256), less(16, 2), less(4, 1)
	for _, typ := range []quant.Type{quant.BF16, quant.Q8_0, quant.F8_E4M3} {
		r := rand.New(rand.NewPCG(3, 4))
		g := llama(t, d, layers, hidden, 2*hidden, heads, kv, 128, vocab, func(out, in int) compute.Matrix {
			switch typ {
			case quant.BF16:
				return weight(t, d, bell(r, out*in, 1/math.Sqrt(float64(in))), out, in)
			case quant.F8_E4M3:
				return load(t, d, float8Source(t, r, "tensor", out, in))
			}
			return load(t, d, packedSource(t, r, typ, out, in))
		})
		place := adaptAll(g, adapters, 16, func(out, in int) compute.Matrix {
			return adapterWeight(t, d, bell(r, out*in, 1/math.Sqrt(float64(in))), out, in)
		})
		spec := compute.CacheSpec{Blocks: seqs, BlockTokens: 16, Type: quant.BF16}
		for range layers {
			spec.Layers = append(spec.Layers, compute.CacheLayer{KVHeads: kv, KDim: 128, VDim: 128})
		}
		c, err := d.Cache(spec)
		if err != nil {
			t.Fatal(err)
		}
		p := compileGraph(t, d, g, c, compute.Limits{Rows: 1024, Slots: seqs})
		first := &compute.Batch{Place: place}
		for i := range seqs {
			first.Edits = append(first.Edits, compute.TableEdit{Slot: int32(i), Block: int32(i)})
		}
		wait(t, p, first)
		tokens := make([]int32, seqs*(prompt+1))
		for i := range tokens {
			tokens[i] = r.Int32N(int32(vocab))
		}
		// logits computes n tokens of some sequences from position start on, and returns the last logits of each.
		logits := func(start, n int, slots ...int) (all [][]float32) {
			t.Helper()
			b := &compute.Batch{}
			for _, slot := range slots {
				b.AppendSeq(compute.Seq{Slot: int32(slot), Start: int32(start), Adapter: int32(slot % (adapters + 1))}, tokens[slot*(prompt+1)+start:][:n], n)
				b.Logits = append(b.Logits, int32(b.Rows()-1))
			}
			b.ReadAll()
			s, err := p.Start(b)
			if err == nil {
				err = s.Wait()
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range slots {
				all = append(all, slices.Clone(s.Logits(i)))
			}
			return all
		}
		everyone := make([]int, seqs)
		for i := range everyone {
			everyone[i] = i
		}
		for _, k := range []struct{ start, n, times int }{{0, prompt, 2}, {prompt, 1, less(20, 2)}} {
			var want [][]float32
			for i := range seqs {
				want = append(want, logits(k.start, k.n, i)...)
			}
			for range k.times {
				for i, got := range logits(k.start, k.n, everyone...) {
					if !slices.Equal(got, want[i]) {
						t.Fatalf("%v: %d tokens from %d on of sequence %d: other logits in company", typ, k.n, k.start, i)
					}
				}
			}
		}
	}
}

// adapterCase has three weights that two adapters change, of ranks 4 and 70: two of one product, and one whose result
// is added to a residual stream. The first adapter leaves a gate as it is or, if last is odd, the product after it.
func adapterCase(in, out, last int) opsCase {
	return opsCase{name: fmt.Sprintf("adapters of %d, %d and %d", in, out, last), off: 1e-2,
		graph: func(t testing.TB, d compute.Device, g *compute.Graph, r *rand.Rand, inputs func(int, float64) compute.Tensor) compute.Tensor {
			g.Targets, g.Adapters = 3, 2
			x, sum := inputs(in, 1), inputs(last, 1)
			gate, up, added := g.Buffer(out, compute.AllRows), g.Buffer(out, compute.AllRows), g.Buffer(last, compute.AllRows)
			product := func(dst compute.Tensor, in, target int) compute.Product {
				return compute.Product{Dst: dst, W: weight(t, d, bell(r, dst.Cols*in, 1/math.Sqrt(float64(in))), dst.Cols, in), Target: target}
			}
			g.Add(compute.MatMul{X: x, Products: []compute.Product{product(up, in, 1), product(gate, in, 2)}},
				compute.Activate{Dst: gate, Gate: gate, Up: up},
				compute.MatMul{X: gate, Products: []compute.Product{product(added, out, 3)}},
				compute.Add{Dst: sum, Src: added, Scale: 0.5})
			return sum
		},
		place: func(t testing.TB, d compute.Device, r *rand.Rand) []compute.Placement {
			var all []compute.Placement
			for slot, rank := range []int{4, 70} {
				var low []compute.LowRank
				for target, dims := range [][2]int{{in, out}, {in, out}, {out, last}} {
					if slot == 0 && target == 1+last%2 {
						low = append(low, compute.LowRank{})
						continue
					}
					low = append(low, compute.LowRank{
						A:     adapterWeight(t, d, bell(r, rank*dims[0], 1/math.Sqrt(float64(dims[0]))), rank, dims[0]),
						B:     adapterWeight(t, d, bell(r, rank*dims[1], 1/math.Sqrt(float64(rank))), dims[1], rank),
						Scale: 0.75,
					})
				}
				all = append(all, compute.Placement{Slot: int32(slot + 1), Low: low})
			}
			return all
		}}
}

// adaptedMixture is a mixtureCase with adapters of its router.
func adaptedMixture(hidden, experts int) opsCase {
	c := mixtureCase(hidden, experts, 0, scaledOtherwise)
	graph := c.graph
	c.name = "adapters of a " + c.name
	c.graph = func(t testing.TB, d compute.Device, g *compute.Graph, r *rand.Rand, inputs func(int, float64) compute.Tensor) compute.Tensor {
		out := graph(t, d, g, r, inputs)
		for _, op := range g.Ops {
			if m, ok := op.(compute.MatMul); ok {
				m.Products[0].Target = 1
			}
		}
		g.Targets, g.Adapters = 1, 2
		return out
	}
	c.place = func(t testing.TB, d compute.Device, r *rand.Rand) (all []compute.Placement) {
		for slot := int32(1); slot <= 2; slot++ {
			all = append(all, compute.Placement{Slot: slot, Low: []compute.LowRank{{
				A:     adapterWeight(t, d, bell(r, 4*hidden, 1/math.Sqrt(float64(hidden))), 4, hidden),
				B:     adapterWeight(t, d, bell(r, 4*experts, 0.5), experts, 4),
				Scale: 0.75,
			}}})
		}
		return all
	}
	return c
}
