package jinja

import (
	"errors"
	"fmt"
)

// eval computes an expression; an error gets the expression's line.
func (r *run) eval(x expr) (Value, error) {
	if lit, ok := x.(*literal); ok {
		return lit.v, r.scan(0)
	}
	err := r.enter()
	var v Value
	if err == nil {
		v, err = x.eval(r)
	}
	r.depth--
	if err != nil {
		return nil, atLine(err, x.line())
	}
	return v, nil
}

// atLine gives an error a line unless it has one.
func atLine(err error, line int) error {
	switch e := err.(type) {
	case *Error, *goneError:
		return e
	case *RaisedError:
		if e.Line == 0 {
			e.Line = line
		}
		return e
	}
	return &Error{Line: line, Msg: err.Error()}
}

func (x *literal) eval(*run) (Value, error) { return x.v, nil }
func (x *name) eval(r *run) (Value, error)  { return r.lookup(x.id) }

func (r *run) evalAll(xs []expr) ([]Value, error) {
	vs := make([]Value, len(xs))
	for i, x := range xs {
		var err error
		if vs[i], err = r.eval(x); err != nil {
			return nil, err
		}
	}
	return vs, nil
}

func (x *listExpr) eval(r *run) (Value, error) {
	items, err := r.evalAll(x.items)
	if err == nil {
		err = r.spend(16 * len(items))
	}
	return &List{items: items, kind: x.kind}, err
}

func (x *dictExpr) eval(r *run) (Value, error) {
	d := NewDict()
	for i := range x.keys {
		k, err := r.eval(x.keys[i])
		if err != nil {
			return nil, err
		}
		v, err := r.eval(x.vals[i])
		if err != nil {
			return nil, err
		}
		if err := d.putKey(k, v); err != nil {
			return nil, err
		}
	}
	return d, r.spend(64 * len(x.keys))
}

func (x *attrExpr) eval(r *run) (Value, error) {
	obj, err := r.eval(x.obj)
	if err != nil {
		return nil, err
	}
	return r.attr(obj, x.name)
}

// attr is obj.name: a method or attribute, else an item of that name, else undefined.
func (r *run) attr(obj Value, name string) (Value, error) {
	if v, ok, err := r.ownAttr(obj, name); ok || err != nil {
		return v, err
	}
	if d, ok := obj.(*Dict); ok {
		if v, ok := d.Get(name); ok {
			return v, nil
		}
	}
	return missing(obj, name), nil
}

func missing(obj Value, name string) *undefined {
	switch obj.(type) {
	case nil:
		return &undefined{fmt.Sprintf("None has no attribute %q", name)}
	case *Dict:
		return &undefined{fmt.Sprintf("dict has no key %q", name)}
	}
	return &undefined{fmt.Sprintf("%s has no attribute %q", typeName(obj), name)}
}

// ownAttr returns what Python's getattr finds.
func (r *run) ownAttr(obj Value, name string) (Value, bool, error) {
	switch obj := obj.(type) {
	case *undefined:
		return nil, false, obj.err()
	case *namespace:
		v, ok := obj.vars.Get(name)
		return v, ok, nil
	case *loop:
		v, ok := obj.attr(name)
		return v, ok, nil
	case *macro:
		switch name {
		case "name":
			return obj.def.name, true, nil
		}
		return nil, false, nil
	case *List:
		if len(obj.items) == 2 && obj.kind == kindTuple && obj.step == groupMark {
			switch name {
			case "grouper":
				return obj.items[0], true, nil
			case "list":
				return obj.items[1], true, nil
			}
		}
	}
	if m := methodOf(obj, name); m != nil {
		return &method{obj, name, m}, true, nil
	}
	return nil, false, nil
}

func (x *itemExpr) eval(r *run) (Value, error) {
	obj, err := r.eval(x.obj)
	if err != nil {
		return nil, err
	}
	index, err := r.eval(x.index)
	if err != nil {
		return nil, err
	}
	return r.item(obj, index)
}

