package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// TestSpeedOfLayers measures the operations of a mixture of experts (128 of width 768, 8 chosen, rows of 2048), of
// latent attention (16 heads, latents of 512 and 64) and of a gated delta net (32 heads of 128) if
// KVASIR_GPU_LAYERS is set: for sequences decoded at position 512, and for a prompt.
func TestSpeedOfLayers(t *testing.T) {
	if os.Getenv("KVASIR_GPU_LAYERS") == "" {
		t.Skip("KVASIR_GPU_LAYERS is not set")
	}
	d := gpuDevice(t)
	const most, vocab = 2048, 2048
	r := rand.New(rand.NewPCG(1, 1))
	pool := make([]byte, 1<<24)
	for i := range pool {
		pool[i] = byte(r.Uint32())
	}
	for i := 1; i < len(pool); i += 2 {
		pool[i] = pool[i]&0x80 | 0x3c // about ±0.01
	}
	matrix := func(out, in int) compute.Matrix {
		m, err := d.Matrix(compute.Source{Name: "random", Type: quant.BF16, Out: out, In: in, Row: func(dst []byte, n int) {
			copy(dst, pool[2*((n*4096+out)%(len(pool)/2-in)):])
		}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	g := &compute.Graph{Vocab: vocab, Routings: []compute.Routing{{Experts: 128, Chosen: 8}}}
	all := func(width int) compute.Tensor { return g.Buffer(width, compute.AllRows) }
	x, logits, y := all(2048), all(128), all(2048)
	gate, up := all(8*768), all(8*2048)
	experts := func(out, in int) (w []compute.Matrix) {
		for range 128 {
			w = append(w, matrix(out, in))
		}
		return w
	}
	heads := func(out, in int) (w []compute.Matrix) {
		for range 16 {
			w = append(w, matrix(out, in))
		}
		return w
	}
	q, wide, latent, context, mixed := all(16*192), all(16*576), all(576), all(16*512), all(16*128)
	delta := compute.Delta{KeyHeads: 16, ValueHeads: 32, KeyDim: 128, ValueDim: 128, Window: 4}
	qkv, a, b, out := all(delta.Channels()), all(32), all(32), all(32*128)
	zeros := make([]float32, 4*delta.Channels())
	delta.Taps, delta.Decay, delta.Bias = vectorOf(t, d, zeros), vectorOf(t, d, zeros[:32]), vectorOf(t, d, zeros[:32])
	hid := g.Buffer(2048, compute.HiddenRows)
	g.Add(compute.Embed{Dst: x, Table: matrix(vocab, 2048), Scale: 1}, compute.Embed{Dst: logits, Table: matrix(vocab, 128), Scale: 1},
		compute.Route{Logits: logits, Router: compute.Router{Scale: 1}},
		compute.MatMulExperts{X: x, Products: []compute.ExpertProduct{{Dst: up.Narrow(768), W: experts(768, 2048)}, {Dst: gate.Narrow(768), W: experts(768, 2048)}}},
		compute.Activate{Dst: gate, Gate: gate, Up: up.Narrow(8 * 768)},
		compute.MatMulExperts{X: gate.Narrow(768), Routed: true, Products: []compute.ExpertProduct{{Dst: up.Narrow(2048), W: experts(2048, 768)}}},
		compute.Combine{Dst: y, Src: up.Narrow(2048)},
		compute.MatMulHeads{Dst: wide, X: q, W: heads(512, 128)}, compute.Store{K: latent},
		compute.Attend{Dst: context, Q: wide, Attention: compute.Attention{Heads: 16, Scale: 0.1}},
		compute.MatMulHeads{Dst: mixed, X: context, W: heads(128, 512)},
		compute.Convolve{Layer: 1, X: qkv, Delta: delta}, compute.Activate{Dst: qkv, Gate: qkv},
		compute.DeltaRule{Layer: 1, Dst: out, QKV: qkv, A: a, B: b, Delta: delta},
		compute.Gather{Dst: hid, Src: y}, compute.Choose{Hidden: hid})
	labels := []string{"", "", "route", "gate, up", "down, combine", "keys up", "store", "attend", "values up", "convolve", "activation", "delta rule"}
	cache, err := d.Cache(compute.CacheSpec{Blocks: 64 * 160, BlockTokens: 16, Type: d.KVTypes()[0], States: 64,
		Layers: []compute.CacheLayer{{KVHeads: 1, KDim: 576, VDim: 512, Latent: true}, {State: delta.State()}}})
	if err != nil {
		t.Fatal(err)
	}
	p := compileGraph(t, d, g, cache, compute.Limits{Rows: most, Slots: 64}).(*program)
	for _, n := range []int{1, 16, 64, most} {
		b := &compute.Batch{}
		if n == most {
			b.AppendSeq(compute.Seq{}, make([]int32, n), n)
		} else {
			for i := range n {
				b.AppendSeq(compute.Seq{Start: 512, Slot: int32(i), State: int32(i)}, []int32{int32(i)}, 1)
			}
		}
		for i := range b.Seqs {
			for at := range 160 {
				b.Edits = append(b.Edits, compute.TableEdit{Slot: int32(i), At: int32(at), Block: int32(i*160 + at)})
			}
		}
		for i := range b.IDs {
			b.IDs[i] = r.Int32N(vocab)
		}
		wait(t, p, b)
		fmt.Printf("%d rows, µs:", n)
		timeOperations(t, p, b, labels)
	}
}

// TestSpeedOfAttention measures attention of 32 query heads and 8 KV heads to a cache of each type if
// KVASIR_GPU_ATTENTION is set: of sequences that are decoded, and of prompts. It may list sequences and their tokens:
// "256x256,512x640".
func TestSpeedOfAttention(t *testing.T) {
	list := os.Getenv("KVASIR_GPU_ATTENTION")
	if list == "" {
		t.Skip("KVASIR_GPU_ATTENTION is not set")
	}
	if !strings.Contains(list, "x") {
		list = "64x2048,256x256,1x8192"
	}
	const heads, kv, most, vocab, inner = 32, 8, 8192, 1000, 64
	type decoded struct{ seqs, tokens int }
	var cases []decoded
	tokens := most
	for _, name := range strings.Split(list, ",") {
		var c decoded
		if _, err := fmt.Sscanf(name, "%dx%d", &c.seqs, &c.tokens); err != nil || c.tokens%16 != 0 || c.seqs > 512 {
			t.Fatalf("%q: %v", name, err)
		}
		tokens = max(tokens, c.seqs*c.tokens)
		cases = append(cases, c)
	}
	d := gpuDevice(t)
	r := rand.New(rand.NewPCG(1, 1))
	for _, dim := range []int{128, 64} {
		g := &compute.Graph{Vocab: vocab}
		random := func(width int) compute.Tensor {
			h, x := g.Buffer(inner, compute.AllRows), g.Buffer(width, compute.AllRows)
			g.Add(compute.Embed{Dst: h, Table: weight(t, d, bell(r, vocab*inner, 1), vocab, inner), Scale: 1},
				compute.MatMul{X: h, Products: []compute.Product{{Dst: x, W: weight(t, d, bell(r, width*inner, 1./8), width, inner)}}})
			return x
		}
		q, k, v := random(heads*dim), random(kv*dim), random(kv*dim)
		dst, hid := g.Buffer(heads*dim, compute.AllRows), g.Buffer(heads*dim, compute.HiddenRows)
		scale := float32(1 / math.Sqrt(float64(dim)))
		g.Add(compute.Store{K: k, V: v}, compute.Attend{Dst: dst, Q: q, Attention: compute.Attention{Heads: heads, Scale: scale}},
			compute.Gather{Dst: hid, Src: dst}, compute.Choose{Hidden: hid})
		const attend = 7
		for _, kind := range kvTypes {
			cache, err := d.Cache(compute.CacheSpec{Blocks: tokens / 16, BlockTokens: 16, Type: kind.typ, Layers: []compute.CacheLayer{{KVHeads: kv, KDim: dim, VDim: dim}}})
			if err != nil {
				t.Fatal(err)
			}
			p := compileGraph(t, d, g, cache, compute.Limits{Rows: most, Slots: 512}).(*program)
			for _, c := range cases {
				fill, step := &compute.Batch{}, &compute.Batch{}
				for i := range c.seqs {
					for at := range c.tokens / 16 {
						fill.Edits = append(fill.Edits, compute.TableEdit{Slot: int32(i), At: int32(at), Block: int32(i*c.tokens/16 + at)})
					}
					ids := make([]int32, c.tokens)
					for n := range ids {
						ids[n] = r.Int32N(vocab)
					}
					fill.AppendSeq(compute.Seq{Slot: int32(i)}, ids, c.tokens)
					if fill.Rows()+c.tokens > most || i == c.seqs-1 {
						wait(t, p, fill)
						fill = &compute.Batch{}
					}
					step.AppendSeq(compute.Seq{Start: int32(c.tokens - 1), Slot: int32(i)}, ids[:1], 1)
				}
				wait(t, p, step)
				timed := timerOf(t, p, step)
				timed(attend, 100)
				ms := timed(attend, 300)
				bytes := float64(c.seqs*c.tokens*2*kv) * float64(kvBytes(kind.typ, dim))
				fmt.Printf("heads of %d, %v, %d sequences of %d: %.1f µs, %.0f GB/s\n", dim, kind.typ, c.seqs, c.tokens, ms*1e3, bytes/float64(ms)/1e6)
			}
			for _, n := range []int{512, 2048, most} {
				b := &compute.Batch{}
				b.AppendSeq(compute.Seq{}, make([]int32, n), n)
				for i := range b.IDs {
					b.IDs[i] = r.Int32N(vocab)
				}
				for i := range n / 16 {
					b.Edits = append(b.Edits, compute.TableEdit{At: int32(i), Block: int32(i)})
				}
				wait(t, p, b)
				timed, times := timerOf(t, p, b), 50*most/n
				timed(attend, times/2) // the clock rises
				ms := timed(attend, times)
				work := 4 * float64(n) * float64(n+1) / 2 * float64(heads*dim)
				fmt.Printf("heads of %d, %v, %d rows: %.1f µs, %.0f TFLOP/s\n", dim, kind.typ, n, ms*1e3, work/float64(ms)/1e9)
			}
		}
	}
}

// timeOperations prints the time of each labelled operation of a step.
func timeOperations(t testing.TB, p *program, b *compute.Batch, labels []string) {
	timed := timerOf(t, p, b)
	for i, label := range labels {
		if label != "" {
			fmt.Printf(" %s %.1f", label, timed(i, 10)*1e3)
		}
	}
	fmt.Println()
}

// timerOf returns what measures an operation of a step, run so many times: the mean, in milliseconds.
func timerOf(t testing.TB, p *program, b *compute.Batch) func(op, times int) float32 {
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.g.enter())
	defer p.g.leave()
	sh := p.lay(p.index, [3]int{b.Rows()}, b.Rows(), 0, len(b.Seqs))
	p.fill(sh, p.rings[0].in, b, p.chunkCount)
	for k := range sh.kinds {
		count := sh.ints(p.rings[0].in, sh.kinds[k].count, 4)
		sh.few, sh.kinds[k].tileCount = int(count[0]), int(count[1])
	}
	must(p.copyIndices(sh, p.rings[0].in))
	return func(op, times int) float32 {
		must(p.g.enter())
		defer p.g.leave()
		from, err := p.g.newEvent(true)
		must(err)
		to, err := p.g.newEvent(true)
		must(err)
		must(from.record(p.s))
		for range times {
			must(p.ops[op](sh))
		}
		must(to.record(p.s))
		must(p.s.wait())
		ms, err := to.since(from)
		must(err)
		must(from.close())
		must(to.close())
		return ms / float32(times)
	}
}
