package route

import (
	"fmt"
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

// prompt is a prompt of some blocks, of which the first ones are those of the conversation it belongs to.
func prompt(conversation uint64, blocks int) []uint64 {
	var names []uint64
	for i, h := 0, Seed(fmt.Sprint(conversation)); i < blocks; i++ {
		h = chain(h, uint64(i))
		names = append(names, h)
	}
	return names
}

// TestTableAgainstMap compares histories of a table with those of Go's map.
func TestTableAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.IntRange(1, 3).Draw(t, "words")
		tab, want := newTable(words), map[uint64]uint64{}
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			// Keys of few values, many of which have the same home.
			key := (1 + rapid.Uint64Range(0, 60).Draw(t, "key")) << rapid.SampledFrom([]int{0, 30, 56}).Draw(t, "shift")
			if rapid.Bool().Draw(t, "put") {
				tab.put(key)[words-1], want[key] = key+1, key+1
			} else {
				tab.remove(key)
				delete(want, key)
			}
			for k, v := range want {
				if got := tab.get(k); got == nil || got[words-1] != v {
					t.Fatalf("key %x: %v; want %x", k, got, v)
				}
			}
			if tab.len() != len(want) {
				t.Fatalf("%d keys; want %d", tab.len(), len(want))
			}
		}
	})
}

// TestMatchAgainstCounting compares the bisection with counting from the first block on, where endpoints hold what
// precedes a block they hold.
func TestMatchAgainstCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		endpoints := rapid.SampledFrom([]int{1, 3, 64, 65, 256}).Draw(t, "endpoints")
		blocks := prompt(1, rapid.IntRange(0, 200).Draw(t, "blocks"))
		p := newPrefixes(endpoints, 1000)
		want := make([]int, endpoints)
		for e := range want {
			want[e] = rapid.IntRange(0, len(blocks)).Draw(t, "depth")
			p.Note(e, blocks[:want[e]])
		}
		got := make([]int, endpoints)
		p.Match(blocks, got)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("depths %v; want %v", got, want)
		}
	})
}

// TestPrefixesForgetWhatWasNotUsed fills an endpoint's share: what is used again and again stays, of the rest the last
// blocks go first.
func TestPrefixesForgetWhatWasNotUsed(t *testing.T) {
	p := newPrefixes(2, 100)
	depth := make([]int, 2)
	system := prompt(0, 20)
	p.Note(0, system)
	p.Note(1, prompt(1, 30))
	for c := uint64(1); c <= 50; c++ {
		p.Note(0, append(system[:20:20], prompt(c, 30)...))
	}
	if p.Match(system, depth); depth[0] != 20 || depth[1] != 0 {
		t.Errorf("of what every prompt begins with, the endpoints hold %v blocks; want all 20 and none", depth)
	}
	if p.order[0].n != 100 {
		t.Errorf("%d blocks of the endpoint; want 100", p.order[0].n)
	}
	if p.Match(prompt(50, 30), depth); depth[0] != 30 {
		t.Errorf("%d blocks of the last prompt; want 30", depth[0])
	}
	if p.Match(prompt(1, 30), depth); depth[0] != 0 || depth[1] != 30 {
		t.Errorf("%v blocks of the first prompt; want none and all 30, since it went to both", depth)
	}
	p.Note(1, prompt(2, 80))
	if p.Match(prompt(1, 30), depth); depth[1] != 20 {
		t.Errorf("%d blocks of a prompt whose last 10 had to go; want 20", depth[1])
	}
	p.Forget(0)
	p.Forget(1)
	if n := p.held.len(); n != 0 {
		t.Errorf("%d blocks after all were forgotten", n)
	}
}

// TestExact follows engines that name blocks as they like.
func TestExact(t *testing.T) {
	x := NewExact(3)
	seed := Seed("model")
	tokens := make([]int32, 64)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	names := TokenBlocks(nil, seed, tokens, 16)
	tell := func(e int, name, parent uint64, block int) {
		t.Helper()
		b := Block{Name: name, Parent: parent, Tokens: tokens[block*16:][:16]}
		if parent == 0 {
			b.Seed = seed
		}
		if !x.Store(e, b) {
			t.Errorf("endpoint %d: block %d was not stored", e, name)
		}
	}
	depths := func(want ...int) {
		t.Helper()
		got := make([]int, 3)
		if x.Match(names, got); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("depths %v; want %v", got, want)
		}
	}
	for i := range uint64(4) {
		parent := []uint64{0, 100 + i - 1}[min(i, 1)]
		tell(0, 100+i, parent, int(i))
	}
	tell(1, 7, 0, 0)
	tell(1, 9, 7, 1)
	depths(4, 2, 0)
	if x.Store(2, Block{Name: 5, Parent: 4, Tokens: tokens[16:32]}) {
		t.Error("a block without its parent was stored")
	}
	x.Remove(0, 103)
	x.Remove(0, 55)
	depths(3, 2, 0)
	tell(1, 9, 7, 2) // the name goes to another block
	depths(3, 1, 0)
	x.Clear(0)
	depths(0, 1, 0)
	x.Remove(1, 9)
	x.Remove(1, 7)
	if n := x.held.len(); n != 0 {
		t.Errorf("%d blocks are left", n)
	}
}

// heap returns the bytes that are in use after a collection.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

const (
	manyBlocks    = 10_000_000
	manyEndpoints = MaxEndpoints
	perPrompt     = 6250 // blocks of 16 tokens in 100,000 tokens
)

