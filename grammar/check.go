package grammar

// check looks at what is below root once it is complete: it finds what can match nothing, which states then leave out,
// and refuses what begins with itself.
func (a *arena) check(root id) error {
	if a.budget < 0 {
		return &Error{Problem: "is larger than the limits allow"}
	}
	a.findBarren()
	if a.budget < 0 {
		return &Error{Problem: "takes more work than the limits allow"}
	}
	if a.isBarren(root) || a.isTerm(root) && !a.matches(root) {
		return &Error{Problem: "no output fits it"}
	}
	l := &leftmost{a: a, index: map[id]int{}, low: map[id]int{}, on: map[id]bool{}}
	l.empties()
	for x := range a.exprs {
		if _, seen := l.index[id(x)]; !seen && !a.isTerm(id(x)) && !a.barren[x] {
			l.visit(id(x))
		}
	}
	if l.grows {
		return &Error{Problem: "a rule begins with itself (left recursion) by way of others, or with something empty before it; " +
			"write it as a repetition"}
	}
	return nil
}

func (a *arena) isBarren(x id) bool { return x == none || int(x) < len(a.barren) && a.barren[x] }

// findBarren marks the expressions that match nothing, such as a rule that always needs itself.
func (a *arena) findBarren() {
	fertile := make([]bool, len(a.exprs))
	for again := true; again; {
		again = false
		for x := range fertile {
			if fertile[x] {
				continue
			}
			e := &a.exprs[x]
			ok := false
			switch e.kind {
			case kSeq:
				ok = fertile[e.a] && fertile[e.b]
			case kChoice:
				for _, y := range a.list(id(x)) {
					ok = ok || fertile[y]
				}
			case kMany:
				ok = e.b == 0 || fertile[e.a]
			case kRule:
				ok = fertile[a.rules[e.a]]
			case kPairs, kTail:
				ok = true
				for _, m := range a.objects[e.a].members {
					ok = ok && (!m.required || fertile[m.pair])
				}
			default:
				ok = e.plain && x != int(none) || a.life[x] == alive || !e.plain && a.life[x] == unknown
			}
			fertile[x] = ok
			again = again || ok
		}
	}
	a.barren = fertile
	for x := range a.barren {
		a.barren[x] = !fertile[x]
	}
}

// leftmost finds the cycles of what expressions begin with (Tarjan, "Depth-first search and linear graph algorithms",
// 1972).
type leftmost struct {
	a          *arena
	empty      []bool // matches the empty output
	index, low map[id]int
	on         map[id]bool
	stack      []id
	grows      bool // a cycle leaves something to match each time around
}

func (l *leftmost) empties() {
	a := l.a
	l.empty = make([]bool, len(a.exprs))
	for again := true; again; {
		again = false
		for x := range l.empty {
			if l.empty[x] {
				continue
			}
			e := &a.exprs[x]
			ok := e.nullable
			switch e.kind {
			case kSeq:
				ok = l.empty[e.a] && l.empty[e.b]
			case kChoice:
				for _, y := range a.list(id(x)) {
					ok = ok || l.empty[y]
				}
			case kMany:
				ok = e.b == 0 || l.empty[e.a]
			case kRule:
				ok = l.empty[a.rules[e.a]]
			}
			l.empty[x] = ok
			again = again || ok
		}
	}
}

// firsts calls f for what x begins with, and whether something is left to match after it.
func (l *leftmost) firsts(x id, f func(y id, left bool)) {
	switch e := l.a.exprs[x]; e.kind {
	case kSeq:
		f(e.a, true)
		if l.empty[e.a] {
			f(e.b, false)
		}
	case kChoice:
		for _, y := range l.a.list(x) {
			f(y, false)
		}
	case kMany:
		f(e.a, e.c != 1)
	case kRule:
		f(l.a.rules[e.a], false)
	}
}

func (l *leftmost) visit(x id) {
	n := len(l.index)
	l.index[x], l.low[x], l.on[x] = n, n, true
	l.stack = append(l.stack, x)
	l.firsts(x, func(y id, _ bool) {
		if _, seen := l.index[y]; !seen {
			l.visit(y)
			l.low[x] = min(l.low[x], l.low[y])
		} else if l.on[y] {
			l.low[x] = min(l.low[x], l.index[y])
		}
	})
	if l.low[x] != l.index[x] {
		return
	}
	var group []id
	for {
		y := l.stack[len(l.stack)-1]
		l.stack = l.stack[:len(l.stack)-1]
		l.on[y] = false
		group = append(group, y)
		if y == x {
			break
		}
	}
	in := map[id]bool{}
	for _, y := range group {
		in[y] = true
	}
	for _, y := range group {
		l.firsts(y, func(z id, left bool) { l.grows = l.grows || left && in[z] })
	}
}
