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
		Seed                            string
		Block                           int
		Tokens                          []int32
		Model, Adapter, AdapterID, Salt string
		Long                            bool
		Names                           []string
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		parent, keys := Root(c.Seed), Keys{Model: c.Model, AdapterName: c.Adapter, AdapterID: c.AdapterID, Long: c.Long, Salt: c.Salt}
		for n, want := range c.Names {
			parent = HashBlock(parent, c.Tokens[n*c.Block:(n+1)*c.Block], keys)
			if got := hex.EncodeToString(parent[:]); got != want {
				t.Errorf("case %d, block %d: %s, want %s", i, n, got, want)
			}
			keys = Keys{}
		}
	}
	if len(cases) < 8 {
		t.Errorf("%d cases", len(cases))
	}
}

// Wrong use would corrupt other sequences' contexts, so it must not pass unnoticed.
func TestMisusePanics(t *testing.T) {
	names := chains(1, 3)[0]
	for _, c := range []struct {
		what, want string
		do         func(*Pool, *Table)
	}{
		{"naming a free block", "block 0 (0 references) cannot be named", func(p *Pool, q *Table) {
			held := Table{tableRest: &tableRest{Blocks: [][]BlockID{slices.Clone(q.Blocks[0])}}}
			p.Release(q)
			p.Register(&held, names, []int32{0})
		}},
		{"naming a block twice", "cannot be named", func(p *Pool, q *Table) {
			p.Register(q, names[:1], []int32{0})
			q.Named = 0
			p.Register(q, names[:1], []int32{0})
		}},
		{"naming half a block", "a block of 0 tokens is to be named", func(p *Pool, q *Table) { p.Register(q, names[:1], nil) }},
		{"double release", "block 1 is released but nobody holds it", func(p *Pool, q *Table) {
			again := Table{tableRest: &tableRest{Blocks: [][]BlockID{slices.Clone(q.Blocks[0])}}, State: -1}
			p.Release(q)
			p.Release(&again)
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, c.want) {
					t.Errorf("panic %q, want %q", got, c.want)
				}
			}()
			p := newPool(t, Config{Blocks: 3, BlockTokens: 1})
			q := p.newTable(3, Keys{}, Retention{})
			p.Grow(&q, 0, 2, 0, nil)
			c.do(p, &q)
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{BlockTokens: 1}, "a pool of 0 blocks of 1 tokens"},
		{Config{Blocks: 1, BlockTokens: -1}, "blocks of -1 tokens"},
		{Config{Blocks: 1, BlockTokens: 1, States: -1}, "-1 slots"},
		{Config{Blocks: 1, BlockTokens: 1, Groups: make([]Group, 128)}, "128 groups"},
		{Config{Blocks: 1, BlockTokens: 1, Groups: []Group{{}, {-4}}}, "group 1 of layers has a window of -4 tokens"},
		{Config{Blocks: 1, BlockTokens: 1, Policy: "fifo"}, `eviction policy is "fifo"; want one of lru, lfu, priority`},
	} {
		if _, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.want)
		}
	}
}

