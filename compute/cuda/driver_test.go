package cuda

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// TestBuilt checks that the files are those that were made from the kernels as they stand.
func TestBuilt(t *testing.T) {
	if _, err := os.Stat("kernels"); err != nil {
		t.Skip("the sources are not beside this test")
	}
	for _, b := range Builds() {
		source, headers, err := ReadSource(".", b)
		if err != nil {
			t.Fatal(err)
		}
		sums, err := ReadSums(".", b)
		if err != nil {
			t.Fatal(err)
		}
		file, err := compiledFiles.ReadFile(b.File())
		if err != nil {
			t.Fatal(err)
		}
		if sums.Sources != b.Sources(source, headers) || sums.File != sha256.Sum256(file) {
			t.Errorf("%s is not made from %s as it stands: go generate ./compute/cuda", b.File(), b.Source)
		}
	}
}

// TestParams compares the parameters in Go with those of the kernels.
func TestParams(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range Builds() {
		c, err := b.read()
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range c.names {
			seen[name] = true
			if got := paramSizes[name]; got != uintptr(c.bytes[i]) {
				t.Errorf("%s takes %d bytes; Go has %d", name, c.bytes[i], got)
			}
		}
		if early := b.Arch == "sm_90a" && slices.Contains(earlySources, b.Source); early != waits(t, b) {
			t.Errorf("%s: kernels begin early: %t", b.File(), early)
		}
	}
	for name := range paramSizes {
		if !seen[name] {
			t.Errorf("there is no kernel %s", name)
		}
	}
}

// waits reports whether a build's kernels wait for the rows, for Hopper.
func waits(t *testing.T, b Build) bool {
	t.Helper()
	source, headers, err := ReadSource(".", b)
	if err != nil {
		t.Fatal(err)
	}
	all := string(source)
	for _, name := range included(source, headers) {
		if name != "common.cuh" { // which defines it
			all += string(headers[name])
		}
	}
	return b.Arch == "sm_90a" && strings.Contains(all, "waitForRows()")
}

// TestWhyNone checks what is said where there is no GPU to use.
func TestWhyNone(t *testing.T) {
	for _, c := range []struct {
		change func(*fake)
		want   string
	}{
		{func(f *fake) { f.Devices = nil }, "cuda: the driver shows no device"},
		{func(f *fake) { f.Devices[0].Driver = 12080 }, "cuda: the driver is for CUDA 12.8; want 13.0 or later"},
		{func(f *fake) { f.Devices[0].Major = 7 }, "cuda: Fake 9000 has compute capability 7.0; want 8.0 or later"},
		{func(f *fake) { f.refuse[cuInit] = 999 }, "cuda: starting the driver: FAKE_999 (FAKE_999)"},
		{func(f *fake) { f.Free = 40 << 20 }, "cuda: allocating 33.6 MB for weights on their way: FAKE_2 (FAKE_2); 8.4 MB of 1099.5 GB are free"},
	} {
		f := newFake(t)
		c.change(f)
		d, err := newDevice(f, 0)
		if err == nil || err.Error() != c.want {
			t.Errorf("%v; want %s", err, c.want)
		}
		if d != nil {
			t.Error("a device beside an error")
		}
		f.leaks()
	}
	if _, err := newDevice(newFake(t), 1); err == nil || err.Error() != "cuda: there is no device 1; there are 1" {
		t.Error(err)
	}
}

