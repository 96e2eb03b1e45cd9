package grammar

import (
	"math/bits"
	"slices"
	"unicode/utf8"
)

// A family is a kind of characters. Its slices are the tokens that consist of up to so many of them: the bulk of a
// vocabulary is plain words. If a term goes on after every string of so many characters, its mask has the whole slice,
// and the walk of the trie skips the subtrees that the slice covers (llguidance, docs/optimizations.md, calls this the
// slicer).
type family struct {
	unit   id // one character
	has    func(r rune) bool
	slices [mostChars + 1][]uint32 // masks, by the most characters
	level  int                     // the first of its bits in node.skip, one for each of levels
	dull   int                     // the same of subtrees of which other tokens go on with a control character; 0 is none
}

const mostChars = 32

// levels are the numbers of characters that node.skip has bits for.
var levels = [...]int{4, 8, 16, mostChars}

// families makes the kinds of characters. Their slices are still empty.
func families(a *arena, vocab int) []family {
	text := func(r rune) bool { return r >= ' ' && r != '"' && r != '\\' && r != 0x7F }
	list := []family{
		{has: text},
		{has: func(r rune) bool { return text(r) && r != '<' }}, // most tags begin with <
		{has: func(r rune) bool {
			return r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
		}},
		{has: func(r rune) bool { return 'a' <= r && r <= 'z' }},
	}
	for i := range list {
		f := &list[i]
		f.level = i * len(levels)
		var set runeSet
		for r := rune(0); r < 0x80; r++ {
			if f.has(r) {
				set = append(set, runeRange{r, r})
			}
		}
		if f.has(0x80) {
			set = append(set, runeRange{0x80, utf8.MaxRune})
		}
		f.unit = a.runes(set)
		for n := range f.slices {
			f.slices[n] = make([]uint32, (vocab+31)/32)
		}
	}
	list[0].dull = len(list) * len(levels)
	return list
}

// slot adds a token to the slices that it is in, and returns their bits.
func (v *Vocab) slot(b []byte, id int32) uint32 {
	var bits uint32
	for _, f := range v.families {
		n, at := 0, 0 // characters of the kind; the last may be cut
		for at < len(b) {
			r, size := utf8.DecodeRune(b[at:])
			cut := r == utf8.RuneError && !utf8.FullRune(b[at:])
			if cut {
				size = len(b) - at
			}
			if r == utf8.RuneError && size == 1 && !cut || !f.has(r) {
				break
			}
			n, at = n+1, at+size
		}
		whole := at == len(b)
		for m := n; m <= mostChars && whole; m++ {
			f.slices[m][id/32] |= 1 << (id % 32)
		}
		for i, most := range levels {
			if n <= most && whole {
				bits |= 1 << (f.level + i)
			}
			if n <= most && f.dull > 0 && (whole || b[at] < ' ') {
				bits |= 1 << (f.dull + i)
			}
		}
	}
	return bits
}

// slicesOf adds to mask the slices that a term takes whole, and returns the bits of what the walk may skip. The mask is
// made if there are any.
func (m *automaton) slicesOf(x id, v *Vocab, mask *[]uint32) uint32 {
	var bits uint32
	for i := range v.families {
		f := &v.families[i]
		n, exact, quiet := m.fit(x, f.unit)
		if n == 0 {
			continue
		}
		if *mask == nil {
			*mask = make([]uint32, (v.size+31)/32)
		}
		for j, w := range f.slices[min(n, mostChars)] {
			(*mask)[j] |= w
		}
		for j, chars := range levels {
			if chars <= n || exact {
				bits |= 1 << (f.level + j)
			}
			if f.dull > 0 && quiet && (chars < n || exact) {
				bits |= 1 << (f.dull + j)
			}
		}
		if n >= mostChars {
			break // later kinds are parts of this one
		}
	}
	return bits
}