// item is obj[index]: an item, else a method or attribute of that name, else undefined.
func (r *run) item(obj, index Value) (Value, error) {
	obj, index = plain(obj), plain(index)
	switch obj := obj.(type) {
	case *undefined:
		return nil, obj.err()
	case *Dict:
		if i, err := obj.find(index); err == nil && i >= 0 {
			return obj.vals[i], nil
		}
	case *List:
		if n, ok := asInt(index); ok && obj.kind <= kindRange {
			if n < 0 {
				n += int64(len(obj.items))
			}
			if n >= 0 && n < int64(len(obj.items)) {
				return obj.items[n], nil
			}
			return &undefined{fmt.Sprintf("list of %d elements has no element %s", len(obj.items), fmt.Sprint(index))}, nil
		}
	case string:
		if n, ok := asInt(index); ok {
			return r.charAt(obj, n)
		}
	}
	if s, ok := index.(string); ok {
		if v, ok, err := r.ownAttr(obj, s); ok || err != nil {
			return v, err
		}
		return missing(obj, s), nil
	}
	return &undefined{fmt.Sprintf("%s has no such element", typeName(obj))}, nil
}

func (r *run) charAt(s string, i int64) (Value, error) {
	if err := r.scan(len(s)); err != nil {
		return nil, err
	}
	n := int64(runeLen(s))
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return &undefined{fmt.Sprintf("string of %d characters has no character %d", n, i)}, nil
	}
	return sliceText(s, i, i+1, 1), nil
}

func (x *sliceExpr) eval(r *run) (Value, error) {
	obj, err := r.eval(x.obj)
	if err != nil {
		return nil, err
	}
	var bounds [3]*int64
	for i, b := range []expr{x.lo, x.hi, x.step} {
		if b == nil {
			continue
		}
		v, err := r.eval(b)
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		n, ok := asInt(v)
		if !ok {
			return nil, fmt.Errorf("slice bounds must be integers or None, found %q", typeName(v))
		}
		bounds[i] = &n
	}
	if bounds[2] != nil && *bounds[2] == 0 {
		return nil, errors.New("slice step cannot be zero")
	}
	switch obj := plain(obj).(type) {
	case string:
		if err := r.spend(len(obj)); err != nil {
			return nil, err
		}
		start, stop, by := sliceBounds(bounds[0], bounds[1], bounds[2], int64(runeLen(obj)))
		return sliceText(obj, start, stop, by), nil
	case *List:
		if obj.kind > kindRange {
			break
		}
		if err := r.spend(16 * len(obj.items)); err != nil {
			return nil, err
		}
		out := &List{kind: obj.kind, step: obj.step}
		start, stop, by := sliceBounds(bounds[0], bounds[1], bounds[2], int64(len(obj.items)))
		eachSlice(start, stop, by, func(i int64) bool {
			out.items = append(out.items, obj.items[i])
			return true
		})
		out.step *= by
		return out, nil
	case *undefined:
		return nil, obj.err()
	}
	return nil, fmt.Errorf("%q object cannot be sliced", typeName(obj))
}

func (x *unaryExpr) eval(r *run) (Value, error) {
	v, err := r.eval(x.x)
	if err != nil {
		return nil, err
	}
	return unary(x.op, v)
}

func (x *binaryExpr) eval(r *run) (Value, error) {
	a, err := r.eval(x.l)
	if err != nil {
		return nil, err
	}
	b, err := r.eval(x.r)
	if err != nil {
		return nil, err
	}
	return r.binary(x.op, a, b)
}

func (x *concatExpr) eval(r *run) (Value, error) {
	var b []byte
	for _, part := range x.parts {
		v, err := r.eval(part)
		if err != nil {
			return nil, err
		}
		s, err := r.str(v)
		if err != nil {
			return nil, err
		}
		if err := r.grown(len(b)+len(s), 0); err != nil {
			return nil, err
		}
		b = append(b, s...)
	}
	return string(b), r.spend(len(b))
}

func (x *compareExpr) eval(r *run) (Value, error) {
	a, err := r.eval(x.first)
	if err != nil {
		return nil, err
	}
	for _, c := range x.ops {
		b, err := r.eval(c.x)
		if err != nil {
			return nil, err
		}
		if ok, err := r.compare(c.op, a, b); !ok || err != nil {
			return false, err
		}
		a = b
	}
	return true, nil
}

func (x *logicExpr) eval(r *run) (v Value, err error) {
	for _, part := range x.parts {
		if v, err = r.eval(part); err != nil || truth(v) != x.and {
			return v, err
		}
	}
	return v, nil
}

func (x *notExpr) eval(r *run) (Value, error) {
	v, err := r.eval(x.x)
	return !truth(v), err
}

func (x *condExpr) eval(r *run) (Value, error) {
	test, err := r.eval(x.test)
	if err != nil {
		return nil, err
	}
	switch {
	case truth(test):
		return r.eval(x.then)
	case x.otherwise != nil:
		return r.eval(x.otherwise)
	}
	return &undefined{"the inline if was false and has no else"}, nil
}
