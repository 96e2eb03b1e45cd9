package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// str is Python's str(v): what printing a value gives.
func (r *run) str(v Value) (string, error) {
	switch v := plain(v).(type) {
	case string:
		return v, nil
	case nil:
		return "None", nil
	case *undefined:
		return "", nil
	}
	b, err := r.repr(nil, v, 0)
	return string(b), err
}

// repr appends Python's repr(v).
func (r *run) repr(b []byte, v Value, depth int) ([]byte, error) {
	if err := r.grown(len(b), depth); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return append(b, "None"...), nil
	case bool:
		if v {
			return append(b, "True"...), nil
		}
		return append(b, "False"...), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case *big.Int:
		return v.Append(b, 10), nil
	case float64:
		return append(b, formatFloat(v)...), nil
	case string:
		return appendQuoted(b, v), r.scan(perCharacter * len(v))
	case markup:
		return append(appendQuoted(append(b, "Markup("...), string(v)), ')'), r.scan(len(v))
	case *List:
		return r.reprList(b, v, depth)
	case *Dict:
		b = append(b, '{')
		for i, k := range v.keys {
			if i > 0 {
				b = append(b, ", "...)
			}
			var err error
			if b, err = r.repr(b, k, depth+1); err != nil {
				return nil, err
			}
			if b, err = r.repr(append(b, ": "...), v.vals[i], depth+1); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	case *undefined:
		return append(b, "Undefined"...), nil
	case *macro:
		return append(appendQuoted(append(b, "<Macro "...), v.def.name), '>'), nil
	case *namespace:
		b, err := r.repr(append(b, "<Namespace "...), v.vars, depth+1)
		return append(b, '>'), err
	case *loop:
		return fmt.Appendf(b, "<LoopContext %d/%d>", v.i+1, len(v.items)), nil
	}
	return fmt.Appendf(b, "<%s>", typeName(v)), nil
}

func (r *run) reprList(b []byte, l *List, depth int) ([]byte, error) {
	open, end := "[", "]"
	switch l.kind {
	case kindTuple:
		open, end = "(", ")"
		if len(l.items) == 1 {
			end = ",)"
		}
	case kindRange:
		return append(b, l.rangeText()...), nil
	case kindKeys, kindValues, kindItems:
		open, end = typeName(l)+"([", "])"
	case kindGenerator:
		return append(b, "<generator object>"...), nil
	}
	b = append(b, open...)
	for i, item := range l.items {
		if i > 0 {
			b = append(b, ", "...)
		}
		var err error
		if b, err = r.repr(b, item, depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, end...), nil
}

// rangeText prints a range; the bounds of an empty one are not kept.
func (l *List) rangeText() string {
	if len(l.items) == 0 {
		return "range(0, 0)"
	}
	first := l.items[0].(int64)
	stop := l.items[len(l.items)-1].(int64) + l.step
	if l.step == 1 {
		return fmt.Sprintf("range(%d, %d)", first, stop)
	}
	return fmt.Sprintf("range(%d, %d, %d)", first, stop, l.step)
}

// formatFloat is Python's repr of a float: the shortest digits that read back the same, with an exponent below 1e-4 and
// from 1e16 on.
func formatFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// appendQuoted appends Python's repr of a string.
func appendQuoted(b []byte, s string) []byte {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b = append(b, quote)
	for _, c := range s {
		switch {
		case c == rune(quote) || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case unicode.IsPrint(c):
			b = append(b, string(c)...)
		case c < 0x100:
			b = fmt.Appendf(b, `\x%02x`, c)
		case c < 0x10000:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = fmt.Appendf(b, `\U%08x`, c)
		}
	}
	return append(b, quote)
}
