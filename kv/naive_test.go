package kv

import "strings"

// naive is what a pool should do, said in the plainest way: a block is a text that it ends, for a group and under keys,
// and everything is found by looking at all blocks.
type naive struct {
	cfg      Config
	live     int                 // blocks that are not free
	named    map[label]*nblock   // used or cached
	nodes    map[content]*ncount // of those
	releases uint64
	age, now int64
}

// content is a full block's, with what comes before it.
type content struct {
	text string
	keys Keys
}

type label struct {
	content
	group int
}

type nblock struct {
	label      // with the text "": it has no name
	refs       int
	stamp      uint64
	rank, when int64
}

type ncount struct {
	uses int
	keep Retention
}

// ntable is what a sequence holds, by group; nil: given back.
type ntable struct {
	blocks [][]*nblock
	named  int
	keys   Keys
	keep   Retention
}

func newNaive(cfg Config) *naive {
	if len(cfg.Groups) == 0 {
		cfg.Groups = []Group{{}}
	}
	return &naive{cfg: cfg, named: map[label]*nblock{}, nodes: map[content]*ncount{}}
}

func (m *naive) cached() int {
	n := 0
	for _, b := range m.named {
		if b.refs == 0 {
			n++
		}
	}
	return n
}

func (m *naive) available() int { return m.cfg.Blocks - m.live + m.cached() }

// needed returns the first block that a group needs to go on after n tokens.
func (m *naive) needed(group, n int) int {
	if w := m.cfg.Groups[group].Window; w > 0 {
		return max(0, n-w+1) / m.cfg.BlockTokens
	}
	return 0
}

// found returns how many full blocks of a text can be shared, and how many tokens after them.
func (m *naive) found(text string, keys Keys) (blocks, rest int) {
	size := m.cfg.BlockTokens
	if m.cfg.States > 0 {
		return 0, 0
	}
	fits := func(k int) bool {
		for g := range m.cfg.Groups {
			for i := m.needed(g, k*size); i < k; i++ {
				if m.named[label{content{text[:(i+1)*size], keys}, g}] == nil {
					return false
				}
			}
		}
		return true
	}
	for blocks = len(text) / size; !fits(blocks); blocks-- {
	}
	for c := range m.nodes {
		if c.keys == keys && len(c.text) == (blocks+1)*size && strings.HasPrefix(c.text, text[:blocks*size]) && m.everywhere(c) {
			n := 0
			for n < size-1 && blocks*size+n < len(text) && text[blocks*size+n] == c.text[blocks*size+n] {
				n++
			}
			rest = max(rest, n)
		}
	}
	return blocks, rest
}

func (m *naive) everywhere(c content) bool {
	for g := range m.cfg.Groups {
		if m.named[label{c, g}] == nil {
			return false
		}
	}
	return true
}

// begin shares what was found of a text; after is the text of the block of which only the first tokens are.
func (m *naive) begin(t *ntable, text string, blocks int, after string, n int) {
	size := m.cfg.BlockTokens
	share := func(c content, g int) {
		b := m.named[label{c, g}]
		b.refs++
		t.blocks[g] = append(t.blocks[g], b)
	}
	for g := range m.cfg.Groups {
		for i := range blocks {
			if i < m.needed(g, n) {
				t.blocks[g] = append(t.blocks[g], nil)
			} else {
				share(content{text[:(i+1)*size], t.keys}, g)
			}
		}
		if after != "" {
			share(content{after, t.keys}, g)
		}
	}
	for i := range blocks {
		if x := m.nodes[content{text[:(i+1)*size], t.keys}]; x != nil {
			x.uses++
			x.keep.join(t.keep)
		}
	}
	if after != "" {
		x := m.nodes[content{after, t.keys}]
		x.uses++
		x.keep.join(t.keep)
	}
	t.named = blocks
}

func (m *naive) take() *nblock {
	if m.live < m.cfg.Blocks {
		m.live++
	} else {
		m.evict()
	}
	return &nblock{refs: 1}
}

func (m *naive) evict() {
	var first *nblock
	for _, b := range m.named {
		if b.refs == 0 && m.leaf(b) && (first == nil || b.rank < first.rank || b.rank == first.rank && b.stamp < first.stamp) {
			first = b
		}
	}
	m.age = first.rank
	m.unname(first)
}

