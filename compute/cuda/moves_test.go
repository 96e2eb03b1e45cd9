package cuda

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// moveMuch lets blocks move in as many parts as there can be, of so many bytes.
func moveMuch(t *testing.T, half int) {
	was := [2]int{halfBytes, spanBytes}
	halfBytes, spanBytes = half, 1
	t.Cleanup(func() { halfBytes, spanBytes = was[0], was[1] })
}

// TestSpans cuts layers into spans, of the same size where they can be.
func TestSpans(t *testing.T) {
	f := newFake(t)
	d, err := newDevice(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		layers, half int
		leave        bool
		ends         []int
	}{
		{12, 1 << 20, true, []int{2, 4, 6, 8, 9, 10, 11, 12}}, {8, 1 << 20, true, []int{1, 2, 3, 4, 5, 6, 7, 8}}, {1, 1 << 20, true, []int{1}},
		{12, 40 << 10, true, []int{2, 4, 6, 8, 9, 10, 11, 12}}, {6, 1, true, []int{1, 2, 3, 4, 5, 6}},
		{32, 1 << 20, false, []int{16, 24, 28, 30, 32}}, {3, 1 << 20, false, []int{1, 2, 3}}, {12, 40 << 10, false, []int{5, 8, 10, 11, 12}},
	} {
		moveMuch(t, c.half)
		g := llama(t, d, c.layers, 128, 256, 4, 2, 64, 1000, func(out, in int) compute.Matrix { return weight(t, d, bell(r, out*in, 1), out, in) })
		layers := slices.Repeat([]compute.CacheLayer{{KVHeads: 2, KDim: 64, VDim: 64}}, c.layers) // of 8 KB
		cache, err := d.Cache(compute.CacheSpec{Blocks: 400, BlockTokens: 16, Type: quant.BF16, Layers: layers})
		if err != nil {
			t.Fatal(err)
		}
		made, err := d.Compile(g, cache, compute.Limits{Rows: 64, Slots: 4})
		if err != nil {
			t.Fatal(err)
		}
		p := made.(*program)
		known := make([]byte, 200*p.BlockBytes())
		if err := p.Pin(known); err != nil {
			t.Fatal(err)
		}
		b := token(0, plainChoice)
		for i := range 200 {
			b.In = append(b.In, compute.Transfer{Block: int32(i), Data: known[i*p.BlockBytes():][:p.BlockBytes()]})
			if c.leave {
				b.Out = append(b.Out, compute.Transfer{Block: int32(i + 200), Data: make([]byte, p.BlockBytes())})
			}
		}
		s, err := p.Start(b)
		if err == nil {
			err = s.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
		m := &s.(*step).r.transit
		var ends []int
		for _, s := range m.spans {
			ends = append(ends, s.end)
		}
		if !slices.Equal(ends, c.ends) || m.waited != len(ends) {
			t.Errorf("%+v: spans end at %v, of which %d are waited for", c, ends, m.waited)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := cache.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	f.leaks()
}

// copying is a driver that notes the streams of copies to the device.
type copying struct {
	*fake
	streams []uintptr
}

func (c *copying) call(e entry, a ...uintptr) code {
	if e == cuMemcpyHtoDAsync || e == cuMemcpy2DAsync {
		c.Mu.Lock()
		c.streams = append(c.streams, a[len(a)-1])
		c.Mu.Unlock()
	}
	return c.fake.call(e, a...)
}

// TestOwnCopiesFirst queues a step's own copies before those of blocks that come: a device may make them one after the
// other.
func TestOwnCopiesFirst(t *testing.T) {
	f := &copying{fake: newFake(t)}
	d := deviceOf(t, f)
	moveMuch(t, 64<<10)
	r := rand.New(rand.NewPCG(1, 1))
	const layers, blocks = 12, 50
	g := llama(t, d, layers, 128, 256, 4, 2, 64, 1000, func(out, in int) compute.Matrix { return weight(t, d, bell(r, out*in, 1), out, in) })
	cache, err := d.Cache(compute.CacheSpec{Blocks: blocks + 1, BlockTokens: 16, Type: quant.BF16, Layers: slices.Repeat([]compute.CacheLayer{{KVHeads: 2, KDim: 64, VDim: 64}}, layers)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cache.Close(); err != nil {
			t.Error(err)
		}
	})
	p := compileGraph(t, d, g, cache, compute.Limits{Rows: 64, Slots: 4}).(*program)
	known := make([]byte, blocks*p.BlockBytes())
	if err := p.Pin(known); err != nil {
		t.Fatal(err)
	}
	for _, rows := range []int{1, 16} { // a graph, and kernel by kernel
		b := &compute.Batch{}
		b.AppendSeq(compute.Seq{Start: 16 * blocks}, make([]int32, rows), rows)
		b.Logits, b.Read = []int32{int32(rows - 1)}, []int32{0}
		for i := range blocks {
			b.Edits = append(b.Edits, compute.TableEdit{At: int32(i), Block: int32(i)})
			b.In = append(b.In, compute.Transfer{Block: int32(i), Data: known[i*p.BlockBytes():][:p.BlockBytes()]})
		}
		f.streams = nil
		s, err := p.Start(b)
		if err == nil {
			err = s.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
		first := slices.Index(f.streams, p.coming.handle)
		if first < 0 || slices.Index(f.streams[:first], p.s.handle) < 0 || slices.Contains(f.streams[first:], p.s.handle) {
			t.Errorf("%d rows: copies to the device are on the streams %x; those of the step's own, %x, come before those of blocks, %x", rows, f.streams, p.s.handle, p.coming.handle)
		}
	}
}

// TestFit goes through blocks of pinned pieces, of which the first and others are left out: those that follow each
// other go at once, but for those that are too many.
func TestFit(t *testing.T) {
	const size = 64
	var l pool
	var blocks []compute.Transfer
	for i, left := range [][]int{{0}, {}, {3, 7}, {}} { // those left out of 8
		data := make([]byte, 9*size) // the last is not used, so that no piece follows another
		l.add(piece{pinned{address(&data[0]), len(data)}, data})
		for k := range 8 {
			if !slices.Contains(left, k) {
				blocks = append(blocks, compute.Transfer{Block: int32(8*i + k), Data: data[k*size:][:size]})
			}
		}
	}
	blocks = append(blocks, compute.Transfer{Data: make([]byte, size)}, compute.Transfer{Data: make([]byte, size)}) // not pinned
	for most, want := range map[int][]int{
		1: slices.Repeat([]int{1}, 31), 5: {5, 2, 5, 3, 3, 3, 5, 5}, 8: {7, 8, 6, 8, 2}, 16: {15, 16}, 20: {18, 13}, 64: {31},
	} {
		var got []int
		for left := blocks; len(left) > 0; left = left[got[len(got)-1]:] {
			got = append(got, l.fit(left, most))
		}
		if !slices.Equal(got, want) {
			t.Errorf("at most %d at once: %v; want %v", most, got, want)
		}
	}
}

// TestMovedBeside lets steps compute with blocks that come, a few layers at a time, while others leave: what they
// compute is the same as with blocks that were there.
func TestMovedBeside(t *testing.T) {
	d := gpuDevice(t)
	moveMuch(t, 200<<10)
	r := rand.New(rand.NewPCG(3, 4))
	const layers = 6
	prompt := less(1600, 160)
	g := llama(t, d, layers, 256, 512, 4, 2, 64, 1000, func(out, in int) compute.Matrix { return weight(t, d, bell(r, out*in, 0.1), out, in) })
	spec := slices.Repeat([]compute.CacheLayer{{KVHeads: 2, KDim: 64, VDim: 64}}, layers)
	cache, err := d.Cache(compute.CacheSpec{Blocks: 400, BlockTokens: 16, Type: quant.BF16, Layers: spec})
	if err != nil {
		t.Fatal(err)
	}
	p := compileGraph(t, d, g, cache, compute.Limits{Rows: 2048, Slots: 4})
	blocks := func(b *compute.Batch, slot int, first int32) {
		for i := range prompt/16 + 20 {
			b.Edits = append(b.Edits, compute.TableEdit{Slot: int32(slot), At: int32(i), Block: first + int32(i)})
		}
	}
	// logits computes n tokens behind the prompt.
	logits := func(b *compute.Batch, slot, n int) []float32 {
		tokens := make([]int32, n)
		for i := range tokens {
			tokens[i] = int32(i + 7)
		}
		b.AppendSeq(compute.Seq{Start: int32(prompt), Slot: int32(slot)}, tokens, n)
		b.Logits, b.Read = []int32{int32(n - 1)}, []int32{0}
		s, err := p.Start(b)
		if err == nil {
			err = s.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(s.Logits(0))
	}
	first := &compute.Batch{}
	blocks(first, 0, 0)
	tokens := make([]int32, prompt)
	for i := range tokens {
		tokens[i] = int32(r.IntN(1000))
	}
	first.AppendSeq(compute.Seq{}, tokens, prompt)
	s, err := p.Start(first)
	if err == nil {
		err = s.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	size := p.BlockBytes()
	known := make([]byte, prompt/16*size)
	if err := p.(compute.Pinner).Pin(known); err != nil {
		t.Fatal(err)
	}
	for _, n := range less([]int{20, 3, 300}, []int{20, 3}) {
		want := logits(&compute.Batch{}, 0, n)
		stored := make([]compute.Transfer, prompt/16)
		for i := range stored {
			stored[i] = compute.Transfer{Block: int32(i), Data: known[i*size:][:size]}
			if i%10 == 3 {
				stored[i].Data = make([]byte, size)
			}
		}
		if s, err = p.Start(&compute.Batch{Out: slices.Clone(stored)}); err == nil {
			err = s.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
		b := &compute.Batch{}
		blocks(b, 1, 200)
		for i, x := range stored { // what is in their places leaves before
			b.In = append(b.In, compute.Transfer{Block: int32(200 + i), Data: x.Data})
			b.Out = append(b.Out, compute.Transfer{Block: int32(200 + i), Data: make([]byte, size)})
		}
		if !slices.Equal(logits(b, 1, n), want) {
			t.Errorf("%d rows behind blocks that come are not what they are behind blocks that are there", n)
		}
	}
}

// TestSpeedOfMoves measures, if KVASIR_GPU_MOVES is set, steps of a model's shape with 16 rows behind 8,192 tokens:
// alone, with these tokens' blocks that come from pinned memory, while as many leave, and with blocks that do not
// follow each other there.
func TestSpeedOfMoves(t *testing.T) {
	if os.Getenv("KVASIR_GPU_MOVES") == "" {
		t.Skip("KVASIR_GPU_MOVES is not set")
	}
	d := gpuDevice(t)
	r := rand.New(rand.NewPCG(3, 4))
	known := map[[2]int]compute.Matrix{}
	g := llama(t, d, 32, 4096, 14336, 32, 8, 128, 128256, func(out, in int) compute.Matrix {
		if known[[2]int{out, in}] == nil {
			known[[2]int{out, in}] = load(t, d, repeated(t, r, quant.BF16, out, in))
		}
		return known[[2]int{out, in}]
	})
	const blocks = 512
	spec := slices.Repeat([]compute.CacheLayer{{KVHeads: 8, KDim: 128, VDim: 128}}, 32)
	cache, err := d.Cache(compute.CacheSpec{Blocks: 3*blocks + 1, BlockTokens: 16, Type: quant.BF16, Layers: spec})
	if err != nil {
		t.Fatal(err)
	}
	p := compileGraph(t, d, g, cache, compute.Limits{Rows: 512, Slots: 4})
	size := p.BlockBytes()
	var pieces [][]byte
	for range 2 * blocks / 16 {
		piece := make([]byte, 16*size)
		if err := p.(compute.Pinner).Pin(piece); err != nil {
			t.Fatal(err)
		}
		pieces = append(pieces, piece)
	}
	at := func(i int) []byte { return pieces[i/16][i%16*size:][:size] }
	step := func(rows, in, out int, scattered bool) time.Duration {
		took := time.Duration(1 << 62)
		for range 4 {
			b := &compute.Batch{}
			for i := range blocks + 1 {
				b.Edits = append(b.Edits, compute.TableEdit{At: int32(i), Block: int32(i)})
			}
			for i := range in {
				from := i
				if scattered {
					from = 2 * i
				}
				b.In = append(b.In, compute.Transfer{Block: int32(i), Data: at(from)})
			}
			for i := range out {
				b.Out = append(b.Out, compute.Transfer{Block: int32(i + blocks + 1), Data: at(blocks + i)})
			}
			if rows > 0 {
				b.AppendSeq(compute.Seq{Start: 16 * blocks}, make([]int32, rows), rows)
				b.Logits, b.Read = []int32{int32(rows - 1)}, []int32{0}
			}
			begin := time.Now()
			s, err := p.Start(b)
			if err == nil {
				err = s.Wait()
			}
			if err != nil {
				t.Fatal(err)
			}
			took = min(took, time.Since(begin))
		}
		return took
	}
	bytes := float64(blocks * size)
	fmt.Printf("computing alone %v\n", step(16, 0, 0, false))
	for _, half := range []int{8 << 20, 16 << 20} {
		for _, span := range []int{1 << 30, 64 << 20} {
			halfBytes, spanBytes = half, span
			moved, all, swapped, scattered := step(0, blocks, 0, false), step(16, blocks, 0, false), step(16, blocks, blocks, false), step(16, blocks, 0, true)
			fmt.Printf("halves of %2d MiB, a span for %4d MiB: moved %v (%.1f GB/s), with computing %v, while others leave %v, scattered %v\n",
				half>>20, span>>20, moved, bytes/moved.Seconds()/1e9, all, swapped, scattered)
		}
	}
}
