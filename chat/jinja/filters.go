package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// filters are the filters after "|". Those for text are in filters_text.go, those for lists in filters_list.go.
var filters map[string]*builtin

func opt(name string, def Value) param { return param{name, def} }
func req(name string) param            { return param{name, required} }

func initFilters() {
	filters = map[string]*builtin{
		"abs":       {fn: filterAbs},
		"attr":      {params: []param{req("name")}, fn: filterAttr},
		"default":   {params: []param{opt("default_value", ""), opt("boolean", false)}, fn: filterDefault},
		"float":     {params: []param{opt("default", 0.0)}, fn: filterFloat},
		"from_json": {fn: filterFromJSON},
		"int":       {params: []param{opt("default", int64(0)), opt("base", int64(10))}, fn: filterInt},
		"length":    {fn: filterLength},
		"round":     {params: []param{opt("precision", int64(0)), opt("method", "common")}, fn: filterRound},
		"tojson": {params: []param{opt("ensure_ascii", false), opt("indent", nil), opt("separators", nil),
			opt("sort_keys", false)}, fn: filterToJSON},
	}
	filters["tojson"].unmarks = true
	filters["d"], filters["count"], filters["fromjson"] = filters["default"], filters["length"], filters["from_json"]
	addTextFilters(filters)
	addListFilters(filters)
}

func filterAbs(_ *run, in Value, _ []Value) (Value, error) {
	switch v := in.(type) {
	case float64:
		return math.Abs(v), nil
	case *undefined:
		return nil, v.err()
	}
	n, ok := asBig(in)
	if !ok {
		return nil, fmt.Errorf("expected a number, found %q", typeName(in))
	}
	return normal(new(big.Int).Abs(n)), nil
}

func filterAttr(r *run, in Value, a []Value) (Value, error) {
	name, err := r.str(a[0])
	if err != nil {
		return nil, err
	}
	v, ok, err := r.ownAttr(in, name)
	if !ok && err == nil {
		v = missing(in, name)
	}
	return v, err
}

func filterDefault(_ *run, in Value, a []Value) (Value, error) {
	if _, ok := in.(*undefined); ok || truth(a[1]) && !truth(in) {
		return a[0], nil
	}
	return in, nil
}

// filterFloat is float(in), or the default if in is no number.
func filterFloat(_ *run, in Value, a []Value) (Value, error) {
	switch v := in.(type) {
	case *undefined:
		return nil, v.err()
	case string:
		if f, ok := parseFloat(v); ok {
			return f, nil
		}
		return a[0], nil
	}
	if f, ok := asFloat(in); ok {
		return f, nil
	}
	return a[0], nil
}

// parseFloat is Python's float(s).
func parseFloat(s string) (float64, bool) {
	s = strings.ToLower(strings.TrimFunc(s, isSpace))
	if strings.ContainsAny(s, "xp") || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return f, err == nil || errors.Is(err, strconv.ErrRange)
}

// filterInt is int(in), or int(float(in)), or the default.
func filterInt(_ *run, in Value, a []Value) (Value, error) {
	f := 0.0
	switch v := in.(type) {
	case *undefined:
		return nil, v.err()
	case float64:
		f = v
	case string:
		base, ok := asInt(a[1])
		if ok = ok && (base == 0 || base >= 2 && base <= 36); ok {
			if n, ok := parseInt(v, int(base)); ok {
				return n, nil
			}
		}
		if f, ok = parseFloat(v); !ok {
			return a[0], nil
		}
	default:
		n, ok := asBig(in)
		if !ok {
			return a[0], nil
		}
		return normal(n), nil
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return a[0], nil
	}
	n, _ := big.NewFloat(f).Int(nil)
	return normal(n), nil
}

// parseInt is Python's int(s, base).
func parseInt(s string, base int) (Value, bool) {
	s = strings.TrimFunc(s, isSpace)
	digits, neg := s, false
	if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
		digits, neg = s[1:], s[0] == '-'
	}
	if len(digits) > 1 && digits[0] == '0' {
		if b := map[byte]int{'x': 16, 'o': 8, 'b': 2}[digits[1]|0x20]; b != 0 && (base == b || base == 0) {
			digits, base = strings.TrimPrefix(digits[2:], "_"), b
		}
	}
	if base == 0 {
		base = 10
	}
	if digits == "" || len(digits) > maxBits/3 || strings.HasPrefix(digits, "_") || strings.HasSuffix(digits, "_") ||
		strings.Contains(digits, "__") || strings.HasPrefix(digits, "-") || strings.HasPrefix(digits, "+") {
		return nil, false
	}
	n, ok := new(big.Int).SetString(strings.ReplaceAll(digits, "_", ""), base)
	if !ok {
		return nil, false
	}
	if neg {
		n.Neg(n)
	}
	return normal(n), true
}

func filterLength(r *run, in Value, _ []Value) (Value, error) {
	n, err := r.length(in)
	return int64(n), err
}

func filterRound(_ *run, in Value, a []Value) (Value, error) {
	if u, ok := in.(*undefined); ok {
		return nil, u.err()
	}
	digits, ok := asInt(a[0])
	if !ok || !isNumber(in) || digits > 400 || digits < -400 {
		return nil, errors.New("expected a number and a precision that is an integer")
	}
	f, _ := asFloat(in)
	scale := math.Pow(10, float64(digits))
	switch a[1] {
	case "common":
		if n, ok := asBig(in); ok && digits >= 0 {
			return normal(n), nil
		}
		if digits < 0 {
			rounded := math.RoundToEven(f*scale) / scale
			if isInteger(in) {
				return int64(rounded), nil
			}
			return rounded, nil
		}
		f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(digits), 64), 64)
		return f, nil
	case "ceil":
		return math.Ceil(f*scale) / scale, nil
	case "floor":
		return math.Floor(f*scale) / scale, nil
	}
	return nil, errors.New(`method must be "common", "ceil" or "floor"`)
}

func filterFromJSON(r *run, in Value, _ []Value) (Value, error) {
	s, ok := in.(string)
	if !ok {
		return nil, fmt.Errorf("expected a string, found %q", typeName(in))
	}
	if err := r.spend(16 * len(s)); err != nil {
		return nil, err
	}
	return DecodeJSON([]byte(s))
}

// filterToJSON is json.dumps as transformers gives it to templates.
func filterToJSON(r *run, in Value, a []Value) (Value, error) {
	style := &jsonStyle{ascii: truth(a[0]), comma: ", ", colon: ": ", sortKeys: truth(a[3])}
	switch indent := a[1].(type) {
	case nil:
	case string:
		style.indent, style.multiline, style.comma = indent, true, ","
	default:
		n, ok := asInt(indent)
		if !ok || n > 100 {
			return nil, errors.New("indent must be an integer of at most 100 or a string")
		}
		style.indent, style.multiline, style.comma = strings.Repeat(" ", int(max(n, 0))), true, ","
	}
	if a[2] != nil {
		pair, ok := a[2].(*List)
		if !ok || len(pair.items) != 2 {
			return nil, errors.New("separators must be a pair of strings")
		}
		comma, ok1 := pair.items[0].(string)
		colon, ok2 := pair.items[1].(string)
		if !ok1 || !ok2 {
			return nil, errors.New("separators must be a pair of strings")
		}
		style.comma, style.colon = comma, colon
	}
	b, err := r.writeJSON(nil, in, style, 0)
	return string(b), err
}
