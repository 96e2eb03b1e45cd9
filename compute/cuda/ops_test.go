package cuda

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	_ "github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/quant"
)

// These tests compare operations with the processor's, and rows alone with rows in company, bit for bit.

const opsVocab = 300

// opsRows is the most rows of a sequence.
var opsRows = less(opsVocab, 100)

// opsCase builds a graph on a device. inputs makes a [rows, width] tensor of numbers that are bfloat16s, the same on
// all devices, in which row r is that of token r.
type opsCase struct {
	name  string
	cache compute.CacheSpec
	graph func(t testing.TB, d compute.Device, g *compute.Graph, r *rand.Rand, inputs func(width int, scale float64) compute.Tensor) (out compute.Tensor)
	kv    quant.Type // on the device; 0 is its default
	off   float64    // most relative error
	by    scaling    // of experts' weights
	place func(t testing.TB, d compute.Device, r *rand.Rand) []compute.Placement
}

// compileCase makes the same program on any device.
func compileCase(t testing.TB, d compute.Device, c opsCase) compute.Program {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	g := &compute.Graph{Vocab: opsVocab}
	inputs := func(width int, scale float64) compute.Tensor {
		x := g.Buffer(width, compute.AllRows)
		g.Add(compute.Embed{Dst: x, Table: weight(t, d, bell(r, opsVocab*width, scale), opsVocab, width), Scale: 1})
		return x
	}
	out := c.graph(t, d, g, r, inputs)
	hid := g.Buffer(out.Cols, compute.HiddenRows)
	g.Add(compute.Gather{Dst: hid, Src: out}, compute.Choose{Hidden: hid})
	spec := c.cache
	spec.Blocks, spec.BlockTokens, spec.Type = 200, 16, d.KVTypes()[0]
	if _, ok := d.(*device); ok && c.kv != 0 {
		spec.Type = c.kv
	}
	if len(spec.Layers) == 0 {
		spec.Layers = []compute.CacheLayer{{KVHeads: 1, KDim: 16, VDim: 16}}
	}
	cache, err := d.Cache(spec)
	if err != nil {
		t.Fatal(err)
	}
	p := compileGraph(t, d, g, cache, compute.Limits{Rows: 3 * opsVocab, Slots: 8})
	if c.place != nil {
		s, err := p.Start(&compute.Batch{Place: c.place(t, d, r)})
		if err == nil {
			err = s.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// part is n tokens of a sequence, whose tokens are their positions' numbers.
type part struct{ slot, from, n, adapter int }

func runParts(t testing.TB, p compute.Program, parts ...part) [][]float32 {
	t.Helper()
	b := &compute.Batch{}
	for _, q := range parts {
		var tokens []int32
		for i := range q.n {
			tokens = append(tokens, int32(q.from+i))
		}
		b.AppendSeq(compute.Seq{Start: int32(q.from), Slot: int32(q.slot), State: int32(q.slot), Adapter: int32(q.adapter)}, tokens, q.n)
		if q.from == 0 {
			for i := range (opsVocab + 15) / 16 {
				b.Edits = append(b.Edits, compute.TableEdit{Slot: int32(q.slot), At: int32(i), Block: int32(q.slot*20 + i)})
			}
		}
	}
	return runHidden(t, p, b)
}

func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func TestOperations(t *testing.T) {
	d := gpuDevice(t)
	host, err := compute.Open("cpu", compute.Options{Threads: 2, Wide: true})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	cases := append(expertCases(), headCases()...)
	cases = append(cases, mixtureCase(576, 3, 0, scaledOtherwise), mixtureCase(256, 3, 0, scaledByGroup), mixtureCase(256, 3, 0, scaledByBlock), mixtureCase(512, 5, 32, scaledByOutput))
	cases = append(cases, less([]opsCase{mixtureCase(2048, 5, 0, scaledOtherwise), mixtureCase(2048, 4, 160, scaledOtherwise)}, []opsCase{mixtureCase(2048, 2, 32, scaledOtherwise)})...)
	cases = append(cases, recurrentCases()...)
	for _, heads := range less([]int{16, 20, 80}, []int{20}) {
		cases = append(cases, latentCase(quant.BF16, heads, latentValues, latentKeys-latentValues))
	}
	cases = append(cases, latentRowsCase(5, 48, latentValues, latentKeys-latentValues, true), latentRowsCase(less(16, 4), 128, latentValues, latentKeys-latentValues, false),
		latentRowsCase(3, 24, 64, 16, false))
	for _, k := range kvTypes {
		cases = append(cases, latentCase(k.typ, 6, 64, 16), storeCase(k.typ, 72, 40, false), storeCase(k.typ, 80, 80, false), storeCase(k.typ, 96, 96, true))
	}
	cases = append(cases, adapterCase(100, 72, 90), adaptedMixture(2048, less(5, 2)))
	cases = append(cases, less([]opsCase{adapterCase(2100, 4000, 1027), adapterCase(2048, 4096, 1000)}, []opsCase{adapterCase(2100, 96, 131), adapterCase(64, 1100, 90)})...)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { testOperations(t, d, host, c) })
	}
}

// TestExpertsByEveryKernel computes mixtures with each of the kernels for many rows, however few there are.
func TestExpertsByEveryKernel(t *testing.T) {
	d := gpuDevice(t)
	if d.g.info.major != hopper {
		t.Skip("these kernels are Hopper's")
	}
	host, err := compute.Open("cpu", compute.Options{Threads: 2, Wide: true})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	was, wasFloat8 := manies, manyFloat8s
	defer func() { manies, manyFloat8s = was, wasFloat8 }()
	for i, m := range was { // all stay in the list: it says which kernels get shared memory
		manies = slices.Clone(was)
		for j := range manies {
			manies[j].least, manies[j].codes = noKernel, noKernel
		}
		manies[i].least, manies[i].codes = 0, 0
		all := append(expertCases(), mixtureCase(2048, 5, 0, scaledOtherwise))
		for _, c := range less(all, all[4:9]) {
			t.Run(fmt.Sprintf("%d rows, %s", m.rows, c.name), func(t *testing.T) { testOperations(t, d, host, c) })
		}
	}
	for i, m := range wasFloat8 {
		manyFloat8s = slices.Clone(wasFloat8)
		for j := range manyFloat8s {
			manyFloat8s[j].least, manyFloat8s[j].leastInputs = 1<<30, 0
		}
		manyFloat8s[i].least, manyFloat8s[len(wasFloat8)-1].least = 0, 0 // the last one: for what those of blocks do not compute
		all := expertCases()
		for _, c := range less(all, all[12:15]) {
			if c.by == m.by || c.by == scaledByBlock && m.by == scaledByGroup {
				t.Run(fmt.Sprintf("%d rows in F8_E4M3, %s", m.rows, c.name), func(t *testing.T) { testOperations(t, d, host, c) })
			}
		}
	}
}

func testOperations(t *testing.T, d *device, host compute.Device, c opsCase) {
	p, reference := compileCase(t, d, c), compileCase(t, host, c)
	adapter := 0
	if c.place != nil {
		adapter = 2
	}
	all := part{slot: 1, n: opsRows, adapter: adapter}
	whole, want := runParts(t, p, all), runParts(t, reference, all)
	for r := range whole {
		if e := distance(whole[r], wide(want[r])); !(e < c.off) {
			t.Fatalf("row %d is off by %g", r, e)
		}
	}
	same := func(what string, got [][]float32, from int) {
		t.Helper()
		for i := range got {
			if !slices.Equal(got[i], whole[from+i]) {
				t.Fatalf("%s: row %d is not what it is beside all", what, from+i)
			}
		}
	}
	for _, n := range []int{1, 2, 7, 8, 9, 33, 70} {
		same(fmt.Sprintf("%d rows", n), runParts(t, p, part{2, 0, n, adapter}), 0)
	}
	same("chunks", runParts(t, p, part{2, 0, 20, adapter}), 0)
	for from := 20; from < 24; from++ {
		same("one by one", runParts(t, p, part{2, from, 1, adapter}), from)
	}
	same("the rest", runParts(t, p, part{2, 24, opsRows * 2 / 3, adapter}), 24)
	company := runParts(t, p, part{3, 0, 100, 0}, part{4, 0, 3, adapter}, part{5, 0, 66, min(adapter, 1)}, part{6, 0, 50, adapter})
	same("few in company", company[100:103], 0)
	same("in company", company[169:], 0)
	many := runParts(t, p, part{3, 0, opsRows, 0}, part{4, 0, 3, adapter}, part{5, 0, opsRows, min(adapter, 1)}, part{6, 0, opsRows - 3, adapter})
	same("few beside many", many[opsRows:opsRows+3], 0)
	same("beside many", many[2*opsRows+3:], 0)
	if c.place == nil {
		return
	}
	for other := range 2 { // rows of other adapters, and of none
		want := runParts(t, reference, part{3, 0, 66, other})
		got := runParts(t, p, part{3, 0, 66, other})
		for r := range want {
			at := r
			if other == 1 {
				at += 103
			}
			if e := distance(got[r], wide(want[r])); !(e < c.off) || !slices.Equal(got[r], company[at]) {
				t.Fatalf("adapter %d: row %d is off by %g, or differs in company", other, r, e)
			}
		}
	}
}

func expertCases() []opsCase {
	var cases []opsCase
	acts := []compute.Activation{compute.SiLU, compute.SiLU, compute.GELUTanh, compute.SwiGLUClamped, compute.GELU}
	for i, k := range []struct {
		in, width, out, experts, chosen int
		router                          compute.Router
		bias, shared, factor            bool
		typ                             quant.Type
	}{
		{64, 64, 64, 8, 2, compute.Router{Normalise: true, Scale: 1}, false, false, false, quant.BF16},
		{72, 36, 100, 10, 3, compute.Router{Scale: 2.5, Sigmoid: true, Groups: 5, Kept: 3, GroupBest: 2}, true, true, false, quant.BF16},
		{200, 130, 70, 40, 4, compute.Router{Scale: 1, Normalise: true, Groups: 4, Kept: 2, GroupBest: 1}, false, true, true, quant.BF16},
		{300, 140, 130, 60, 8, compute.Router{Scale: 1}, true, true, true, quant.BF16},
		{96, 160, 80, 10, 2, compute.Router{Scale: 1}, false, false, false, quant.Q8_0},
		{256, 256, 80, 8, 2, compute.Router{Scale: 1}, false, false, false, quant.Q4_K},
		{96, 160, 80, 10, 2, compute.Router{Scale: 1}, false, false, false, quant.MXFP4},
		{128, 192, 320, 2, 2, compute.Router{Scale: 1}, false, false, false, quant.BF16},               // 300 rows of each expert
		{192, 320, 200, 4, 2, compute.Router{Scale: 1, Normalise: true}, true, true, true, quant.BF16}, // odd numbers of steps
		{256, 256, 144, 3, 2, compute.Router{Scale: 1}, false, false, false, quant.Q8_0},
		{320, 128, 72, 70, 4, compute.Router{Scale: 1}, true, false, false, quant.BF16},
		{1152, 832, 20, 3, 2, compute.Router{Scale: 1}, false, false, false, quant.MXFP4}, // more parts than a ring has
		{256, 768, 144, 8, 3, compute.Router{Scale: 1, Normalise: true}, true, true, false, quant.F8_E4M3},
		{512, 256, 320, 30, 10, compute.Router{Scale: 1}, false, false, true, quant.F8_E4M3},
		{1536, 512, 72, 2, 2, compute.Router{Scale: 1}, true, false, false, quant.F8_E4M3},
		{384, 1408, 80, 3, 2, compute.Router{Scale: 1, Normalise: true}, false, true, false, quant.F8_E4M3}, // odd numbers of steps
		{4352, 256, 48, 2, 1, compute.Router{Scale: 1}, false, false, false, quant.F8_E4M3},                 // more inputs than a sum of one scale has
	} {
		off := 1e-2
		if k.typ != quant.BF16 {
			off = 3e-2 // rows are quantised on the processor
		}
		scalings := []scaling{scaledOtherwise}
		if k.typ == quant.F8_E4M3 {
			off, scalings = 1e-1, []scaling{scaledByGroup, scaledByBlock, scaledByOutput} // rows are rounded to 4 bits
		}
		for _, by := range scalings {
			cases = append(cases, opsCase{name: fmt.Sprintf("experts %d%s", i, []string{"", " by output", "", " by block"}[by]), off: off, by: by, graph: func(t testing.TB, d compute.Device, g *compute.Graph, r *rand.Rand, inputs func(int, float64) compute.Tensor) compute.Tensor {
				g.Routings = []compute.Routing{{Experts: k.experts, Chosen: k.chosen}}
				x, logits, dst := inputs(k.in, 1), inputs(k.experts, 2), inputs(k.out, 1)
				gate, up := g.Buffer(k.chosen*k.width, compute.AllRows), g.Buffer(k.chosen*max(k.width, k.out), compute.AllRows)
				product := func(dst compute.Tensor, out, in int) compute.ExpertProduct {
					q := compute.ExpertProduct{Dst: dst.Narrow(out)}
					for range k.experts {
						if k.typ == quant.BF16 {
							q.W = append(q.W, weight(t, d, bell(r, out*in, 1/math.Sqrt(float64(in))), out, in))
						} else if by != scaledOtherwise {
							q.W = append(q.W, float8Weight(t, d, r, out, in, by))
						} else {
							w, err := d.Matrix(packedSource(t, r, k.typ, out, in))
							if err != nil {
								t.Fatal(err)
							}
							q.W = append(q.W, w)
						}
						if k.bias {
							bias := bell(r, out, 1)
							for o := range bias {
								if r.IntN(8) == 0 {
									bias[o] = -200 // of which an activation's divisor is beyond 2¹²⁶
								}
							}
							q.Bias = append(q.Bias, vectorOf(t, d, bias))
						}
					}
					return q
				}
				router := k.router
				if k.bias {
					router.Bias = vectorOf(t, d, bell(r, k.experts, 0.1))
				}
				combine := compute.Combine{Dst: dst, Src: up.Narrow(k.out)}
				if k.shared {
					combine.Shared = dst
				}
				if k.factor {
					combine.Factor = inputs(1, 1)
				}
				g.Add(compute.Route{Logits: logits, Router: router},
					compute.MatMulExperts{X: x, Products: []compute.ExpertProduct{product(up, k.width, k.in), product(gate, k.width, k.in)}},
					compute.Activate{Dst: gate, Gate: gate, Up: up.Narrow(k.chosen * k.width), Act: acts[i%len(acts)]},
					compute.MatMulExperts{X: gate.Narrow(k.width), Routed: true, Products: []compute.ExpertProduct{product(up, k.out, k.width)}},
					combine)
				return dst
			}})
		}
	}
	return cases
}

func headCases() []opsCase {
	var cases []opsCase
	for _, k := range [][4]int{{4, 24, 40, 8}, {3, 20, 70, 3}, {2, 128, 512, 64}} { // heads, in, out, rest
		cases = append(cases, opsCase{name: fmt.Sprint("heads ", k), off: 1e-2, graph: func(t testing.TB, d compute.Device, g *compute.Graph, r *rand.Rand, inputs func(int, float64) compute.Tensor) compute.Tensor {
			heads, in, out, rest := k[0], k[1], k[2], k[3]
			o := compute.MatMulHeads{X: inputs(heads*(in+rest), 1), Dst: g.Buffer(heads*(out+rest), compute.AllRows)}
			for range heads {
				o.W = append(o.W, weight(t, d, bell(r, out*in, 1/math.Sqrt(float64(in))), out, in))
			}
			g.Add(o)
			return o.Dst
		}})
	}
	return cases
}

// mixtureCase is a whole mixture: the norm, the router's product, the choice, products, their sum, and its addition to
// the residual stream. Each row chooses all experts, so that rounding does not choose others. Weights of experts are
// F8_E4M3 if `by` says how they are scaled.
func mixtureCase(hidden, experts, shared int, by scaling) opsCase {
	name, off, width := fmt.Sprintf("mixture of %d and a shared one of %d on rows of %d", experts, shared, hidden), 1e-2, 192
	if by != scaledOtherwise {
		name, off, width = name+[]string{"", " by output", " by group", " by block"}[by], 1e-1, 256
	}
	return opsCase{name: name, off: off, graph: func(t testing.TB, d compute.Device, g *compute.Graph, r *rand.Rand, inputs func(int, float64) compute.Tensor) compute.Tensor {
		g.Routings = []compute.Routing{{Experts: experts, Chosen: experts}}
		all := func(width int) compute.Tensor { return g.Buffer(width, compute.AllRows) }
		h, x, logits, added := inputs(hidden, 1), all(hidden), all(experts), all(hidden)
		gate, up := all(experts*width), all(experts*hidden)
		of := func(out, in int) compute.Matrix {
			return weight(t, d, bell(r, out*in, 1/math.Sqrt(float64(in))), out, in)
		}
		product := func(dst compute.Tensor, in int) (q compute.ExpertProduct) {
			q.Dst = dst
			for range experts {
				if by == scaledOtherwise {
					q.W = append(q.W, of(dst.Cols, in))
				} else {
					q.W = append(q.W, float8Weight(t, d, r, dst.Cols, in, by))
				}
			}
			return q
		}
		sum := compute.Combine{Dst: added, Src: up.Narrow(hidden)}
		router := compute.MatMul{X: x, Products: []compute.Product{{Dst: logits, W: of(experts, hidden), Bias: vectorOf(t, d, bell(r, experts, 1))}}}
		var ofShared []compute.Op
		if shared > 0 {
			gate, up := all(shared), all(shared)
			router.Products = append([]compute.Product{{Dst: up, W: of(shared, hidden)}, {Dst: gate, W: of(shared, hidden)}}, router.Products...)
			ofShared = append(ofShared, compute.Activate{Dst: gate, Gate: gate, Up: up}, compute.MatMul{X: gate, Products: []compute.Product{{Dst: added, W: of(hidden, shared)}}})
			sum.Shared = added
		}
		g.Add(compute.Normalize{Dst: x, Src: h, Norm: compute.Norm{Gain: vectorOf(t, d, bell(r, hidden, 1)), Eps: 1e-5}}, router,
			compute.Route{Logits: logits, Router: compute.Router{Scale: 1.5, Normalise: true}},
			compute.MatMulExperts{X: x, Products: []compute.ExpertProduct{product(up.Narrow(width), hidden), product(gate.Narrow(width), hidden)}})
		g.Add(ofShared...)
		g.Add(compute.Activate{Dst: gate, Gate: gate, Up: up.Narrow(experts * width)},
			compute.MatMulExperts{X: gate.Narrow(width), Routed: true, Products: []compute.ExpertProduct{product(up.Narrow(hidden), width)}},
			sum, compute.Add{Dst: h, Src: added, Scale: 0.75})
		return h
	}}
}

func recurrentCases() []opsCase {
	var cases []opsCase
	for _, k := range []compute.Delta{
		{KeyHeads: 2, ValueHeads: 4, KeyDim: 32, ValueDim: 32, Window: 4},
		{KeyHeads: 1, ValueHeads: 3, KeyDim: 20, ValueDim: 70, Window: 2},
		{KeyHeads: 2, ValueHeads: 2, KeyDim: 128, ValueDim: 128, Window: 8},
	} {
		spec := compute.CacheSpec{States: 8, Layers: []compute.CacheLayer{{State: k.State()}, {KVHeads: 1, KDim: 16, VDim: 16}}}
		cases = append(cases, opsCase{name: fmt.Sprintf("delta %d", k.KeyDim), cache: spec, off: 1e-2, graph: func(t testing.TB, d compute.Device, g *compute.Graph, r *rand.Rand, inputs func(int, float64) compute.Tensor) compute.Tensor {
			qkv, a, b := inputs(k.Channels(), 1), inputs(k.ValueHeads, 1), inputs(k.ValueHeads, 1)
			delta := k
			delta.Taps = vectorOf(t, d, bell(r, k.Window*k.Channels(), 0.5))
			decay := bell(r, k.ValueHeads, 1)
			for i := range decay {
				decay[i] = -float32(math.Abs(float64(decay[i])))
			}
			delta.Decay, delta.Bias = vectorOf(t, d, decay), vectorOf(t, d, bell(r, k.ValueHeads, 1))
			dst := g.Buffer(k.ValueHeads*k.ValueDim, compute.AllRows)
			g.Add(compute.Convolve{X: qkv, Delta: delta}, compute.Activate{Dst: qkv, Gate: qkv},
				compute.DeltaRule{Dst: dst, QKV: qkv, A: a, B: b, Delta: delta})
			return dst
		}})
	}
	return cases
}

// offOf is what a type of keys and values may cost.
func offOf(kv quant.Type) float64 {
	if kv == quant.F8_E4M3 {
		return 1.5e-1
	}
	return 2e-2
}

// storeCase is attention whose keys are rotated, with heads of dim numbers and values of others; normed heads are
// normalised before.
func storeCase(kv quant.Type, dim, values int, normed bool) opsCase {
	const heads, kvHeads = 4, 2
	spec := compute.CacheSpec{Layers: []compute.CacheLayer{{KVHeads: kvHeads, KDim: dim, VDim: values}}}
	return opsCase{name: fmt.Sprintf("cache of %v, heads of %d, normed: %t", kv, dim, normed), cache: spec, kv: kv, off: offOf(kv), graph: func(t testing.TB, d compute.Device, g *compute.Graph, r *rand.Rand, inputs func(int, float64) compute.Tensor) compute.Tensor {
		q, k, v, dst := inputs(heads*dim, 1), inputs(kvHeads*dim, 1), inputs(kvHeads*values, 1), g.Buffer(heads*values, compute.AllRows)
		angles := g.Buffer(dim, compute.AllRows)
		freqs := make([]float32, dim/2)
		for i := range freqs {
			freqs[i] = 1 / float32(i+1)
		}
		g.Add(compute.Angles{Dst: angles, Freqs: vectorOf(t, d, freqs), Scale: 1})
		if normed {
			g.Add(compute.Normalize{Dst: q, Src: q, Norm: compute.Norm{Gain: vectorOf(t, d, bell(r, dim, 1)), Eps: 1e-5}},
				compute.Normalize{Dst: k, Src: k, Norm: compute.Norm{Gain: vectorOf(t, d, bell(r, dim, 1)), Eps: 1e-6}})
		}
		g.Add(compute.Rotate{X: q, Angles: angles, Rotary: compute.Rotary{Heads: heads, HeadDim: dim}},
			compute.Rotate{X: k, Angles: angles, Rotary: compute.Rotary{Heads: kvHeads, HeadDim: dim}},
			compute.Store{K: k, V: v}, compute.Attend{Q: q, Dst: dst, Attention: compute.Attention{Heads: heads, Scale: 0.12}})
		return dst
	}}
}

func adapterWeight(t testing.TB, d compute.Device, v []float32, out, in int) compute.Matrix {
	t.Helper()
	src := compute.Source{Name: "low", Type: quant.BF16, Out: out, In: in, Adapter: true}
	for _, x := range v {
		u := math.Float32bits(x)
		src.Data = append(src.Data, byte(u>>16), byte(u>>24))
	}
	m, err := d.Matrix(src)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestOperationsOnFake runs every case on a driver that computes nothing: arguments, lifetimes, and what is given
// back.
func TestOperationsOnFake(t *testing.T) {
	cases := append(expertCases(), headCases()...)
	cases = append(cases, mixtureCase(2048, 5, 0, scaledOtherwise), mixtureCase(576, 3, 0, scaledOtherwise), mixtureCase(256, 3, 0, scaledByGroup))
	cases = append(cases, recurrentCases()...)
	for _, k := range kvTypes {
		cases = append(cases, latentCase(k.typ, 20, 64, 16), storeCase(k.typ, 72, 40, false), storeCase(k.typ, 96, 96, false), storeCase(k.typ, 192, 192, false))
	}
	for _, k := range oddShapes {
		cases = append(cases, k.odd())
	}
	for _, c := range append(cases, adapterCase(100, 72, 90)) {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			d, err := newDevice(f, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { // after the program is closed
				if err := d.Close(); err != nil {
					t.Error(err)
				}
				f.leaks()
			})
			p := compileCase(t, d, c)
			runParts(t, p, part{slot: 1, n: 40}, part{slot: 2, n: 2})
			runParts(t, p, part{slot: 1, from: 40, n: 1}, part{slot: 2, from: 2, n: 1})
		})
	}
}

