package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/quant"
)

// attendCase is one sequence's attention in one layer.
type attendCase struct {
	spec    compute.CacheSpec
	attn    compute.Attention
	tokens  int
	q, k, v []float32 // [tokens, heads·dim]
}

func (c *attendCase) String() string {
	l := c.spec.Layers[0]
	return fmt.Sprintf("%d tokens, %v, %d/%d heads of %d/%d, latent %v, blocks of %d, window %d, softcap %g, sinks %v", c.tokens,
		c.spec.Type, c.attn.Heads, l.KVHeads, l.KDim, l.VDim, l.Latent, c.spec.BlockTokens, c.attn.Window, c.attn.Softcap, c.attn.Sinks != nil)
}

func randomAttention(r *rand.Rand, longest int) *attendCase {
	l := compute.CacheLayer{KVHeads: 1 + r.IntN(3), KDim: 1 + r.IntN(70), VDim: 1 + r.IntN(70)}
	if r.IntN(3) == 0 {
		l.KDim, l.VDim = 64, 64
	}
	if r.IntN(4) == 0 {
		l.KVHeads, l.VDim, l.Latent = 1, 1+r.IntN(l.KDim), true
	}
	heads := l.KVHeads * (1 + r.IntN(6))
	if r.IntN(5) == 0 {
		heads = l.KVHeads * (17 + r.IntN(60)) // more than a tile's share
	}
	c := &attendCase{attn: compute.Attention{Heads: heads, Scale: float32(1 / math.Sqrt(float64(l.KDim)))}, tokens: 1 + r.IntN(longest)}
	c.spec = compute.CacheSpec{BlockTokens: kernel.Lanes * (1 + r.IntN(5)), Type: kernel.KVTypes[r.IntN(len(kernel.KVTypes))], Layers: []compute.CacheLayer{l}}
	c.spec.Blocks = c.tokens/c.spec.BlockTokens + 3
	if r.IntN(3) == 0 {
		c.attn.Window = 1 + r.IntN(2*c.tokens)
	}
	if r.IntN(4) == 0 {
		c.attn.Softcap = 3
	}
	if r.IntN(4) == 0 {
		sinks := make(vector, heads)
		for i := range sinks {
			sinks[i] = float32(r.NormFloat64() * 3)
		}
		c.attn.Sinks = sinks
	}
	fill := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64()) * 2
		}
		return x
	}
	c.q, c.k, c.v = fill(c.tokens*heads*l.KDim), fill(c.tokens*l.KVHeads*l.KDim), fill(c.tokens*l.KVHeads*l.VDim)
	return c
}

// run computes the case in pieces of at most most rows.
func (c *attendCase) run(t *testing.T, r *rand.Rand, o Options, most int) []float32 {
	t.Helper()
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	cache, err := d.Cache(c.spec)
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.slabBytes(cache) { // what others left there is no number
		d.slabBytes(cache)[i] = 0xff
	}
	table := make([]int32, c.spec.Blocks)
	for i, b := range r.Perm(c.spec.Blocks) {
		table[i] = int32(b)
	}
	l := c.spec.Layers[0]
	out := make([]float32, c.tokens*c.attn.Heads*l.VDim)
	for at := 0; at < c.tokens; {
		n := min(1+r.IntN(most), c.tokens-at)
		rows := func(x []float32, cols int) Tensor {
			return Tensor{Rows: n, Cols: cols, Host: x[at*cols:][:n*cols]}
		}
		if c.attn.Window > 0 { // blocks before every window are gone
			for i := range max(0, at-c.attn.Window+1) / c.spec.BlockTokens {
				table[i] = -1
			}
		}
		b := new(compute.Batch)
		b.Append(make([]int32, n), at, false, table)
		d.Begin(b)
		d.store(cache, 0, rows(c.k, l.KVHeads*l.KDim), rows(c.v, l.KVHeads*l.VDim))
		d.attend(rows(out, c.attn.Heads*l.VDim), rows(c.q, c.attn.Heads*l.KDim), cache, 0, c.attn)
		if err := d.Sync(); err != nil {
			t.Fatal(c, err)
		}
		at += n
	}
	return out
}

// slabBytes returns the memory of a cache of one layer.
func (d *Device) slabBytes(c compute.Cache) []byte { return c.(*cache).slabs[0].data }

// stored returns x as a cache of the case's type keeps it, in heads of dim.
func (c *attendCase) stored(x []float32, dim int) []float32 {
	n := kernel.KVTiles(c.spec.Type, dim)
	panel, wide, out := aligned(kernel.KVBytes(c.spec.Type, n)), make([]float32, n*kernel.TileValues), make([]float32, len(x))
	var row kernel.KVRow
	k, err := kernel.Pick("portable")
	if err != nil {
		panic(err)
	}
	for at := 0; at < len(x); at += dim {
		row.Put(k, c.spec.Type, panel, 3, x[at:][:dim], true)
		k.Widen(c.spec.Type, wide, kernel.TileValues, panel, n, true)
		for i := range dim {
			out[at+i] = wide[i/kernel.Lanes*kernel.TileValues+3*kernel.Lanes+i%kernel.Lanes]
		}
	}
	return out
}