// leaf reports whether no block of the same group needs b.
func (m *naive) leaf(b *nblock) bool {
	for l := range m.named {
		if m.cfg.Groups[b.group].Window == 0 && l.group == b.group && l.keys == b.keys &&
			len(l.text) == len(b.text)+m.cfg.BlockTokens && strings.HasPrefix(l.text, b.text) {
			return false
		}
	}
	return true
}

func (m *naive) unname(b *nblock) {
	delete(m.named, b.label)
	for g := range m.cfg.Groups {
		if m.named[label{b.content, g}] != nil {
			b.text = ""
			return
		}
	}
	delete(m.nodes, b.content)
	b.text = ""
}

func (m *naive) release(b *nblock) {
	if b.refs--; b.refs > 0 {
		return
	}
	if b.text == "" {
		m.live--
		return
	}
	m.releases++
	b.stamp, b.when, b.rank = m.releases, 0, 0
	x := m.nodes[b.content]
	switch m.cfg.Policy {
	case "lfu":
		b.rank = m.age + int64(x.uses)
	case "priority":
		if b.rank = int64(x.keep.Priority); x.keep.TTL > 0 {
			b.when = m.now + x.keep.TTL
		}
	}
}

func (m *naive) tick(now int64) {
	m.now = now
	for _, b := range m.named {
		if b.refs == 0 && b.when > 0 && b.when <= now {
			b.rank, b.when = 0, 0
			m.nodes[b.content].keep = Retention{}
		}
	}
}

// grow gives a table blocks for n tokens, of which those from from on are written.
func (m *naive) grow(t *ntable, from, n int) bool {
	size := m.cfg.BlockTokens
	at, want := from/size, (n+size-1)/size
	need := 0
	for _, blocks := range t.blocks {
		need += max(0, want-len(blocks))
		if at < len(blocks) && blocks[at].refs > 1 {
			need++
		}
	}
	if need > m.available() {
		return false
	}
	for g := range t.blocks {
		for len(t.blocks[g]) < want {
			t.blocks[g] = append(t.blocks[g], m.take())
		}
	}
	for _, shared := range []bool{true, false} {
		for g := range t.blocks {
			b := t.blocks[g][at:]
			if n == from || len(b) == 0 || (b[0].refs > 1) != shared || b[0].refs == 1 && b[0].text == "" {
				continue
			}
			if m.available() == 0 {
				m.unname(b[0])
				continue
			}
			old := b[0]
			b[0] = m.take()
			m.release(old)
		}
	}
	return true
}

// register names the blocks that a text fills.
func (m *naive) register(t *ntable, text string) {
	size := m.cfg.BlockTokens
	for ; t.named < len(text)/size; t.named++ {
		c := content{text[:(t.named+1)*size], t.keys}
		if m.nodes[c] == nil {
			m.nodes[c] = &ncount{keep: t.keep}
		}
		m.nodes[c].keep.join(t.keep)
		for g := range t.blocks {
			b := t.blocks[g][t.named]
			if equal := m.named[label{c, g}]; equal != nil {
				equal.refs++
				t.blocks[g][t.named] = equal
				m.release(b)
				continue
			}
			b.label = label{c, g}
			m.named[b.label] = b
		}
		m.nodes[c].uses++
	}
}

func (m *naive) slide(t *ntable, n int) {
	for g, blocks := range t.blocks {
		for i := range min(m.needed(g, n), len(blocks)) {
			if blocks[i] != nil {
				m.release(blocks[i])
				blocks[i] = nil
			}
		}
	}
}

// truncate gives back what is beyond the first n tokens.
func (m *naive) truncate(t *ntable, n int) {
	for g := range t.blocks {
		for keep := (n + m.cfg.BlockTokens - 1) / m.cfg.BlockTokens; len(t.blocks[g]) > keep; {
			m.release(t.blocks[g][len(t.blocks[g])-1])
			t.blocks[g] = t.blocks[g][:len(t.blocks[g])-1]
		}
	}
}

func (m *naive) end(t *ntable) {
	longest := 0
	for _, blocks := range t.blocks {
		longest = max(longest, len(blocks))
	}
	for i := longest - 1; i >= 0; i-- {
		for _, blocks := range t.blocks {
			if i < len(blocks) && blocks[i] != nil {
				m.release(blocks[i])
			}
		}
	}
}

func (m *naive) reset() {
	for _, b := range m.named {
		if b.refs == 0 {
			m.live--
			m.unname(b)
		}
	}
}
