package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// spec is a conversion, in the terms of Python's format specification.
type spec struct {
	fill      string
	align     byte // <, >, ^, = or 0
	sign      byte // +, space or 0
	alternate bool
	width     int
	comma     string // digit group separator
	precision int    // -1: none
	verb      byte   // 0: none
}

// maxWidth bounds the width and precision of a conversion.
const maxWidth = 10_000

// percentFormat is Python's s % v.
func (r *run) percentFormat(s string, v Value) (Value, error) {
	args, next := []Value{v}, 0
	dict, mayRemain := v.(*Dict)
	if l, ok := v.(*List); ok {
		if mayRemain = l.kind != kindTuple; !mayRemain {
			args = l.items
		}
	}
	take := func() (Value, error) {
		if next >= len(args) {
			return nil, errors.New("not enough arguments for the format string")
		}
		next++
		return args[next-1], nil
	}
	if _, ok := v.(*undefined); ok {
		mayRemain = true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		c, end, err := parsePercent(s, i+1, take)
		if err != nil {
			return nil, err
		}
		i = end
		if c.verb == '%' {
			b.WriteByte('%')
			continue
		}
		var arg Value
		if c.key != nil {
			if dict == nil {
				return nil, errors.New("format requires a mapping")
			}
			next = len(args)
			at, err := dict.find(*c.key)
			if at < 0 || err != nil {
				return nil, fmt.Errorf("the mapping has no key %q", *c.key)
			}
			arg = dict.vals[at]
		} else if arg, err = take(); err != nil {
			return nil, err
		}
		text, err := r.percentOne(c, arg)
		if err != nil {
			return nil, err
		}
		if err := r.grown(b.Len()+len(text), 0); err != nil {
			return nil, err
		}
		b.WriteString(text)
	}
	if next < len(args) && !mayRemain {
		return nil, errors.New("not all arguments were converted by the format string")
	}
	return b.String(), nil
}

type percentSpec struct {
	spec
	key *string
}

// parsePercent reads a conversion that begins at s[i], after the percent sign; end is the position of its last byte.
func parsePercent(s string, i int, take func() (Value, error)) (c percentSpec, end int, err error) {
	c.spec = spec{fill: " ", align: '>', precision: -1}
	if i < len(s) && s[i] == '(' {
		n := strings.IndexByte(s[i:], ')')
		if n < 0 {
			return c, 0, errors.New("incomplete key in the format string")
		}
		key := s[i+1 : i+n]
		c.key, i = &key, i+n+1
	}
flags:
	for ; i < len(s); i++ {
		switch s[i] {
		case '-':
			c.align, c.fill = '<', " "
		case '0':
			if c.align != '<' {
				c.align, c.fill = '=', "0"
			}
		case '+':
			c.sign = '+'
		case ' ':
			if c.sign == 0 {
				c.sign = ' '
			}
		case '#':
			c.alternate = true
		default:
			break flags
		}
	}
	if c.width, i, err = number(s, i, take); err != nil {
		return c, 0, err
	}
	if c.width < 0 {
		c.width, c.align, c.fill = -c.width, '<', " "
	}
	if i < len(s) && s[i] == '.' {
		if c.precision, i, err = number(s, i+1, take); err != nil {
			return c, 0, err
		}
	}
	for i < len(s) && strings.IndexByte("hlL", s[i]) >= 0 {
		i++
	}
	if i >= len(s) {
		return c, 0, errors.New("incomplete format string")
	}
	c.verb = s[i]
	return c, i, nil
}

// number reads a width or precision; take supplies one written as a star.
func number(s string, i int, take func() (Value, error)) (n, end int, err error) {
	if i < len(s) && s[i] == '*' && take != nil {
		v, err := take()
		if err != nil {
			return 0, 0, err
		}
		w, ok := v.(int64)
		if !ok || w > maxWidth || w < -maxWidth {
			return 0, 0, errors.New("a width must be a small integer")
		}
		return int(w), i + 1, nil
	}
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		if n = n*10 + int(s[i]-'0'); n > maxWidth {
			return 0, 0, fmt.Errorf("a width of more than %d", maxWidth)
		}
	}
	return n, i, nil
}