// naive returns the case's outputs in float64, and for each query the greatest magnitude of the values, which errors
// are relative to.
func (c *attendCase) naive() (out, scale []float64) {
	l := c.spec.Layers[0]
	k := c.stored(c.k, l.KDim)
	v, ldv, vDim := k, l.KDim, l.VDim
	if !l.Latent {
		v, ldv = c.stored(c.v, l.VDim), l.VDim
	}
	heads, group := c.attn.Heads, c.attn.Heads/l.KVHeads
	for pos := range c.tokens {
		for h := range heads {
			q := c.q[(pos*heads+h)*l.KDim:][:l.KDim]
			from, most := 0, math.Inf(-1)
			if w := c.attn.Window; w > 0 {
				from = max(0, pos-w+1)
			}
			scores := make([]float64, pos+1)
			for p := from; p <= pos; p++ {
				for i, x := range q {
					scores[p] += float64(c.attn.Scale) * float64(x) * float64(k[(p*l.KVHeads+h/group)*l.KDim+i])
				}
				if s := float64(c.attn.Softcap); s > 0 {
					scores[p] = s * math.Tanh(scores[p]/s)
				}
				most = max(most, scores[p])
			}
			total, mixed, top := 0.0, make([]float64, vDim), 0.0
			if c.attn.Sinks != nil {
				sink := float64(c.attn.Sinks.(vector)[h])
				most = max(most, sink)
				total = math.Exp(sink - most)
			}
			for p := from; p <= pos; p++ {
				w := math.Exp(scores[p] - most)
				total += w
				for i := range mixed {
					x := float64(v[(p*l.KVHeads+h/group)*ldv+i])
					mixed[i] += w * x
					top = max(top, math.Abs(x))
				}
			}
			for _, x := range mixed {
				out, scale = append(out, x/total), append(scale, top)
			}
		}
	}
	return out, scale
}

// check computes a case with every implementation of the kernels, on one thread or many, whole or in pieces. The
// results must have the same bits and be near those in float64.
func (c *attendCase) check(t *testing.T, r *rand.Rand) {
	t.Helper()
	var first []float32
	for i, k := range Kernels() {
		most := []int{c.tokens, 1 + r.IntN(40), 1 + r.IntN(c.tokens)}[(i+r.IntN(2))%3]
		got := c.run(t, r, Options{Threads: 1 + r.IntN(2)*30, Kernels: k}, most)
		if first == nil {
			first = got
		}
		sameBits(t, fmt.Sprintf("%s in pieces of up to %d: %v", k, most, c), got, first)
	}
	want, scale := c.naive()
	for i, x := range first {
		if err := math.Abs(float64(x) - want[i]); !(err <= 4e-6*scale[i]) {
			t.Fatalf("%v: value %d is %g, want %g", c, i, x, want[i])
		}
	}
}

func TestAttend(t *testing.T) {
	cases := 16
	if testing.Short() {
		cases = 8
	}
	for n := range cases {
		r := rand.New(rand.NewPCG(16, uint64(n)))
		randomAttention(r, 150+n%4*250).check(t, r)
	}
}

func FuzzAttend(f *testing.F) {
	f.Add(uint64(1), uint16(40))
	f.Fuzz(func(t *testing.T, seed uint64, longest uint16) {
		r := rand.New(rand.NewPCG(17, seed))
		randomAttention(r, 1+int(longest)%600).check(t, r)
	})
}

