package jinja

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// groupMark distinguishes the pairs that groupby returns, which have attributes, from other tuples.
const groupMark = -1

// listFilter makes a filter of a function on the elements of what can be iterated.
func listFilter(f func(r *run, items []Value, a []Value) (Value, error), params ...param) *builtin {
	return &builtin{params: params, fn: func(r *run, in Value, a []Value) (Value, error) {
		items, err := r.iterate(in)
		if err != nil {
			return nil, err
		}
		return f(r, items, a)
	}}
}

func addListFilters(f map[string]*builtin) {
	caseless, attribute := opt("case_sensitive", false), opt("attribute", nil)
	f["list"] = listFilter(func(_ *run, items, _ []Value) (Value, error) {
		return newList(append([]Value(nil), items...)), nil
	})
	f["items"] = &builtin{fn: filterItems}
	f["first"] = listFilter(func(_ *run, items, _ []Value) (Value, error) {
		return elementOr(items, 0, "there is no first item: the sequence is empty"), nil
	})
	f["last"] = listFilter(func(_ *run, items, _ []Value) (Value, error) {
		return elementOr(items, len(items)-1, "there is no last item: the sequence is empty"), nil
	})
	f["reverse"] = &builtin{fn: filterReverse}
	f["join"] = listFilter(filterJoin, opt("d", ""), attribute)
	f["sum"] = listFilter(filterSum, attribute, opt("start", int64(0)))
	f["min"] = listFilter(extreme(false), caseless, attribute)
	f["max"] = listFilter(extreme(true), caseless, attribute)
	f["sort"] = listFilter(filterSort, opt("reverse", false), caseless, attribute)
	f["dictsort"] = &builtin{params: []param{caseless, opt("by", "key"), opt("reverse", false)}, fn: filterDictsort}
	f["unique"] = listFilter(filterUnique, caseless, attribute)
	f["groupby"] = listFilter(filterGroupby, req("attribute"), opt("default", nil), caseless)
	f["batch"] = listFilter(filterBatch, req("linecount"), opt("fill_with", nil))
	f["slice"] = listFilter(filterSlice, req("slices"), opt("fill_with", nil))
	f["join"].unmarks = true
	f["map"] = &builtin{raw: filterMap}
	for name, k := range map[string]struct{ attr, want bool }{
		"select": {false, true}, "reject": {false, false}, "selectattr": {true, true}, "rejectattr": {true, false},
	} {
		f[name] = selection(k.attr, k.want)
	}
}

func elementOr(items []Value, i int, hint string) Value {
	if len(items) == 0 {
		return &undefined{hint}
	}
	return items[i]
}

func filterItems(_ *run, in Value, _ []Value) (Value, error) {
	switch v := in.(type) {
	case *undefined:
		return newGenerator(nil), nil
	case *Dict:
		return newGenerator(pairs(v)), nil
	}
	return nil, fmt.Errorf("expected a mapping, found %q", typeName(in))
}

func filterReverse(r *run, in Value, _ []Value) (Value, error) {
	if s, ok := in.(string); ok {
		runes := []rune(s)
		for i, j := 0, len(runes)-1; i < j; i, j = i+1, j-1 {
			runes[i], runes[j] = runes[j], runes[i]
		}
		return string(runes), nil
	}
	items, err := r.iterate(in)
	out := make([]Value, 0, len(items))
	for i := len(items) - 1; i >= 0; i-- {
		out = append(out, items[i])
	}
	if l, ok := in.(*List); ok && l.kind == kindGenerator {
		return newList(out), err
	}
	return newGenerator(out), err
}

// getter returns a function that reads an attribute like "a.b.0", which may be nil for the value itself.
func (r *run) getter(attribute Value, def Value) func(Value) (Value, error) {
	var path []Value
	switch at := attribute.(type) {
	case nil:
	case string:
		for _, part := range strings.Split(at, ".") {
			if n, err := strconv.ParseInt(part, 10, 64); err == nil && n >= 0 {
				path = append(path, n)
			} else {
				path = append(path, part)
			}
		}
	default:
		path = []Value{at}
	}
	return func(v Value) (Value, error) {
		for _, part := range path {
			var err error
			if v, err = r.item(v, part); err != nil {
				return nil, err
			}
			if _, ok := v.(*undefined); ok && def != nil {
				v = def
			}
		}
		return v, nil
	}
}