// llama is a graph of a decoder of a few layers.
func llama(t testing.TB, d compute.Device, layers int, hidden, ffn, heads, kv, dim, vocab int, weight func(out, in int) compute.Matrix) *compute.Graph {
	g := &compute.Graph{Vocab: vocab}
	h, x, added := g.Buffer(hidden, compute.AllRows), g.Buffer(hidden, compute.AllRows), g.Buffer(hidden, compute.AllRows)
	q, k, v := g.Buffer(heads*dim, compute.AllRows), g.Buffer(kv*dim, compute.AllRows), g.Buffer(kv*dim, compute.AllRows)
	mixed, gate, up := g.Buffer(heads*dim, compute.AllRows), g.Buffer(ffn, compute.AllRows), g.Buffer(ffn, compute.AllRows)
	angles, last, logits := g.Buffer(dim, compute.AllRows), g.Buffer(hidden, compute.LogitRows), g.Buffer(vocab, compute.LogitRows)
	ones := make([]float32, hidden)
	freqs := make([]float32, dim/2)
	for i := range ones {
		ones[i] = 1
	}
	for i := range freqs {
		freqs[i] = 1 / float32(i+1)
	}
	norm := compute.Norm{Gain: vectorOf(t, d, ones), Eps: 1e-5}
	table := weight(vocab, hidden)
	g.Add(compute.Embed{Dst: h, Table: table, Scale: 1}, compute.Angles{Dst: angles, Freqs: vectorOf(t, d, freqs), Scale: 1})
	one := func(dst compute.Tensor, out, in int) compute.Product {
		return compute.Product{Dst: dst, W: weight(out, in)}
	}
	for i := range layers {
		g.Add(compute.Normalize{Dst: x, Src: h, Norm: norm},
			compute.MatMul{X: x, Products: []compute.Product{one(q, heads*dim, hidden), one(k, kv*dim, hidden), one(v, kv*dim, hidden)}},
			compute.Rotate{X: q, Angles: angles, Rotary: compute.Rotary{Heads: heads, HeadDim: dim}},
			compute.Rotate{X: k, Angles: angles, Rotary: compute.Rotary{Heads: kv, HeadDim: dim}},
			compute.Store{Layer: i, K: k, V: v},
			compute.Attend{Layer: i, Dst: mixed, Q: q, Attention: compute.Attention{Heads: heads, Scale: 0.1}},
			compute.MatMul{X: mixed, Products: []compute.Product{one(added, hidden, heads*dim)}},
			compute.Add{Dst: h, Src: added, Scale: 1},
			compute.Normalize{Dst: x, Src: h, Norm: norm},
			compute.MatMul{X: x, Products: []compute.Product{one(gate, ffn, hidden), one(up, ffn, hidden)}},
			compute.Activate{Dst: gate, Gate: gate, Up: up},
			compute.MatMul{X: gate, Products: []compute.Product{one(added, hidden, ffn)}},
			compute.Add{Dst: h, Src: added, Scale: 1})
	}
	g.Add(compute.Gather{Dst: last, Src: h}, compute.Normalize{Dst: last, Src: last, Norm: norm},
		compute.Head{X: last, Product: compute.Product{Dst: logits, W: table}, Scale: 1}, compute.Choose{Logits: logits})
	return g
}