// TestCacheTypes requires that caches of known types have the size that CacheBytes says, and that others are refused.
func TestCacheTypes(t *testing.T) {
	d, err := New(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	spec := compute.CacheSpec{Blocks: 3, BlockTokens: 32, Layers: []compute.CacheLayer{{KVHeads: 2, KDim: 64, VDim: 32}, {KVHeads: 1, KDim: 96, VDim: 64, Latent: true}}}
	const numbers = 3 * 32 * (2*(64+32) + 96)
	for typ, bits := range map[quant.Type]int{0: 64, quant.F32: 64, quant.F16: 32, quant.BF16: 32, quant.Q8_0: 17, quant.Q4_0: 9} { // of two numbers
		spec.Type = typ
		c, err := d.Cache(spec)
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(numbers * bits / 16); c.Bytes() != want || d.CacheBytes(spec) != want {
			t.Errorf("%v: %d bytes, CacheBytes %d; want %d", typ, c.Bytes(), d.CacheBytes(spec), want)
		}
	}
	spec.Type = quant.Q4_1
	if _, err := d.Cache(spec); err == nil {
		t.Error("a cache of Q4_1 is not refused")
	}
}

// TestAttendLong attends with the last tokens of a context of 33k, by few threads and many, 512 at once, seven by
// seven and one by one, with and without a window and sinks, and compares the bits of all and the last row with
// float64.
func TestAttendLong(t *testing.T) {
	const tokens, dim, heads = 33<<10 + 7, 16, 4
	rows := 512
	if testing.Short() {
		rows = 96
	}
	r := rand.New(rand.NewPCG(18, 18))
	l := compute.CacheLayer{KVHeads: 2, KDim: dim, VDim: dim}
	for i, typ := range kernel.KVTypes {
		if i%2 == 0 {
			l.VDim = 4 * dim // which few queries read where it lies
		}
		c := &attendCase{tokens: tokens, attn: compute.Attention{Heads: heads, Scale: 0.25}}
		if i == 1 || i == 4 {
			c.attn.Window = 30_001
		}
		if i > 2 {
			c.attn.Sinks = vector(numbersFrom(r, heads))
		}
		c.spec = compute.CacheSpec{Blocks: tokens/kernel.Lanes + 1, BlockTokens: kernel.Lanes, Type: typ, Layers: []compute.CacheLayer{l}}
		c.q, c.k, c.v = numbersFrom(r, tokens*heads*dim), numbersFrom(r, tokens*2*dim), numbersFrom(r, tokens*2*l.VDim)
		whole := c.tail(t, 1, rows, rows)
		for _, part := range []struct{ threads, rows, step int }{{9, 12, 1}, {2, 35, 7}} {
			got := c.tail(t, part.threads, part.rows, part.step)
			sameBits(t, fmt.Sprintf("%v, %d by %d on %d threads", typ, part.step, part.step, part.threads), got, whole[len(whole)-len(got):])
		}
		c.checkLast(t, whole[(rows-1)*heads*l.VDim:])
	}
}

// checkLast compares the outputs of the last token with float64.
func (c *attendCase) checkLast(t *testing.T, got []float32) {
	t.Helper()
	l, heads := c.spec.Layers[0], c.attn.Heads
	group, from := heads/l.KVHeads, 0
	if c.attn.Window > 0 {
		from = c.tokens - c.attn.Window
	}
	k, v := c.stored(c.k, l.KDim), c.stored(c.v, l.VDim)
	for h := range heads {
		q, scores, most := c.q[((c.tokens-1)*heads+h)*l.KDim:][:l.KDim], make([]float64, c.tokens), math.Inf(-1)
		for p := from; p < c.tokens; p++ {
			for i, x := range q {
				scores[p] += float64(c.attn.Scale) * float64(x) * float64(k[(p*l.KVHeads+h/group)*l.KDim+i])
			}
			most = max(most, scores[p])
		}
		total, mixed := 0.0, make([]float64, l.VDim)
		if c.attn.Sinks != nil {
			total = math.Exp(float64(c.attn.Sinks.(vector)[h]) - most)
		}
		for p := from; p < c.tokens; p++ {
			w := math.Exp(scores[p] - most)
			total += w
			for i := range mixed {
				mixed[i] += w * float64(v[(p*l.KVHeads+h/group)*l.VDim+i])
			}
		}
		for i := range mixed {
			if x := float64(got[h*l.VDim+i]); math.Abs(x-mixed[i]/total) > 1e-5 {
				t.Errorf("%v: head %d, value %d is %g, want %g", c, h, i, x, mixed[i]/total)
			}
		}
	}
}

func numbersFrom(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// tail stores the tokens of a case and attends with the last rows of them, step at a time.
func (c *attendCase) tail(t *testing.T, threads, rows, step int) []float32 {
	t.Helper()
	d, err := New(Options{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	cache, err := d.Cache(c.spec)
	if err != nil {
		t.Fatal(err)
	}
	table := make([]int32, c.spec.Blocks)
	for i := range table {
		table[i] = int32(len(table) - 1 - i)
	}
	l := c.spec.Layers[0]
	begin := func(from, to int) func(x []float32, cols int) Tensor {
		b := new(compute.Batch)
		b.Append(make([]int32, to-from), from, false, table)
		d.Begin(b)
		return func(x []float32, cols int) Tensor {
			return Tensor{Rows: to - from, Cols: cols, Host: x[from*cols : to*cols]}
		}
	}
	part := begin(0, c.tokens)
	d.store(cache, 0, part(c.k, l.KVHeads*l.KDim), part(c.v, l.KVHeads*l.VDim))
	out := make([]float32, c.tokens*c.attn.Heads*l.VDim)
	for at := c.tokens - rows; at < c.tokens; at += step {
		part = begin(at, at+step)
		d.attend(part(out, c.attn.Heads*l.VDim), part(c.q, c.attn.Heads*l.KDim), cache, 0, c.attn)
	}
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	return out[(c.tokens-rows)*c.attn.Heads*l.VDim:]
}