// keyer is getter, with letters in lower case unless the comparison is case-sensitive.
func (r *run) keyer(attribute, caseSensitive Value) func(Value) (Value, error) {
	get := r.getter(attribute, nil)
	return func(v Value) (Value, error) {
		k, err := get(v)
		if s, ok := k.(string); ok && !truth(caseSensitive) {
			k = strings.ToLower(s)
			err = errors.Join(err, r.scan(len(s)))
		}
		return k, err
	}
}

func filterJoin(r *run, items, a []Value) (Value, error) {
	sep, err := r.str(a[0])
	if err != nil {
		return nil, err
	}
	get := r.getter(a[1], nil)
	var b []byte
	for i, item := range items {
		if item, err = get(item); err != nil {
			return nil, err
		}
		text, err := r.str(item)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, sep...)
		}
		if b = append(b, text...); len(b) > maxString {
			return nil, r.grown(len(b), 0)
		}
	}
	return string(b), nil
}

func filterSum(r *run, items, a []Value) (Value, error) {
	get, sum := r.getter(a[0], nil), a[1]
	if _, ok := sum.(string); ok {
		return nil, errors.New("cannot sum strings: use join")
	}
	for _, item := range items {
		v, err := get(item)
		if err != nil {
			return nil, err
		}
		if sum, err = r.binary("+", sum, v); err != nil {
			return nil, err
		}
	}
	return sum, nil
}

// extreme is min or max.
func extreme(greatest bool) func(*run, []Value, []Value) (Value, error) {
	op := map[bool]string{false: "<", true: ">"}[greatest]
	return func(r *run, items, a []Value) (Value, error) {
		key := r.keyer(a[1], a[0])
		best := elementOr(items, 0, "there is no item to choose: the sequence is empty")
		var bestKey Value
		for i, item := range items {
			k, err := key(item)
			if err != nil {
				return nil, err
			}
			better := i == 0
			if !better {
				if better, err = r.compare(op, k, bestKey); err != nil {
					return nil, err
				}
			}
			if better {
				best, bestKey = item, k
			}
		}
		return best, nil
	}
}

func filterSort(r *run, items, a []Value) (Value, error) {
	key := r.keyer(a[2], a[1])
	if s, ok := a[2].(string); ok && strings.Contains(s, ",") {
		var keys []func(Value) (Value, error)
		for _, part := range strings.Split(s, ",") {
			keys = append(keys, r.keyer(part, a[1]))
		}
		key = func(v Value) (Value, error) {
			out := tuple()
			for _, k := range keys {
				part, err := k(v)
				if err != nil {
					return nil, err
				}
				out.items = append(out.items, part)
			}
			return out, nil
		}
	}
	out, err := r.sorted(items, key, truth(a[0]))
	return newList(out), err
}

func filterDictsort(r *run, in Value, a []Value) (Value, error) {
	d, ok := in.(*Dict)
	if !ok {
		if u, ok := in.(*undefined); ok {
			return nil, u.err()
		}
		return nil, fmt.Errorf("expected a mapping, found %q", typeName(in))
	}
	by := int64(0)
	switch a[1] {
	case "key":
	case "value":
		by = 1
	default:
		return nil, errors.New(`by must be "key" or "value"`)
	}
	out, err := r.sorted(pairs(d), r.keyer(by, a[0]), truth(a[2]))
	return newList(out), err
}

func filterUnique(r *run, items, a []Value) (Value, error) {
	key, seen := r.keyer(a[1], a[0]), NewDict()
	var out []Value
	for _, item := range items {
		k, err := key(item)
		if err != nil {
			return nil, err
		}
		i, err := seen.find(k)
		if err != nil {
			return nil, err
		}
		if i < 0 {
			out = append(out, item)
			if err := seen.putKey(k, nil); err != nil {
				return nil, err
			}
		}
	}
	return newGenerator(out), nil
}

func filterGroupby(r *run, items, a []Value) (Value, error) {
	plain := r.getter(a[0], a[1])
	key := func(v Value) (Value, error) {
		k, err := plain(v)
		if s, ok := k.(string); ok && !truth(a[2]) {
			k = strings.ToLower(s)
		}
		return k, err
	}
	ordered, err := r.sorted(items, key, false)
	if err != nil {
		return nil, err
	}
	out := newList(nil)
	var last Value
	for i, item := range ordered {
		k, err := key(item)
		if err != nil {
			return nil, err
		}
		same := false
		if i > 0 {
			if same, err = r.equal(k, last, 0); err != nil {
				return nil, err
			}
		}
		if same {
			group := out.items[len(out.items)-1].(*List).items[1].(*List)
			group.items = append(group.items, item)
			continue
		}
		last = k
		shown, err := plain(item)
		if err != nil {
			return nil, err
		}
		out.items = append(out.items, &List{items: []Value{shown, newList([]Value{item})}, kind: kindTuple, step: groupMark})
	}
	return out, nil
}

