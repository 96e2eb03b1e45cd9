package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// TestSpeed measures steps of the 8B Llama shape with random weights, as a whole and by operation, if
// KVASIR_GPU_SPEED lists what: "decode=1,8,256" sequences of 512 tokens, or of as many as "cached=256" says before it;
// "prompt=512,8192" tokens; "beside=512" says that decode's steps from there on compute a prompt of so many tokens,
// too; and before them "type=Q4_K" and "cache=F8_E4M3", if the weights or the cache are to have another type than
// BF16, "group=128", if weights of F8_E4M3 are to have a scale for so many inputs, and "adapters=16", if sequences are
// to have in turn as many adapters of rank 16 for all weights of layers: "without=0" and "with=0" say that those from
// there on have none, or have them.
func TestSpeed(t *testing.T) {
	what := os.Getenv("KVASIR_GPU_SPEED")
	if what == "" {
		t.Skip("KVASIR_GPU_SPEED lists nothing to measure")
	}
	opening := time.Now()
	d := gpuDevice(t)
	fmt.Printf("opening: %.2f s\n", time.Since(opening).Seconds())
	const layers, most = 32, 256
	typ, cached := quant.BF16, quant.BF16
	for _, o := range []struct {
		prefix string
		to     *quant.Type
	}{{"type=", &typ}, {"cache=", &cached}} {
		if rest, named := strings.CutPrefix(what, o.prefix); named {
			name, list, _ := strings.Cut(rest, " ")
			var err error
			if *o.to, err = quant.Parse(name); err != nil {
				t.Fatal(err)
			}
			what = list
		}
	}
	group, adapters := leading(t, &what, "group", math.MaxInt), leading(t, &what, "adapters", 0)
	r := rand.New(rand.NewPCG(1, 1))
	pool, blocks := packedSource(t, r, typ, 256, 4096).Data, 256*4096/typ.BlockValues()
	begin, bytes := time.Now(), int64(0)
	g := llama(t, d, layers, 4096, 14336, 32, 8, 128, 128256, func(out, in int) compute.Matrix {
		at, size := r.IntN(blocks), typ.BlockBytes()
		need := in / typ.BlockValues()
		src := compute.Source{Name: "random", Type: typ, Out: out, In: in, Row: func(dst []byte, n int) {
			copy(dst, pool[(at+n*17)%(blocks-need)*size:][:need*size])
		}}
		if typ == quant.F8_E4M3 { // its codes alone are large: sums would overflow
			src.Group = min(group, in)
			src.Scales = slices.Repeat([]float32{float32(1 / (60 * math.Sqrt(float64(in))))}, out*int(blocksOf(in, src.Group)))
		}
		m, err := d.Matrix(src)
		if err != nil {
			t.Fatal(err)
		}
		bytes += m.Bytes()
		return m
	})
	data := slices.Repeat([]byte{0x24, 0x3c, 0x12, 0xbc, 0x81, 0x3c}, 1<<17) // about ±0.01
	place := adaptAll(g, adapters, 16, func(out, in int) compute.Matrix {
		m, err := d.Matrix(compute.Source{Name: "low", Type: quant.BF16, Out: out, In: in, Adapter: true, Data: data[:2*out*in]})
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
	if err := d.loading.wait(); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("loading: %.1f GB in %.2f s\n", float64(bytes)/1e9, time.Since(begin).Seconds())
	spec := compute.CacheSpec{Blocks: 68*most + 512, BlockTokens: 16, Type: cached}
	for range layers {
		spec.Layers = append(spec.Layers, compute.CacheLayer{KVHeads: 8, KDim: 128, VDim: 128})
	}
	c, err := d.Cache(spec)
	if err != nil {
		t.Fatal(err)
	}
	p := compileGraph(t, d, g, c, compute.Limits{Rows: 8192, Slots: most + 1}).(*program)
	if adapters > 0 {
		wait(t, p, &compute.Batch{Place: place})
	}
	labels := []string{"norm", "qkv", "rope+store", "attend", "out+add", "norm", "gate,up+act", "down+add"}
	if p.float8.inputs > 0 {
		labels = []string{"norm+qkv", "rope+store", "attend", "out+add", "norm+gate,up+act", "down+add"}
	}
	measureAll(t, r, p, what, labels)
}

// leading takes "name=n " off the beginning of a list, and returns n, or what else to take where it is not there.
func leading(t testing.TB, list *string, name string, otherwise int) int {
	rest, there := strings.CutPrefix(*list, name+"=")
	if !there {
		return otherwise
	}
	var number string
	number, *list, _ = strings.Cut(rest, " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// measureAll measures steps as TestSpeed lists them, and the labelled operations of a layer.
func measureAll(t testing.TB, r *rand.Rand, p *program, what string, labels []string) {
	context, each, beside := 512, 37, 0
	adapters := p.graph.Adapters // that sequences have in turn
	adapter := func(slot int) int32 {
		if adapters == 0 {
			return 0
		}
		return int32(slot%adapters) + 1
	}
	filled := 0 // slots whose tokens are in the cache
	for _, part := range strings.Fields(what) {
		name, list, _ := strings.Cut(part, "=")
		for _, n := range strings.Split(list, ",") {
			rows, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			if name == "without" || name == "with" {
				if adapters = 0; name == "with" {
					adapters = p.graph.Adapters
				}
				continue
			}
			if name == "cached" {
				context, filled, each = rows, 0, rows/16+5
				continue
			}
			if name == "beside" {
				beside = rows
				continue
			}
			if name == "prompt" {
				filled = 0
				measure(t, p, name, rows, labels, func(b *compute.Batch, _ int) {
					b.AppendSeq(compute.Seq{Adapter: adapter(0)}, random(r, rows), rows)
				})
				continue
			}
			if rows*each+int(blocksOf(beside, 16)) > p.cache.spec.Blocks {
				t.Fatalf("%d sequences of %d tokens: more than %d blocks", rows, context, p.cache.spec.Blocks)
			}
			for ; filled < rows; filled++ {
				b := &compute.Batch{}
				b.AppendSeq(compute.Seq{Slot: int32(filled)}, random(r, context), context)
				for i := range each {
					b.Edits = append(b.Edits, compute.TableEdit{Slot: int32(filled), At: int32(i), Block: int32(filled*each + i)})
				}
				wait(t, p, b)
			}
			measure(t, p, name, rows, labels, func(b *compute.Batch, n int) {
				for slot := range rows {
					b.AppendSeq(compute.Seq{Slot: int32(slot), Start: int32(context + n), Adapter: adapter(slot)}, random(r, 1), 1)
				}
				if beside > 0 {
					b.AppendSeq(compute.Seq{Slot: int32(rows)}, random(r, beside), beside)
				}
				for i := range int(blocksOf(beside, 16)) {
					b.Edits = append(b.Edits, compute.TableEdit{Slot: int32(rows), At: int32(i), Block: int32(rows*each + i)})
				}
			})
		}
	}
}

func random(r *rand.Rand, n int) []int32 {
	v := make([]int32, n)
	for i := range v {
		v[i] = r.Int32N(128256)
	}
	return v
}

func wait(t testing.TB, p compute.Program, b *compute.Batch) {
	t.Helper()
	s, err := p.Start(b)
	if err == nil {
		err = s.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// measure prints the time of a step of so many rows, two of which are under way at any time, and of its operations: one
// layer's after the other, and, of a step that is a graph, how much less it takes without them.
func measure(t testing.TB, p *program, name string, rows int, labels []string, fill func(b *compute.Batch, n int)) {
	steps := 60
	if name == "prompt" {
		steps = 4
	}
	batch := func(n int) *compute.Batch {
		b := &compute.Batch{}
		fill(b, n)
		plain := &compute.Choosing{TopP: 1, Repetition: 1}
		for i, q := range b.Seqs {
			if n == 0 {
				b.Choosers = append(b.Choosers, compute.Chooser{Slot: q.Slot, Choosing: plain})
			}
			b.Logits = append(b.Logits, q.Row+q.Rows-1)
			b.Choose = append(b.Choose, compute.Choice{Row: int32(i), Slot: q.Slot, Given: -1, Top: -1, After: -1, Mask: -1})
		}
		if name == "prompt" && n == 0 {
			for i := range 512 {
				b.Edits = append(b.Edits, compute.TableEdit{At: int32(i), Block: int32(i)})
			}
		}
		return b
	}
	wait(t, p, batch(0))
	wait(t, p, batch(1))
	var last compute.Step
	var times, host []float64
	begin := time.Now()
	for n := range steps {
		b, at := batch(n+2), time.Now()
		s, err := p.Start(b)
		host = append(host, time.Since(at).Seconds())
		if err == nil && last != nil {
			err = last.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, time.Since(begin).Seconds())
		begin, last = time.Now(), s
	}
	if err := last.Wait(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(times)
	slices.Sort(host)
	fmt.Printf("%s %d: %.3f ms a step, %.0f tokens/s, start %.0f us\n", name, rows, times[len(times)/2]*1e3, float64(rows)/times[len(times)/2], host[len(host)/2]*1e6)
	if err := p.g.enter(); err != nil {
		t.Fatal(err)
	}
	defer p.g.leave()
	b := batch(5)
	bucket := b.Rows()
	sh := p.lay(p.index, [3]int{bucket, len(b.Logits), 0}, bucket, len(b.Logits), bucket)
	sh.adapted = slices.ContainsFunc(b.Seqs, func(q compute.Seq) bool { return q.Adapter > 0 })
	sh.alone = p.alone(b, bucket)
	sh.ringed, sh.whole = p.ringed(b, bucket, sh.alone), p.latentsWhole(b)
	p.fill(sh, p.rings[0].in, b, p.chunkCount)
	for k := range sh.kinds {
		count := sh.ints(p.rings[0].in, sh.kinds[k].count, 4)
		sh.few, sh.kinds[k].tileCount = int(count[0]), int(count[1])
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.copyIndices(sh, p.rings[0].in))
	from, err := p.g.newEvent(true)
	must(err)
	to, err := p.g.newEvent(true)
	must(err)
	// replayed is the time of a graph of the step's operations.
	replayed := func() float32 {
		gr, err := p.s.capture(func() error { return p.queueGraph(sh) })
		must(err)
		const times = 40
		must(p.s.replay(gr))
		must(from.record(p.s))
		for range times {
			must(p.s.replay(gr))
		}
		must(to.record(p.s))
		must(p.s.wait())
		ms, err := to.since(from)
		must(err)
		must(gr.close())
		return ms * 1e3 / times
	}
	full := float32(0)
	if name == "decode" {
		replayed() // the first takes longer
		full = replayed()
		fmt.Printf("    %-16s %9.1f us\n", "replayed", full)
	}
	sum := float32(0)
	timeOps := func(label string, at []int) {
		must(p.s.wait())
		must(from.record(p.s))
		for _, i := range at {
			must(p.ops[i](sh))
		}
		must(to.record(p.s))
		must(p.s.wait())
		ms, err := to.since(from)
		must(err)
		each := ms * 1e3 / float32(len(at))
		sum += each
		fmt.Printf("    %-16s %9.1f us each", label, each)
		if full > 0 {
			all := slices.Clone(p.ops)
			for _, i := range at {
				p.ops[i] = func(*shape) error { return nil }
			}
			fmt.Printf(", %.1f less without", (full-replayed())/float32(len(at)))
			p.ops = all
		}
		fmt.Println()
	}
	for k, label := range labels {
		var at []int
		for i := 2 + k; i < len(p.ops)-3; i += len(labels) {
			at = append(at, i)
		}
		timeOps(label, at)
	}
	fmt.Printf("    %-16s %9.1f us\n", "a layer", sum)
	timeOps("head", []int{len(p.ops) - 1})
	must(from.close())
	must(to.close())
}

// since returns the milliseconds from an earlier event to this one; both have passed.
func (e *event) since(from *event) (float32, error) {
	ms := new(float32)
	err := e.g.try(cuEventElapsedTime, []uintptr{address(ms), from.handle, e.handle}, "taking a time")
	return *ms, err
}
