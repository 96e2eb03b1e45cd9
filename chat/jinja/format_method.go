package jinja

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// formatMethod is str.format.
func formatMethod(r *run, self Value, a *callArgs) (Value, error) {
	f := &formatter{r: r, args: a}
	text, err := f.format(self.(string), 0)
	return text, err
}

type formatter struct {
	r    *run
	args *callArgs
	auto int // the number that the next {} has
}

func (f *formatter) format(s string, depth int) (string, error) {
	if depth > 1 {
		return "", errors.New("format fields are nested too deep")
	}
	var b strings.Builder
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			b.WriteString(s)
			break
		}
		b.WriteString(s[:i])
		if i+1 < len(s) && s[i] == s[i+1] {
			b.WriteByte(s[i])
			s = s[i+2:]
			continue
		}
		end := fieldEnd(s[i:])
		if s[i] == '}' || end < 0 {
			return "", errors.New("single brace in the format string")
		}
		text, err := f.field(s[i+1:i+end], depth)
		if err != nil {
			return "", err
		}
		if err := f.r.grown(b.Len()+len(text), 0); err != nil {
			return "", err
		}
		b.WriteString(text)
		s = s[i+end+1:]
	}
	return b.String(), nil
}

// fieldEnd returns the position of the brace that closes the one s begins with, or -1.
func fieldEnd(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// field formats the field between braces: name[.attribute|[item]]…[!conversion][:spec].
func (f *formatter) field(s string, depth int) (string, error) {
	id, specText, _ := strings.Cut(s, ":")
	id, conversion, converted := strings.Cut(id, "!")
	v, err := f.value(id)
	if err != nil {
		return "", err
	}
	if strings.Contains(specText, "{") {
		if specText, err = f.format(specText, depth+1); err != nil {
			return "", err
		}
	}
	if converted {
		if len(conversion) != 1 || !strings.Contains("sra", conversion) {
			return "", fmt.Errorf("expected conversion s, r or a after \"!\", found %q", conversion)
		}
		if v, err = f.r.shown(v, conversion[0]); err != nil {
			return "", err
		}
	}
	return f.r.formatSpec(v, specText)
}

// value finds a field's value.
func (f *formatter) value(id string) (Value, error) {
	end := strings.IndexAny(id, ".[")
	if end < 0 {
		end = len(id)
	}
	root, path := id[:end], id[end:]
	if root == "" {
		root = strconv.Itoa(f.auto)
		f.auto++
	}
	var v Value
	if n, err := strconv.Atoi(root); err == nil {
		if n < 0 || n >= len(f.args.pos) {
			return nil, fmt.Errorf("the format string uses argument %d of %d", n, len(f.args.pos))
		}
		v = f.args.pos[n]
	} else {
		var ok bool
		if v, ok = f.args.named(root); !ok {
			return nil, fmt.Errorf("the format string uses argument %q, which is not given", root)
		}
	}
	for path != "" {
		var err error
		if path[0] == '.' {
			rest := path[1:]
			if end = strings.IndexAny(rest, ".["); end < 0 {
				end = len(rest)
			}
			if v, err = f.r.attr(v, rest[:end]); err != nil {
				return nil, err
			}
			path = rest[end:]
			continue
		}
		end = strings.IndexByte(path, ']')
		if path[0] != '[' || end < 0 {
			return nil, errors.New("expected \".\" or \"[…]\" in the format field")
		}
		var key Value = path[1:end]
		if n, err := strconv.ParseInt(path[1:end], 10, 64); err == nil {
			key = n
		}
		if v, err = f.r.item(v, key); err != nil {
			return nil, err
		}
		path = path[end+1:]
	}
	return v, nil
}

// parseSpec reads [[fill]align][sign][#][0][width][,|_][.precision][type].
func parseSpec(s string) (*spec, error) {
	c := &spec{fill: " ", precision: -1}
	_, n := utf8.DecodeRuneInString(s)
	isAlign := func(i int) bool { return i < len(s) && strings.IndexByte("<>^=", s[i]) >= 0 }
	i := 0
	switch {
	case n > 0 && isAlign(n):
		c.fill, c.align, i = s[:n], s[n], n+1
	case isAlign(0):
		c.align, i = s[0], 1
	}
	has := func(set string) bool { return i < len(s) && strings.IndexByte(set, s[i]) >= 0 }
	if has("+- ") {
		if s[i] != '-' {
			c.sign = s[i]
		}
		i++
	}
	if has("#") {
		c.alternate = true
		i++
	}
	if has("0") {
		if c.align == 0 {
			c.fill, c.align = "0", '='
		}
		i++
	}
	var err error
	if c.width, i, err = number(s, i, nil); err != nil {
		return nil, err
	}
	if has(",_") {
		c.comma = s[i : i+1]
		i++
	}
	if has(".") {
		if c.precision, i, err = number(s, i+1, nil); err != nil {
			return nil, err
		}
	}
	if i < len(s) {
		c.verb = s[i]
		i++
	}
	if i < len(s) {
		return nil, fmt.Errorf("format specification %q is not understood", s)
	}
	return c, nil
}

// formatSpec is Python's format(v, s).
func (r *run) formatSpec(v Value, s string) (string, error) {
	if s == "" {
		return r.str(v)
	}
	c, err := parseSpec(s)
	if err != nil {
		return "", err
	}
	switch x := v.(type) {
	case string:
		if c.verb == 0 || c.verb == 's' {
			if c.align == '=' && c.fill == "0" {
				c.align = '<'
			}
			return c.text(x), nil
		}
	case float64:
		if c.verb == 0 || strings.IndexByte("eEfFgG%", c.verb) >= 0 {
			if c.verb == 0 && c.precision >= 0 {
				c.verb = 'g'
			}
			return c.float(x), nil
		}
	case int64, bool, *big.Int:
		n, _ := asBig(v)
		switch {
		case c.verb == 0 || strings.IndexByte("dboxXn", c.verb) >= 0:
			if c.precision >= 0 {
				return "", errors.New("an integer format takes no precision")
			}
			return c.integer(n), nil
		case c.verb == 'c':
			return c.text(string(rune(n.Int64()))), nil
		case strings.IndexByte("eEfFgG%", c.verb) >= 0:
			f, _ := asFloat(v)
			return c.float(f), nil
		}
	}
	return "", fmt.Errorf("format specification %q is not for %q", s, typeName(v))
}
