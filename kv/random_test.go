package kv

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// pair is a sequence of the pool under test and of the naive one.
type pair struct {
	*story
	naive *ntable
}

// history plays sequences that begin, grow, fork and end, against both pools.
type history struct {
	*world
	naive  *naive
	alive  []pair
	heard  listener
	states int
	told   map[[2]int32][]BlockID // tables by slot and group, as Edits told
	slots  int32
}

// TestRandomHistories compares the pool with the naive one over random histories on random configurations.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Blocks:      rapid.IntRange(1, 14).Draw(t, "blocks"),
			BlockTokens: rapid.SampledFrom([]int{1, 2, 3}).Draw(t, "block tokens"),
			Groups: rapid.SampledFrom([][]Group{
				nil, nil, {{2}}, {{5}}, {{0}, {3}}, {{4}, {0}, {1}}, {{0}, {0}}, {{2}, {6}},
			}).Draw(t, "groups"),
			States: rapid.SampledFrom([]int{0, 0, 0, 0, 2}).Draw(t, "states"),
			Policy: rapid.SampledFrom(Policies()).Draw(t, "policy"),
			Events: true,
		}
		cfg.Blocks *= max(1, len(cfg.Groups))
		w, err := newWorld(cfg)
		if err != nil {
			t.Fatal(err)
		}
		h := &history{world: w, naive: newNaive(cfg), heard: listener{}, states: cfg.States, told: map[[2]int32][]BlockID{}}
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 7, -1)
		pick := func(t *rapid.T) int { return rapid.IntRange(0, len(h.alive)-1).Draw(t, "sequence") }
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				keys := Keys{Salt: rapid.SampledFrom([]string{"", "", "x"}).Draw(t, "salt"),
					AdapterName: rapid.SampledFrom([]string{"", "", "x"}).Draw(t, "adapter")}
				keep := Retention{rapid.IntRange(-1, 1).Draw(t, "priority"), rapid.Int64Range(0, 4).Draw(t, "ttl")}
				h.begin(t, text.Draw(t, "text"), keys, keep)
			},
			"grow": func(t *rapid.T) {
				if len(h.alive) > 0 {
					h.grow(t, h.alive[pick(t)], text.Draw(t, "more"))
				}
			},
			"draft": func(t *rapid.T) {
				if len(h.alive) > 0 {
					h.draft(t, h.alive[pick(t)], rapid.IntRange(1, 7).Draw(t, "proposed"))
				}
			},
			"fork": func(t *rapid.T) {
				if len(h.alive) > 0 {
					q := h.alive[pick(t)]
					h.fork(t, q, max(0, len(q.text)-rapid.IntRange(0, 4).Draw(t, "less")))
				}
			},
			"end": func(t *rapid.T) {
				if len(h.alive) > 0 {
					i := pick(t)
					h.end(h.alive[i])
					h.alive = slices.Delete(h.alive, i, i+1)
				}
			},
			"tick": func(t *rapid.T) {
				h.naive.tick(h.naive.now + rapid.Int64Range(0, 3).Draw(t, "time"))
				h.pool.Tick(h.naive.now)
			},
			"reset": func(t *rapid.T) {
				if rapid.IntRange(0, 4).Draw(t, "seldom") == 0 {
					h.pool.Reset()
					h.naive.reset()
				}
			},
			"": func(t *rapid.T) { h.check(t) },
		})
		for _, q := range h.alive {
			h.end(q)
		}
		h.alive = nil
		h.check(t)
		if err := h.pool.CheckClosed(); err != nil {
			t.Fatal(err)
		}
	})
}

func (h *history) begin(t *rapid.T, text string, keys Keys, keep Retention) {
	blocks, rest := h.naive.found(text, keys)
	before := h.pool.Stats()
	q, found := h.world.begin(text, keys, keep)
	if h.states > 0 && q.table.State < 0 {
		if taken := len(h.alive); taken != h.states {
			t.Fatalf("no slot for a state, but %d of %d have one", taken, h.states)
		}
		return
	}
	size := h.pool.cfg.BlockTokens
	if h.pool.full == 0 && found >= blocks*size && found < blocks*size+rest {
		rest = found - blocks*size // what begins alike is lost: its parent was evicted once
	}
	if found != blocks*size+rest {
		t.Fatalf("found %d tokens of %q, want %d blocks and %d tokens", found, text, blocks, rest)
	}
	if after := h.pool.Stats(); after.Hits != before.Hits+uint64(found) || after.Queries != before.Queries+uint64(len(text)) {
		t.Fatalf("%v after %v", after, before)
	}
	n := &ntable{blocks: make([][]*nblock, h.pool.Groups()), keys: keys, keep: keep}
	after := ""
	if rest > 0 { // any of those that begin alike will do
		node := h.pool.blocks[q.table.Blocks[0][blocks]].node
		after = text[:blocks*size]
		for _, token := range h.pool.tree.contents(node) {
			after += string(rune(token))
		}
		if !strings.HasPrefix(after, text[:found]) {
			t.Fatalf("%q is to begin like %q", text, after)
		}
	}
	h.naive.begin(n, text, blocks, after, found)
	p := pair{q, n}
	h.join(p)
	h.grow(t, p, text[found:])
}

