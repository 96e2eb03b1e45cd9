package kv

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// The names are what other processes compute too: another implementation computed those in testdata/names.
func TestHashBlock(t *testing.T) {
	data, err := os.ReadFile("testdata/names/names.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Seed          string
		Block         int
		Tokens        []int32
		Adapter, Salt string
		Names         []string
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		parent, keys := Root(c.Seed), Keys{c.Adapter, c.Salt}
		for n, want := range c.Names {
			parent = HashBlock(parent, c.Tokens[n*c.Block:(n+1)*c.Block], keys)
			if got := hex.EncodeToString(parent[:]); got != want {
				t.Errorf("case %d, block %d: %s, want %s", i, n, got, want)
			}
			keys.Salt = ""
		}
	}
	if len(cases) < 8 {
		t.Errorf("%d cases", len(cases))
	}
}

// Wrong use would corrupt other sequences' contexts, so it must not pass unnoticed.
func TestMisusePanics(t *testing.T) {
	one := HashBlock(Hash{}, []int32{1}, Keys{})
	for _, c := range []struct {
		what, want string
		do         func(*Pool)
	}{
		{"no blocks", "a pool of 0 blocks", func(*Pool) { NewPool(0, 16) }},
		{"double release", "block 0 is released but nobody holds it", func(p *Pool) {
			table, _ := p.Alloc(nil, 1)
			p.Release(table)
			p.Release(table)
		}},
		{"naming a free block", "block 2 (0 references", func(p *Pool) { p.Register(nil, 2, one) }},
		{"naming a block twice", "cannot be named", func(p *Pool) {
			table, _ := p.Alloc(nil, 1)
			p.Register(nil, table[0], one)
			p.Register(nil, table[0], one)
		}},
		{"naming after an unnamed block", "block 1 follows block 0", func(p *Pool) {
			table, _ := p.Alloc(nil, 2)
			p.Register(table[:1], table[1], one)
		}},
		{"sharing a free block", "block 1 is free", func(p *Pool) { p.Share([]BlockID{1}, 1) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, c.want) {
					t.Errorf("panic %q, want %q", got, c.want)
				}
			}()
			c.do(NewPool(3, 1))
		})
	}
}

// chains returns the names of n chains of length blocks each.
func chains(n, length int) [][]Hash {
	all := make([][]Hash, n)
	for i := range all {
		parent := Hash{}
		for j := range length {
			parent = HashBlock(parent, []int32{int32(i), int32(j)}, Keys{})
			all[i] = append(all[i], parent)
		}
	}
	return all
}

// visit is the life of a sequence: find, share, allocate, register, release. It returns the emptied table.
func visit(p *Pool, table []BlockID, names []Hash) []BlockID {
	table = p.Match(table[:0], names)
	found := len(table)
	p.Share(table, len(names)*p.BlockTokens())
	table, ok := p.Alloc(table, len(names)-found)
	if !ok {
		panic("the pool is too small")
	}
	for i := found; i < len(names); i++ {
		table[i] = p.Register(table[:i], table[i], names[i])
	}
	p.Release(table)
	return table
}

// A pool that evicts all the time works in the memory it was made with.
func TestNoAllocation(t *testing.T) {
	p := NewPool(256, 16)
	all := chains(64, 16)
	table := make([]BlockID, 0, 16)
	round := func() {
		for _, names := range all {
			table = visit(p, table, names)
		}
	}
	round()
	before := p.Stats().Evictions
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations for %d sequences", n, len(all))
	}
	if p.Stats().Evictions == before {
		t.Error("nothing was evicted, so this shows nothing")
	}
	tokens := make([]int32, 16)
	if n := testing.AllocsPerRun(100, func() { HashBlock(Hash{}, tokens, Keys{}) }); n != 0 {
		t.Errorf("naming a block allocates %v times", n)
	}
}

// The check must see what it is there to see.
func TestCheckFindsFaults(t *testing.T) {
	for _, c := range []struct {
		want   string
		damage func(*Pool)
	}{
		{"is listed as free", func(p *Pool) { p.refs[p.free]++ }},
		{"has 0 references, listed as free or cached: false", func(p *Pool) { p.free = p.next[p.free] }},
		{"the index gives to", func(p *Pool) { p.name[0][0]++ }},
		{"which was forgotten", func(p *Pool) { p.parent[1] = p.free }},
		{"would be evicted before", func(p *Pool) { p.unlink(1); p.pushCached(1) }},
		{"counters say", func(p *Pool) { p.stats.Free++ }},
		{"the index holds", func(p *Pool) { p.index[Hash{1}] = 0 }},
	} {
		p := NewPool(4, 1)
		visit(p, nil, chains(1, 2)[0])
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		c.damage(p)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func BenchmarkMatch(b *testing.B) { // a long prompt, wholly cached
	p := NewPool(4096, 16)
	names := chains(1, 512)[0]
	table := slices.Clone(visit(p, nil, names))
	for b.Loop() {
		table = p.Match(table[:0], names)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(names)), "ns/block")
}

func BenchmarkChurn(b *testing.B) { // sequences of 64 blocks that share nothing, in a pool that is always full
	p := NewPool(4096, 16)
	all := chains(128, 64)
	table := make([]BlockID, 0, 64)
	for i := 0; b.Loop(); i++ {
		table = visit(p, table, all[i%len(all)])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*64), "ns/block")
}

func BenchmarkHashBlock(b *testing.B) {
	tokens := make([]int32, 16)
	var h Hash
	for b.Loop() {
		h = HashBlock(h, tokens, Keys{})
	}
}
