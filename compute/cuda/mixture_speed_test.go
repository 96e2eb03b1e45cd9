package cuda

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// mixtureShape is a decoder whose feed-forwards are mixtures of experts.
type mixtureShape struct{ layers, hidden, heads, kv, dim, experts, chosen, width, vocab int }

// qwen30B is the shape of Qwen3-30B-A3B.
var qwen30B = mixtureShape{48, 2048, 32, 4, 128, 128, 8, 768, 151936}

// oss20B is the shape of gpt-oss-20b, whose experts are MXFP4.
var oss20B = mixtureShape{24, 2880, 64, 8, 64, 32, 4, 2880, 201088}

// mixtureOps are the operations of a layer, once they are compiled.
var mixtureOps = []string{"norm", "qkv", "norm+rope+store", "attend", "out+add", "norm+router+route", "gate,up+act", "down+add"}

// graph makes the graph of a model of the shape.
func (k mixtureShape) graph(t testing.TB, d compute.Device, weight, ofExpert func(out, in int) compute.Matrix) *compute.Graph {
	g := &compute.Graph{Vocab: k.vocab, Routings: []compute.Routing{{Experts: k.experts, Chosen: k.chosen}}}
	all := func(width int) compute.Tensor { return g.Buffer(width, compute.AllRows) }
	h, x, added, logits := all(k.hidden), all(k.hidden), all(k.hidden), all(k.experts)
	q, keys, v, mixed := all(k.heads*k.dim), all(k.kv*k.dim), all(k.kv*k.dim), all(k.heads*k.dim)
	gate, up, angles := all(k.chosen*k.width), all(k.chosen*max(k.width, k.hidden)), all(k.dim)
	last, out := g.Buffer(k.hidden, compute.LogitRows), g.Buffer(k.vocab, compute.LogitRows)
	ones, freqs := make([]float32, k.hidden), make([]float32, k.dim/2)
	for i := range ones {
		ones[i] = 1
	}
	for i := range freqs {
		freqs[i] = float32(math.Pow(1e6, -float64(i)/float64(len(freqs))))
	}
	norm, ofHead := compute.Norm{Gain: vectorOf(t, d, ones), Eps: 1e-6}, compute.Norm{Gain: vectorOf(t, d, ones[:k.dim]), Eps: 1e-6}
	one := func(dst compute.Tensor, in int) compute.Product {
		return compute.Product{Dst: dst, W: weight(dst.Cols, in)}
	}
	experts := func(dst compute.Tensor, in int) (e compute.ExpertProduct) {
		e.Dst = dst
		for range k.experts {
			e.W = append(e.W, ofExpert(dst.Cols, in))
		}
		return e
	}
	// Rows are much larger than what attention adds, so that they choose experts of their own.
	g.Add(compute.Embed{Dst: h, Table: weight(k.vocab, k.hidden), Scale: 64}, compute.Angles{Dst: angles, Freqs: vectorOf(t, d, freqs), Scale: 1})
	for i := range k.layers {
		g.Add(compute.Normalize{Dst: x, Src: h, Norm: norm},
			compute.MatMul{X: x, Products: []compute.Product{one(q, k.hidden), one(keys, k.hidden), one(v, k.hidden)}},
			compute.Normalize{Dst: q, Src: q, Norm: ofHead}, compute.Normalize{Dst: keys, Src: keys, Norm: ofHead},
			compute.Rotate{X: q, Angles: angles, Rotary: compute.Rotary{Heads: k.heads, HeadDim: k.dim}},
			compute.Rotate{X: keys, Angles: angles, Rotary: compute.Rotary{Heads: k.kv, HeadDim: k.dim}},
			compute.Store{Layer: i, K: keys, V: v},
			compute.Attend{Layer: i, Dst: mixed, Q: q, Attention: compute.Attention{Heads: k.heads, Scale: 0.1}},
			compute.MatMul{X: mixed, Products: []compute.Product{one(added, k.heads*k.dim)}},
			compute.Add{Dst: h, Src: added, Scale: 1},
			compute.Normalize{Dst: x, Src: h, Norm: norm},
			compute.MatMul{X: x, Products: []compute.Product{one(logits, k.hidden)}},
			compute.Route{Logits: logits, Router: compute.Router{Scale: 1, Normalise: true}},
			compute.MatMulExperts{X: x, Products: []compute.ExpertProduct{experts(up.Narrow(k.width), k.hidden), experts(gate.Narrow(k.width), k.hidden)}},
			compute.Activate{Dst: gate, Gate: gate, Up: up.Narrow(k.chosen * k.width)},
			compute.MatMulExperts{X: gate.Narrow(k.width), Routed: true, Products: []compute.ExpertProduct{experts(up.Narrow(k.hidden), k.width)}},
			compute.Combine{Dst: added, Src: up.Narrow(k.hidden)},
			compute.Add{Dst: h, Src: added, Scale: 1})
	}
	g.Add(compute.Gather{Dst: last, Src: h}, compute.Normalize{Dst: last, Src: last, Norm: norm},
		compute.Head{X: last, Product: one(out, k.hidden), Scale: 1}, compute.Choose{Logits: out})
	return g
}

