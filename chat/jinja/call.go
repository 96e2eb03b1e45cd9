package jinja

import (
	"errors"
	"fmt"
)

// callArgs are the evaluated arguments of a call.
type callArgs struct {
	pos     []Value
	kwNames []string
	kwVals  []Value
}

// named returns a keyword argument.
func (a *callArgs) named(name string) (Value, bool) {
	for i, n := range a.kwNames {
		if n == name {
			return a.kwVals[i], true
		}
	}
	return nil, false
}

// param is a parameter of a built-in function.
type param struct {
	name string
	def  Value // required: there is no default
}

type requiredMark struct{}

var required = requiredMark{}

// builtin is a filter, a test, a method or a global function. in is the value it is applied to. Either fn, which gets
// one argument for each of params, or raw, which gets them as given, is set.
type builtin struct {
	params []param
	fn     func(r *run, in Value, a []Value) (Value, error)
	raw    func(r *run, in Value, a *callArgs) (Value, error)
	// unmarks means that the result of markup is a plain string.
	unmarks bool
}

// method is a built-in bound to the value it belongs to, or a global function.
type method struct {
	self Value
	name string
	*builtin
}

// perCharacter is how much more it costs to read text character by character than to copy it.
const perCharacter = 4

// invoke calls a built-in. It accounts for reading the input and making the result; a built-in whose result grows
// beyond the size of its input accounts for that before making it.
func (r *run) invoke(b *builtin, name string, in Value, a *callArgs) (Value, error) {
	_, marked := in.(markup)
	in = plain(in)
	if err := r.scan(perCharacter * sizeOf(in)); err != nil {
		return nil, err
	}
	for _, vs := range [][]Value{a.pos, a.kwVals} {
		for i, arg := range vs {
			if m, ok := arg.(markup); ok {
				vs[i] = string(m)
			}
		}
	}
	var v Value
	var err error
	if b.raw != nil {
		v, err = b.raw(r, in, a)
	} else {
		var bound [6]Value
		args, bindErr := bind(b.params, bound[:0], a)
		if bindErr != nil {
			return nil, fmt.Errorf("%s: %w", name, bindErr)
		}
		v, err = b.fn(r, in, args)
	}
	if err != nil {
		switch err.(type) {
		case *Error, *RaisedError:
			return nil, err
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if s, ok := v.(string); ok && marked && !b.unmarks {
		v = markup(s)
	}
	return v, r.spend(sizeOf(v))
}

func sizeOf(v Value) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case markup:
		return len(v)
	case *List:
		return 16 * len(v.items)
	case *Dict:
		return 64 * len(v.keys)
	}
	return 0
}

// bind matches arguments with parameters as Python does.
func bind(params []param, out []Value, a *callArgs) ([]Value, error) {
	if len(a.pos) > len(params) {
		return nil, fmt.Errorf("takes at most %d arguments, found %d", len(params), len(a.pos))
	}
	out = append(out, a.pos...)
	for _, p := range params[len(a.pos):] {
		v, ok := a.named(p.name)
		if !ok {
			v = p.def
		}
		if v == required {
			return nil, fmt.Errorf("argument %q is missing", p.name)
		}
		out = append(out, v)
	}
	for _, n := range a.kwNames {
		i := 0
		for i < len(params) && params[i].name != n {
			i++
		}
		if i == len(params) {
			return nil, fmt.Errorf("takes no argument %q", n)
		}
		if i < len(a.pos) {
			return nil, fmt.Errorf("argument %q is given twice", n)
		}
	}
	return out, nil
}

// arguments evaluates the arguments between the parentheses of a call.
func (r *run) arguments(l *argList) (*callArgs, error) {
	a := &callArgs{kwNames: l.kwNames}
	var err error
	if a.pos, err = r.evalAll(l.pos); err != nil {
		return nil, err
	}
	if a.kwVals, err = r.evalAll(l.kwVals); err != nil {
		return nil, err
	}
	if l.star != nil {
		v, err := r.eval(l.star)
		if err != nil {
			return nil, err
		}
		items, err := r.iterate(v)
		if err != nil {
			return nil, err
		}
		a.pos = append(a.pos, items...)
	}
	if l.star2 != nil {
		v, err := r.eval(l.star2)
		if err != nil {
			return nil, err
		}
		d, ok := v.(*Dict)
		if !ok {
			return nil, fmt.Errorf(`expected a dict after "**", found %q`, typeName(v))
		}
		a.kwNames = append([]string(nil), a.kwNames...)
		for i, k := range d.keys {
			s, ok := k.(string)
			if !ok {
				return nil, errors.New("keyword arguments must have strings as names")
			}
			a.kwNames, a.kwVals = append(a.kwNames, s), append(a.kwVals, d.vals[i])
		}
	}
	return a, r.spend(16 * (len(a.pos) + len(a.kwVals)))
}

func (x *callExpr) eval(r *run) (Value, error) {
	// A method is called without first making a value of it.
	if at, ok := x.fn.(*attrExpr); ok {
		obj, err := r.eval(at.obj)
		if err != nil {
			return nil, err
		}
		if m := methodOf(obj, at.name); m != nil {
			a, err := r.arguments(&x.args)
			if err != nil {
				return nil, err
			}
			return r.invoke(m, at.name, obj, a)
		}
		fn, err := r.attr(obj, at.name)
		if err != nil {
			return nil, err
		}
		return r.callWith(fn, &x.args)
	}
	fn, err := r.eval(x.fn)
	if err != nil {
		return nil, err
	}
	return r.callWith(fn, &x.args)
}

func (r *run) callWith(fn Value, l *argList) (Value, error) {
	a, err := r.arguments(l)
	if err != nil {
		return nil, err
	}
	return r.callValue(fn, a)
}

// callValue is fn(*a).
func (r *run) callValue(fn Value, a *callArgs) (Value, error) {
	switch fn := fn.(type) {
	case *method:
		return r.invoke(fn.builtin, fn.name, fn.self, a)
	case *macro:
		return r.callMacro(fn, a)
	case *loop:
		return fn.recurse(r, a)
	case *undefined:
		return nil, fn.err()
	}
	return nil, fmt.Errorf("%q object is not callable", typeName(fn))
}

func (x *filterExpr) eval(r *run) (Value, error) {
	in, err := r.eval(x.in)
	if err != nil {
		return nil, err
	}
	return x.apply(r, in)
}

// apply runs the filter on in.
func (x *filterExpr) apply(r *run, in Value) (Value, error) {
	if x.fn == nil {
		return nil, errors.New(unknown("filter", x.name))
	}
	a, err := r.arguments(&x.args)
	if err != nil {
		return nil, err
	}
	return r.invoke(x.fn, "filter "+x.name, in, a)
}

// applyChain applies the filters of a block, in order, to the block's text.
func (x *filterExpr) applyChain(r *run, text Value) (Value, error) {
	if inner, ok := x.in.(*filterExpr); ok {
		var err error
		if text, err = inner.applyChain(r, text); err != nil {
			return nil, err
		}
	}
	v, err := x.apply(r, text)
	if err != nil {
		return nil, atLine(err, x.line())
	}
	return v, nil
}

func (x *testExpr) eval(r *run) (Value, error) {
	in, err := r.eval(x.in)
	if err != nil {
		return nil, err
	}
	if x.fn == nil {
		return nil, errors.New(unknown("test", x.name))
	}
	a, err := r.arguments(&x.args)
	if err != nil {
		return nil, err
	}
	return r.invoke(x.fn, "test "+x.name, in, a)
}
