package kv

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// naive is what a pool should do, said in the plainest way: blocks are the texts that end with them, and the cache is a
// list of texts, the least recently used first.
type naive struct {
	size, free int
	refs       map[string]int // of the full blocks in use
	cached     []string
	memory     map[BlockID]string // what a sequence last wrote to each block
}

// prefixes returns the texts up to the end of each full block.
func (m *naive) prefixes(text string) []string {
	var all []string
	for n := m.size; n <= len(text); n += m.size {
		all = append(all, text[:n])
	}
	return all
}

func (m *naive) found(text string) int {
	n := 0
	for _, p := range m.prefixes(text) {
		if m.refs[p] == 0 && !slices.Contains(m.cached, p) {
			break
		}
		n++
	}
	return n
}

func (m *naive) hold(p string) {
	m.refs[p]++
	m.cached = slices.DeleteFunc(m.cached, func(c string) bool { return c == p })
}

func (m *naive) alloc(n int) bool {
	if n > m.free+len(m.cached) {
		return false
	}
	evicted := max(0, n-m.free)
	m.cached = m.cached[evicted:]
	m.free += evicted - n
	return true
}

// complete makes a private block, now full, the block that ends with p.
func (m *naive) complete(p string) {
	if m.refs[p] > 0 || slices.Contains(m.cached, p) {
		m.free++
	}
	m.hold(p)
}

func (m *naive) release(text string) {
	if len(text)%m.size > 0 {
		m.free++
	}
	all := m.prefixes(text)
	slices.Reverse(all)
	for _, p := range all {
		if m.refs[p]--; m.refs[p] == 0 {
			m.cached = append(m.cached, p)
		}
	}
}

// TestRandomHistories compares the pool with the naive one over histories of sequences that begin, grow and end.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.IntRange(1, 12).Draw(t, "blocks")
		size := rapid.SampledFrom([]int{1, 2, 3}).Draw(t, "block tokens")
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 7, -1)
		w := &world{NewPool(blocks, size), map[string]*story{}}
		m := &naive{size, blocks, map[string]int{}, nil, map[BlockID]string{}}
		var alive []*story
		grow := func(t *rapid.T, q *story, more string) {
			need := w.pool.BlocksFor(len(q.text)+len(more)) - len(q.table)
			refused := strings.HasPrefix(w.grow(q, more), "not enough")
			if refused == m.alloc(need) {
				t.Fatalf("%d blocks of %v: refused %v", need, w.pool.Stats(), refused)
			}
			if refused {
				return
			}
			for _, p := range m.prefixes(q.text)[len(m.prefixes(q.text[:len(q.text)-len(more)])):] {
				m.complete(p)
			}
		}
		actions := map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				s := text.Draw(t, "text")
				chain := w.pool.Match(nil, w.names(s, ""))
				if len(chain) != m.found(s) {
					t.Fatalf("found %v for %q, want %d blocks", chain, s, m.found(s))
				}
				for i, b := range chain {
					if got := m.memory[b]; got != s[:(i+1)*size] {
						t.Fatalf("block %d was found for %q but holds the end of %q", b, s[:(i+1)*size], got)
					}
				}
				w.pool.Share(chain, len(s))
				q := &story{text: s[:len(chain)*size], table: chain, named: len(chain)}
				for _, p := range m.prefixes(q.text) {
					m.hold(p)
				}
				grow(t, q, s[len(q.text):])
				alive = append(alive, q)
			},
			"grow": func(t *rapid.T) {
				if len(alive) > 0 {
					grow(t, rapid.SampledFrom(alive).Draw(t, "sequence"), text.Draw(t, "more"))
				}
			},
			"end": func(t *rapid.T) {
				if len(alive) > 0 {
					i := rapid.IntRange(0, len(alive)-1).Draw(t, "sequence")
					w.pool.Release(alive[i].table)
					m.release(alive[i].text)
					alive = slices.Delete(alive, i, i+1)
				}
			},
			"": func(t *rapid.T) {
				if err := w.pool.Check(); err != nil {
					t.Fatal(err)
				}
				s := w.pool.Stats()
				if s.Free != m.free || s.Cached != len(m.cached) {
					t.Fatalf("%v; want %d free and cached %q", s, m.free, m.cached)
				}
				for _, q := range alive {
					for i, p := range m.prefixes(q.text) {
						m.memory[q.table[i]] = p
					}
				}
			},
		}
		t.Repeat(actions)
	})
}
