package grammar

import (
	"fmt"
	"slices"
)

// Matcher follows one output. It is an engine.Constraint, for one goroutine at a time.
type Matcher struct {
	g *Grammar
	*memo
	state int32 // closed
	last  int32 // token; -1 before the first
	over  bool  // a token that ends the output was accepted
	err   error // that ends the output
}

// memo is what the outputs of matchers that are clones of one another have taught: a matcher finds ready what another
// needed. None of it depends on which output came first.
type memo struct {
	m     *automaton
	heads map[id]*head
	masks map[int32][]uint32 // by state
	path  []int32            // of a walk: the state at each depth
	words int                // 32-bit words of heads and masks
	users []*Matcher         // the clones that are not released
	needs int                // the size after Forget
}

func newMemo(m *automaton) *memo {
	return &memo{m: m, heads: map[id]*head{}, masks: map[int32][]uint32{}}
}

// head is what the trie says of a term by itself.
type head struct {
	mask  []uint32 // tokens that the term takes whole
	ids   []int32  // more of them
	exits []int32  // nodes where the term may end, and tokens go on
	skip  uint32   // of nodes that need no walk
}

func (h *head) words() int { return len(h.mask) + cap(h.ids) + cap(h.exits) }

// What a memo keeps: 32-bit words of masks, and terms.
const mostWords, mostHeads = 1 << 19, 512

// Start returns a matcher at the beginning of an output.
func (g *Grammar) Start() *Matcher {
	m := &Matcher{g: g, last: -1, memo: newMemo(newAutomaton(g.arena.clone(g.limits.Work)))}
	m.users = []*Matcher{m}
	m.state = m.m.close(m.m.then(g.root, ended))
	m.check()
	return m
}

// mostLasting is the size of an automaton that is large.
const mostLasting = 1 << 16

// Large reports whether the matcher and its clones have found so much that it is better forgotten: the next output
// should begin with Start instead of Clone.
func (m *Matcher) Large() bool { return m.size() > mostLasting }

// Clone returns a matcher that goes on from here by itself, and shares what it finds with this one: all clones are for
// one goroutine at a time. Release it after its last use, since Forget keeps what it needs.
func (m *Matcher) Clone() *Matcher {
	c := *m
	m.users = append(m.users, &c)
	return &c
}

// Err returns what ended the output before its time: a limit that was passed. nil is nothing.
func (m *Matcher) Err() error { return m.err }

// Complete reports whether the output may end here.
func (m *Matcher) Complete() bool { return m.err == nil && m.m.states[m.state].accepts }

// Accept appends a token to the output. It returns an error if the token may not come next, or if a limit is passed.
func (m *Matcher) Accept(t int32) error {
	if m.err != nil {
		return m.err
	}
	v := m.g.vocab
	if slices.Contains(v.ends, t) {
		if !m.Complete() || m.over {
			return fmt.Errorf("grammar: token %d ends the output, which is not complete", t)
		}
		m.over = true
		return nil
	}
	if t < 0 || int(t) >= v.size || len(v.tokens[t].Bytes) == 0 || m.over {
		return fmt.Errorf("grammar: token %d may not come next", t)
	}
	text := v.tokens[t].Bytes
	if v.tokens[t].Special {
		text = []byte(spell(t))
	}
	m.m.budget = m.g.limits.Work
	s := m.state
	for _, b := range text {
		s = m.m.move(s, b)
	}
	if !m.check() {
		return m.err
	}
	if s == failed {
		return fmt.Errorf("grammar: token %d (%q) may not come next", t, v.tokens[t].Bytes)
	}
	m.state, m.last = s, t
	if m.size() > m.needs+m.g.limits.States/2 {
		m.Forget()
	}
	return m.err
}

// Mask sets the bits of the tokens that may come next in dst (bit id%32 of word id/32), which is clear before. Tokens
// that end the output are among them exactly when it may end here. After an error they are all there is.
func (m *Matcher) Mask(dst []uint32) {
	if m.err != nil || m.over {
		m.ends(dst)
		return
	}
	if mask := m.masks[m.state]; mask != nil {
		copy(dst, mask)
		return
	}
	m.m.budget = m.g.limits.Work
	m.fill(dst)
	if !m.check() {
		clear(dst)
		m.ends(dst)
		return
	}
	words := (m.g.vocab.size + 31) / 32
	if (len(m.masks)+1)*words > mostWords {
		m.words -= len(m.masks) * words
		clear(m.masks)
	}
	m.masks[m.state] = slices.Clone(dst[:words])
	m.words += words
}

