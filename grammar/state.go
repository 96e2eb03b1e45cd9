package grammar

import (
	"cmp"
	"slices"
)

// item is something to match, then what a state says.
type item struct {
	x    id    // an expression; in a closed state a term
	rest int32 // a state
}

// state is a set of items, at most one for each expression. What is left of an output matches one of them, or is empty
// if the state accepts. A closed state has only terms, and beside a term that matches the empty string there is what
// follows it.
type state struct {
	from, n int32 // items[from:from+n]
	hash    uint32
	closed  int32 // the closed state of the same outputs; -1 is not made yet
	row     int32 // of transitions; -1 is not made yet
	accepts bool
}

// States that are always there.
const (
	failed int32 = iota // no output
	ended               // the empty output
)

// automaton is the part made so far of the automaton whose states are stacks.
type automaton struct {
	*arena
	states []state
	items  []item
	index  []int32 // open addressing by hash
	moves  []*moves
	unions map[[2]int32]int32
	units  map[unitKey][]id // answers of afterUnit; nil is no
	short  *shortest        // nil until it is asked
}

func newAutomaton(a *arena) *automaton {
	m := &automaton{arena: a, index: make([]int32, 64), unions: map[[2]int32]int32{}, units: map[unitKey][]id{}}
	m.states = []state{{row: -1}, {row: -1, closed: ended, accepts: true}}
	return m
}

// state returns the state of items in ascending order.
func (m *automaton) state(list []item, accepts bool) int32 {
	if len(list) == 0 {
		if accepts {
			return ended
		}
		return failed
	}
	h := uint32(7)
	if accepts {
		h = 11
	}
	for _, t := range list {
		h = mix(mix(h, t.x), t.rest)
	}
	mask := uint32(len(m.index) - 1)
	i := h & mask
	for ; m.index[i] != 0; i = (i + 1) & mask {
		s := &m.states[m.index[i]]
		if s.hash == h && s.accepts == accepts && slices.Equal(m.items[s.from:s.from+s.n], list) {
			return m.index[i]
		}
	}
	if m.budget -= 8; m.budget < 0 {
		return failed
	}
	n := int32(len(m.states))
	m.states = append(m.states, state{from: int32(len(m.items)), n: int32(len(list)), hash: h, closed: -1, row: -1, accepts: accepts})
	m.items = append(m.items, list...)
	m.index[i] = n
	if 2*len(m.states) > len(m.index) {
		m.index = make([]int32, 2*len(m.index))
		mask = uint32(len(m.index) - 1)
		for s := 2; s < len(m.states); s++ {
			i := m.states[s].hash & mask
			for m.index[i] != 0 {
				i = (i + 1) & mask
			}
			m.index[i] = int32(s)
		}
	}
	return n
}

func (m *automaton) itemsOf(s int32) []item {
	t := &m.states[s]
	return m.items[t.from : t.from+t.n : t.from+t.n]
}

// then is the state of x, then rest.
func (m *automaton) then(x id, rest int32) int32 {
	switch {
	case x == none || rest == failed:
		return failed
	case x == empty:
		return rest
	}
	return m.state([]item{{x, rest}}, false)
}

