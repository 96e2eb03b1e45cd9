package cuda

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// gpuDevice opens the first GPU, or skips the test. KVASIR_GPU=1 makes a machine without one fail.
func gpuDevice(t testing.TB) *device {
	t.Helper()
	d, err := open("", compute.Options{})
	if err != nil {
		if os.Getenv("KVASIR_GPU") != "" {
			t.Fatal(err)
		}
		t.Skip("no GPU here: ", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d.(*device)
}

// less returns a test's sizes: on a GPU, or where one is emulated, which is a hundred thousand times slower, those that
// reach the same kernels.
func less[T any](gpu, emulation T) T {
	if emulated {
		return emulation
	}
	return gpu
}

// roundBF16 is x as bfloat16 stores it.
func roundBF16(x float32) float32 {
	u := math.Float32bits(x)
	u += 0x7fff + u>>16&1
	return math.Float32frombits(u &^ 0xffff)
}

// bell returns n normal numbers that are bfloat16s.
func bell(r *rand.Rand, n int, scale float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = roundBF16(float32(r.NormFloat64() * scale))
	}
	return v
}

// weight loads a weight [out, in] of numbers that are bfloat16s.
func weight(t testing.TB, d compute.Device, v []float32, out, in int) compute.Matrix {
	t.Helper()
	data := make([]byte, 2*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint16(data[2*i:], uint16(math.Float32bits(x)>>16))
	}
	m, err := d.Matrix(compute.Source{Name: "w", Type: quant.BF16, Out: out, In: in, Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func vectorOf(t testing.TB, d compute.Device, v []float32) compute.Vector {
	t.Helper()
	w, err := d.Vector(v)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func identity(n int) []float32 {
	v := make([]float32, n*n)
	for i := range n {
		v[i*n+i] = 1
	}
	return v
}

// oneLayer is a cache of one layer.
func oneLayer(t testing.TB, d compute.Device, blocks int, l compute.CacheLayer) compute.Cache {
	t.Helper()
	c, err := d.Cache(compute.CacheSpec{Blocks: blocks, BlockTokens: 16, Type: quant.BF16, Layers: []compute.CacheLayer{l}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func compileGraph(t testing.TB, d compute.Device, g *compute.Graph, c compute.Cache, l compute.Limits) compute.Program {
	t.Helper()
	p, err := d.Compile(g, c, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// step runs a batch and returns the hidden states of all its rows.
func runHidden(t testing.TB, p compute.Program, b *compute.Batch) [][]float32 {
	t.Helper()
	b.Hidden = b.Hidden[:0]
	for r := range b.IDs {
		b.Hidden = append(b.Hidden, int32(r))
	}
	s, err := p.Start(b)
	if err == nil {
		err = s.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	out := make([][]float32, len(b.Hidden))
	for i := range out {
		out[i] = append([]float32(nil), s.Hidden(i)...)
	}
	return out
}

// ids returns a batch of one sequence with the tokens from to from+n-1.
func ids(from, n int) *compute.Batch {
	b := &compute.Batch{}
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(from + i)
	}
	b.Append(tokens, 0, false)
	return b
}

// distance returns ‖got - want‖ / ‖want‖; NaN where a number is none.
func distance(got []float32, want []float64) float64 {
	var d, n float64
	for i, w := range want {
		d += (float64(got[i]) - w) * (float64(got[i]) - w)
		n += w * w
	}
	return math.Sqrt(d / n)
}

func TestProducts(t *testing.T) {
	d := gpuDevice(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, shape := range less([][2]int{{64, 64}, {100, 48}, {4096, 4096}, {1024, 14336}, {48, 1000}, {6144, 256}, {8192, 512}, {8200, 4608}, {300, 28672}},
		[][2]int{{64, 64}, {100, 48}, {48, 1000}, {456, 512}, {80, 2112}, {40, 8448}}) {
		out, in := shape[0], shape[1]
		const vocab = 300
		x, w, bias := bell(r, vocab*in, 1), bell(r, out*in, 1/math.Sqrt(float64(in))), bell(r, out, 1)
		table, m := weight(t, d, x, vocab, in), weight(t, d, w, out, in)
		g := &compute.Graph{Vocab: vocab}
		h, y := g.Buffer(in, compute.AllRows), g.Buffer(out, compute.AllRows)
		hid := g.Buffer(out, compute.HiddenRows)
		g.Add(compute.Embed{Dst: h, Table: table, Scale: 1},
			compute.MatMul{X: h, Products: []compute.Product{{Dst: y, W: m, Bias: vectorOf(t, d, bias)}}},
			compute.Gather{Dst: hid, Src: y}, compute.Choose{Hidden: hid})
		p := compileGraph(t, d, g, oneLayer(t, d, 8, compute.CacheLayer{KVHeads: 1, KDim: 16, VDim: 16}), compute.Limits{Rows: vocab, Slots: 4})
		all := runHidden(t, p, ids(0, vocab))
		for row := 0; row < vocab; row += 37 {
			want := make([]float64, out)
			for o := range out {
				for i := range in {
					want[o] += float64(x[row*in+i]) * float64(w[o*in+i])
				}
				want[o] += float64(bias[o])
			}
			if e := distance(all[row], want); !(e < 3e-3) {
				t.Fatalf("[%d, %d]: row %d is off by %g", out, in, row, e)
			}
		}
		for _, n := range []int{1, 5, 8, 9, 16, 17, 31, 32, 33, 64, 65, 127, 128, 129, 200} {
			for row, got := range runHidden(t, p, ids(300-n, n)) {
				for o := range got {
					if want := all[300-n+row][o]; got[o] != want {
						t.Fatalf("[%d, %d]: output %d of row %d is %v beside %d rows and %v beside all", out, in, o, row, got[o], n, want)
					}
				}
			}
		}
	}
}

// attendCase is a shape of attention.
type attendCase struct {
	heads, kv, dim, window int
	softcap                float32
	sinks, bidirectional   bool
	cached                 quant.Type // 0: BF16
	block                  int        // tokens, 0: 16
}

func TestAttention(t *testing.T) {
	d := gpuDevice(t)
	cases := []attendCase{
		{heads: 4, kv: 1, dim: 128}, {heads: 8, kv: 8, dim: 64}, {heads: 6, kv: 2, dim: 96, window: 100}, {heads: 4, kv: 2, dim: 80, softcap: 20},
		{heads: 16, kv: 1, dim: 64, sinks: true}, {heads: 20, kv: 1, dim: 64}, {heads: 4, kv: 2, dim: 16}, {heads: 3, kv: 1, dim: 40, window: 70, sinks: true},
		{heads: 4, kv: 2, dim: 128, bidirectional: true}, {heads: 2, kv: 2, dim: 256}, {heads: 6, kv: 2, dim: 192, window: 100, sinks: true},
	}
	for _, k := range kvTypes[1:] {
		for _, dim := range []int{64, 80, 96, 128, 192, 256} {
			cases = append(cases, attendCase{heads: 6, kv: 2, dim: dim, cached: k.typ})
		}
		cases = append(cases, attendCase{heads: 20, kv: 1, dim: 128, window: 100, softcap: 20, sinks: true, cached: k.typ},
			attendCase{heads: 4, kv: 2, dim: 80, bidirectional: true, cached: k.typ}, attendCase{heads: 4, kv: 2, dim: 48, cached: k.typ},
			attendCase{heads: 10, kv: 1, dim: 128, window: 150, cached: k.typ, block: 32})
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) { testAttention(t, d, c) })
	}
}

func testAttention(t *testing.T, d *device, c attendCase) {
	vocab := less(700, 170)
	part := func(n int) int { return n * vocab / 700 }
	r := rand.New(rand.NewPCG(3, 4))
	width, kvWidth := c.heads*c.dim, c.kv*c.dim
	g := &compute.Graph{Vocab: vocab}
	values := map[string][]float32{}
	make := func(name string, width int) compute.Tensor {
		values[name] = bell(r, vocab*width, 1)
		x := g.Buffer(width, compute.AllRows)
		g.Add(compute.Embed{Dst: x, Table: weight(t, d, values[name], vocab, width), Scale: 1})
		return x
	}
	q, k, v := make("q", width), make("k", kvWidth), make("v", kvWidth)
	dst, hid := g.Buffer(width, compute.AllRows), g.Buffer(width, compute.HiddenRows)
	a := compute.Attention{Heads: c.heads, Scale: float32(1 / math.Sqrt(float64(c.dim))), Softcap: c.softcap, Window: c.window, Bidirectional: c.bidirectional}
	var sinks []float32
	if c.sinks {
		sinks = bell(r, c.heads, 1)
		a.Sinks = vectorOf(t, d, sinks)
	}
	g.Add(compute.Store{K: k, V: v}, compute.Attend{Dst: dst, Q: q, Attention: a}, compute.Gather{Dst: hid, Src: dst}, compute.Choose{Hidden: hid})
	spec := compute.CacheSpec{Blocks: 200, BlockTokens: cmp.Or(c.block, 16), Type: quant.BF16, Layers: []compute.CacheLayer{{KVHeads: c.kv, KDim: c.dim, VDim: c.dim}}}
	most := 1e-2
	if c.cached != 0 {
		spec.Type, most = c.cached, offOf(c.cached)
	}
	cache, err := d.Cache(spec)
	if err != nil {
		t.Fatal(err)
	}
	p := compileGraph(t, d, g, cache, compute.Limits{Rows: vocab, Slots: 4})
	if k, fits := p.(*program).attender(a, spec.Layers[0]); fits != (attendDims[c.dim] != "") {
		t.Errorf("in tensor cores, by %s: %t", k.tile, fits)
	}

	batch := func(b *compute.Batch, slot, from, n int) {
		tokens := []int32{}
		for i := range n {
			tokens = append(tokens, int32(from+i))
		}
		b.AppendSeq(compute.Seq{Start: int32(from), Slot: int32(slot)}, tokens, n)
		if from == 0 {
			for i := range (vocab + spec.BlockTokens - 1) / spec.BlockTokens {
				b.Edits = append(b.Edits, compute.TableEdit{Slot: int32(slot), At: int32(i), Block: int32(slot*50 + (i*7)%50)})
			}
		}
	}
	b := &compute.Batch{}
	batch(b, 0, 0, vocab)
	whole := runHidden(t, p, b)
	for _, row := range []int{0, 1, 63, 64, 65, part(200), part(511), vocab - 1} {
		want := attendReference(c, values, sinks, row, vocab)
		if e := distance(whole[row], want); !(e < most) {
			t.Errorf("row %d is off by %g", row, e)
		}
	}
	if c.bidirectional {
		return
	}
	// The same in company, in chunks and one by one, gives the same bits.
	same := func(what string, got [][]float32, from int) {
		t.Helper()
		for i := range got {
			for o := range got[i] {
				if got[i][o] != whole[from+i][o] {
					t.Fatalf("%s: number %d of row %d is %v; whole, it is %v", what, o, from+i, got[i][o], whole[from+i][o])
				}
			}
		}
	}
	b = &compute.Batch{}
	begin, rest := part(333), part(400)
	batch(b, 1, 0, begin)
	batch(b, 2, 0, 3)
	both := runHidden(t, p, b)
	same("in company", both[:begin], 0)
	same("few in company", both[begin:], 0)
	for from, n := range map[int]int{begin: 1, 3: 2} {
		b = &compute.Batch{}
		if from == 3 {
			batch(b, 2, from, n)
			same("few", runHidden(t, p, b), from)
			continue
		}
		for at := from; at < rest; at++ {
			b = &compute.Batch{}
			batch(b, 1, at, 1)
			same("one by one", runHidden(t, p, b), at)
		}
		b = &compute.Batch{}
		batch(b, 1, rest, vocab-rest)
		same("the rest", runHidden(t, p, b), rest)
	}
	// A row whose chunks many blocks have, and one of which one block has all.
	b = &compute.Batch{}
	long := vocab - less(10, 2)
	batch(b, 3, 0, long)
	runHidden(t, p, b)
	for at := long; at < vocab; at++ {
		b = &compute.Batch{}
		batch(b, 3, at, 1)
		same("a long row", runHidden(t, p, b), at)
		b = &compute.Batch{}
		batch(b, 3, at, 1)
		batch(b, 0, at/10, 2)
		two := runHidden(t, p, b)
		same("a long row beside a short one", two[:1], at)
		same("a short row beside a long one", two[1:], at/10)
	}
	// Rows of several sequences, whose chunks do not end where those of a block do.
	for n := 1; n <= fewRows; n++ {
		b = &compute.Batch{}
		parts := []struct{ slot, from int }{{1, 100}, {0, part(630)}, {3, part(350 + 20*n)}}
		for _, q := range parts {
			batch(b, q.slot, q.from, n)
		}
		all := runHidden(t, p, b)
		for i, q := range parts {
			same("rows of three sequences", all[i*n:(i+1)*n], q.from)
		}
	}
}

// attendReference computes attention of a row in float64.
func attendReference(c attendCase, values map[string][]float32, sinks []float32, row, n int) []float64 {
	width, kvWidth := c.heads*c.dim, c.kv*c.dim
	out := make([]float64, width)
	last, first := row, 0
	if c.bidirectional {
		last = n - 1
	}
	if c.window > 0 {
		first = max(0, row+1-c.window)
	}
	for h := range c.heads {
		kvAt := h / (c.heads / c.kv) * c.dim
		sum := 0.0
		if sinks != nil {
			sum = math.Exp(float64(sinks[h]))
		}
		for pos := first; pos <= last; pos++ {
			s := 0.0
			for i := range c.dim {
				s += float64(values["q"][row*width+h*c.dim+i]) * float64(values["k"][pos*kvWidth+kvAt+i])
			}
			s /= math.Sqrt(float64(c.dim))
			if c.softcap > 0 {
				s = float64(c.softcap) * math.Tanh(s/float64(c.softcap))
			}
			w := math.Exp(s)
			sum += w
			for i := range c.dim {
				out[h*c.dim+i] += w * float64(values["v"][pos*kvWidth+kvAt+i])
			}
		}
		for i := range c.dim {
			out[h*c.dim+i] /= sum
		}
	}
	return out
}
