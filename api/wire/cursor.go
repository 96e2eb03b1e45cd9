package wire

import (
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

const (
	maxDepth   = 64   // how deeply the arrays and objects of a request may be nested
	maxMembers = 4096 // how many members an object may have

	mostIgnored = 8 // paths that are noted
)

// Cursor reads a JSON text once, from left to right. Its methods consume one value and return an *Error that names the
// path to it. It is stricter than encoding/json: invalid UTF-8 and a key given twice are errors.
type Cursor struct {
	data  []byte
	at    int
	depth int
	path  []byte // of the value being read, such as "messages[2].content"

	ignored []string // paths
}

// Decode reads data, which must be one object, giving each member that is not null to field.
func Decode(data []byte, field func(c *Cursor, key string) error) error {
	if !utf8.Valid(data) {
		return Invalid("", CodeInvalidJSON, "the request body is not valid UTF-8")
	}
	c := &Cursor{data: data}
	if c.Peek() != '{' {
		return Invalid("", CodeInvalidJSON, "the request body: expected a JSON object, found %s", c.found())
	}
	if err := c.Object(func(key string) error { return field(c, key) }); err != nil {
		return err
	}
	if c.Peek(); c.at < len(c.data) {
		return c.syntax("the end of the body")
	}
	return nil
}

// Peek skips white space and returns the next byte, or 0 at the end.
func (c *Cursor) Peek() byte {
	for ; c.at < len(c.data); c.at++ {
		switch b := c.data[c.at]; b {
		case ' ', '\t', '\n', '\r':
		default:
			return b
		}
	}
	return 0
}

// found says what is next, for messages.
func (c *Cursor) found() string {
	switch b := c.Peek(); {
	case c.at == len(c.data):
		return "nothing"
	case b == '{':
		return "an object"
	case b == '[':
		return "an array"
	case b == '"':
		return "a string"
	case b == 't' || b == 'f':
		return "a boolean"
	case b == 'n':
		return "null"
	case b == '-' || b >= '0' && b <= '9':
		return "a number"
	default:
		r, _ := utf8.DecodeRune(c.data[c.at:])
		return strconv.QuoteRune(r)
	}
}

func (c *Cursor) syntax(expected string) *Error {
	return Invalid(string(c.path), CodeInvalidJSON, "invalid JSON at byte %d: expected %s, found %s", c.at, expected,
		c.found())
}

// Mismatch is the error of a value that is not of the expected type, or not JSON at all.
func (c *Cursor) Mismatch(expected string) error {
	start, what := c.at, c.found()
	if err := c.Skip(); err != nil {
		return err
	}
	if what == "a number" {
		what = Clip(c.data[start:c.at])
	}
	return Invalid(string(c.path), CodeInvalidType, "expected %s, found %s", expected, what)
}

// Wrong is the error of a value of the right type that is not allowed.
func (c *Cursor) Wrong(format string, args ...any) error {
	return Invalid(string(c.path), CodeInvalidValue, format, args...)
}

// Clip shortens what a message quotes from a request.
func Clip(raw []byte) string {
	const most = 40
	if len(raw) <= most {
		return string(raw)
	}
	n := most
	for !utf8.RuneStart(raw[n]) {
		n--
	}
	return string(raw[:n]) + "…"
}

func (c *Cursor) enter(b byte, expected string) error {
	if c.Peek() != b {
		return c.Mismatch(expected)
	}
	if c.depth++; c.depth > maxDepth {
		return Invalid(string(c.path), CodeInvalidJSON, "nested more than %d levels deep", maxDepth)
	}
	c.at++
	return nil
}

// Object reads an object, calling member with the cursor on each value that is not null.
func (c *Cursor) Object(member func(key string) error) error {
	if err := c.enter('{', "an object"); err != nil {
		return err
	}
	seen := map[string]bool{}
	for first := true; ; first = false {
		switch b := c.Peek(); {
		case b == '}':
			c.at, c.depth = c.at+1, c.depth-1
			return nil
		case !first && b != ',':
			return c.syntax("',' or '}'")
		case !first:
			c.at++
		}
		if c.Peek() != '"' {
			return c.syntax("a member's name in quotes")
		}
		key, err := c.Text()
		if err != nil {
			return err
		}
		outer := len(c.path)
		if outer > 0 {
			c.path = append(c.path, '.')
		}
		c.path = append(c.path, Clip([]byte(key))...)
		if seen[key] {
			return c.Wrong("given twice")
		}
		if len(seen) == maxMembers {
			return c.Wrong("an object may have at most %d members", maxMembers)
		}
		seen[key] = true
		if c.Peek() != ':' {
			return c.syntax("':'")
		}
		c.at++
		if c.Peek() == 'n' {
			err = c.word("null")
		} else {
			err = member(key)
		}
		if err != nil {
			return err
		}
		c.path = c.path[:outer]
	}
}

// Array reads an array, calling element with the cursor on each value.
func (c *Cursor) Array(expected string, element func(i int) error) error {
	if err := c.enter('[', expected); err != nil {
		return err
	}
	for i := 0; ; i++ {
		switch b := c.Peek(); {
		case b == ']':
			c.at, c.depth = c.at+1, c.depth-1
			return nil
		case i > 0 && b != ',':
			return c.syntax("',' or ']'")
		case i > 0:
			c.at++
		}
		outer := len(c.path)
		c.path = append(c.path, '[')
		c.path = strconv.AppendInt(c.path, int64(i), 10)
		c.path = append(c.path, ']')
		if err := element(i); err != nil {
			return err
		}
		c.path = c.path[:outer]
	}
}

// Text reads a string. A surrogate without its partner becomes U+FFFD, as with encoding/json.
func (c *Cursor) Text() (string, error) {
	if c.Peek() != '"' {
		return "", c.Mismatch("a string")
	}
	start, plain := c.at, true
	for c.at++; c.at < len(c.data); c.at++ {
		switch b := c.data[c.at]; {
		case b == '"':
			c.at++
			if plain {
				return string(c.data[start+1 : c.at-1]), nil
			}
			var s string
			if err := json.Unmarshal(c.data[start:c.at], &s); err != nil {
				return "", Invalid(string(c.path), CodeInvalidJSON, "the string at byte %d: %v", start, err)
			}
			return s, nil
		case b == '\\':
			plain = false
			c.at++
		case b < ' ':
			return "", Invalid(string(c.path), CodeInvalidJSON, "invalid JSON at byte %d: control character %#02x in a string",
				c.at, b)
		}
	}
	c.at = len(c.data)
	return "", c.syntax("the end of a string")
}

func (c *Cursor) word(w string) error {
	if len(c.data)-c.at < len(w) || string(c.data[c.at:c.at+len(w)]) != w {
		return Invalid(string(c.path), CodeInvalidJSON, "invalid JSON at byte %d: expected %s", c.at, w)
	}
	c.at += len(w)
	return nil
}

func (c *Cursor) Bool() (bool, error) {
	switch c.Peek() {
	case 't':
		return true, c.word("true")
	case 'f':
		return false, c.word("false")
	}
	return false, c.Mismatch("true or false")
}

// literal consumes a number, which need not fit any type.
func (c *Cursor) literal() ([]byte, error) {
	start := c.at
	digits := func() bool {
		first := c.at
		for c.at < len(c.data) && c.data[c.at] >= '0' && c.data[c.at] <= '9' {
			c.at++
		}
		return c.at > first
	}
	is := func(bytes string) bool {
		for i := 0; i < len(bytes) && c.at < len(c.data); i++ {
			if c.data[c.at] == bytes[i] {
				c.at++
				return true
			}
		}
		return false
	}
	is("-")
	ok := is("0") || digits()
	if ok && is(".") {
		ok = digits()
	}
	if ok && is("eE") {
		is("+-")
		ok = digits()
	}
	if !ok {
		return nil, c.syntax("a digit")
	}
	return c.data[start:c.at], nil
}

func (c *Cursor) IsNumber() bool {
	b := c.Peek()
	return b == '-' || b >= '0' && b <= '9'
}

// Int reads a whole number of 64 bits, written without fraction or exponent.
func (c *Cursor) Int() (int64, error) {
	if !c.IsNumber() {
		return 0, c.Mismatch("an integer")
	}
	raw, err := c.literal()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0, Invalid(string(c.path), CodeInvalidType, "expected an integer of 64 bits, found %s", Clip(raw))
	}
	return n, nil
}

// Number reads a finite number.
func (c *Cursor) Number() (float64, error) {
	if !c.IsNumber() {
		return 0, c.Mismatch("a number")
	}
	raw, err := c.literal()
	if err != nil {
		return 0, err
	}
	x, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsInf(x, 0) {
		return 0, c.Wrong("%s is too large a number", Clip(raw))
	}
	return x, nil
}

// Skip consumes any value.
func (c *Cursor) Skip() error {
	switch b := c.Peek(); {
	case b == '{':
		return c.Object(func(string) error { return c.Skip() })
	case b == '[':
		return c.Array("", func(int) error { return c.Skip() })
	case b == '"':
		_, err := c.Text()
		return err
	case b == 't' || b == 'f':
		_, err := c.Bool()
		return err
	case b == 'n':
		return c.word("null")
	case c.IsNumber():
		_, err := c.literal()
		return err
	}
	return c.syntax("a JSON value")
}

// Raw consumes any value and returns its text.
func (c *Cursor) Raw() ([]byte, error) {
	c.Peek()
	start := c.at
	err := c.Skip()
	return c.data[start:c.at], err
}