// TestSpeedOfMixture measures steps of the shape of Qwen3-30B-A3B with random weights, as TestSpeed does, if
// KVASIR_GPU_MIXTURE lists what. Before the list, "oss" asks for the shape of gpt-oss-20b, "type=Q4_K" for experts of
// another type, "group=128" for scales of so many inputs of F8_E4M3, "width=1408" for experts of another width, and
// "layers=8" leaves the other layers out.
func TestSpeedOfMixture(t *testing.T) {
	what := os.Getenv("KVASIR_GPU_MIXTURE")
	if what == "" {
		t.Skip("KVASIR_GPU_MIXTURE lists nothing to measure")
	}
	k := qwen30B
	typ := quant.BF16
	if rest, oss := strings.CutPrefix(what, "oss "); oss {
		k, typ, what = oss20B, quant.MXFP4, rest
	}
	if rest, named := strings.CutPrefix(what, "type="); named {
		name, list, _ := strings.Cut(rest, " ")
		var err error
		if typ, err = quant.Parse(name); err != nil {
			t.Fatal(err)
		}
		what = list
	}
	group := leading(t, &what, "group", math.MaxInt)
	k.width = leading(t, &what, "width", k.width)
	k.layers = leading(t, &what, "layers", k.layers)
	d := gpuDevice(t)
	r := rand.New(rand.NewPCG(1, 1))
	begin, bytes := time.Now(), int64(0)
	g := k.graph(t, d, randomWeights(t, d, r, quant.BF16, 0, &bytes), randomWeights(t, d, r, typ, group, &bytes))
	if err := d.loading.wait(); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("loading: %.1f GB in %.2f s\n", float64(bytes)/1e9, time.Since(begin).Seconds())
	const most = 256
	spec := compute.CacheSpec{Blocks: 40 * most, BlockTokens: 16, Type: quant.BF16}
	for range k.layers {
		spec.Layers = append(spec.Layers, compute.CacheLayer{KVHeads: k.kv, KDim: k.dim, VDim: k.dim})
	}
	c, err := d.Cache(spec)
	if err != nil {
		t.Fatal(err)
	}
	p := compileGraph(t, d, g, c, compute.Limits{Rows: 8192, Slots: most + 1}).(*program)
	measureAll(t, r, p, what, mixtureOps)
}

// randomWeights makes weights of a type, of F8_E4M3 with a scale for each `group` inputs, whose products are about as
// large as their inputs, and counts their bytes.
func randomWeights(t testing.TB, d compute.Device, r *rand.Rand, typ quant.Type, group int, bytes *int64) func(out, in int) compute.Matrix {
	pool, block := packedSource(t, r, typ, 512, 4096).Data, typ.BlockBytes()
	blocks := len(pool) / block
	return func(out, in int) compute.Matrix {
		need := in / typ.BlockValues()
		at := r.IntN(blocks / 8)
		src := compute.Source{Name: "random", Type: typ, Out: out, In: in, Row: func(dst []byte, n int) {
			copy(dst, pool[(at+n*1171)%(blocks-need)*block:][:need*block])
		}}
		if typ == quant.F8_E4M3 {
			src.Group = min(group, in)
			src.Scales = make([]float32, out*int(blocksOf(in, src.Group)))
			for i := range src.Scales {
				src.Scales[i] = 1. / 64
			}
		}
		m, err := d.Matrix(src)
		if err != nil {
			t.Fatal(err)
		}
		*bytes += m.Bytes()
		return m
	}
}