// BenchmarkPrefixesMatch looks for prompts of 100,000 tokens among 10 million blocks over 256 endpoints.
func BenchmarkPrefixesMatch(b *testing.B) {
	before := heap()
	p := newPrefixes(manyEndpoints, manyBlocks/manyEndpoints)
	n := uint64(0)
	for ; n*perPrompt < manyBlocks; n++ {
		p.Note(int(n)%manyEndpoints, prompt(n, perPrompt))
	}
	bytes, blocks := heap()-before, p.held.len()
	depth := make([]int, manyEndpoints)
	var prompts [][]uint64
	for i := range uint64(64) {
		prompts = append(prompts, prompt(n-1-i*7, perPrompt))
	}
	i := 0
	for b.Loop() {
		p.Match(prompts[i%len(prompts)], depth)
		i++
	}
	b.ReportMetric(bytes, "bytes")
	b.ReportMetric(float64(blocks), "blocks")
	runtime.KeepAlive(p)
}

// BenchmarkPrefixesMatchShared looks for a prompt of which each of 256 endpoints holds another number of blocks.
func BenchmarkPrefixesMatchShared(b *testing.B) {
	p := newPrefixes(manyEndpoints, perPrompt)
	blocks := prompt(1, perPrompt)
	for e := range manyEndpoints {
		p.Note(e, blocks[:(e+1)*perPrompt/manyEndpoints])
	}
	depth := make([]int, manyEndpoints)
	for b.Loop() {
		p.Match(blocks, depth)
	}
}

// BenchmarkPrefixesNote notes prompts of 100,000 tokens on endpoints that hold all they may.
func BenchmarkPrefixesNote(b *testing.B) {
	p := newPrefixes(8, 50_000)
	n := uint64(0)
	var names []uint64
	for b.Loop() {
		b.StopTimer()
		names = prompt(n, perPrompt)
		b.StartTimer()
		p.Note(int(n%8), names)
		n++
	}
	b.ReportMetric(float64(n)*perPrompt/b.Elapsed().Seconds(), "blocks/s")
}

// BenchmarkExactEvents tells of 10 million blocks over 256 endpoints, and then goes on with one removed for each that
// is stored.
func BenchmarkExactEvents(b *testing.B) {
	before := heap()
	x := NewExact(manyEndpoints)
	tokens := make([]int32, 16)
	store := func(n uint64) {
		tokens[0], tokens[1] = int32(n), int32(n>>31)
		block := Block{Name: n*0xff51afd7ed558ccd | 1, Tokens: tokens}
		if n%1000 >= manyEndpoints {
			block.Parent = (n-manyEndpoints)*0xff51afd7ed558ccd | 1
		}
		x.Store(int(n%manyEndpoints), block)
	}
	n := uint64(0)
	for ; n < manyBlocks; n++ {
		store(n)
	}
	bytes, blocks, first := heap()-before, x.held.len(), n
	for b.Loop() {
		x.Remove(int((n-manyBlocks)%manyEndpoints), (n-manyBlocks)*0xff51afd7ed558ccd|1)
		store(n)
		n++
	}
	b.ReportMetric(bytes, "bytes")
	b.ReportMetric(float64(blocks), "blocks")
	b.ReportMetric(2*float64(n-first)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkBlocks names the blocks of a prompt of 400 KB, about 100,000 tokens.
func BenchmarkBlocks(b *testing.B) {
	data := make([]byte, 400_000)
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	for _, size := range []int{64, 256} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			var names []uint64
			for b.Loop() {
				names = Blocks(names[:0], 1, data, size)
			}
		})
	}
	tokens := make([]int32, 100_000)
	for i := range tokens {
		tokens[i] = int32(i * 7 % 50_000)
	}
	b.Run("tokens=16", func(b *testing.B) {
		b.SetBytes(int64(4 * len(tokens)))
		var names []uint64
		for b.Loop() {
			names = TokenBlocks(names[:0], 1, tokens, 16)
		}
	})
}

// TestExactOfLiars tells of blocks at random: names that are given twice, parents that are their own children, removals
// of what was never stored. Depths stay within the prompt, and nothing is left once all endpoints hold nothing.
func TestExactOfLiars(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const endpoints, words = 3, 6
		x := NewExact(endpoints)
		tokens := func() []int32 {
			return []int32{rapid.Int32Range(0, 2).Draw(t, "token"), rapid.Int32Range(0, 2).Draw(t, "token")}
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			e, name := rapid.IntRange(0, endpoints-1).Draw(t, "endpoint"), rapid.Uint64Range(0, words).Draw(t, "name")
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				x.Clear(e)
			case 1, 2:
				x.Remove(e, name)
			default:
				x.Store(e, Block{Name: name, Parent: rapid.Uint64Range(0, words).Draw(t, "parent"), Tokens: tokens()})
			}
			if x.Held(e) > words+1 {
				t.Fatalf("%d blocks of %d names", x.Held(e), words+1)
			}
		}
		var prompt []int32
		for range 4 {
			prompt = append(prompt, tokens()...)
		}
		names, depth := TokenBlocks(nil, 0, prompt, 2), make([]int, endpoints)
		x.Match(names, depth)
		for e, d := range depth {
			if d < 0 || d > len(names) || d > 0 && x.Held(e) == 0 {
				t.Fatalf("endpoint %d holds %d blocks of %d, and tells of %d", e, d, len(names), x.Held(e))
			}
			x.Clear(e)
		}
		if x.held.len() != 0 {
			t.Fatalf("%d blocks are held by nobody", x.held.len())
		}
	})
}
