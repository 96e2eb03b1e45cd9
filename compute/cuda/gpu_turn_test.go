package cuda

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// turnCase is products of queries, keys and values.
type turnCase struct {
	heads, kv, in, tokens int // tokens of a block
	typ                   quant.Type
	bias                  bool
	dim                   int  // numbers of a head; 0: 128
	normed                bool // heads are normalised
	many                  int  // slots besides four
}

// TestTurned compares products that turn and store what they yield with those that leave that to another kernel, bit
// for bit: queries, and all of the cache. Sequences begin within blocks and share them, and there are rows of none.
func TestTurned(t *testing.T) {
	d := gpuDevice(t)
	if d.g.info.major != hopper {
		t.Skip("this kernel is Hopper's")
	}
	was := turnTime
	defer func() { turnTime = was }()
	for _, c := range less([]turnCase{
		{heads: 32, kv: 8, in: 4096, tokens: 16, typ: quant.BF16}, {heads: 5, kv: 1, in: 2048, tokens: 48, typ: quant.BF16, bias: true}, {heads: 3, kv: 3, in: 512, tokens: 16, typ: quant.BF16, bias: true}, {heads: 6, kv: 2, in: 2048, tokens: 16, typ: quant.Q4_K, bias: true},
		{heads: 4, kv: 2, in: 2304, tokens: 32, typ: quant.Q8_0}, {heads: 32, kv: 8, in: 4096, tokens: 16, typ: quant.F8_E4M3}, {heads: 5, kv: 1, in: 1024, tokens: 16, typ: quant.F8_E4M3, bias: true},
		{heads: 32, kv: 4, in: 2048, tokens: 16, typ: quant.BF16, normed: true}, {heads: 16, kv: 8, in: 4096, tokens: 32, typ: quant.Q4_K, normed: true}, {heads: 5, kv: 1, in: 1024, tokens: 16, typ: quant.F8_E4M3, bias: true, normed: true},
	}, []turnCase{{heads: 5, kv: 1, in: 2048, tokens: 48, typ: quant.BF16, bias: true}, {heads: 3, kv: 1, in: 256, tokens: 16, typ: quant.BF16, normed: true}, {heads: 1, kv: 1, in: 256, tokens: 16, typ: quant.Q4_K, bias: true, normed: true},
		{heads: 5, kv: 1, in: 2048, tokens: 16, typ: quant.F8_E4M3, bias: true}}) {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			turnTime = math.MaxInt32
			apart := c.run(t, d, "")
			turnTime = -math.MaxInt32
			turned := c.run(t, d, "rotate_store")
			for i, what := range []string{"queries", "the cache"} {
				if len(apart[i]) == 0 || !bytes.Equal(apart[i], turned[i]) {
					t.Errorf("%s have other bits", what)
				}
			}
		})
	}
}

// TestTurnedPays checks of how many rows products of 6,144 outputs turn heads.
func TestTurnedPays(t *testing.T) {
	const sms = 132
	for n, want := range map[int32]bool{17: false, 256: false, 512: true, 2048: true, 8192: true} {
		a := &gemmArgs{tilesIn: 4096 / tileIns, rows: n, products: 3, ranges: 2}
		for i, outs := range []int32{4096, 1024, 1024} {
			a.p[i] = productArgs{outs: outs, tiles: outs / tileOuts, dst: rows{ld: outs}}
		}
		least := math.MaxInt
		for _, w := range warpgroupKernels {
			least = min(least, w.cost(a, a.tiles(), sms))
		}
		if got := turnedBF16.pays(a, sms, least); got != want {
			t.Errorf("%d rows: %t", n, got)
		}
	}
}

