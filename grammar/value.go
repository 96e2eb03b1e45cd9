package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
)

// value is a value of JSON that knows where it is in its document.
type value struct {
	kind   valueKind
	text   string // of a string, or a number as it is written
	list   []*value
	keys   []string // in the document's order
	fields map[string]*value
	in     *value // that this is a part of; nil for the document
	key    string // there; "[2]" in a list
}

type valueKind uint8

const (
	isNull valueKind = 1 << iota
	isFalse
	isTrue
	isNumber
	isString
	isArray
	isObject
	isAny = 1<<iota - 1
)

// path is where the value is, as in "properties.x.anyOf[1]".
func (v *value) path() string {
	if v == nil || v.in == nil {
		return ""
	}
	up := v.in.path()
	if up == "" || strings.HasPrefix(v.key, "[") {
		return up + v.key
	}
	return up + "." + v.key
}

func (v *value) get(key string) *value {
	if v == nil {
		return nil
	}
	return v.fields[key]
}

var errDeep = errors.New("is nested too deep")

// parseJSON reads a document.
func parseJSON(text []byte, depth int) (*value, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := readValue(d, nil, "", depth)
	if err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("is not JSON: text follows the value")
	}
	return v, nil
}

func readValue(d *json.Decoder, in *value, key string, depth int) (*value, error) {
	t, err := d.Token()
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if depth < 0 {
		return nil, errDeep
	}
	v := &value{in: in, key: key}
	switch t := t.(type) {
	case nil:
		v.kind = isNull
	case bool:
		v.kind = isFalse
		if t {
			v.kind = isTrue
		}
	case json.Number:
		v.kind, v.text = isNumber, t.String()
	case string:
		v.kind, v.text = isString, t
	case json.Delim:
		if t == '[' {
			v.kind = isArray
			for d.More() {
				x, err := readValue(d, v, "["+strconv.Itoa(len(v.list))+"]", depth-1)
				if err != nil {
					return nil, err
				}
				v.list = append(v.list, x)
			}
		} else {
			v.kind, v.fields = isObject, map[string]*value{}
			for d.More() {
				name, err := d.Token()
				if err != nil {
					return nil, err
				}
				key := name.(string)
				x, err := readValue(d, v, key, depth-1)
				if err != nil {
					return nil, err
				}
				if v.fields[key] == nil {
					v.keys = append(v.keys, key)
				}
				v.fields[key] = x
			}
		}
		_, err = d.Token()
	}
	return v, err
}

// rat returns the number that v is; false if it has more digits than a limit can need.
func (v *value) rat() (*big.Rat, bool) {
	if v.kind != isNumber || len(v.text) > 100 {
		return nil, false
	}
	if _, exp, ok := strings.Cut(strings.ToLower(v.text), "e"); ok {
		if n, err := strconv.Atoi(exp); err != nil || n > 400 || n < -400 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(v.text)
}

// equal reports whether two values are equal as JSON Schema has it.
func (v *value) equal(o *value) bool {
	if v.kind != o.kind || len(v.list) != len(o.list) || len(v.keys) != len(o.keys) {
		return false
	}
	if v.kind == isNumber {
		x, ok1 := v.rat()
		y, ok2 := o.rat()
		return ok1 && ok2 && x.Cmp(y) == 0 || v.text == o.text
	}
	for i, x := range v.list {
		if !x.equal(o.list[i]) {
			return false
		}
	}
	for k, x := range v.fields {
		if y := o.fields[k]; y == nil || !x.equal(y) {
			return false
		}
	}
	return v.text == o.text
}