// fit returns the most characters, up to mostChars, or more if there is no limit, such that x goes on after every
// string of up to so many. Exact says that x goes on after none that is longer, and quiet that no control character
// may come after any.
func (m *automaton) fit(x, unit id) (most int, exact, quiet bool) {
	if after, ok := m.afterUnit(x, unit); (!ok || len(after) != 1 || after[0] != x) && m.loops(x, unit) {
		return mostChars + 1, false, false
	}
	x, quiet = m.strip(x), true
	now, seen := []id{x}, map[id]bool{x: true}
	for n := range mostChars {
		var next []id
		dead := 0
		for _, y := range now {
			after, ok := m.afterUnit(y, unit)
			quiet = quiet && uint32(m.row(y).live[0]) == 0
			if !ok {
				if m.stops(y, unit) {
					dead++
					continue
				}
				return n, false, quiet
			}
			for _, z := range after {
				if !seen[z] {
					seen[z] = true
					next = append(next, z)
				}
			}
		}
		switch {
		case dead > 0:
			return n, dead == len(now), quiet
		case len(next) == 0:
			return mostChars + 1, false, quiet // it came back to where it was
		}
		if now = next; len(now) > 64 || m.budget < 0 {
			return n, false, quiet
		}
	}
	return mostChars, false, quiet
}

// loops reports whether x may begin with any number of characters, as what searches for something does.
func (m *automaton) loops(x, unit id) bool {
	parts := []id{x}
	if m.kindOf(x) == kAlt {
		parts = m.list(x)
	}
	for _, y := range parts {
		if e := &m.exprs[y]; e.kind != kCat || m.kindOf(e.a) != kRep || m.exprs[e.a].c >= 0 {
			continue
		}
		loop := m.exprs[y].a
		if after, ok := m.afterUnit(loop, unit); ok && len(after) == 1 && after[0] == loop {
			return true
		}
	}
	return false
}

// stops reports whether x goes on after no character.
func (m *automaton) stops(x, unit id) bool {
	may := m.row(x).live
	may.and(&m.row(unit).live)
	return may == byteSet{}
}

// strip returns a simpler term that goes on after the same characters as x: without a finite number of exceptions.
// What x begins with goes on for ever by itself.
func (m *automaton) strip(x id) id {
	h := m.head(x)
	if m.kindOf(h) != kAnd {
		return x
	}
	loop := none
	for _, y := range m.list(h) {
		e := &m.exprs[y]
		switch {
		case e.kind == kNot && m.exprs[e.a].finite:
		case e.kind == kRep && e.c < 0 && loop == none:
			loop = y
		default:
			return x
		}
	}
	if loop == none || x == h {
		return x
	}
	return m.cat2(loop, m.exprs[x].b)
}

// unitKey is a question of afterUnit.
type unitKey struct{ x, unit id }

// afterUnit returns what may be left of x after one character, and whether x goes on after every one.
func (m *automaton) afterUnit(x, unit id) ([]id, bool) {
	after, known := m.units[unitKey{x, unit}]
	if known {
		return after, after != nil
	}
	ok := m.walkUnit(x, unit, &after)
	if !ok {
		after = nil
	}
	m.units[unitKey{x, unit}] = after
	return after, ok
}

func (m *automaton) walkUnit(x, unit id, after *[]id) bool {
	rx, ru := m.row(x), m.row(unit)
	for i, w := range ru.live {
		if w&^rx.live[i] != 0 {
			return false
		}
	}
	lastY, lastU := none, none
	for i, w := range ru.live {
		for ; w != 0; w &= w - 1 {
			b := i*64 + bits.TrailingZeros64(w)
			y, u := rx.next[b], ru.next[b]
			if y == empty {
				return false // the string would be cut
			}
			if y == lastY && u == lastU {
				continue
			}
			if lastY, lastU = y, u; u != empty {
				if !m.walkUnit(y, u, after) {
					return false
				}
			} else if !slices.Contains(*after, y) {
				*after = append(*after, y)
			}
		}
	}
	return true
}