func newPool(t testing.TB, cfg Config) *Pool {
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
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

// visitor is a sequence that comes again and again.
type visitor struct {
	table  Table
	prefix Prefix
	tokens []int32
	rest   *tableRest
}

func newVisitor(p *Pool, length int) *visitor {
	v := &visitor{table: p.newTable(length*p.cfg.BlockTokens, Keys{}, Retention{}), tokens: make([]int32, length*p.cfg.BlockTokens)}
	v.rest = v.table.tableRest
	return v
}

// visit is the life of a sequence: find, share, grow, register, release. Its chains differ from the first token on.
func (v *visitor) visit(p *Pool, names []Hash, first int32) {
	size := p.cfg.BlockTokens
	v.tokens[0] = first
	p.match(&v.prefix, names, Keys{}, v.tokens[:len(names)*size])
	p.share(&v.table, &v.prefix, len(names)*size)
	if !p.Grow(&v.table, v.prefix.Tokens, len(names)*size, 0, nil) {
		panic("the pool is too small")
	}
	for i := int(v.table.Named); i < len(names); i++ {
		p.Register(&v.table, names[:i+1], v.tokens[i*size:(i+1)*size])
	}
	p.Release(&v.table)
	v.table.tableRest = v.rest
	for g := range v.table.Blocks {
		v.table.Blocks[g] = v.table.Blocks[g][:0]
	}
}

// A pool that evicts all the time works in the memory it was made with.
func TestNoAllocation(t *testing.T) {
	for _, policy := range Policies() {
		p := newPool(t, Config{Blocks: 256, BlockTokens: 16, Policy: policy})
		all := chains(64, 16)
		v := newVisitor(p, 16)
		round := func() {
			for i, names := range all {
				v.visit(p, names, int32(i))
			}
		}
		round()
		before := p.Stats().Evictions
		if n := testing.AllocsPerRun(100, round); n != 0 {
			t.Errorf("%s: %v allocations for %d sequences", policy, n, len(all))
		}
		if p.Stats().Evictions == before {
			t.Error("nothing was evicted, so this shows nothing")
		}
		if err := p.Check(); err != nil {
			t.Error(err)
		}
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
		{"is listed as free", func(p *Pool) { p.blocks[p.free].refs++ }},
		{"not cached and not listed as free", func(p *Pool) { p.free = p.blocks[p.free].next }},
		{"is listed as a child", func(p *Pool) { p.tree.nodes[p.blocks[0].node].name[0]++ }},
		{"the index holds 3 names", func(p *Pool) { p.tree.index.n++ }},
		{"follows one that was evicted", func(p *Pool) {
			p.tree.nodes[p.blocks[0].node].child = none
			p.tree.nodes[p.blocks[1].node].parent = lost
		}},
		{"can be evicted", func(p *Pool) { p.blocks[0].kids--; p.leaves.remove(1) }},
		{"and says that 2 follow it", func(p *Pool) { p.blocks[0].kids++ }},
		{"not in its place of an order", func(p *Pool) { p.leaves.at[1] = 1 }},
		{"counters say", func(p *Pool) { p.stats.Free++ }},
		{"is said to hold node", func(p *Pool) { p.blocks[1].group = 1 }},
		{"neither used nor unused", func(p *Pool) { p.tree.free = p.tree.nodes[p.tree.free].next }},
	} {
		p := newPool(t, Config{Blocks: 4, BlockTokens: 1})
		newVisitor(p, 2).visit(p, chains(1, 2)[0], 0)
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		c.damage(p)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// A long prompt, wholly cached, that is looked for the first time, and again.
func BenchmarkMatch(b *testing.B) {
	p := newPool(b, Config{Blocks: 4096, BlockTokens: 16})
	names := chains(1, 512)[0]
	v := newVisitor(p, 512)
	v.visit(p, names, 0)
	for _, again := range []bool{false, true} {
		b.Run(map[bool]string{false: "first", true: "again"}[again], func(b *testing.B) {
			m := v.prefix
			for b.Loop() {
				if !again {
					m.path = m.path[:0]
				}
				p.match(&m, names, Keys{}, v.tokens)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(names)), "ns/block")
		})
	}
}

func BenchmarkChurn(b *testing.B) { // sequences of 64 blocks that share nothing, in a pool that is always full
	for _, policy := range Policies() {
		b.Run(policy, func(b *testing.B) {
			p := newPool(b, Config{Blocks: 4096, BlockTokens: 16, Policy: policy})
			all := chains(128, 64)
			v := newVisitor(p, 64)
			for i := 0; b.Loop(); i++ {
				v.visit(p, all[i%len(all)], int32(i%len(all)))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*64), "ns/block")
		})
	}
}

func BenchmarkHashBlock(b *testing.B) {
	tokens := make([]int32, 16)
	for i := range tokens {
		tokens[i] = int32(1000 * i)
	}
	var h Hash
	for b.Loop() {
		h = HashBlock(h, tokens, Keys{})
	}
}

// No salt can be taken for an adapter or a model, nor any of these for another.
func TestKeysAreTold(t *testing.T) {
	texts := []string{"", "model", "adapter", "adapter-id", "rope", "long"}
	seen := map[Hash]Keys{}
	for i := range 2 * 6 * 6 * 6 * 6 {
		k := Keys{Long: i%2 == 1, Model: texts[i/2%6], AdapterName: texts[i/12%6], AdapterID: texts[i/72%6], Salt: texts[i/432]}
		name := HashBlock(Root("0"), []int32{1}, k)
		if other, ok := seen[name]; ok {
			t.Fatalf("%+v and %+v lead to the same name", k, other)
		}
		seen[name] = k
	}
	keys := Keys{Model: "m", AdapterName: "a", AdapterID: "i", Long: true, Salt: "s"}
	if n := testing.AllocsPerRun(100, func() { HashBlock(Hash{}, []int32{1}, keys) }); n != 0 {
		t.Errorf("%v allocations for a name with keys", n)
	}
}

// TestBindTellsTheDifference gives a slot to one table after another: only entries that differ are told.
func TestBindTellsTheDifference(t *testing.T) {
	w, err := newWorld(Config{Blocks: 16, BlockTokens: 2})
	if err != nil {
		t.Fatal(err)
	}
	p := w.pool
	w.seqs["a"], _ = w.begin("abcdefgh", Keys{}, Retention{})
	a := w.seqs["a"]
	w.grow(a, "abcdefgh")
	p.Bind(&a.table, 0)
	if got := p.Edits(nil); len(got) != 4 {
		t.Errorf("a new slot: %v", got)
	}
	p.Unbind(&a.table)
	b := w.fork(a, 6)
	w.grow(b, "xyz")
	p.Bind(&b.table, 0)
	want := []Edit{{Slot: 0, At: 3, Block: b.table.Blocks[0][3]}, {Slot: 0, At: 4, Block: b.table.Blocks[0][4]}}
	if got := p.Edits(nil); !slices.Equal(got, want) {
		t.Errorf("a fork takes the slot: %v; want %v", got, want)
	}
	p.Unbind(&b.table)
	p.Bind(&a.table, 0)
	if got, want := p.Edits(nil), []Edit{{Slot: 0, At: 3, Block: a.table.Blocks[0][3]}}; !slices.Equal(got, want) {
		t.Errorf("the first one takes it back: %v; want %v", got, want)
	}
}