// count reads the number of parts that batch and slice are asked for.
func count(v Value) (int, error) {
	n, ok := asInt(v)
	if !ok || n < 1 || n > maxItems {
		return 0, fmt.Errorf("expected a number of 1 to %d", maxItems)
	}
	return int(n), nil
}

func filterBatch(r *run, items, a []Value) (Value, error) {
	n, err := count(a[0])
	if err != nil {
		return nil, err
	}
	var out []Value
	for len(items) > 0 {
		row := append([]Value(nil), items[:min(n, len(items))]...)
		items = items[len(row):]
		if a[1] != nil {
			if err := r.spend(16 * (n - len(row))); err != nil {
				return nil, err
			}
			for len(row) < n {
				row = append(row, a[1])
			}
		}
		out = append(out, newList(row))
	}
	return newGenerator(out), nil
}

func filterSlice(r *run, items, a []Value) (Value, error) {
	n, err := count(a[0])
	if err != nil {
		return nil, err
	}
	if err := r.spend(32 * n); err != nil {
		return nil, err
	}
	var out []Value
	each, extra, start := len(items)/n, len(items)%n, 0
	for i := range n {
		end := start + each
		if i < extra {
			end++
		}
		column := append([]Value(nil), items[start:end]...)
		if i >= extra && a[1] != nil {
			column = append(column, a[1])
		}
		out, start = append(out, newList(column)), end
	}
	return newGenerator(out), nil
}

// filterMap is map(attribute=…, default=…) or map("filter", arguments…).
func filterMap(r *run, in Value, a *callArgs) (Value, error) {
	if !truth(in) { // None too
		return newGenerator(nil), nil
	}
	var each func(Value) (Value, error)
	if len(a.pos) == 0 {
		attribute, ok := a.named("attribute")
		def, hasDef := a.named("default")
		if !ok || len(a.kwNames) > 2 || len(a.kwNames) == 2 && !hasDef {
			return nil, errors.New("expected the name of a filter, or an attribute and perhaps a default")
		}
		each = r.getter(attribute, def)
	} else {
		id, _ := a.pos[0].(string)
		f := filters[id]
		if f == nil {
			return nil, errors.New(unknown("filter", fmt.Sprint(a.pos[0])))
		}
		rest := &callArgs{a.pos[1:], a.kwNames, a.kwVals}
		each = func(v Value) (Value, error) { return r.invoke(f, "filter "+id, v, rest) }
	}
	items, err := r.iterate(in)
	if err != nil {
		return nil, err
	}
	out := make([]Value, len(items))
	for i, item := range items {
		if out[i], err = each(item); err != nil {
			return nil, err
		}
	}
	return newGenerator(out), nil
}

// selection makes select, reject, selectattr or rejectattr: the items for which a test, on an attribute or on the item
// itself, gives want. Without a test, the truth counts.
func selection(attr, want bool) *builtin {
	return &builtin{raw: func(r *run, in Value, a *callArgs) (Value, error) {
		if !truth(in) { // None too
			return newGenerator(nil), nil
		}
		rest, get := a.pos, r.getter(nil, nil)
		if attr {
			if len(rest) == 0 {
				return nil, errors.New("the name of an attribute is missing")
			}
			get, rest = r.getter(rest[0], nil), rest[1:]
		}
		check := func(v Value) (Value, error) { return v, nil }
		if len(rest) > 0 {
			id, _ := rest[0].(string)
			test := tests[id]
			if test == nil {
				return nil, errors.New(unknown("test", fmt.Sprint(rest[0])))
			}
			args := &callArgs{rest[1:], a.kwNames, a.kwVals}
			check = func(v Value) (Value, error) { return r.invoke(test, "test "+id, v, args) }
		}
		items, err := r.iterate(in)
		if err != nil {
			return nil, err
		}
		var out []Value
		for _, item := range items {
			v, err := get(item)
			if err != nil {
				return nil, err
			}
			if v, err = check(v); err != nil {
				return nil, err
			}
			if truth(v) == want {
				out = append(out, item)
			}
		}
		return newGenerator(out), nil
	}}
}
