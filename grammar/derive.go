package grammar

import (
	"math/bits"
	"slices"
)

// dfa is the part made so far of the automaton whose states are terms: rows of transitions of 256 bytes.
type dfa struct {
	rows []int32 // of each expression; -1 is not made yet
	next []*row  // rows
	life []life  // of each expression
}

func (d *dfa) clone() dfa {
	return dfa{slices.Clone(d.rows), slices.Clip(d.next), slices.Clone(d.life)}
}

// row is the transitions of a term.
type row struct {
	next [256]id
	live byteSet // the bytes that lead on
}

// life says whether a term matches anything.
type life uint8

const (
	unknown life = iota
	alive
	dead
)

// rowWork is the work of making a row: it takes as much memory as many expressions.
const rowWork = 16

var anyByte = byteSet{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}

// row returns the transitions of a term.
func (a *arena) row(x id) *row {
	if r := a.rows[x]; r >= 0 {
		return a.next[r]
	}
	a.budget -= rowWork
	r := new(row)
	a.classes(x, func(y id, class *byteSet) {
		if !a.matches(y) {
			return
		}
		r.live.or(class)
		for i, w := range class {
			for ; w != 0; w &= w - 1 {
				r.next[i*64+bits.TrailingZeros64(w)] = y
			}
		}
	})
	a.rows[x] = int32(len(a.next))
	a.next = append(a.next, r)
	return r
}

// classes calls f for each derivative of x and the bytes that lead to it, some perhaps more than once.
func (a *arena) classes(x id, f func(y id, class *byteSet)) {
	left := anyByte
	for b := 0; b < 256 && a.budget >= 0; b++ {
		if !left.has(byte(b)) {
			continue
		}
		class := anyByte
		y := a.derive(x, byte(b), &class)
		class.and(&left)
		left.minus(&class)
		f(y, &class)
	}
}

// derive returns the derivative of x by b, and takes from class the bytes with another one.
func (a *arena) derive(x id, b byte, class *byteSet) id {
	if a.budget--; a.budget < 0 {
		return none
	}
	e := a.exprs[x]
	switch e.kind {
	case kSet:
		s := a.sets[e.a]
		if s.has(b) {
			class.and(&s)
			return empty
		}
		class.minus(&s)
		return none
	case kCat:
		y := a.cat2(a.derive(e.a, b, class), e.b)
		if !a.nullable(e.a) {
			return y
		}
		return a.alt(y, a.derive(e.b, b, class))
	case kAlt, kAnd:
		var room [16]id
		parts := room[:0]
		for i := range e.b {
			y := a.derive(a.lists[e.a+i], b, class)
			if y == none && e.kind == kAnd {
				return none
			}
			parts = append(parts, y)
		}
		if e.kind == kAlt {
			return a.alt(parts...)
		}
		return a.and(parts...)
	case kNot:
		return a.not(a.derive(e.a, b, class))
	case kRep:
		hi := e.c
		if hi > 0 {
			hi--
		}
		return a.cat2(a.derive(e.a, b, class), a.rep(e.a, max(e.b-1, 0), hi))
	case kFactor:
		one := byteSet{}
		one.add(b, b)
		class.and(&one)
		return a.divide(e, b)
	}
	return none
}

// matches reports whether a term matches anything. Only intersections, complements and multiples need a search.
func (a *arena) matches(x id) bool {
	if x == none || a.budget < 0 {
		return false
	}
	if a.exprs[x].plain || a.life[x] == alive {
		return true
	}
	if a.life[x] == unknown {
		a.search(x)
	}
	return a.life[x] == alive
}

// search looks for the shortest string that x matches. All on the way to it are alive; without one all that was seen is
// dead.
func (a *arena) search(x id) {
	found := func(y id) bool { return a.nullable(y) || a.exprs[y].plain && y != none || a.life[y] == alive }
	from := map[id]id{x: none} // what was seen, and before what
	queue := []id{x}
	for i := 0; i < len(queue) && a.budget >= 0; i++ {
		if y := queue[i]; found(y) {
			for ; y != none; y = from[y] {
				a.life[y] = alive
			}
			return
		}
		a.classes(queue[i], func(y id, _ *byteSet) {
			if _, seen := from[y]; !seen && y != none && a.life[y] != dead {
				from[y] = queue[i]
				queue = append(queue, y)
			}
		})
	}
	if a.budget >= 0 {
		for _, y := range queue {
			a.life[y] = dead
		}
	}
}