// TestTurnedFew compares attention of few rows that turns and stores what products yield with what two kernels do, bit
// for bit: what it gives, and all of the cache. On Hopper it compares kernels of attend_ring.cu, of both kinds, with
// those of attend.cu. Steps are queued kernel by kernel and as graphs.
func TestTurnedFew(t *testing.T) {
	d := gpuDevice(t)
	was := mostTurnedFew
	defer func() { mostTurnedFew = was }()
	for _, c := range less([]turnCase{
		{heads: 32, kv: 8, in: 4096, tokens: 16, typ: quant.BF16}, {heads: 32, kv: 4, in: 2048, tokens: 32, typ: quant.BF16, normed: true},
		{heads: 20, kv: 2, in: 512, tokens: 48, typ: quant.Q4_K, bias: true, normed: true}, {heads: 8, kv: 8, in: 512, tokens: 16, typ: quant.BF16, dim: 64, normed: true},
		{heads: 24, kv: 2, in: 1024, tokens: 16, typ: quant.F8_E4M3, dim: 64}, {heads: 32, kv: 8, in: 512, tokens: 16, typ: quant.BF16, many: 29},
		{heads: 4, kv: 1, in: 256, tokens: 32, typ: quant.BF16, dim: 64, normed: true, many: 240},
		{heads: 20, kv: 2, in: 512, tokens: 16, typ: quant.BF16, dim: 96, many: 29}, {heads: 8, kv: 8, in: 768, tokens: 32, typ: quant.BF16, dim: 96, normed: true},
	}, []turnCase{{heads: 2, kv: 1, in: 256, tokens: 16, typ: quant.BF16, normed: true, many: 29},
		{heads: 9, kv: 1, in: 256, tokens: 48, typ: quant.BF16, normed: true}, {heads: 3, kv: 3, in: 256, tokens: 16, typ: quant.BF16, dim: 64},
		{heads: 9, kv: 1, in: 256, tokens: 16, typ: quant.BF16, dim: 96, normed: true, many: 20}, {heads: 2, kv: 2, in: 256, tokens: 32, typ: quant.BF16, dim: 96}}) {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			mostTurnedFew = 0
			apart := c.runFew(t, d, "", false)
			check := func(ring bool, got [2][]byte) {
				for i, what := range []string{"results", "the cache"} {
					if len(apart[i]) == 0 || !bytes.Equal(apart[i], got[i]) {
						t.Errorf("%s have other bits; turned: %t, by attend_ring: %t", what, mostTurnedFew > 0, ring)
					}
				}
			}
			if d.g.info.major == hopper {
				check(true, c.runFew(t, d, "", true))
			}
			mostTurnedFew = was
			check(false, c.runFew(t, d, "rotate_store", false))
			if d.g.info.major == hopper {
				check(true, c.runFew(t, d, "rotate_store", true))
			}
		})
	}
}

