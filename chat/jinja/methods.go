package jinja

import (
	"errors"
	"fmt"
)

// The methods of Python's types that templates call.
var stringMethods, listMethods, sequenceMethods, dictMethods map[string]*builtin

// methodOf returns the method of that name that v has, or nil.
func methodOf(v Value, name string) *builtin {
	switch v := plain(v).(type) {
	case string:
		return stringMethods[name]
	case *Dict:
		return dictMethods[name]
	case *List:
		if v.kind == kindList && listMethods[name] != nil {
			return listMethods[name]
		}
		if v.kind <= kindRange {
			return sequenceMethods[name]
		}
	}
	return nil
}

func initMethods() {
	initStringMethods()
	listMethods = map[string]*builtin{
		"append": onList(func(r *run, l *List, a []Value) (Value, error) {
			return nil, r.extend(l, a[:1])
		}, req("object")),
		"extend": onList(func(r *run, l *List, a []Value) (Value, error) {
			items, err := r.iterate(a[0])
			if err != nil {
				return nil, err
			}
			return nil, r.extend(l, items)
		}, req("iterable")),
		"insert":  onList(listInsert, req("index"), req("object")),
		"pop":     onList(listPop, opt("index", int64(-1))),
		"remove":  onList(listRemove, req("value")),
		"clear":   onList(func(_ *run, l *List, _ []Value) (Value, error) { l.items = nil; return nil, nil }),
		"copy":    onList(func(_ *run, l *List, _ []Value) (Value, error) { return newList(append([]Value(nil), l.items...)), nil }),
		"reverse": onList(listReverse),
		"sort": onList(func(r *run, l *List, a []Value) (Value, error) {
			out, err := r.sorted(l.items, r.getter(nil, nil), truth(a[0]))
			l.items = out
			return nil, err
		}, opt("reverse", false)),
	}
	sequenceMethods = map[string]*builtin{
		"index": onList(listIndex, req("value")),
		"count": onList(func(r *run, l *List, a []Value) (Value, error) {
			n := int64(0)
			for _, item := range l.items {
				same, err := r.equal(item, a[0], 0)
				if err != nil {
					return nil, err
				}
				if same {
					n++
				}
			}
			return n, nil
		}, req("value")),
	}
	initDictMethods()
}

func onList(f func(r *run, l *List, a []Value) (Value, error), params ...param) *builtin {
	return &builtin{params: params, fn: func(r *run, self Value, a []Value) (Value, error) { return f(r, self.(*List), a) }}
}

func (r *run) extend(l *List, items []Value) error {
	if len(l.items)+len(items) > maxItems {
		return fmt.Errorf("a list of more than %d elements", maxItems)
	}
	l.items = append(l.items, items...)
	return r.spend(16 * len(items))
}

func listInsert(r *run, l *List, a []Value) (Value, error) {
	i, ok := asInt(a[0])
	if !ok {
		return nil, errors.New("expected an integer as index")
	}
	at, _, _ := sliceBounds(&i, nil, nil, int64(len(l.items)))
	tail := append([]Value(nil), l.items[at:]...)
	l.items = l.items[:at:at]
	return nil, r.extend(l, append([]Value{a[1]}, tail...))
}

func listPop(_ *run, l *List, a []Value) (Value, error) {
	i, ok := asInt(a[0])
	if !ok {
		return nil, errors.New("expected an integer as index")
	}
	if i < 0 {
		i += int64(len(l.items))
	}
	if i < 0 || i >= int64(len(l.items)) {
		return nil, fmt.Errorf("index out of range in a list of %d elements", len(l.items))
	}
	v := l.items[i]
	l.items = append(l.items[:i:i], l.items[i+1:]...)
	return v, nil
}

func listIndex(r *run, l *List, a []Value) (Value, error) {
	for i, item := range l.items {
		if same, err := r.equal(item, a[0], 0); same || err != nil {
			return int64(i), err
		}
	}
	return nil, errors.New("the value is not in the list")
}

func listRemove(r *run, l *List, a []Value) (Value, error) {
	i, err := listIndex(r, l, a)
	if err == nil {
		_, err = listPop(r, l, []Value{i})
	}
	return nil, err
}

func listReverse(_ *run, l *List, _ []Value) (Value, error) {
	out := make([]Value, 0, len(l.items))
	for i := len(l.items) - 1; i >= 0; i-- {
		out = append(out, l.items[i])
	}
	l.items = out
	return nil, nil
}

func onDict(f func(r *run, d *Dict, a []Value) (Value, error), params ...param) *builtin {
	return &builtin{params: params, fn: func(r *run, self Value, a []Value) (Value, error) { return f(r, self.(*Dict), a) }}
}

// pairs returns the items of d as tuples.
func pairs(d *Dict) []Value {
	out := make([]Value, len(d.keys))
	for i, k := range d.keys {
		out[i] = tuple(k, d.vals[i])
	}
	return out
}

func view(kind listKind, items func(d *Dict) []Value) *builtin {
	return onDict(func(_ *run, d *Dict, _ []Value) (Value, error) { return &List{items: items(d), kind: kind}, nil })
}

func initDictMethods() {
	dictMethods = map[string]*builtin{
		"keys":   view(kindKeys, func(d *Dict) []Value { return append([]Value(nil), d.keys...) }),
		"values": view(kindValues, func(d *Dict) []Value { return append([]Value(nil), d.vals...) }),
		"items":  view(kindItems, pairs),
		"get": onDict(func(_ *run, d *Dict, a []Value) (Value, error) {
			i, err := d.find(a[0])
			if i < 0 || err != nil {
				return a[1], err
			}
			return d.vals[i], nil
		}, req("key"), opt("default", nil)),
		"pop": onDict(func(_ *run, d *Dict, a []Value) (Value, error) {
			i, err := d.find(a[0])
			if err != nil {
				return nil, err
			}
			if i < 0 {
				if a[1] == absent {
					return nil, fmt.Errorf("dict has no key %v", a[0])
				}
				return a[1], nil
			}
			v := d.vals[i]
			d.remove(i)
			return v, nil
		}, req("key"), opt("default", absent)),
		"setdefault": onDict(func(r *run, d *Dict, a []Value) (Value, error) {
			i, err := d.find(a[0])
			if err != nil {
				return nil, err
			}
			if i >= 0 {
				return d.vals[i], nil
			}
			return a[1], errors.Join(d.putKey(a[0], a[1]), r.spend(64))
		}, req("key"), opt("default", nil)),
		"update": {raw: dictUpdate},
		"clear": onDict(func(_ *run, d *Dict, _ []Value) (Value, error) {
			*d = *NewDict()
			return nil, nil
		}),
		"copy": onDict(func(_ *run, d *Dict, _ []Value) (Value, error) {
			c := NewDict()
			for i, k := range d.keys {
				if err := c.putKey(k, d.vals[i]); err != nil {
					return nil, err
				}
			}
			return c, nil
		}),
	}
}

// absent is the default of an argument for which even None is a value.
var absent = &undefined{"no value was given"}

func dictUpdate(r *run, self Value, a *callArgs) (Value, error) {
	d, err := globalDict(r, nil, a)
	if err != nil {
		return nil, err
	}
	return nil, r.update(self.(*Dict), d)
}