// TestPlace puts adapters into slots again and again, on a driver that computes nothing: the device's memory stays
// the same, and rows of larger ranks find room.
func TestPlace(t *testing.T) {
	f := newFake(t)
	t.Cleanup(f.leaks)
	d := deviceOf(t, f)
	c := adapterCase(100, 72, 90)
	p := compileCase(t, d, c)
	place := func(all ...compute.Placement) {
		t.Helper()
		s, err := p.Start(&compute.Batch{Place: all})
		if err == nil {
			err = s.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(7, 8))
	before := len(d.taken)
	for range 3 {
		place(c.place(t, d, r)...)
		runParts(t, p, part{slot: 1, n: 30, adapter: 1}, part{slot: 2, n: 1, adapter: 2}, part{slot: 3, n: 1})
		if len(d.taken) != before {
			t.Fatalf("the device holds %d pieces of memory; want %d, as before", len(d.taken), before)
		}
	}
	again := c.place(t, d, r)
	place(again...)
	place(again...) // as after a fault
	runParts(t, p, part{slot: 1, n: 1, adapter: 2})
	place(compute.Placement{Slot: 1}, compute.Placement{Slot: 2})
	if held := len(d.taken); held != before-10 {
		t.Errorf("the device holds %d pieces of memory without adapters; want %d", held, before-10)
	}
	for _, b := range []compute.Batch{
		{Place: []compute.Placement{{Slot: 3}}},
		{Place: []compute.Placement{{Slot: 1, Low: make([]compute.LowRank, 2)}}},
		{IDs: []int32{1}, Pos: []int32{0}, Seqs: []compute.Seq{{Rows: 1, Adapter: 3}}},
	} {
		if _, err := p.Start(&b); err == nil {
			t.Errorf("%+v is taken", b)
		}
	}
}

// TestMoved brings more blocks to the cache than there are places for, and takes them back in the steps behind, two of
// which are always under way.
func TestMoved(t *testing.T) {
	testMoved(t, gpuDevice(t))
}

func testMoved(t *testing.T, d *device) {
	const blocks, all = 1200, 1100
	r := rand.New(rand.NewPCG(9, 9))
	g := &compute.Graph{Vocab: opsVocab}
	h, logits := g.Buffer(64, compute.LogitRows), g.Buffer(opsVocab, compute.LogitRows)
	g.Add(compute.Head{X: h, Product: compute.Product{Dst: logits, W: weight(t, d, bell(r, opsVocab*64, 1), opsVocab, 64)}, Scale: 1}, compute.Choose{Logits: logits})
	p := compileGraph(t, d, g, oneLayer(t, d, blocks, compute.CacheLayer{KVHeads: 2, KDim: 24, VDim: 40}), compute.Limits{Rows: 8, Slots: 1})
	moves := func(n int) []compute.Transfer {
		out, size := make([]compute.Transfer, n), p.BlockBytes()
		known := make([]byte, n*size)
		if err := p.(compute.Pinner).Pin(known); err != nil {
			t.Fatal(err)
		}
		for i := range out {
			out[i] = compute.Transfer{Block: int32((i * 7) % all), Data: make([]byte, size)}
			switch i % 3 { // two of them are copied where they are
			case 0:
				out[i].Data = p.(compute.Pinner).Pinned(size)
			case 1:
				out[i].Data = known[i*size:][:size]
			}
		}
		return out
	}
	in := moves(all)
	for _, x := range in {
		for i := range x.Data {
			x.Data[i] = byte(r.Uint32())
		}
	}
	first, second, third := &compute.Batch{In: in}, &compute.Batch{Out: moves(all), Copies: [][2]int32{{7, all}, {all, all + 1}}}, &compute.Batch{Out: moves(3)}
	second.In = []compute.Transfer{{Block: 14, Data: in[0].Data}} // what was there leaves before
	third.Out[0].Block, third.Out[2].Block = all+1, 14
	secondOut, thirdOut := second.Out, third.Out
	var under []compute.Step
	for _, b := range []*compute.Batch{first, second, third} {
		s, err := p.Start(b)
		if err != nil {
			t.Fatal(err)
		}
		if under = append(under, s); len(under) == 2 {
			if err := under[0].Wait(); err != nil {
				t.Fatal(err)
			}
			under = under[1:]
		}
	}
	if err := under[0].Wait(); err != nil {
		t.Fatal(err)
	}
	for i := range in {
		if !bytes.Equal(secondOut[i].Data, in[i].Data) {
			t.Fatalf("block %d comes back as another one", in[i].Block)
		}
	}
	for i, want := range [][]byte{in[1].Data, in[1].Data, in[0].Data} {
		if !bytes.Equal(thirdOut[i].Data, want) {
			t.Errorf("block %d of the last step is not what was moved to it", thirdOut[i].Block)
		}
	}
}