// TestSpeedOfExperts measures every kernel that could compute the products of a mixture's experts, if
// KVASIR_GPU_EXPERTS lists rows. Before the list, "oss", "type=Q4_K" and "type=F8_E4M3" ask for other weights than
// BF16, "group=128" for scales of so many inputs of F8_E4M3.
func TestSpeedOfExperts(t *testing.T) {
	what := os.Getenv("KVASIR_GPU_EXPERTS")
	if what == "" {
		t.Skip("KVASIR_GPU_EXPERTS lists no rows")
	}
	d := gpuDevice(t)
	k, group := qwen30B, math.MaxInt
	typ, perWeight := quant.BF16, 2.0
	if rest, oss := strings.CutPrefix(what, "oss "); oss {
		k, typ, what, perWeight = oss20B, quant.MXFP4, rest, 4.5/8
	}
	if rest, packed := strings.CutPrefix(what, "type=Q4_K "); packed {
		typ, what, perWeight = quant.Q4_K, rest, 5./8
	}
	if rest, float8 := strings.CutPrefix(what, "type=F8_E4M3 "); float8 {
		typ, what, perWeight = quant.F8_E4M3, rest, 8.25/8
		group = leading(t, &what, "group", group)
	}
	k.layers, k.vocab = 2, 2048
	r, bytes := rand.New(rand.NewPCG(1, 1)), int64(0)
	g := k.graph(t, d, randomWeights(t, d, r, quant.BF16, 0, &bytes), randomWeights(t, d, r, typ, group, &bytes))
	layer := compute.CacheLayer{KVHeads: k.kv, KDim: k.dim, VDim: k.dim}
	c, err := d.Cache(compute.CacheSpec{Blocks: 512, BlockTokens: 16, Type: quant.BF16, Layers: []compute.CacheLayer{layer, layer}})
	if err != nil {
		t.Fatal(err)
	}
	p := compileGraph(t, d, g, c, compute.Limits{Rows: 8192, Slots: 1}).(*program)
	weight := float64(k.hidden * k.width) // of an expert
	wasGroupings, wasManies, wasFloat8s := groupings, manies, manyFloat8s
	defer func() { groupings, manies, manyFloat8s = wasGroupings, wasManies, wasFloat8s }()
	for _, n := range strings.Split(what, ",") {
		rows, err := strconv.Atoi(n)
		if err != nil {
			t.Fatal(err)
		}
		b := &compute.Batch{}
		b.AppendSeq(compute.Seq{}, random(r, rows), rows)
		for i := range b.IDs {
			b.IDs[i] %= int32(k.vocab)
		}
		for i := range 512 {
			b.Edits = append(b.Edits, compute.TableEdit{At: int32(i), Block: int32(i)})
		}
		try := func(name string) {
			wait(t, p, b) // so that routes are those of the last layer
			fmt.Printf("%5d rows, %-20s", rows, name)
			labels := make([]string, 2+2*len(mixtureOps))
			copy(labels[2+len(mixtureOps):], mixtureOps)
			for i := range labels {
				if !strings.Contains("norm+router+route gate,up+act down+add", labels[i]) {
					labels[i] = ""
				}
			}
			timeOperations(t, p, b, labels)
		}
		manies = nil
		for _, one := range wasGroupings {
			if groupings = []grouping{one}; rows <= 2048 && typ != quant.F8_E4M3 {
				try(one.name())
			}
		}
		groupings = wasGroupings
		for _, m := range wasManies {
			if m.least, m.codes = 0, 0; rows >= 32 && typ != quant.F8_E4M3 {
				manies = []many{m}
				try(m.name(false))
			}
		}
		groupings, manies = wasGroupings, wasManies
		for _, m := range wasFloat8s {
			if m.least, m.leastInputs = 0, 0; typ == quant.F8_E4M3 && m.by.grouped() == (group < k.hidden) {
				manyFloat8s = []manyFloat8{m}
				try(m.name(false))
			}
		}
		manyFloat8s = wasFloat8s
		try("as chosen")
		experts := float64(rows * k.chosen)
		if rows > 4 {
			experts = float64(chosenExperts(t, p, k.experts))
		}
		fmt.Printf("      %.0f experts; floors of gate,up at 3.1 TB/s and 650 TFLOP/s: %.1f %.1f us; of down half\n", experts, experts*weight*2*perWeight/3.1e6,
			float64(rows*k.chosen)*weight*4/650e6)
	}
}

// chosenExperts returns how many experts have rows in the last layer.
func chosenExperts(t testing.TB, p *program, experts int) (n int) {
	if err := p.g.enter(); err != nil {
		t.Fatal(err)
	}
	defer p.g.leave()
	to, err := p.g.allocPinned(4*experts, "where experts end")
	if err == nil {
		err = errors.Join(p.s.toHost(to, 0, p.routings[0].ends, 4*experts), p.s.wait())
	}
	if err != nil {
		t.Fatal(err)
	}
	before := int32(0)
	for _, end := range view[int32](to, 0, experts) {
		if end > before {
			n++
		}
		before = end
	}
	if err := p.g.freePinned(to); err != nil {
		t.Fatal(err)
	}
	return n
}
