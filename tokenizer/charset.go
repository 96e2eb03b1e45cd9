package tokenizer

import (
	"slices"
	"strings"
	"unicode"
)

// runeRange is an inclusive range of code points.
type runeRange struct{ lo, hi rune }

// charset is a set of code points: sorted, disjoint, non-adjacent ranges.
type charset []runeRange

// charsetOf builds a set from ranges in any order.
func charsetOf(ranges ...runeRange) charset {
	s := slices.Clone(ranges)
	slices.SortFunc(s, func(a, b runeRange) int { return int(a.lo) - int(b.lo) })
	out := s[:0]
	for _, r := range s {
		if n := len(out); n > 0 && r.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, r.hi)
			continue
		}
		out = append(out, r)
	}
	return out
}

// charsetOfRunes is the set of the runes in s.
func charsetOfRunes(s string) charset {
	var ranges []runeRange
	for _, r := range s {
		ranges = append(ranges, runeRange{r, r})
	}
	return charsetOf(ranges...)
}

// tableSet is the union of Unicode range tables.
func tableSet(tables ...*unicode.RangeTable) charset {
	var ranges []runeRange
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			ranges = append(ranges, runeRange{lo, hi})
			return
		}
		for r := lo; r <= hi; r += stride {
			ranges = append(ranges, runeRange{r, r})
		}
	}
	for _, t := range tables {
		for _, r := range t.R16 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range t.R32 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	return charsetOf(ranges...)
}

func (s charset) union(o charset) charset {
	return charsetOf(append(slices.Clone(s), o...)...)
}

func (s charset) negate() charset {
	var out charset
	next := rune(0)
	for _, r := range s {
		if r.lo > next {
			out = append(out, runeRange{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	if next <= unicode.MaxRune {
		out = append(out, runeRange{next, unicode.MaxRune})
	}
	return out
}

func (s charset) intersect(o charset) charset {
	return s.negate().union(o.negate()).negate()
}

func (s charset) has(r rune) bool {
	_, ok := slices.BinarySearchFunc(s, r, func(e runeRange, r rune) int {
		switch {
		case e.hi < r:
			return -1
		case e.lo > r:
			return 1
		}
		return 0
	})
	return ok
}

// fold adds every rune that simple case folding makes equal to one of the set's. It leaves sets of more than maxFold
// runes (general categories) unchanged.
func (s charset) fold() charset {
	const maxFold = 4096
	n := 0
	for _, r := range s {
		n += int(r.hi-r.lo) + 1
	}
	if n > maxFold {
		return s
	}
	out := slices.Clone(s)
	for _, rg := range s {
		for r := rg.lo; r <= rg.hi; r++ {
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				out = append(out, runeRange{f, f})
			}
		}
	}
	return charsetOf(out...)
}

// The classes that patterns and components name. setSpace is Unicode White_Space; setWord is what Oniguruma calls \w.
var (
	setSpace      = tableSet(unicode.White_Space)
	setDigit      = categories("Nd")
	setNumber     = categories("N")
	setLetter     = categories("L")
	setMark       = categories("M")
	setAlphabetic = setLetter.union(tableSet(unicode.Nl, unicode.Other_Alphabetic))
	setWord       = setAlphabetic.union(categories("M", "Nd", "Pc")).
			union(charsetOf(runeRange{0xB2, 0xB3}, runeRange{0xB9, 0xB9}, runeRange{0xBC, 0xBE}))
	// setRustWord is \w of the Rust regex library, which the Whitespace pre-tokenizer is defined by.
	setRustWord = setAlphabetic.union(categories("M", "Nd", "Pc")).union(tableSet(unicode.Join_Control))
	// setPunct is punctuation as BERT means it: every ASCII symbol counts.
	setPunct = tableSet(unicode.P).intersect(hexSet(punctSince8).negate()).union(charsetOf(
		runeRange{'!', '/'}, runeRange{':', '@'}, runeRange{'[', '`'}, runeRange{'{', '~'}))
)

// propertySet finds the set that \p{name} means: a general category, a script or a POSIX-like name.
func propertySet(name string) (charset, bool) {
	switch strings.ToLower(name) {
	case "alpha", "alphabetic":
		return setAlphabetic, true
	case "space", "white_space":
		return setSpace, true
	case "digit":
		return setDigit, true
	case "word":
		return setWord, true
	case "alnum":
		return setAlphabetic.union(setDigit), true
	case "upper", "uppercase":
		return categories("Lu").union(tableSet(unicode.Other_Uppercase)), true
	case "lower", "lowercase":
		return categories("Ll").union(tableSet(unicode.Other_Lowercase)), true
	case "punct", "punctuation":
		return categories("P"), true
	case "letter":
		return setLetter, true
	case "number":
		return setNumber, true
	case "mark":
		return setMark, true
	case "symbol":
		return categories("S"), true
	}
	if set, ok := categorySet(name); ok {
		return set, true
	}
	name = strings.TrimPrefix(strings.TrimPrefix(name, "Script="), "IsScript=")
	if t, ok := unicode.Scripts[name]; ok {
		set := tableSet(t)
		if name == "Han" {
			set = set.union(charsetOf(runeRange{0x2EBF0, 0x2EE5D})) // assigned in version 15.1
		}
		return set, true
	}
	return nil, false
}

// classTable maps each rune to a small class number: runes that no set of a pattern tells apart share a class.
type classTable struct {
	ascii  [128]uint8
	index  []uint16 // by rune>>8
	blocks [][256]uint8
	count  int
}

func (t *classTable) class(r rune) uint8 {
	if r < 0x80 {
		return t.ascii[r]
	}
	return t.blocks[t.index[r>>8]][r&0xFF]
}

// partition makes the table for at most 64 sets; member[set][class] says whether the class lies in the set. It
// reports false when there are more sets or more than 255 classes.
func partition(sets []charset) (t *classTable, member [][]bool, ok bool) {
	if len(sets) > 64 {
		return nil, nil, false
	}
	type edge struct {
		at   rune
		flip uint64
	}
	edges := []edge{{0, 0}}
	for i, s := range sets {
		for _, r := range s {
			edges = append(edges, edge{r.lo, 1 << i}, edge{r.hi + 1, 1 << i})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return int(a.at) - int(b.at) })
	t = &classTable{index: make([]uint16, (unicode.MaxRune+1)>>8)}
	member = make([][]bool, len(sets))
	classOf := map[uint64]uint8{}
	seen := map[[256]uint8]uint16{}
	var block [256]uint8
	var mask uint64
	class := uint8(0)
	e := 0
	for r := rune(0); r <= unicode.MaxRune; {
		for ; e < len(edges) && edges[e].at <= r; e++ {
			mask ^= edges[e].flip
		}
		if class, ok = classOf[mask]; !ok {
			if len(classOf) == 255 {
				return nil, nil, false
			}
			class = uint8(len(classOf))
			classOf[mask] = class
			for i := range member {
				member[i] = append(member[i], mask>>i&1 == 1)
			}
		}
		end := rune(unicode.MaxRune + 1)
		if e < len(edges) {
			end = min(end, edges[e].at)
		}
		for r < end {
			stop := min(end, r|0xFF+1)
			for i := r; i < stop; i++ {
				block[i&0xFF] = class
			}
			if r = stop; r&0xFF == 0 {
				n, dup := seen[block]
				if !dup {
					n = uint16(len(t.blocks))
					seen[block] = n
					t.blocks = append(t.blocks, block)
				}
				t.index[(r-1)>>8] = n
			}
		}
	}
	copy(t.ascii[:], t.blocks[t.index[0]][:128])
	t.count = len(classOf)
	return t, member, true
}