func (h *history) grow(t *rapid.T, q pair, more string) {
	if more == "" {
		return
	}
	from := len(q.text)
	out := h.world.grow(q.story, more)
	if got, want := strings.HasPrefix(out, "not enough"), !h.naive.grow(q.naive, from, from+len(more)); got != want {
		t.Fatalf("%d more tokens after %d: refused %v, want %v; %v", len(more), from, got, want, h.pool.Stats())
	} else if !got {
		h.naive.register(q.naive, q.text)
		h.naive.slide(q.naive, len(q.text))
	}
}

func (h *history) fork(t *rapid.T, q pair, n int) {
	child := h.world.fork(q.story, n)
	possible := h.states == 0
	for g, blocks := range q.naive.blocks {
		for i := h.naive.needed(g, n); i < len(blocks); i++ {
			possible = possible && (blocks[i] != nil || i >= h.pool.BlocksFor(n))
		}
	}
	if possible != (child != nil) {
		t.Fatalf("%q is forked after %d tokens: %v, possible %v", q.text, n, child, possible)
	}
	if child == nil {
		return
	}
	c := &ntable{blocks: make([][]*nblock, len(q.naive.blocks)), keys: q.naive.keys, named: min(q.naive.named, n/h.pool.cfg.BlockTokens)}
	for g, blocks := range q.naive.blocks {
		for _, b := range blocks[:h.pool.BlocksFor(n)] {
			if c.blocks[g] = append(c.blocks[g], b); b != nil {
				b.refs++
			}
		}
	}
	h.join(pair{child, c})
}

// join gives a sequence a slot.
func (h *history) join(q pair) {
	h.slots++
	h.pool.Bind(&q.table, h.slots)
	h.alive = append(h.alive, q)
}

// draft computes tokens that are rejected.
func (h *history) draft(t *rapid.T, q pair, n int) {
	from := len(q.text)
	var copies []Copy
	ok := h.pool.Grow(&q.table, from, from+n, 0, &copies)
	if want := h.naive.grow(q.naive, from, from+n); ok != want {
		t.Fatalf("%d proposed tokens after %d: %v, want %v; %v", n, from, ok, want, h.pool.Stats())
	}
	if !ok {
		return
	}
	accepted := q.text
	q.text += strings.Repeat("?", n)
	h.write(q.story, from, copies)
	q.text = accepted
	h.pool.Truncate(&q.table, from)
	h.naive.truncate(q.naive, from)
}

func (h *history) end(q pair) {
	h.pool.Release(&q.table)
	h.naive.end(q.naive)
}

// check compares both pools, and what the sequences read with what they wrote.
func (h *history) check(t *rapid.T) {
	if err := h.pool.Check(); err != nil {
		t.Fatal(err)
	}
	s := h.pool.Stats()
	if s.Free != h.pool.cfg.Blocks-h.naive.live || s.Cached != h.naive.cached() {
		t.Fatalf("%v; want %d free and %d cached", s, h.pool.cfg.Blocks-h.naive.live, h.naive.cached())
	}
	told := listener{}
	if err := errors.Join(h.heard.hear(h.pool.Events()), told.hear(h.pool.Snapshot())); err != nil {
		t.Fatal(err)
	}
	if len(told) != len(h.naive.named) || !maps.Equal(told, h.heard) {
		t.Fatalf("events told of %v, a snapshot of %v; want %d blocks", h.heard, told, len(h.naive.named))
	}
	for l, b := range h.naive.named {
		names := h.names(l.text, l.keys)
		n := h.pool.tree.find(names[len(names)-1])
		if n == none || h.pool.tree.block(n, l.group) == none || int(h.pool.blocks[h.pool.tree.block(n, l.group)].refs) != b.refs {
			t.Fatalf("%q of group %d, held %d times, is not so in the pool", l.text, l.group, b.refs)
		}
	}
	for _, e := range h.pool.Edits(nil) {
		at := [2]int32{e.Slot, e.Group}
		h.told[at] = append(h.told[at], make([]BlockID, max(0, int(e.At)+1-len(h.told[at])))...)
		h.told[at][e.At] = e.Block
	}
	for _, q := range h.alive {
		if err := h.misplaced(q.story); err != nil {
			t.Fatal(err)
		}
		gone := 0
		for g, blocks := range q.table.Blocks {
			told := h.told[[2]int32{q.table.slot, int32(g)}]
			if len(told) < len(blocks) || !slices.Equal(told[:len(blocks)], blocks) {
				t.Fatalf("the edits lead to %v, the table is %v", told, blocks)
			}
			for ; gone < len(blocks) && blocks[gone] == none; gone++ {
			}
		}
		if len(q.table.Blocks) == 1 && h.pool.Gone(&q.table) != gone {
			t.Fatalf("%d entries were given back, the table says %d", gone, h.pool.Gone(&q.table))
		}
	}
}