// runFew returns what attention gives in some steps of few rows, and the cache after them. Those of one row of each
// sequence do without a kernel; ring says whether there are those of attend_ring.cu.
func (c turnCase) runFew(t *testing.T, d *device, without string, ring bool) [2][]byte {
	long := less(1500, 700)
	has := []int{long, 0, 62, 79} // tokens of each slot
	for i := range c.many {
		has = append(has, i*7%130)
	}
	each := (long + 20) / c.tokens
	r, u := rand.New(rand.NewPCG(7, 8)), c.build(t, d, len(has)*(each+1))
	maps.DeleteFunc(u.p.kernel, func(name string, _ *function) bool { return !ring && strings.HasPrefix(name, "attend_ring") })
	step := func(hidden bool, parts ...part) {
		b := &compute.Batch{}
		for _, s := range parts {
			b.AppendSeq(compute.Seq{Start: int32(s.from), Slot: int32(s.slot)}, random(r, s.n), s.n)
			for i := 0; s.from == 0 && i <= each; i++ {
				b.Edits = append(b.Edits, compute.TableEdit{Slot: int32(s.slot), At: int32(i), Block: int32((s.slot+1)*(each+1) - 1 - i)})
			}
		}
		for i := range b.IDs {
			b.IDs[i] %= turnVocab
		}
		if hidden {
			runHidden(t, u.p, b)
			return
		}
		st, err := u.p.Start(b)
		if err == nil {
			err = st.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for slot, n := range has {
		for at := 0; at < n; at += turnVocab {
			step(true, part{slot: slot, from: at, n: min(turnVocab, n-at)})
		}
	}
	kernel := u.p.kernel[without]
	var got [2][]byte
	for n := range less(20, 8) {
		var parts []part
		rows := 0
		for slot := range has {
			if slot == 3 || n%(slot+2) != 1 { // of four slots there are steps of one row to four
				more := 1
				if slot == 3 && n%4 == 3 {
					more = 2 // of a sequence, in a graph
				}
				parts = append(parts, part{slot: slot, from: has[slot], n: more})
				has[slot], rows = has[slot]+more, rows+more
			}
		}
		if delete(u.p.kernel, without); rows > len(parts) {
			u.p.kernel[without] = kernel
		}
		step(n%2 == 0, parts...)
		to := u.p.view(u.dst)
		got[0] = append(got[0], u.read(t, to.at, 2*rows*int(to.ld))...)
	}
	got[1] = u.read(t, u.kv.places[0].at, int(u.kv.places[0].bytes)*u.blocks)
	return got
}

// turnProgram is a program of a layer's attention, and its cache.
type turnProgram struct {
	p      *program
	kv     *cache
	q, dst compute.Tensor
	blocks int
}

const turnVocab = 400

func (u *turnProgram) read(t *testing.T, at pointer, n int) []byte {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(u.p.g.enter())
	defer u.p.g.leave()
	to, err := u.p.g.allocPinned(n, "numbers")
	must(err)
	must(u.p.s.toHost(to, 0, at, n))
	must(u.p.s.wait())
	all := bytes.Clone(to.bytes()[:n])
	must(u.p.g.freePinned(to))
	return all
}

// build compiles the case, with a cache of so many blocks.
func (c turnCase) build(t *testing.T, d *device, blocks int) *turnProgram {
	const vocab = turnVocab
	dim := cmp.Or(c.dim, turnedHeads)
	r := rand.New(rand.NewPCG(7, 8))
	g := &compute.Graph{Vocab: vocab}
	buffer := func(width int) compute.Tensor { return g.Buffer(width, compute.AllRows) }
	h, x, angles := buffer(c.in), buffer(c.in), buffer(dim)
	q, k, v, dst := buffer(c.heads*dim), buffer(c.kv*dim), buffer(c.kv*dim), buffer(c.heads*dim)
	hid := g.Buffer(dst.Cols, compute.HiddenRows)
	freqs, ones := make([]float32, dim/2), make([]float32, c.in)
	for i := range freqs {
		freqs[i] = float32(math.Pow(1e4, -float64(i)/float64(dim)*2))
	}
	for i := range ones {
		ones[i] = 1
	}
	product := func(dst compute.Tensor) compute.Product {
		src := repeated(t, r, c.typ, dst.Cols, c.in)
		if c.typ == quant.F8_E4M3 {
			src = float8Source(t, r, "output", dst.Cols, c.in)
		}
		p := compute.Product{Dst: dst, W: load(t, d, src)}
		if c.bias {
			p.Bias = vectorOf(t, d, bell(r, dst.Cols, 1))
		}
		return p
	}
	g.Add(compute.Embed{Dst: h, Table: load(t, d, repeated(t, r, quant.BF16, vocab, c.in)), Scale: 1},
		compute.Angles{Dst: angles, Freqs: vectorOf(t, d, freqs), Scale: 1},
		compute.Normalize{Dst: x, Src: h, Norm: compute.Norm{Gain: vectorOf(t, d, ones), Eps: 1e-5}},
		compute.MatMul{X: x, Products: []compute.Product{product(q), product(k), product(v)}})
	for _, x := range []compute.Tensor{q, k} {
		if c.normed {
			g.Add(compute.Normalize{Dst: x, Src: x, Norm: compute.Norm{Gain: vectorOf(t, d, bell(r, dim, 1)), Eps: 1e-6}})
		}
	}
	g.Add(compute.Rotate{X: q, Angles: angles, Rotary: compute.Rotary{Heads: c.heads, HeadDim: dim}},
		compute.Rotate{X: k, Angles: angles, Rotary: compute.Rotary{Heads: c.kv, HeadDim: dim}},
		compute.Store{K: k, V: v}, compute.Attend{Q: q, Dst: dst, Attention: compute.Attention{Heads: c.heads, Scale: 0.1}},
		compute.Gather{Dst: hid, Src: dst}, compute.Choose{Hidden: hid})
	kv, err := d.Cache(compute.CacheSpec{Blocks: blocks, BlockTokens: c.tokens, Type: quant.BF16, Layers: []compute.CacheLayer{{KVHeads: c.kv, KDim: dim, VDim: dim}}})
	if err != nil {
		t.Fatal(err)
	}
	u := &turnProgram{p: compileGraph(t, d, g, kv, compute.Limits{Rows: vocab, Slots: 4 + c.many}).(*program), kv: kv.(*cache), q: q, dst: dst, blocks: blocks}
	if err := errors.Join(u.p.s.fill(u.kv.places[0].at, 0x3c, u.kv.places[0].bytes*int64(blocks)), u.p.s.wait()); err != nil {
		t.Fatal(err)
	}
	return u
}

// run returns all queries and the cache after some steps, which do without a kernel.
func (c turnCase) run(t *testing.T, d *device, without string) [2][]byte {
	r, u := rand.New(rand.NewPCG(7, 8)), c.build(t, d, 60)
	delete(u.p.kernel, without)
	var got [2][]byte
	for _, parts := range [][]part{{{slot: 0, n: 21}, {slot: 1, n: 5}}, {{slot: 0, from: 21, n: 40}, {slot: 1, from: 5, n: 171}, {slot: 2, n: 33}, {slot: 3, from: c.tokens, n: 63}}} {
		b, n := &compute.Batch{}, 0
		for _, s := range parts {
			b.AppendSeq(compute.Seq{Start: int32(s.from), Slot: int32(s.slot)}, random(r, s.n), s.n)
			for i := 0; s.from == 0 || s.slot == 3 && i < 12; i++ {
				if i == 12 {
					break
				}
				block := s.slot*12 + (i*5)%12
				if s.slot == 3 && i == 0 {
					block = 0 // that of slot 0
				}
				b.Edits = append(b.Edits, compute.TableEdit{Slot: int32(s.slot), At: int32(i), Block: int32(block)})
			}
			n += s.n
		}
		for i := range b.IDs {
			b.IDs[i] %= turnVocab
		}
		runHidden(t, u.p, b)
		queries := u.p.view(u.q)
		got[0] = append(got[0], u.read(t, queries.at, 2*n*int(queries.ld))...)
	}
	got[1] = u.read(t, u.kv.places[0].at, int(u.kv.places[0].bytes)*u.blocks)
	return got
}