func (m *Matcher) ends(dst []uint32) {
	for _, t := range m.g.vocab.ends {
		dst[t/32] |= 1 << (t % 32)
	}
}

// nodesPerWork is how many nodes of the trie, or words of a mask, take as long as a derivative.
const nodesPerWork = 8

// fill makes the mask of the state.
func (m *Matcher) fill(dst []uint32) {
	if m.m.states[m.state].accepts {
		m.ends(dst)
	}
	for _, t := range m.m.itemsOf(m.state) {
		if m.m.budget < 0 {
			return
		}
		h := m.headOf(t.x)
		m.m.budget -= (len(h.mask) + len(h.ids)) / nodesPerWork
		for i, w := range h.mask {
			dst[i] |= w
		}
		for _, t := range h.ids {
			dst[t/32] |= 1 << (t % 32)
		}
		if len(h.exits) == 0 {
			continue
		}
		rest := m.m.close(t.rest)
		for i := 0; i < len(h.exits) && m.m.budget >= 0; i++ {
			m.walk(dst, h.exits[i], rest, h.skip)
		}
	}
}

// walk sets the tokens below node p that state s takes whole.
func (m *Matcher) walk(dst []uint32, p, s int32, skip uint32) {
	v, a := m.g.vocab, m.m
	base, end := int(v.nodes[p].depth), v.nodes[p].end
	m.path = append(m.path[:0], s)
	visited := 0
	for p++; p < end; visited++ {
		n := &v.nodes[p]
		m.path = m.path[:int(n.depth)-base]
		t := failed
		if n.skip&skip == 0 {
			t = a.move(m.path[len(m.path)-1], n.byte)
		}
		if t == failed {
			p = n.end
			continue
		}
		for _, id := range v.tokensAt(p) {
			dst[id/32] |= 1 << (id % 32)
		}
		m.path = append(m.path, t)
		p++
	}
	a.budget -= visited / nodesPerWork
}

// headOf returns what the trie says of a term by itself.
func (m *Matcher) headOf(x id) *head {
	if h := m.g.vocab.heads[x]; h != nil {
		return h
	}
	h := m.heads[x]
	if h == nil {
		h = m.g.vocab.head(m.m, x)
		if len(m.heads) >= mostHeads {
			for _, o := range m.heads {
				m.words -= o.words()
			}
			clear(m.heads)
		}
		m.heads[x] = h
		m.words += h.words()
	}
	return h
}

// head walks the trie with a term.
func (v *Vocab) head(a *automaton, x id) *head {
	h := &head{}
	h.skip = a.slicesOf(x, v, &h.mask)
	var room [64]*row
	stack := append(room[:0], a.row(x))
	nodes, visited := v.nodes, 0
	for p, end := int32(1), nodes[0].end; p < end; visited++ {
		n := &nodes[p]
		y := stack[n.depth-1].next[n.byte]
		if y == none || n.skip&h.skip != 0 {
			p = n.end
			continue
		}
		if from, to := n.tok, nodes[p+1].tok; from < to {
			h.ids = append(h.ids, v.ids[from:to]...)
		}
		if n.end == p+1 || y == empty {
			if n.end > p+1 {
				h.exits = append(h.exits, p)
			}
			p = n.end
			continue
		}
		if a.nullable(y) {
			h.exits = append(h.exits, p)
		}
		stack = append(stack[:n.depth], a.row(y))
		p++
	}
	a.budget -= visited / nodesPerWork
	if len(h.ids) > v.size/32 { // a mask is smaller
		if h.mask == nil {
			h.mask = make([]uint32, (v.size+31)/32)
		}
		for _, t := range h.ids {
			h.mask[t/32] |= 1 << (t % 32)
		}
		h.ids = nil
	}
	return h
}

// warm makes the heads of the terms of JSON that every grammar has, and of all that may be left of them.
func (v *Vocab) warm() {
	a := newAutomaton(v.arena)
	todo := []id{v.common.str, v.common.number, v.common.ws, v.common.name[0], v.common.name[1]}
	seen := map[id]bool{none: true, empty: true}
	for len(todo) > 0 {
		x := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[x] {
			continue
		}
		seen[x] = true
		todo = append(todo, a.row(x).next[:]...)
	}
	v.heads = make(map[id]*head, len(seen))
	for x := range seen {
		if x != none && x != empty {
			v.heads[x] = v.head(a, x)
		}
	}
}
