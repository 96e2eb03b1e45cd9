package grammar

import (
	"cmp"
	"maps"
	"slices"
)

// id names an expression of an arena. Equal expressions have one id.
type id = int32

// kind says what an expression matches. Those before kSeq are regular: terms of the grammar.
type kind uint8

const (
	kNone   kind = iota // nothing
	kEmpty              // the empty string
	kSet                // one byte of sets[a]
	kCat                // a, then b; a is no kCat
	kAlt                // any of a list
	kAnd                // all of a list
	kNot                // what a does not match
	kRep                // a, b to c times; c is -1 for no limit
	kFactor             // decimal numbers: multiples of factors[c] (number.go); a is a remainder, b a digit's position
	kSeq                // a, then b; of what is not a term as a whole
	kChoice             // any of a list
	kMany               // as kRep
	kRule               // the body of rules[a]
	kPairs              // what may follow in objects[a] where a pair must come (object.go)
	kTail               // what may follow there after a pair
)

// Expressions that every arena has.
const (
	none  id = iota // kNone
	empty           // kEmpty
	all             // any bytes: the complement of none
)

// expr is one expression. Lists are lists[a:a+b], in ascending order.
type expr struct {
	a, b, c  int32
	hash     uint32
	kind     kind
	nullable bool // a term that matches the empty string
	plain    bool // a term without kAnd, kNot and kFactor below it: it matches something, unless it is none
	finite   bool // a term that matches a finite number of strings, as far as is seen
}

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }
func (s *byteSet) add(lo, hi byte) {
	for b := int(lo); b <= int(hi); b++ {
		s[b>>6] |= 1 << (b & 63)
	}
}
func (s *byteSet) and(o *byteSet) {
	for i := range s {
		s[i] &= o[i]
	}
}
func (s *byteSet) or(o *byteSet) {
	for i := range s {
		s[i] |= o[i]
	}
}
func (s *byteSet) minus(o *byteSet) {
	for i := range s {
		s[i] &^= o[i]
	}
}

// arena holds expressions, each once, and the automaton made of them so far (derive.go).
type arena struct {
	exprs   []expr
	lists   []id
	sets    []byteSet
	setIDs  map[byteSet]int32
	table   []id // open addressing by hash; 0 is free: none is not looked up
	rules   []id // bodies; a rule is known before its body is
	factors []factor
	objects []object
	seen    []seenSet // of the properties of objects
	seenIDs map[string]int32

	seenWords int // of seen, with what each takes beside

	barren []bool // expressions that match nothing, once check has found them

	dfa
	budget int // work that may still be done, in derivatives; below 0 all is none, and results do not count
}

func newArena(budget int) *arena {
	a := &arena{setIDs: map[byteSet]int32{}, table: make([]id, 256), seen: []seenSet{{}}, seenIDs: map[string]int32{"": 0}, budget: budget}
	a.exprs = []expr{{kind: kNone, plain: true, finite: true}, {kind: kEmpty, nullable: true, plain: true, finite: true}}
	a.rows = []int32{-1, -1}
	a.life = []life{dead, alive}
	a.intern(expr{kind: kNot, a: none, nullable: true}, nil) // all
	a.life[all] = alive
	return a
}

// clone returns a copy that grows on its own.
func (a *arena) clone(budget int) *arena {
	b := *a
	b.exprs, b.lists, b.sets, b.rules = slices.Clip(a.exprs), slices.Clip(a.lists), slices.Clip(a.sets), slices.Clip(a.rules)
	b.factors, b.objects, b.seen, b.barren = slices.Clip(a.factors), slices.Clip(a.objects), slices.Clip(a.seen), a.barren
	b.seenIDs = maps.Clone(a.seenIDs)
	b.setIDs = maps.Clone(a.setIDs)
	b.table = slices.Clone(a.table)
	b.dfa = a.dfa.clone()
	b.budget = budget
	return &b
}

func mix(h uint32, v int32) uint32 {
	h = (h ^ uint32(v)) * 0x9E3779B1
	return h ^ h>>15
}

// intern returns the id of an expression, whose list, if it has one, is not yet in lists.
func (a *arena) intern(e expr, list []id) id {
	h := mix(uint32(e.kind)+1, e.c)
	if list == nil {
		h = mix(mix(h, e.a), e.b)
	}
	for _, x := range list {
		h = mix(h, x)
	}
	mask := uint32(len(a.table) - 1)
	i := h & mask
	for ; a.table[i] != 0; i = (i + 1) & mask {
		x := a.table[i]
		o := &a.exprs[x]
		if o.hash != h || o.kind != e.kind || o.c != e.c {
			continue
		}
		if list == nil && o.a == e.a && o.b == e.b || list != nil && slices.Equal(a.list(x), list) {
			return x
		}
	}
	if a.budget -= 4; a.budget < 0 {
		return none
	}
	if list != nil {
		e.a, e.b = int32(len(a.lists)), int32(len(list))
		a.lists = append(a.lists, list...)
	}
	e.hash = h
	x := id(len(a.exprs))
	if len(a.exprs) == cap(a.exprs) { // append would grow by a quarter, and copy all twice as often
		more := len(a.exprs)/2 + 1
		a.exprs, a.rows, a.life = slices.Grow(a.exprs, more), slices.Grow(a.rows, more), slices.Grow(a.life, more)
	}
	a.exprs, a.rows, a.life = append(a.exprs, e), append(a.rows, -1), append(a.life, unknown)
	a.table[i] = x
	if 2*len(a.exprs) > len(a.table) {
		a.rehash()
	}
	return x
}

