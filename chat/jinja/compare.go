package jinja

import (
	"fmt"
	"math/big"
	"sort"
	"strings"
)

// equal is Python's ==.
func (r *run) equal(a, b Value, depth int) (bool, error) {
	if err := r.grown(0, depth); err != nil {
		return false, err
	}
	a, b = plain(a), plain(b)
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		return ok && x == y, r.scan(min(len(x), len(y)))
	case nil:
		return b == nil, nil
	case *undefined:
		_, ok := b.(*undefined)
		return ok, nil
	case *List:
		y, ok := b.(*List)
		if !ok || x.kind != y.kind || len(x.items) != len(y.items) || x.kind > kindRange && x != y {
			return false, nil
		}
		for i := range x.items {
			if ok, err := r.equal(x.items[i], y.items[i], depth+1); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || len(x.keys) != len(y.keys) {
			return false, nil
		}
		for i, k := range x.keys {
			j, err := y.find(k)
			if err != nil || j < 0 {
				return false, err
			}
			if ok, err := r.equal(x.vals[i], y.vals[j], depth+1); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	if isNumber(a) && isNumber(b) {
		return compareNumbers(a, b) == 0, nil
	}
	return a == b, nil
}

func isNumber(v Value) bool {
	switch v.(type) {
	case bool, int64, float64, *big.Int:
		return true
	}
	return false
}

// unordered is the result of compareNumbers if a NaN is involved.
const unordered = 2

func compareNumbers(a, b Value) int {
	x, okX := a.(int64)
	y, okY := b.(int64)
	if okX && okY {
		return sign(x < y, x > y)
	}
	bx, okX := asBig(a)
	by, okY := asBig(b)
	if okX && okY {
		return bx.Cmp(by)
	}
	fx, _ := asFloat(a)
	fy, _ := asFloat(b)
	if fx != fx || fy != fy {
		return unordered
	}
	return sign(fx < fy, fx > fy)
}

func sign(less, greater bool) int {
	switch {
	case less:
		return -1
	case greater:
		return 1
	}
	return 0
}

// order compares two values that Python can order: numbers, strings, lists and tuples.
func (r *run) order(op string, a, b Value, depth int) (int, error) {
	if err := r.grown(0, depth); err != nil {
		return 0, err
	}
	a, b = plain(a), plain(b)
	if isNumber(a) && isNumber(b) {
		return compareNumbers(a, b), nil
	}
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			return strings.Compare(x, y), r.scan(min(len(x), len(y)))
		}
	case *List:
		y, ok := b.(*List)
		if !ok || x.kind != y.kind || x.kind > kindTuple {
			break
		}
		for i := range min(len(x.items), len(y.items)) {
			same, err := r.equal(x.items[i], y.items[i], depth+1)
			if err != nil {
				return 0, err
			}
			if !same {
				return r.order(op, x.items[i], y.items[i], depth+1)
			}
		}
		return sign(len(x.items) < len(y.items), len(x.items) > len(y.items)), nil
	}
	for _, v := range []Value{a, b} {
		if u, ok := v.(*undefined); ok {
			return 0, u.err()
		}
	}
	return 0, fmt.Errorf("%q not supported between %q and %q", op, typeName(a), typeName(b))
}

// contains is Python's "item in v".
func (r *run) contains(v, item Value) (bool, error) {
	switch v := plain(v).(type) {
	case string:
		s, ok := plain(item).(string)
		if !ok {
			return false, fmt.Errorf(`"in" on a string requires a string on its left, found %q`, typeName(item))
		}
		return strings.Contains(v, s), r.scan(len(v))
	case *Dict:
		i, err := v.find(item)
		return i >= 0, err
	case *List:
		for _, x := range v.take() {
			if same, err := r.equal(x, item, 0); same || err != nil {
				return same, err
			}
		}
		return false, nil
	case *undefined:
		return false, nil
	}
	return false, fmt.Errorf("argument of type %q is not iterable", typeName(v))
}

func (r *run) compare(op string, a, b Value) (bool, error) {
	switch op {
	case "==":
		return r.equal(a, b, 0)
	case "!=":
		same, err := r.equal(a, b, 0)
		return !same, err
	case "in":
		return r.contains(b, a)
	case "not in":
		in, err := r.contains(b, a)
		return !in, err
	}
	c, err := r.order(op, a, b, 0)
	if err != nil || c == unordered {
		return false, err
	}
	switch op {
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	}
	return c >= 0, nil
}

// sorted returns a sorted copy of items, by key, stable.
func (r *run) sorted(items []Value, key func(Value) (Value, error), reverse bool) ([]Value, error) {
	if err := r.spend(32 * len(items)); err != nil {
		return nil, err
	}
	type keyed struct{ k, v Value }
	all := make([]keyed, len(items))
	for i, v := range items {
		k, err := key(v)
		if err != nil {
			return nil, err
		}
		all[i] = keyed{k, v}
	}
	var failed error
	sort.SliceStable(all, func(i, j int) bool {
		if failed != nil {
			return false
		}
		if reverse {
			i, j = j, i
		}
		less, err := r.compare("<", all[i].k, all[j].k)
		failed = err
		return less
	})
	out := make([]Value, len(all))
	for i := range all {
		out[i] = all[i].v
	}
	return out, failed
}