// close returns the closed state of s: rules, sequences, choices and repetitions become the terms they begin with.
func (m *automaton) close(s int32) int32 {
	if c := m.states[s].closed; c >= 0 {
		return c
	}
	var out []item
	accepts := m.states[s].accepts
	seen := map[item]bool{}
	todo := slices.Clone(m.itemsOf(s))
	push := func(x id, rest int32) {
		if t := (item{x, rest}); !seen[t] && !m.isBarren(x) {
			seen[t] = true
			todo = append(todo, t)
		}
	}
	skip := func(rest int32) {
		accepts = accepts || m.states[rest].accepts
		for _, t := range m.itemsOf(rest) {
			push(t.x, t.rest)
		}
	}
	for len(todo) > 0 && m.budget >= 0 {
		m.budget -= 16
		t := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		e := m.exprs[t.x]
		switch e.kind {
		case kSeq:
			push(e.a, m.then(e.b, t.rest))
		case kChoice:
			for _, x := range m.list(t.x) {
				push(x, t.rest)
			}
		case kMany:
			if e.b == 0 {
				skip(t.rest)
			}
			hi := e.c
			if hi > 0 {
				hi--
			}
			push(e.a, m.then(m.many(e.a, max(e.b-1, 0), hi), t.rest))
		case kRule:
			push(m.rules[e.a], t.rest)
		case kPairs:
			m.openPairs(e, func(pair, tail id) { push(pair, m.then(tail, t.rest)) })
		case kTail:
			o := &m.objects[e.a]
			if m.mayEnd(e) {
				push(o.end, t.rest)
			}
			if pairs := m.pairs(e.a, e.b, e.c); m.canContinue(m.exprs[pairs]) {
				push(o.comma, m.then(pairs, t.rest))
			}
		case kEmpty:
			skip(t.rest)
		default:
			if m.matches(t.x) {
				out = append(out, t)
			}
			if e.nullable {
				skip(t.rest)
			}
		}
	}
	c := m.join(out, accepts)
	m.states[s].closed, m.states[c].closed = c, c
	return c
}

// join returns the state of items in any order: those of one expression become one, followed by what follows any.
func (m *automaton) join(list []item, accepts bool) int32 {
	if !m.afford(len(list)) {
		return failed
	}
	slices.SortFunc(list, func(s, t item) int { return cmp.Or(cmp.Compare(s.x, t.x), cmp.Compare(s.rest, t.rest)) })
	out := list[:0]
	for _, t := range list {
		if n := len(out); n > 0 && out[n-1].x == t.x {
			out[n-1].rest = m.union(out[n-1].rest, t.rest)
		} else {
			out = append(out, t)
		}
	}
	return m.state(out, accepts)
}

// union returns the state of the outputs of both.
func (m *automaton) union(s, t int32) int32 {
	if s == t || t == failed {
		return s
	}
	if s == failed {
		return t
	}
	key := [2]int32{min(s, t), max(s, t)}
	if u, ok := m.unions[key]; ok {
		return u
	}
	if m.budget--; m.budget < 0 {
		return failed
	}
	list := append(slices.Clone(m.itemsOf(s)), m.itemsOf(t)...)
	u := m.join(list, m.states[s].accepts || m.states[t].accepts)
	m.unions[key] = u
	return u
}

// moves is the transitions of a closed state; one is -1 until it is made.
type moves struct {
	next [256]int32
	live byteSet // the bytes that lead on
}

// movesOf returns the transitions of a closed state.
func (m *automaton) movesOf(s int32) *moves {
	if r := m.states[s].row; r >= 0 {
		return m.moves[r]
	}
	m.budget -= rowWork
	r := new(moves)
	for b := range r.next {
		r.next[b] = -1
	}
	for _, t := range m.itemsOf(s) {
		r.live.or(&m.row(t.x).live)
	}
	m.states[s].row = int32(len(m.moves))
	m.moves = append(m.moves, r)
	return r
}

// move returns the closed state after a byte; failed if the byte may not come.
func (m *automaton) move(s int32, b byte) int32 {
	r := m.movesOf(s)
	if !r.live.has(b) {
		return failed
	}
	if t := r.next[b]; t >= 0 {
		return t
	}
	var room [32]item
	list := room[:0]
	accepts := false
	from, n := m.states[s].from, m.states[s].n
	for i := from; i < from+n; i++ {
		t := m.items[i]
		x := m.row(t.x).next[b]
		if x == none {
			continue
		}
		if x != empty {
			list = append(list, item{x, t.rest})
		}
		if m.nullable(x) {
			c := m.close(t.rest)
			accepts = accepts || m.states[c].accepts
			list = append(list, m.itemsOf(c)...)
		}
	}
	t := m.join(list, accepts)
	if m.budget < 0 {
		return failed
	}
	m.states[t].closed = t
	r.next[b] = t
	return t
}
