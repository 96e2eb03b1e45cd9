package grammar

import (
	"errors"
	"slices"
	"unicode/utf8"
)

// place says what is known of a position in the text that a pattern is compiled for.
type place uint8

const (
	inside place = iota // something came before
	begin               // nothing came before
	unsure
)

// writer compiles patterns. Each part is compiled with what follows it, so that $ and looking ahead are intersections
// with what follows.
type writer struct {
	a   *arena
	one func(runeSet) id // one character
}

var (
	errAnchor = errors.New("has a ^ where something may come before it, which is not supported")
	errRepeat = errors.New("repeats an anchor or a look ahead, which is not supported")
)

// whole matches the strings that p matches as a whole.
func (w writer) whole(p *pattern) (id, error) { return w.write(p, empty, begin) }

// search matches the strings with a part that p matches.
func (w writer) search(p *pattern) (id, error) {
	every := w.one(runeSet{{0, utf8.MaxRune}})
	rest := w.a.star(every)
	x, err := w.write(p, rest, inside)
	if err != nil || !p.has(opStart) {
		return w.a.cat2(rest, x), err
	}
	y, err := w.write(p, rest, begin)
	return w.a.alt(y, w.a.cat(every, rest, x)), err
}

func (p *pattern) has(op patternOp) bool {
	return p.op == op || slices.ContainsFunc(p.parts, func(q *pattern) bool { return q.has(op) })
}

// risky reports whether p may need very many states: where it looks ahead, or repeats counted repetitions.
func (p *pattern) risky(repeated bool) bool {
	if p.op == opLook {
		return true
	}
	if p.op == opRep && (p.hi > 1 || p.lo > 1) {
		if repeated {
			return true
		}
		repeated = true
	}
	repeated = repeated || p.op == opRep && p.hi < 0
	return slices.ContainsFunc(p.parts, func(q *pattern) bool { return q.risky(repeated) })
}

// trialWork bounds the work of a mask at the beginning of what a risky pattern matches.
const trialWork = 1 << 21

var errRisky = errors.New("needs too many states")

// try makes the first mask of a term.
func (a *arena) try(v *Vocab, x id) error {
	before := a.budget
	a.budget = min(before, trialWork)
	limit := a.budget
	v.head(newAutomaton(a), x)
	if a.budget < 0 {
		a.budget = before - limit
		return errRisky
	}
	a.budget += before - limit
	return nil
}

// advances reports whether p matches no empty string, and whether it matches only empty strings.
func (p *pattern) advances() (always, never bool) {
	switch p.op {
	case opSet:
		return true, false
	case opCat:
		never = true
		for _, q := range p.parts {
			a, n := q.advances()
			always, never = always || a, never && n
		}
	case opAlt:
		always, never = true, true
		for _, q := range p.parts {
			a, n := q.advances()
			always, never = always && a, never && n
		}
	case opRep:
		always, never = p.parts[0].advances()
		return always && p.lo > 0, never || p.hi == 0
	default:
		return false, true
	}
	return always, never
}

// write matches p, then rest.
func (w writer) write(p *pattern, rest id, at place) (id, error) {
	a := w.a
	switch p.op {
	case opSet:
		return a.cat2(w.one(p.set), rest), nil
	case opCat:
		places := make([]place, len(p.parts))
		for i, q := range p.parts {
			places[i] = at
			if always, never := q.advances(); always {
				at = inside
			} else if !never && at == begin {
				at = unsure
			}
		}
		for i := len(p.parts) - 1; i >= 0; i-- {
			var err error
			if rest, err = w.write(p.parts[i], rest, places[i]); err != nil {
				return none, err
			}
		}
		return rest, nil
	case opAlt:
		list := make([]id, len(p.parts))
		for i, q := range p.parts {
			x, err := w.write(q, rest, at)
			if err != nil {
				return none, err
			}
			list[i] = x
		}
		return a.alt(list...), nil
	case opRep:
		return w.repeat(p, rest, at)
	case opStart:
		if at == unsure {
			return none, errAnchor
		}
		if at == begin {
			return rest, nil
		}
		return none, nil
	case opEnd:
		return a.and(rest, empty), nil
	}
	x, err := w.write(p.parts[0], all, at)
	if p.negate {
		x = a.not(x)
	}
	return a.and(rest, x), err
}

func (w writer) repeat(p *pattern, rest id, at place) (id, error) {
	q := p.parts[0]
	if q.has(opStart) || q.has(opEnd) || q.has(opLook) {
		if p.hi == 1 && p.lo == 0 {
			x, err := w.write(q, rest, at)
			return w.a.alt(rest, x), err
		}
		if p.hi < 0 || p.hi > 8 {
			return none, errRepeat
		}
		if p.hi == 0 {
			return rest, nil
		}
		less := *p
		less.lo, less.hi = max(p.lo-1, 0), p.hi-1
		x, err := w.write(&pattern{op: opCat, parts: []*pattern{q, &less}}, rest, at)
		if p.lo == 0 {
			x = w.a.alt(rest, x)
		}
		return x, err
	}
	x, err := w.write(q, empty, inside)
	return w.a.cat2(w.a.rep(x, p.lo, p.hi), rest), err
}
