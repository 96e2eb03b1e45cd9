package grammar

import (
	"cmp"
	"slices"
)

// renewal copies what a state needs from one automaton to another, which begins with the same expressions.
type renewal struct {
	from, to *automaton
	base     int // expressions that both begin with
	exprs    map[id]id
	states   map[int32]int32
}

func (r *renewal) state(s int32) int32 {
	if t, ok := r.states[s]; ok {
		return t
	}
	var list []item
	for _, t := range r.from.itemsOf(s) {
		list = append(list, item{r.expr(t.x), r.state(t.rest)})
	}
	slices.SortFunc(list, func(a, b item) int { return cmp.Compare(a.x, b.x) })
	t := r.to.state(list, r.from.states[s].accepts)
	if r.from.states[s].closed == s {
		r.to.states[t].closed = t
	}
	r.states[s] = t
	return t
}

func (r *renewal) expr(x id) id {
	if int(x) < r.base {
		return x
	}
	if y, ok := r.exprs[x]; ok {
		return y
	}
	e := r.from.exprs[x]
	var list []id
	switch e.kind {
	case kSet:
		y := r.to.set(r.from.sets[e.a])
		r.exprs[x] = y
		return y
	case kAlt, kAnd, kChoice:
		for _, y := range r.from.list(x) {
			list = append(list, r.expr(y))
		}
		slices.Sort(list)
	case kCat, kSeq:
		e.a, e.b = r.expr(e.a), r.expr(e.b)
	case kNot, kRep, kMany:
		e.a = r.expr(e.a)
	case kPairs, kTail:
		e.b = r.to.seenID(r.from.seen[e.b])
	}
	y := r.to.intern(e, list)
	if r.from.life[x] != unknown {
		r.to.life[y] = r.from.life[x]
	}
	r.exprs[x] = y
	return y
}
