package jinja

import (
	"fmt"
	"math/big"
	"unicode"
)

// tests are the tests after "is".
var tests map[string]*builtin

// is makes a test of a Go function.
func is(f func(v Value) bool) *builtin {
	return &builtin{fn: func(_ *run, in Value, _ []Value) (Value, error) { return f(in), nil }}
}

// relation makes a test of a comparison.
func relation(op string) *builtin {
	return &builtin{
		params: []param{{"other", required}},
		fn:     func(r *run, in Value, a []Value) (Value, error) { return r.compare(op, in, a[0]) },
	}
}

func initTests() {
	tests = map[string]*builtin{
		"defined":   is(func(v Value) bool { _, ok := v.(*undefined); return !ok }),
		"undefined": is(func(v Value) bool { _, ok := v.(*undefined); return ok }),
		"none":      is(func(v Value) bool { return v == nil }),
		"boolean":   is(func(v Value) bool { _, ok := v.(bool); return ok }),
		"true":      is(func(v Value) bool { return v == true }),
		"false":     is(func(v Value) bool { return v == false }),
		"integer":   is(isInteger),
		"float":     is(func(v Value) bool { _, ok := v.(float64); return ok }),
		"number":    is(isNumber),
		"string":    is(func(v Value) bool { _, ok := v.(string); return ok }),
		"mapping":   is(func(v Value) bool { _, ok := v.(*Dict); return ok }),
		"sequence":  is(isSequence),
		"iterable":  is(isIterable),
		"callable":  is(isCallable),
		"escaped":   is(func(Value) bool { return false }),
		"lower":     caseTest(unicode.IsUpper, unicode.IsLower),
		"upper":     caseTest(unicode.IsLower, unicode.IsUpper),
		"odd":       remainder("% 2 == 1", 1),
		"even":      remainder("% 2 == 0", 0),
		"divisibleby": {params: []param{{"num", required}}, fn: func(r *run, in Value, a []Value) (Value, error) {
			m, err := r.binary("%", in, a[0])
			return !truth(m), err
		}},
		"sameas": {params: []param{{"other", required}}, fn: func(_ *run, in Value, a []Value) (Value, error) {
			return in == a[0], nil
		}},
		"filter": is(func(v Value) bool { s, _ := v.(string); return filters[s] != nil }),
		"test":   is(func(v Value) bool { s, _ := v.(string); return tests[s] != nil }),
		"in":     relation("in"),
	}
	for op, names := range map[string][]string{
		"==": {"eq", "equalto"}, "!=": {"ne"}, "<": {"lt", "lessthan"}, "<=": {"le"}, ">": {"gt", "greaterthan"}, ">=": {"ge"},
	} {
		for _, n := range append(names, op) {
			tests[n] = relation(op)
		}
	}
}

func isInteger(v Value) bool {
	switch v.(type) {
	case int64, *big.Int:
		return true
	}
	return false
}

func isSequence(v Value) bool {
	switch v := v.(type) {
	case string, *Dict, *undefined:
		return true
	case *List:
		return v.kind <= kindRange
	}
	return false
}

func isIterable(v Value) bool {
	switch v.(type) {
	case string, *Dict, *undefined, *List, *loop:
		return true
	}
	return false
}

func isCallable(v Value) bool {
	switch v.(type) {
	case *method, *macro, *loop, *undefined:
		return true
	}
	return false
}

// caseTest is str.islower or str.isupper: no letter of the wrong case, and one of the right.
func caseTest(wrong, right func(rune) bool) *builtin {
	return &builtin{fn: func(r *run, in Value, _ []Value) (Value, error) {
		s, err := r.str(in)
		found := false
		for _, c := range s {
			if wrong(c) || unicode.IsTitle(c) {
				return false, err
			}
			found = found || right(c)
		}
		return found, err
	}}
}

func remainder(what string, want int64) *builtin {
	return &builtin{fn: func(r *run, in Value, _ []Value) (Value, error) {
		if _, ok := in.(string); ok {
			return nil, fmt.Errorf("cannot compute %s of a string", what)
		}
		m, err := r.binary("%", in, int64(2))
		if err != nil {
			return nil, err
		}
		return r.equal(m, want, 0)
	}}
}
