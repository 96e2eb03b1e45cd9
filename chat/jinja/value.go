package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"sort"
)

// Value is a value of a template: nil (None), bool, int64, *big.Int (only where int64 is too small), float64, string,
// *List, *Dict, and the values that only a template can make: undefined values, macros, methods, namespaces, loops.
type Value = any

type listKind uint8

const (
	kindList listKind = iota
	kindTuple
	kindRange
	kindKeys // the views that a dict's keys, values and items return
	kindValues
	kindItems
	kindGenerator // what map, select and the like return; it can be read once
)

// List is a list, or one of Python's other sequences.
type List struct {
	items []Value
	kind  listKind
	step  int64 // of a range, for printing it
}

func tuple(items ...Value) *List   { return &List{items: items, kind: kindTuple} }
func newList(items []Value) *List  { return &List{items: items} }
func newGenerator(v []Value) *List { return &List{items: v, kind: kindGenerator} }

// take returns the elements for iteration; a generator is empty afterwards.
func (l *List) take() []Value {
	items := l.items
	if l.kind == kindGenerator {
		l.items = nil
	}
	return items
}

// undefined is the value of a name that does not exist. It prints as nothing; any other use is the error that hint
// describes.
type undefined struct{ hint string }

func undefinedName(name string) *undefined { return &undefined{fmt.Sprintf("%q is undefined", name)} }

func (u *undefined) err() error { return errors.New(u.hint) }

// namespace is the one kind of object whose attributes a template can assign.
type namespace struct{ vars *Dict }

// From converts a Go value to a template's: nil, booleans, numbers, strings, []any, map[string]any (in the order of
// its sorted keys), *List and *Dict, all copied.
func From(v any) (Value, error) { return (&run{steps: math.MaxInt}).copyValue(v, 0) }

// copyValue copies a value that is not the template's own, one step for each value in it.
func (r *run) copyValue(v any, depth int) (Value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("value is nested more than %d levels deep", maxDepth)
	}
	if err := r.scan(0); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		return v, nil
	case *big.Int:
		return normal(v), nil
	case int:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case float32:
		return float64(v), nil
	case []any:
		return r.copyList(&List{items: v}, depth)
	case *List:
		return r.copyList(v, depth)
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		d := NewDict()
		for _, k := range keys {
			item, err := r.copyValue(v[k], depth+1)
			if err != nil {
				return nil, err
			}
			d.Set(k, item)
		}
		return d, nil
	case *Dict:
		d := &Dict{keys: append([]Value(nil), v.keys...), vals: make([]Value, len(v.vals)), index: make(map[any]int, len(v.keys))}
		for i, k := range v.keys {
			h, err := hashKey(k)
			if err != nil {
				return nil, err
			}
			d.index[h] = i
			if d.vals[i], err = r.copyValue(v.vals[i], depth+1); err != nil {
				return nil, err
			}
		}
		return d, nil
	}
	return nil, fmt.Errorf("a template cannot hold a Go value of type %T", v)
}

func (r *run) copyList(l *List, depth int) (Value, error) {
	out := &List{items: make([]Value, len(l.items)), kind: l.kind, step: l.step}
	for i, item := range l.items {
		var err error
		if out.items[i], err = r.copyValue(item, depth+1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// markup is text that the filters safe and escape have marked as HTML. It is a string in every respect but one: text
// added to it with + is escaped, which jinja2 does even where escaping is off.
type markup string

// plain returns a markup's string, and any other value as it is.
func plain(v Value) Value {
	if m, ok := v.(markup); ok {
		return string(m)
	}
	return v
}

// typeName returns Python's name of v's type, for messages.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string, markup:
		return "str"
	case *Dict:
		return "dict"
	case *List:
		return [...]string{"list", "tuple", "range", "dict_keys", "dict_values", "dict_items", "generator"}[v.kind]
	case *undefined:
		return "Undefined"
	case *namespace:
		return "Namespace"
	case *macro:
		return "Macro"
	case *loop:
		return "LoopContext"
	}
	return "function"
}

// truth reports whether v counts as true.
func truth(v Value) bool {
	switch v := v.(type) {
	case nil, *undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case markup:
		return v != ""
	case *Dict:
		return len(v.keys) > 0
	case *List:
		return len(v.items) > 0 || v.kind == kindGenerator
	}
	return true
}

// normal returns n as an int64 if it fits.
func normal(n *big.Int) Value {
	if n.IsInt64() {
		return n.Int64()
	}
	return n
}

// asBig returns an integer or boolean as a big integer.
func asBig(v Value) (*big.Int, bool) {
	switch v := v.(type) {
	case *big.Int:
		return v, true
	case int64:
		return big.NewInt(v), true
	case bool:
		if v {
			return big.NewInt(1), true
		}
		return new(big.Int), true
	}
	return nil, false
}

// asInt returns an integer or boolean as an int64; a larger integer is clipped.
func asInt(v Value) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case *big.Int:
		if v.Sign() < 0 {
			return math.MinInt64, true
		}
		return math.MaxInt64, true
	}
	return 0, false
}

// asFloat returns a number or boolean as a float.
func asFloat(v Value) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f, true
	}
	n, ok := asInt(v)
	return float64(n), ok
}

// iterate returns the elements that a loop over v visits.
func (r *run) iterate(v Value) ([]Value, error) {
	switch v := plain(v).(type) {
	case *List:
		return v.take(), nil
	case *Dict:
		return append([]Value(nil), v.keys...), r.spend(16 * len(v.keys))
	case string:
		if err := r.spend(32 * len(v)); err != nil {
			return nil, err
		}
		items := make([]Value, 0, len(v))
		for _, c := range v {
			items = append(items, string(c))
		}
		return items, nil
	case *undefined:
		return nil, nil
	}
	return nil, fmt.Errorf("%q object is not iterable", typeName(v))
}

// length returns len(v).
func (r *run) length(v Value) (int, error) {
	switch v := v.(type) {
	case *List:
		if v.kind != kindGenerator {
			return len(v.items), nil
		}
	case *Dict:
		return len(v.keys), nil
	case string:
		return runeLen(v), r.scan(len(v))
	case *undefined:
		return 0, nil
	case *loop:
		return len(v.items), nil
	}
	return 0, fmt.Errorf("object of type %q has no len()", typeName(v))
}
