package grammar

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// runeRange is the characters from lo to hi, without surrogates.
type runeRange struct{ lo, hi rune }

// runeSet is a set of characters: ranges in ascending order that do not touch, after norm.
type runeSet []runeRange

func (s runeSet) norm() runeSet {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b runeRange) int { return cmp.Compare(a.lo, b.lo) })
	out := s[:0]
	for _, r := range s {
		if n := len(out); n > 0 && r.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, r.hi)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// negate returns the characters that are not in s.
func (s runeSet) negate() runeSet {
	var out runeSet
	next := rune(0)
	for _, r := range s.norm() {
		if r.lo > next {
			out = append(out, runeRange{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	if next <= utf8.MaxRune {
		out = append(out, runeRange{next, utf8.MaxRune})
	}
	return out
}

// minus returns the characters of s that are not in o.
func (s runeSet) minus(o runeSet) runeSet { return append(s.negate(), o...).negate() }

func (s runeSet) has(c rune) bool {
	for _, r := range s {
		if r.lo <= c && c <= r.hi {
			return true
		}
	}
	return false
}

// runes matches one character of s in UTF-8.
func (a *arena) runes(s runeSet) id {
	var parts []id
	for _, r := range s.norm() {
		for _, cut := range [...]runeRange{{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, utf8.MaxRune}} {
			lo, hi := max(r.lo, cut.lo), min(r.hi, cut.hi)
			if lo <= hi {
				parts = append(parts, a.span([]byte(string(lo)), []byte(string(hi)), 0x80, 0xBF))
			}
		}
	}
	return a.alt(parts...)
}

// span matches the strings from lo to hi, which are as long, of bytes from first to last after the first byte.
func (a *arena) span(lo, hi []byte, first, last byte) id {
	if len(lo) == 1 {
		return a.bytes(lo[0], hi[0])
	}
	least, most := make([]byte, len(lo)-1), make([]byte, len(lo)-1)
	for i := range least {
		least[i], most[i] = first, last
	}
	if lo[0] == hi[0] {
		return a.cat2(a.bytes(lo[0], lo[0]), a.span(lo[1:], hi[1:], first, last))
	}
	var parts []id
	from, to := lo[0], hi[0]
	if !slices.Equal(lo[1:], least) {
		parts = append(parts, a.cat2(a.bytes(from, from), a.span(lo[1:], most, first, last)))
		from++
	}
	if !slices.Equal(hi[1:], most) {
		parts = append(parts, a.cat2(a.bytes(to, to), a.span(least, hi[1:], first, last)))
		to--
	}
	if from <= to {
		parts = append(parts, a.cat2(a.bytes(from, to), a.span(least, most, first, last)))
	}
	return a.alt(parts...)
}
