package wire

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Path returns where the value being read is in the body, such as "messages[2].content".
func (c *Cursor) Path() string { return string(c.path) }

// IntIn reads an integer from low to high.
func (c *Cursor) IntIn(low, high int) (int, error) {
	n, err := c.Int()
	if err == nil && (n < int64(low) || n > int64(high)) {
		err = c.Wrong("expected an integer from %d to %d, found %d", low, high, n)
	}
	return int(n), err
}

// NumberIn reads a number from low to high.
func (c *Cursor) NumberIn(low, high float64) (float64, error) {
	x, err := c.Number()
	if err == nil && (x < low || x > high) {
		err = c.Wrong("expected a number from %g to %g, found %g", low, high, x)
	}
	return x, err
}

// Token reads the id of a token.
func (c *Cursor) Token() (int32, error) {
	n, err := c.Int()
	if err == nil && (n < 0 || n > math.MaxInt32) {
		err = c.Wrong("expected the id of a token, found %d", n)
	}
	return int32(n), err
}

// Tokens reads an array of at most most ids.
func (c *Cursor) Tokens(most int) ([]int32, error) {
	var ids []int32
	err := c.Array("an array of token ids", func(i int) error {
		if i == most {
			return c.Wrong("at most %d token ids are allowed", most)
		}
		id, err := c.Token()
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// Label reads a string of at most most characters.
func (c *Cursor) Label(most int) (string, error) {
	s, err := c.Text()
	if err == nil && utf8.RuneCountInString(s) > most {
		err = c.Wrong("at most %d characters are allowed", most)
	}
	return s, err
}

// Kind returns the string that the object which comes next has as the member of a name: "" if it has none. It consumes
// nothing, and leaves errors to whatever reads the object.
func (c *Cursor) Kind(name string) (kind string) {
	if c.Peek() != '{' {
		return ""
	}
	ahead := *c
	ahead.path, ahead.ignored = slices.Clone(c.path), nil
	ahead.Object(func(key string) (err error) {
		if key != name {
			return ahead.Skip()
		}
		kind, err = ahead.Text()
		return cmp.Or(err, errFound)
	})
	return kind
}

// errFound ends a look ahead.
var errFound = errors.New("found")

// Ignore reads a member that is of no use here, and notes its path.
func (c *Cursor) Ignore() error {
	c.Unused()
	return c.Skip()
}

// Unused notes the path of a member that is of no use here.
func (c *Cursor) Unused() {
	if len(c.ignored) < mostIgnored {
		c.ignored = append(c.ignored, c.Path())
	}
}

// Ignored returns the paths of the first members that were ignored.
func (c *Cursor) Ignored() []string { return c.ignored }

// Unsupported reads a member and refuses it.
func (c *Cursor) Unsupported() error {
	if err := c.Skip(); err != nil {
		return err
	}
	return Invalid(string(c.path), CodeUnsupported, "this parameter is not supported")
}

// Inert reads a member that is accepted only while it asks for nothing: its value must be one of the given JSON texts,
// which have no white space.
func (c *Cursor) Inert(allowed ...string) error {
	found, err := c.Raw()
	if err != nil {
		return err
	}
	tight := Compact(found)
	for _, a := range allowed {
		if tight == a {
			return nil
		}
	}
	list := strings.Join(allowed, " or ")
	return Invalid(string(c.path), CodeUnsupported, "not supported, except as %s; found %s", list, Clip(found))
}

// Compact returns the first 64 bytes of a valid JSON text without its white space.
func Compact(raw []byte) string {
	out, quoted := make([]byte, 0, 64), false
	for i := 0; i < len(raw) && len(out) < cap(out); i++ {
		switch b := raw[i]; {
		case b == '\\' && quoted && i+1 < len(raw):
			out = append(out, b, raw[i+1])
			i++
		case b == '"':
			quoted = !quoted
			out = append(out, b)
		case quoted || b > ' ':
			out = append(out, b)
		}
	}
	return string(out)
}