func (r *run) percentOne(c percentSpec, v Value) (string, error) {
	switch c.verb {
	case 's', 'r', 'a':
		text, err := r.shown(v, c.verb)
		if c.fill == "0" {
			c.fill, c.align = " ", '>'
		}
		c.verb = 's'
		if err != nil {
			return "", err
		}
		return c.text(text), nil
	case 'c':
		if s, ok := v.(string); ok && runeLen(s) == 1 {
			return c.text(s), nil
		}
		n, ok := asInt(v)
		if !ok || n < 0 || n > utf8.MaxRune {
			return "", errors.New("%c requires a character")
		}
		return c.text(string(rune(n))), nil
	case 'd', 'i', 'u':
		if f, ok := v.(float64); ok && !math.IsNaN(f) && !math.IsInf(f, 0) {
			n, _ := big.NewFloat(f).Int(nil)
			v = normal(n)
		}
		c.verb = 'd'
		fallthrough
	case 'x', 'X', 'o':
		n, ok := asBig(v)
		if !ok {
			return "", fmt.Errorf("%%%c requires a number, found %q", c.verb, typeName(v))
		}
		return c.integer(n), nil
	case 'e', 'E', 'f', 'F', 'g', 'G':
		f, ok := asFloat(v)
		if !ok {
			return "", fmt.Errorf("%%%c requires a number, found %q", c.verb, typeName(v))
		}
		return c.float(f), nil
	}
	return "", fmt.Errorf("unsupported conversion %q", "%"+string(rune(c.verb)))
}

// shown is str or repr, as the conversion asks.
func (r *run) shown(v Value, conversion byte) (string, error) {
	if conversion == 's' {
		return r.str(v)
	}
	b, err := r.repr(nil, v, 0)
	return string(b), err
}

func (c *spec) text(s string) string {
	if c.precision >= 0 {
		s = sliceText(s, 0, int64(min(c.precision, runeLen(s))), 1)
	}
	return c.pad("", s, '<')
}

// pad pads prefix+body to the width.
func (c *spec) pad(prefix, body string, align byte) string {
	if c.align != 0 {
		align = c.align
	}
	n := c.width - runeLen(prefix) - runeLen(body)
	if n <= 0 {
		return prefix + body
	}
	switch align {
	case '<':
		return prefix + body + strings.Repeat(c.fill, n)
	case '^':
		return strings.Repeat(c.fill, n/2) + prefix + body + strings.Repeat(c.fill, n-n/2)
	case '=':
		return prefix + strings.Repeat(c.fill, n) + body
	}
	return strings.Repeat(c.fill, n) + prefix + body
}

func (c *spec) signed(negative bool) string {
	switch {
	case negative:
		return "-"
	case c.sign != 0:
		return string(rune(c.sign))
	}
	return ""
}

func (c *spec) integer(n *big.Int) string {
	base, prefix := 10, ""
	switch c.verb {
	case 'x', 'X':
		base, prefix = 16, "0"+string(rune(c.verb))
	case 'o':
		base, prefix = 8, "0o"
	case 'b':
		base, prefix = 2, "0b"
	}
	if !c.alternate {
		prefix = ""
	}
	digits := new(big.Int).Abs(n).Text(base)
	if c.verb == 'X' {
		digits = strings.ToUpper(digits)
	}
	if len(digits) < c.precision {
		digits = strings.Repeat("0", c.precision-len(digits)) + digits
	}
	return c.pad(c.signed(n.Sign() < 0)+prefix, group(digits, c.comma), '>')
}

func (c *spec) float(f float64) string {
	precision := c.precision
	if precision < 0 {
		precision = 6
	}
	var s string
	a := math.Abs(f)
	switch {
	case math.IsInf(f, 0) || math.IsNaN(f):
		s = strings.TrimPrefix(formatFloat(a), "-")
	case c.verb == 0 && c.precision < 0:
		s = formatFloat(a)
	case c.verb == '%':
		s = strconv.FormatFloat(a*100, 'f', precision, 64) + "%"
	case c.verb == 'f' || c.verb == 'F':
		s = strconv.FormatFloat(a, 'f', precision, 64)
	case c.verb == 'e' || c.verb == 'E':
		s = strconv.FormatFloat(a, 'e', precision, 64)
	default:
		s = general(a, max(precision, 1))
	}
	if c.verb >= 'A' && c.verb <= 'Z' {
		s = strings.ToUpper(s)
	}
	whole, rest := s, ""
	if i := strings.IndexAny(s, ".e%E"); i >= 0 {
		whole, rest = s[:i], s[i:]
	}
	return c.pad(c.signed(math.Signbit(f) && f == f), group(whole, c.comma)+rest, '>')
}

// general is C's %g: precision significant digits without trailing zeros, and an exponent where it is shorter.
func general(a float64, precision int) string {
	e := strconv.FormatFloat(a, 'e', precision-1, 64)
	mantissa, exponent, _ := strings.Cut(e, "e")
	x, _ := strconv.Atoi(exponent)
	if x >= -4 && x < precision {
		mantissa, exponent = strconv.FormatFloat(a, 'f', precision-1-x, 64), ""
	} else {
		exponent = "e" + exponent
	}
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	return mantissa + exponent
}

// group puts a separator between each three digits.
func group(digits, separator string) string {
	if separator == "" {
		return digits
	}
	var b strings.Builder
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteString(separator)
		}
		b.WriteByte(digits[i])
	}
	return b.String()
}