func (a *arena) rehash() {
	a.table = make([]id, 2*len(a.table))
	mask := uint32(len(a.table) - 1)
	for x := 2; x < len(a.exprs); x++ {
		i := a.exprs[x].hash & mask
		for a.table[i] != 0 {
			i = (i + 1) & mask
		}
		a.table[i] = id(x)
	}
}

func (a *arena) list(x id) []id      { e := &a.exprs[x]; return a.lists[e.a : e.a+e.b : e.a+e.b] }
func (a *arena) nullable(x id) bool  { return a.exprs[x].nullable }
func (a *arena) isTerm(x id) bool    { return a.exprs[x].kind < kSeq }
func (a *arena) kindOf(x id) kind    { return a.exprs[x].kind }
func (a *arena) setOf(x id) *byteSet { return &a.sets[a.exprs[x].a] }

// set matches one byte of s.
func (a *arena) set(s byteSet) id {
	if s == (byteSet{}) {
		return none
	}
	i, ok := a.setIDs[s]
	if !ok {
		i = int32(len(a.sets))
		a.sets = append(a.sets, s)
		a.setIDs[s] = i
	}
	return a.intern(expr{kind: kSet, a: i, plain: true, finite: true}, nil)
}

// bytes matches one byte of a range.
func (a *arena) bytes(lo, hi byte) id {
	var s byteSet
	s.add(lo, hi)
	return a.set(s)
}

// afford does so much work, unless there was not as much to be done any more.
func (a *arena) afford(work int) bool {
	a.budget -= work
	return a.budget >= 0
}

// literal matches s.
func (a *arena) literal(s string) id { return a.before(s, empty) }

// before matches s, then x.
func (a *arena) before(s string, x id) id {
	for i := len(s) - 1; i >= 0; i-- {
		x = a.cat(a.bytes(s[i], s[i]), x)
	}
	return x
}

// cat matches its parts one after the other.
func (a *arena) cat(parts ...id) id {
	x := empty
	for i := len(parts) - 1; i >= 0; i-- {
		x = a.cat2(parts[i], x)
	}
	return x
}

func (a *arena) cat2(x, y id) id {
	switch {
	case x == none || y == none:
		return none
	case x == empty:
		return y
	case y == empty:
		return x
	case x == all && (y == all || a.kindOf(y) == kCat && a.exprs[y].a == all):
		return y
	}
	if e := a.exprs[x]; e.kind == kCat {
		if !a.afford(1) {
			return none
		}
		return a.cat2(e.a, a.cat2(e.b, y))
	}
	ex, ey := &a.exprs[x], &a.exprs[y]
	return a.intern(expr{kind: kCat, a: x, b: y, nullable: ex.nullable && ey.nullable, plain: ex.plain && ey.plain,
		finite: ex.finite && ey.finite}, nil)
}

// rep matches x, lo to hi times; hi is -1 for no limit.
func (a *arena) rep(x id, lo, hi int32) id {
	e := a.exprs[x]
	switch {
	case hi == 0 || x == empty:
		return empty
	case x == none && lo > 0:
		return none
	case x == none:
		return empty
	case lo == 1 && hi == 1 || x == all:
		return x
	case e.kind == kRep && e.b == 0 && e.c < 0:
		return x
	}
	if e.nullable {
		lo = 0
	}
	return a.intern(expr{kind: kRep, a: x, b: lo, c: hi, nullable: lo == 0, plain: e.plain, finite: e.finite && hi >= 0}, nil)
}

func (a *arena) star(x id) id     { return a.rep(x, 0, -1) }
func (a *arena) optional(x id) id { return a.alt(empty, x) }

// not matches what x does not match.
func (a *arena) not(x id) id {
	if a.budget < 0 {
		return none
	}
	if e := a.exprs[x]; e.kind == kNot {
		return e.a
	}
	return a.intern(expr{kind: kNot, a: x, nullable: !a.nullable(x)}, nil)
}

