package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxJSONDepth bounds the nesting of decoded JSON.
const maxJSONDepth = 1000

// DecodeJSON reads one JSON value. Objects keep the order of their keys, integers stay integers of any size.
func DecodeJSON(data []byte) (Value, error) {
	n := math.MaxInt
	return DecodeJSONWithin(data, &n)
}

// DecodeJSONWithin is DecodeJSON for a text of at most so many values, the elements of lists and dicts included, of
// which it counts off those that it has read.
func DecodeJSONWithin(data []byte, values *int) (Value, error) {
	d := &jsonDecoder{json.NewDecoder(bytes.NewReader(data)), values}
	d.UseNumber()
	v, err := d.value(0)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return v, nil
		} else if err == nil {
			err = errors.New("expected the end of the JSON text, found more")
		}
	}
	if err == io.EOF {
		err = errors.New("expected a JSON value, found the end of the text")
	}
	return nil, fmt.Errorf("JSON at byte %d: %w", d.InputOffset(), err)
}

type jsonDecoder struct {
	*json.Decoder
	left *int // values that may still come
}

func (d *jsonDecoder) value(depth int) (Value, error) {
	if depth > maxJSONDepth {
		return nil, fmt.Errorf("nested more than %d levels deep", maxJSONDepth)
	}
	if *d.left--; *d.left < 0 {
		return nil, errors.New("it has more values than are allowed")
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		return decodeNumber(string(t))
	case json.Delim:
		if t == '[' {
			l := &List{}
			for d.More() {
				v, err := d.value(depth + 1)
				if err != nil {
					return nil, err
				}
				l.items = append(l.items, v)
			}
			_, err := d.Token()
			return l, err
		}
		dict := NewDict()
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := d.value(depth + 1)
			if err != nil {
				return nil, err
			}
			dict.Set(key.(string), v)
		}
		_, err := d.Token()
		return dict, err
	}
	return t, nil // nil, bool, string
}

func decodeNumber(s string) (Value, error) {
	if strings.ContainsAny(s, ".eE") {
		f, _ := strconv.ParseFloat(s, 64) // out of range is an infinity, as in Python
		return f, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	if len(s) > maxBits/3 {
		return nil, fmt.Errorf("integer has %d digits", len(s))
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return nil, fmt.Errorf("expected a number, found %q", s)
	}
	return n, nil
}

// jsonStyle is how tojson lays out JSON, named as in Python's json.dumps.
type jsonStyle struct {
	ascii        bool
	indent       string
	multiline    bool
	comma, colon string
	sortKeys     bool
}

// EncodeJSON writes a value as tojson(indent=…) does; an indent of 0 is one line.
func EncodeJSON(v any, indent int) (string, error) {
	v, err := From(v)
	if err != nil {
		return "", err
	}
	style := &jsonStyle{comma: ", ", colon: ": "}
	if indent > 0 {
		style.indent, style.multiline, style.comma = strings.Repeat(" ", indent), true, ","
	}
	b, err := (&run{steps: MaxSteps}).writeJSON(nil, v, style, 0)
	return string(b), err
}

// writeJSON appends v as JSON.
func (r *run) writeJSON(b []byte, v Value, style *jsonStyle, depth int) ([]byte, error) {
	if err := r.grown(len(b), depth); err != nil {
		return nil, err
	}
	switch v := plain(v).(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case *big.Int:
		return v.Append(b, 10), nil
	case float64:
		return append(b, jsonFloat(v)...), nil
	case string:
		return appendJSONString(b, v, style.ascii), r.scan(perCharacter * len(v))
	case *List:
		b = append(b, '[')
		var err error
		items := v.take()
		for i, item := range items {
			b = style.next(b, i, depth)
			if b, err = r.writeJSON(b, item, style, depth+1); err != nil {
				return nil, err
			}
		}
		return append(style.end(b, len(items), depth), ']'), nil
	case *Dict:
		return r.writeJSONDict(b, v, style, depth)
	}
	return nil, fmt.Errorf("object of type %s is not JSON serializable", typeName(v))
}

func (r *run) writeJSONDict(b []byte, d *Dict, style *jsonStyle, depth int) ([]byte, error) {
	order := make([]Value, len(d.keys))
	for i := range order {
		order[i] = int64(i)
	}
	if style.sortKeys {
		var err error
		if order, err = r.sorted(order, func(i Value) (Value, error) { return d.keys[i.(int64)], nil }, false); err != nil {
			return nil, err
		}
	}
	b = append(b, '{')
	for n, i := range order {
		b = style.next(b, n, depth)
		key, err := jsonKey(d.keys[i.(int64)])
		if err != nil {
			return nil, err
		}
		b = append(appendJSONString(b, key, style.ascii), style.colon...)
		if b, err = r.writeJSON(b, d.vals[i.(int64)], style, depth+1); err != nil {
			return nil, err
		}
	}
	return append(style.end(b, len(order), depth), '}'), nil
}

func jsonKey(k Value) (string, error) {
	switch k := plain(k).(type) {
	case string:
		return k, nil
	case nil:
		return "null", nil
	case bool:
		return strconv.FormatBool(k), nil
	case int64, *big.Int:
		return fmt.Sprint(k), nil
	case float64:
		return jsonFloat(k), nil
	}
	return "", fmt.Errorf("keys must be str, int, float, bool or None, not %s", typeName(k))
}

// next begins element i, end closes a list of n.
func (s *jsonStyle) next(b []byte, i, depth int) []byte {
	if i > 0 {
		b = append(b, s.comma...)
	}
	return s.newline(b, depth+1)
}

func (s *jsonStyle) end(b []byte, n, depth int) []byte {
	if n == 0 {
		return b
	}
	return s.newline(b, depth)
}

func (s *jsonStyle) newline(b []byte, depth int) []byte {
	if !s.multiline {
		return b
	}
	b = append(b, '\n')
	for range depth {
		b = append(b, s.indent...)
	}
	return b
}

func jsonFloat(f float64) string {
	switch s := formatFloat(f); s {
	case "inf":
		return "Infinity"
	case "-inf":
		return "-Infinity"
	case "nan":
		return "NaN"
	default:
		return s
	}
}

func appendJSONString(b []byte, s string, ascii bool) []byte {
	b = append(b, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\f':
			b = append(b, `\f`...)
		case c < 0x20 || ascii && c > 0x7f && c < 0x10000:
			b = fmt.Appendf(b, `\u%04x`, c)
		case ascii && c >= 0x10000:
			b = fmt.Appendf(b, `\u%04x\u%04x`, 0xD800+(c-0x10000)>>10, 0xDC00+(c-0x10000)&0x3FF)
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	return append(b, '"')
}
