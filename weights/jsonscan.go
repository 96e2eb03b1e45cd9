package weights

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"unicode/utf8"
)

// A jsonScanner walks JSON text whose structure is known: the caller says what comes next. Unlike encoding/json it
// keeps the order of an object's fields, lets the caller see duplicates, matches names exactly, and reports the byte of
// the file where it found something else.
type jsonScanner struct {
	text []byte
	pos  int
	base int // byte of the file at which text begins
}

func (s *jsonScanner) errorf(format string, args ...any) error {
	return fmt.Errorf("at byte %d: %s", s.base+s.pos, fmt.Sprintf(format, args...))
}

// peek skips white space and returns the byte that follows, 0 at the end.
func (s *jsonScanner) peek() byte {
	for ; s.pos < len(s.text); s.pos++ {
		switch s.text[s.pos] {
		case ' ', '\t', '\n', '\r':
		default:
			return s.text[s.pos]
		}
	}
	return 0
}

func (s *jsonScanner) found() string {
	if s.pos >= len(s.text) {
		return "the end"
	}
	return fmt.Sprintf("%q", s.text[s.pos:s.pos+1])
}

func (s *jsonScanner) expect(c byte) error {
	if s.peek() != c {
		return s.errorf("expected %q, found %s", c, s.found())
	}
	s.pos++
	return nil
}

// object calls field with each name of an object; field scans the value.
func (s *jsonScanner) object(field func(name string) error) error {
	return s.list('{', '}', func() error {
		name, err := s.str()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		return field(name)
	})
}

// array calls elem at each element of an array; elem scans it.
func (s *jsonScanner) array(elem func() error) error { return s.list('[', ']', elem) }

func (s *jsonScanner) list(open, end byte, elem func() error) error {
	if err := s.expect(open); err != nil {
		return err
	}
	if s.peek() == end {
		s.pos++
		return nil
	}
	for {
		if err := elem(); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case end:
			s.pos++
			return nil
		default:
			return s.errorf("expected ',' or %q, found %s", end, s.found())
		}
	}
}

// str scans a string.
func (s *jsonScanner) str() (string, error) {
	if err := s.expect('"'); err != nil {
		return "", err
	}
	start, escaped := s.pos, false
	for ; s.pos < len(s.text); s.pos++ {
		switch c := s.text[s.pos]; {
		case c == '\\':
			escaped = true
			s.pos++
		case c < ' ':
			return "", s.errorf("a control character in a string")
		case c == '"':
			raw := s.text[start:s.pos]
			s.pos++
			if !escaped {
				return string(raw), nil
			}
			var v string
			if err := json.Unmarshal(s.text[start-1:s.pos], &v); err != nil {
				return "", s.errorf("a string before this: %v", err)
			}
			return v, nil
		}
	}
	s.pos = len(s.text)
	return "", s.errorf("a string without its end")
}

// count scans an integer from 0 to the largest int.
func (s *jsonScanner) count() (int, error) {
	if c := s.peek(); c < '0' || c > '9' {
		return 0, s.errorf("expected a whole number that is not negative, found %s", s.found())
	}
	start, n := s.pos, 0
	for ; s.pos < len(s.text) && s.text[s.pos] >= '0' && s.text[s.pos] <= '9'; s.pos++ {
		d := int(s.text[s.pos] - '0')
		if n > (math.MaxInt-d)/10 {
			return 0, s.errorf("a number too large to count with")
		}
		n = n*10 + d
	}
	if s.text[start] == '0' && s.pos > start+1 {
		return 0, s.errorf("a number with a leading zero")
	}
	if s.pos < len(s.text) && bytes.IndexByte([]byte(".eE"), s.text[s.pos]) >= 0 {
		return 0, s.errorf("expected a whole number, found %s in it", s.found())
	}
	return n, nil
}

// null scans null, if that comes next.
func (s *jsonScanner) null() bool {
	if s.peek() != 'n' || !bytes.HasPrefix(s.text[s.pos:], []byte("null")) {
		return false
	}
	s.pos += len("null")
	return true
}

// end makes sure that nothing but white space follows.
func (s *jsonScanner) end() error {
	if s.peek(); s.pos < len(s.text) {
		return s.errorf("expected the end, found %s", s.found())
	}
	return nil
}

// validText refuses text that is not UTF-8, which every other string operation here assumes.
func (s *jsonScanner) validText() error {
	for rest := s.text; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 {
			s.pos = len(s.text) - len(rest)
			return s.errorf("text that is not UTF-8")
		}
		rest = rest[n:]
	}
	return nil
}