// alt matches any of its parts. Parts that begin alike become one: ab|ac is a(b|c), which keeps automata small.
func (a *arena) alt(parts ...id) id {
	list := make([]id, 0, len(parts))
	var bytes byteSet
	for _, x := range parts {
		switch a.kindOf(x) {
		case kNone:
		case kSet:
			bytes.or(a.setOf(x))
		case kAlt:
			for _, y := range a.list(x) {
				if a.kindOf(y) == kSet {
					bytes.or(a.setOf(y))
				} else {
					list = append(list, y)
				}
			}
		default:
			if x == all {
				return all
			}
			list = append(list, x)
		}
	}
	if s := a.set(bytes); s != none {
		list = append(list, s)
	}
	if !a.afford(len(list)) {
		return none
	}
	if len(list) > 1 {
		list = a.factor(list)
	}
	slices.Sort(list)
	list = slices.Compact(list)
	switch {
	case len(list) == 0:
		return none
	case len(list) == 1:
		return list[0]
	}
	e := expr{kind: kAlt, plain: true, finite: true}
	for _, x := range list {
		e.nullable = e.nullable || a.nullable(x)
		e.plain = e.plain && a.exprs[x].plain
		e.finite = e.finite && a.exprs[x].finite
	}
	if list[0] == empty && slices.ContainsFunc(list[1:], a.nullable) {
		return a.alt(list[1:]...)
	}
	return a.intern(e, list)
}

// head returns what x begins with, as a part of alt.
func (a *arena) head(x id) id {
	if e := &a.exprs[x]; e.kind == kCat {
		return e.a
	}
	return x
}

// factor joins the parts of a list that begin alike.
func (a *arena) factor(list []id) []id {
	slices.SortFunc(list, func(x, y id) int {
		return cmp.Or(cmp.Compare(a.head(x), a.head(y)), cmp.Compare(x, y))
	})
	out := list[:0]
	for i := 0; i < len(list); {
		h, j := a.head(list[i]), i+1
		for j < len(list) && a.head(list[j]) == h {
			j++
		}
		if list[i] == list[j-1] || h == empty {
			out = append(out, list[i])
			i = j
			continue
		}
		tails := make([]id, 0, j-i)
		for _, x := range list[i:j] {
			if x == h {
				tails = append(tails, empty)
			} else {
				tails = append(tails, a.exprs[x].b)
			}
		}
		out = append(out, a.cat2(h, a.alt(tails...)))
		i = j
	}
	return out
}

// and matches what all of its parts match.
func (a *arena) and(parts ...id) id {
	list := make([]id, 0, len(parts))
	for _, x := range parts {
		switch {
		case x == none:
			return none
		case x == all:
		case a.kindOf(x) == kAnd:
			list = append(list, a.list(x)...)
		default:
			list = append(list, x)
		}
	}
	if !a.afford(len(list)) {
		return none
	}
	slices.Sort(list)
	list = slices.Compact(list)
	switch {
	case len(list) == 0:
		return all
	case len(list) == 1:
		return list[0]
	}
	nullable, bytes, other := true, byteSet{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}, list[:0:0]
	for _, x := range list {
		nullable = nullable && a.nullable(x)
		if a.kindOf(x) == kSet {
			bytes.and(a.setOf(x))
		} else {
			other = append(other, x)
		}
	}
	if list[0] == empty {
		if nullable {
			return empty
		}
		return none
	}
	if len(other) < len(list) {
		s := a.set(bytes)
		if len(other) == 0 || s == none {
			return s
		}
		list = append(other, s)
		slices.Sort(list)
	}
	return a.intern(expr{kind: kAnd, nullable: nullable}, list)
}

// seq matches its parts one after the other. Unlike those of cat they stay apart in states, and need not be terms.
func (a *arena) seq(parts ...id) id {
	x := empty
	for i := len(parts) - 1; i >= 0; i-- {
		switch y := parts[i]; {
		case x == none || y == none:
			x = none
		case y == empty:
		case x == empty:
			x = y
		case a.kindOf(y) == kSeq:
			x = a.seq(a.exprs[y].a, a.seq(a.exprs[y].b, x))
		default:
			x = a.intern(expr{kind: kSeq, a: y, b: x}, nil)
		}
	}
	return x
}

// choice matches any of its parts, which need not be terms.
func (a *arena) choice(parts ...id) id {
	list := make([]id, 0, len(parts))
	for _, x := range parts {
		if a.kindOf(x) == kChoice {
			list = append(list, a.list(x)...)
		} else if x != none {
			list = append(list, x)
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	switch len(list) {
	case 0:
		return none
	case 1:
		return list[0]
	}
	return a.intern(expr{kind: kChoice}, list)
}

// many matches x, lo to hi times; hi is -1 for no limit. x need not be a term.
func (a *arena) many(x id, lo, hi int32) id {
	switch {
	case hi == 0 || x == empty:
		return empty
	case x == none && lo > 0:
		return none
	case x == none:
		return empty
	case lo == 1 && hi == 1:
		return x
	}
	return a.intern(expr{kind: kMany, a: x, b: lo, c: hi}, nil)
}

// rule returns a new rule, whose body is to be set.
func (a *arena) rule() id {
	a.rules = append(a.rules, none)
	return a.intern(expr{kind: kRule, a: int32(len(a.rules) - 1)}, nil)
}

func (a *arena) define(rule, body id) { a.rules[a.exprs[rule].a] = body }
