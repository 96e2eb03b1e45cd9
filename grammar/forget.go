package grammar

import (
	"errors"
	"slices"
	"unsafe"
)

// Errors that end outputs.
var (
	errLimit  = errors.New("grammar: the output needs more states than the limits allow")
	errMemory = errors.New("grammar: the output needs more memory than there is for all outputs under way")
)

// size is how many expressions, states and rows the automaton has.
func (m *Matcher) size() int { return m.m.size(m.g) }

func (m *automaton) size(g *Grammar) int {
	return len(m.exprs) - len(g.arena.exprs) + len(m.items) + 16*(len(m.moves)+len(m.next))
}

// Bytes returns about how much memory is taken by what the matcher and its clones have found.
func (m *Matcher) Bytes() int64 {
	a, base := m.m, m.g.arena
	n := 4*int64(cap(a.table)+cap(a.rows)+cap(a.index)) + int64(cap(a.life)) + 64*int64(len(a.seenIDs)+len(a.setIDs))
	if cap(a.exprs) > len(base.exprs) { // else they are the grammar's
		n += int64(unsafe.Sizeof(expr{})) * int64(cap(a.exprs))
	}
	if cap(a.lists) > len(base.lists) {
		n += 4 * int64(cap(a.lists))
	}
	n += int64(unsafe.Sizeof(row{}))*int64(len(a.next)-len(base.next)) + 16*int64(a.seenWords-base.seenWords) +
		int64(unsafe.Sizeof(moves{}))*int64(len(a.moves)) + 8*int64(cap(a.next)+cap(a.moves)) +
		int64(unsafe.Sizeof(state{}))*int64(cap(a.states)) + int64(unsafe.Sizeof(item{}))*int64(cap(a.items))
	n += 40*int64(len(a.unions)) + 80*int64(len(a.units)) + 4*int64(m.words) + 128*int64(len(m.heads)+len(m.masks))
	if a.short != nil {
		n += a.short.bytes()
	}
	return n
}

// Release says that a matcher is not used any more. Its clones go on.
func (m *Matcher) Release() {
	if i := slices.Index(m.users, m); i >= 0 {
		m.users = slices.Delete(m.users, i, i+1)
	}
}

// check reports whether the work was within the limit. If not, the output ends, and what was found meanwhile, which
// may be wrong, is forgotten.
func (m *Matcher) check() bool {
	if m.m.budget >= 0 {
		return true
	}
	m.err = errLimit
	m.Forget()
	return false
}

// Forget drops what the matcher and its clones have found, but for what their outputs need to go on: what is needed
// later is found again. An output ends that needs more than a quarter of Limits.States.
func (m *Matcher) Forget() {
	for !m.forget() {
	}
}

// forget copies what the outputs need to an automaton that is new. It returns false if it has ended one of them, of
// which there may be remains.
func (m *Matcher) forget() bool {
	g := m.g
	r := &renewal{from: m.m, to: newAutomaton(g.arena.clone(g.limits.Work)), base: len(g.arena.exprs),
		exprs: map[id]id{}, states: map[int32]int32{failed: failed, ended: ended}}
	after := make([]int32, len(m.users))
	for i, u := range m.users {
		if u.err != nil {
			continue
		}
		before := r.to.size(g)
		r.to.budget = g.limits.Work
		after[i] = r.to.close(r.state(u.state))
		if r.to.budget < 0 || r.to.size(g)-before > g.limits.States/4 {
			u.err = errLimit
			return false
		}
	}
	for i, u := range m.users {
		u.state = after[i]
	}
	users, path := m.users, m.path
	*m.memo = *newMemo(r.to)
	m.users, m.path, m.needs = users, path, m.size()
	return true
}

// End ends the outputs of the matcher and its clones, since there is no memory for them, and drops what they found.
func (m *Matcher) End() {
	for _, u := range m.users {
		if u.err == nil {
			u.err = errMemory
		}
	}
	users := m.users
	*m.memo = *newMemo(newAutomaton(newArena(64)))
	m.users = users
}
