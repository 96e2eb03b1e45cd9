package cuda

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// turnCase is products of queries, keys and values.
type turnCase struct {
	heads, kv, in, tokens int // tokens of a block
	typ                   quant.Type
	bias                  bool
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
		{32, 8, 4096, 16, quant.BF16, false}, {5, 1, 2048, 48, quant.BF16, true}, {3, 3, 512, 16, quant.BF16, true}, {6, 2, 2048, 16, quant.Q4_K, true},
		{4, 2, 2304, 32, quant.Q8_0, false}, {32, 8, 4096, 16, quant.F8_E4M3, false}, {5, 1, 1024, 16, quant.F8_E4M3, true},
	}, []turnCase{{5, 1, 2048, 48, quant.BF16, true}, {3, 1, 256, 16, quant.BF16, false}, {1, 1, 256, 16, quant.Q4_K, true}, {5, 1, 2048, 16, quant.F8_E4M3, true}}) {
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

// run returns all queries and the cache after some steps, which do without a kernel.
func (c turnCase) run(t *testing.T, d *device, without string) [2][]byte {
	const vocab, blocks, dim = 400, 60, 128
	r := rand.New(rand.NewPCG(7, 8))
	g := &compute.Graph{Vocab: vocab}
	buffer := func(width int) compute.Tensor { return g.Buffer(width, compute.AllRows) }
	h, x, angles := buffer(c.in), buffer(c.in), buffer(dim)
	q, k, v, dst := buffer(c.heads*dim), buffer(c.kv*dim), buffer(c.kv*dim), buffer(c.heads*dim)
	hid := g.Buffer(dst.Cols, compute.HiddenRows)
	freqs, ones := make([]float32, dim/2), make([]float32, c.in)
	for i := range freqs {
		freqs[i] = float32(math.Pow(1e4, -float64(i)/dim*2))
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
		compute.MatMul{X: x, Products: []compute.Product{product(q), product(k), product(v)}},
		compute.Rotate{X: q, Angles: angles, Rotary: compute.Rotary{Heads: c.heads, HeadDim: dim}},
		compute.Rotate{X: k, Angles: angles, Rotary: compute.Rotary{Heads: c.kv, HeadDim: dim}},
		compute.Store{K: k, V: v}, compute.Attend{Q: q, Dst: dst, Attention: compute.Attention{Heads: c.heads, Scale: 0.1}},
		compute.Gather{Dst: hid, Src: dst}, compute.Choose{Hidden: hid})
	kv, err := d.Cache(compute.CacheSpec{Blocks: blocks, BlockTokens: c.tokens, Type: quant.BF16, Layers: []compute.CacheLayer{{KVHeads: c.kv, KDim: dim, VDim: dim}}})
	if err != nil {
		t.Fatal(err)
	}
	p := compileGraph(t, d, g, kv, compute.Limits{Rows: vocab, Slots: 4}).(*program)
	var got [2][]byte
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	delete(p.kernel, without)
	must(p.s.fill(kv.(*cache).places[0].at, 0x3c, kv.(*cache).places[0].bytes*blocks))
	must(p.s.wait())
	read := func(at pointer, n int) []byte {
		must(p.g.enter())
		defer p.g.leave()
		to, err := p.g.allocPinned(n, "numbers")
		must(err)
		must(p.s.toHost(to, 0, at, n))
		must(p.s.wait())
		all := bytes.Clone(to.bytes()[:n])
		must(p.g.freePinned(to))
		return all
	}
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
			b.IDs[i] %= vocab
		}
		runHidden(t, p, b)
		queries := p.view(q)
		got[0] = append(got[0], read(queries.at, 2*n*int(queries.ld))...)
	}
	got[1] = read(kv.(*cache).places[0].at, int(kv.(*cache).places[0].bytes)*blocks)
	return got
}
