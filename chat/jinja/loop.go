package jinja

import "errors"

// loop is the variable of that name inside a for block.
type loop struct {
	def     *forStmt
	items   []Value
	i       int
	depth0  int64
	parent  *scope
	changed Value // the arguments of the last call of changed, as a tuple
}

func (l *loop) attr(name string) (Value, bool) {
	i, n := int64(l.i), int64(len(l.items))
	switch name {
	case "index":
		return i + 1, true
	case "index0":
		return i, true
	case "revindex":
		return n - i, true
	case "revindex0":
		return n - i - 1, true
	case "first":
		return i == 0, true
	case "last":
		return i == n-1, true
	case "length":
		return n, true
	case "depth":
		return l.depth0 + 1, true
	case "depth0":
		return l.depth0, true
	case "previtem":
		if i == 0 {
			return &undefined{"there is no previous item"}, true
		}
		return l.items[i-1], true
	case "nextitem":
		if i == n-1 {
			return &undefined{"there is no next item"}, true
		}
		return l.items[i+1], true
	case "cycle":
		return &method{l, name, loopCycle}, true
	case "changed":
		return &method{l, name, loopChanged}, true
	}
	return nil, false
}

var loopCycle = &builtin{raw: func(_ *run, self Value, a *callArgs) (Value, error) {
	if len(a.pos) == 0 {
		return nil, errors.New("no items to cycle through")
	}
	return a.pos[self.(*loop).i%len(a.pos)], nil
}}

var loopChanged = &builtin{raw: func(r *run, self Value, a *callArgs) (Value, error) {
	l, now := self.(*loop), tuple(a.pos...)
	if l.changed != nil {
		if same, err := r.equal(l.changed, now, 0); same || err != nil {
			return false, err
		}
	}
	l.changed = now
	return true, nil
}}

// recurse is loop(items) in a recursive loop: the body's output for those items.
func (l *loop) recurse(r *run, a *callArgs) (Value, error) {
	if !l.def.recursive {
		return nil, errors.New(`loop can be called only in a loop marked "recursive"`)
	}
	if len(a.pos) != 1 || len(a.kwNames) != 0 {
		return nil, errors.New("loop takes one argument, the items of the inner loop")
	}
	return r.capture(func() error { return l.def.over(r, l.parent, a.pos[0], l.depth0+1) })
}
