package jinja

import (
	"errors"
	"fmt"
)

// globals are the functions that every template can call.
var globals map[string]Value

// init builds the tables of built-ins. They refer to each other, so they cannot be initialised where they are declared.
func init() {
	initMethods()
	initFilters()
	initTests()
	globals = map[string]Value{}
	for name, b := range map[string]*builtin{
		"range":           {raw: globalRange},
		"dict":            {raw: globalDict},
		"namespace":       {raw: globalNamespace},
		"raise_exception": {params: []param{{"message", required}}, fn: globalRaise},
		"strftime_now":    {params: []param{{"format", required}}, fn: globalStrftime},
	} {
		globals[name] = &method{nil, name, b}
	}
}

func globalRaise(r *run, _ Value, a []Value) (Value, error) {
	text, err := r.str(a[0])
	if err != nil {
		return nil, err
	}
	return nil, &RaisedError{Message: text}
}

func globalStrftime(r *run, _ Value, a []Value) (Value, error) {
	layout, ok := a[0].(string)
	if !ok {
		return nil, fmt.Errorf("expected a format string, found %q", typeName(a[0]))
	}
	return strftime(r.now(), layout)
}

func globalRange(r *run, _ Value, a *callArgs) (Value, error) {
	bounds := [3]int64{0, 0, 1}
	if len(a.pos) == 0 || len(a.pos) > 3 || len(a.kwNames) > 0 {
		return nil, errors.New("takes one to three integers")
	}
	for i, v := range a.pos {
		n, ok := asInt(v)
		if !ok {
			return nil, fmt.Errorf("expected an integer, found %q", typeName(v))
		}
		bounds[i] = n
	}
	if len(a.pos) == 1 {
		bounds[0], bounds[1] = 0, bounds[0]
	}
	if bounds[2] == 0 {
		return nil, errors.New("the step is zero")
	}
	out := &List{kind: kindRange, step: bounds[2]}
	tooLong := false
	eachSlice(bounds[0], bounds[1], bounds[2], func(i int64) bool {
		out.items = append(out.items, i)
		tooLong = len(out.items) > maxRange
		return !tooLong
	})
	if tooLong {
		return nil, fmt.Errorf("more than %d elements", maxRange)
	}
	return out, nil
}

// globalDict is dict(mapping or pairs, **more).
func globalDict(r *run, _ Value, a *callArgs) (Value, error) {
	d := NewDict()
	if len(a.pos) > 1 {
		return nil, errors.New("takes at most one positional argument")
	}
	for _, v := range a.pos {
		if err := r.update(d, v); err != nil {
			return nil, err
		}
	}
	for i, n := range a.kwNames {
		d.Set(n, a.kwVals[i])
	}
	return d, nil
}

// update adds the pairs of v, a mapping or a sequence of pairs, to d.
func (r *run) update(d *Dict, v Value) error {
	if from, ok := v.(*Dict); ok {
		for i, k := range from.keys {
			if err := d.putKey(k, from.vals[i]); err != nil {
				return err
			}
		}
		return r.spend(64 * len(from.keys))
	}
	pairs, err := r.iterate(v)
	if err != nil {
		return err
	}
	for _, p := range pairs {
		pair, err := r.iterate(p)
		if err != nil {
			return err
		}
		if len(pair) != 2 {
			return fmt.Errorf("expected pairs, found %d elements", len(pair))
		}
		if err := d.putKey(pair[0], pair[1]); err != nil {
			return err
		}
	}
	return r.spend(64 * len(pairs))
}

func globalNamespace(r *run, _ Value, a *callArgs) (Value, error) {
	d, err := globalDict(r, nil, a)
	if err != nil {
		return nil, err
	}
	return &namespace{d.(*Dict)}, nil
}