// TestSteps runs steps on a driver that computes nothing: arguments, lifetimes, graphs and what is given back.
func TestSteps(t *testing.T) {
	f := newFake(t)
	d, err := newDevice(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	types := []quant.Type{quant.BF16, quant.Q4_0, quant.Q8_0, quant.MXFP4, quant.MXFP4}
	made := 0
	g := llama(t, d, 2, 128, 256, 4, 2, 64, 1000, func(out, in int) compute.Matrix {
		made++
		return load(t, d, packedSource(t, r, types[made%len(types)], out, in))
	})
	layer := compute.CacheLayer{KVHeads: 2, KDim: 64, VDim: 64}
	c, err := d.Cache(compute.CacheSpec{Blocks: 100, BlockTokens: 16, Type: d.KVTypes()[0], Layers: []compute.CacheLayer{layer, layer}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Compile(g, c, compute.Limits{Rows: 300, Slots: 40})
	if err != nil {
		t.Fatal(err)
	}
	prompt, decode := &compute.Batch{}, []*compute.Batch{{}, {}}
	plain := &compute.Choosing{TopP: 1, Repetition: 1}
	for i := range 20 {
		prompt.Append(sequence(i+1), 0, true, []int32{int32(i), int32(i + 20)})
		prompt.Choosers = append(prompt.Choosers, compute.Chooser{Slot: int32(i), Choosing: plain})
		prompt.Choose = append(prompt.Choose, compute.Choice{Row: int32(i), Slot: int32(i), Given: -1, Top: -1, After: -1, Mask: -1})
	}
	data := make([]byte, p.BlockBytes())
	prompt.In = []compute.Transfer{{Block: 3, Data: data}}
	prompt.Out = []compute.Transfer{{Block: 4, Data: data}}
	prompt.Copies = [][2]int32{{1, 2}}
	first, err := p.Start(prompt)
	if err != nil {
		t.Fatal(err)
	}
	for n, b := range decode {
		for i := range 20 {
			b.AppendSeq(compute.Seq{Start: int32(i + 1 + n), Slot: int32(i)}, []int32{-1}, 1)
			b.From = append(b.From, int32(i))
			b.Logits = append(b.Logits, int32(i))
		}
		b.Choose, b.Read = prompt.Choose, []int32{3}
	}
	second, err := p.Start(decode[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := len(prompt.In) + len(prompt.Out) + len(prompt.Copies); n != 0 {
		t.Errorf("%d moves that are done are still in their batch", n)
	}
	third, err := p.Start(decode[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []compute.Step{second, third} {
		if err := s.Wait(); err != nil {
			t.Fatal(err)
		}
		if s.Chosen(7).Token != 0 || len(s.Logits(0)) != 1000 {
			t.Error(s.Chosen(7), len(s.Logits(0)))
		}
	}
	if _, err := p.Start(&compute.Batch{IDs: []int32{1000}, Pos: []int32{0}}); err == nil {
		t.Error("a token outside the vocabulary is taken")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	f.leaks()
}

// TestCacheBytes holds that a cache of no known type has no size, and that states count without any blocks.
func TestCacheBytes(t *testing.T) {
	d := new(device)
	layers := []compute.CacheLayer{{KVHeads: 2, KDim: 64, VDim: 64}, {State: 100}}
	for _, c := range []struct {
		spec compute.CacheSpec
		want int64
	}{
		{compute.CacheSpec{Blocks: 3, BlockTokens: 16, Type: quant.BF16, Layers: layers[:1]}, 3 * 16 * 2 * 128 * 2},
		{compute.CacheSpec{Blocks: 3, BlockTokens: 16, Type: quant.Q4_K, Layers: layers[:1]}, 0},
		{compute.CacheSpec{Blocks: 3, BlockTokens: 16, Layers: layers[:1]}, 0},
		{compute.CacheSpec{BlockTokens: 16, States: 5, Layers: layers}, 5 * 400},
		{compute.CacheSpec{BlockTokens: 16, Layers: layers[:1]}, 0},
	} {
		if got := d.CacheBytes(c.spec); got != c.want {
			t.Errorf("%+v: %d bytes; want %d", c.spec, got, c.want)
		}
	}
}

// TestAttenders checks that a cache of each type and size of heads has its kernels with tensor cores, and that the
// driver compiles none that no cache wants.
func TestAttenders(t *testing.T) {
	f := newFake(t)
	f.Devices[0].Shared = 227 << 10
	d, err := newDevice(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	modules := func() int { return len(d.kernels.modules) }
	before := modules()
	for kv, k := range kvTypes {
		for _, dim := range []int{64, 128, 256, 256, 40} {
			c, err := d.Cache(compute.CacheSpec{Blocks: 4, BlockTokens: 16, Type: k.typ, Layers: []compute.CacheLayer{{KVHeads: 1, KDim: dim, VDim: dim}}})
			if err != nil {
				t.Fatal(err)
			}
			p := &program{d: d, cache: c.(*cache)}
			p.copyKernels()
			a, fits := p.attender(compute.Attention{Heads: 4}, c.Spec().Layers[0])
			if fits != (dim != 40) {
				t.Errorf("heads of %d of %v, in tensor cores: %t", dim, k.typ, fits)
			}
			if want := fmt.Sprintf("attend_tile_%d%s", dim, k.suffix); fits && (a.tile != want || d.kernels.byName[a.tile].shared == 0) {
				t.Errorf("heads of %d of %v have %s; want %s, with shared memory", dim, k.typ, a.tile, want)
			}
		}
		if got, want := modules()-before, []int{2, 7, 11, 14}[kv]; got != want {
			t.Errorf("with caches of %d types the driver has compiled %d modules more; want %d", kv+1, got, want)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	f.leaks()
}
