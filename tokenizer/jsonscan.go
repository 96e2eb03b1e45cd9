package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// jsonScanner walks JSON that is known to be well-formed. It exists because vocabularies are the bulk of
// tokenizer.json, and reflection over hundreds of thousands of pairs is slow.
type jsonScanner struct {
	in  string
	pos int
}

var errJSONShape = errors.New("not of the expected shape")

func (s *jsonScanner) space() {
	for s.pos < len(s.in) && strings.IndexByte(" \t\r\n", s.in[s.pos]) >= 0 {
		s.pos++
	}
}

func (s *jsonScanner) accept(b byte) bool {
	if s.space(); s.pos < len(s.in) && s.in[s.pos] == b {
		s.pos++
		return true
	}
	return false
}

func (s *jsonScanner) str() (string, error) {
	if !s.accept('"') {
		return "", fmt.Errorf("%w: a string is expected at byte %d", errJSONShape, s.pos)
	}
	start, escaped := s.pos, false
	for ; s.pos < len(s.in) && s.in[s.pos] != '"'; s.pos++ {
		if s.in[s.pos] == '\\' {
			escaped = true
			s.pos++
		}
	}
	if s.pos >= len(s.in) {
		return "", errJSONShape
	}
	s.pos++
	if !escaped {
		return s.in[start : s.pos-1], nil
	}
	var out string
	err := json.Unmarshal([]byte(s.in[start-1:s.pos]), &out)
	return out, err
}

func (s *jsonScanner) number() (float64, error) {
	s.space()
	start := s.pos
	for s.pos < len(s.in) && strings.IndexByte("+-.0123456789eE", s.in[s.pos]) >= 0 {
		s.pos++
	}
	v, err := strconv.ParseFloat(s.in[start:s.pos], 64)
	if err != nil {
		return 0, fmt.Errorf("%w: a number is expected at byte %d", errJSONShape, start)
	}
	return v, nil
}

// list walks the elements between open and close.
func (s *jsonScanner) list(open, close byte, element func() error) error {
	if !s.accept(open) {
		return fmt.Errorf("%w: %q is expected at byte %d", errJSONShape, open, s.pos)
	}
	for !s.accept(close) {
		if err := element(); err != nil {
			return err
		}
		if !s.accept(',') && (s.pos >= len(s.in) || s.in[s.pos] != close) {
			return errJSONShape
		}
	}
	return nil
}

// vocabObject reads {"token": id, …}.
func vocabObject(in string, on func(token string, id float64)) error {
	s := &jsonScanner{in: in}
	return s.list('{', '}', func() error {
		token, err := s.str()
		if err != nil || !s.accept(':') {
			return errors.Join(errJSONShape, err)
		}
		id, err := s.number()
		if err == nil {
			on(token, id)
		}
		return err
	})
}

// vocabList reads [["token", score], …].
func vocabList(in string, on func(token string, score float64)) error {
	s := &jsonScanner{in: in}
	return s.list('[', ']', func() error {
		var token string
		var score float64
		n := 0
		err := s.list('[', ']', func() (err error) {
			if n++; n == 1 {
				token, err = s.str()
			} else {
				score, err = s.number()
			}
			return err
		})
		if err == nil && n != 2 {
			err = fmt.Errorf("%w: a token and its score are expected, there are %d values", errJSONShape, n)
		}
		if err == nil {
			on(token, score)
		}
		return err
	})
}

// mergeList reads ["a b", …] or [["a", "b"], …].
func mergeList(in string, on func(a, b string) error) error {
	s := &jsonScanner{in: in}
	return s.list('[', ']', func() error {
		if s.space(); s.pos < len(s.in) && s.in[s.pos] == '"' {
			line, err := s.str()
			if err != nil || strings.HasPrefix(line, "#version") {
				return err
			}
			a, b, ok := strings.Cut(line, " ")
			if !ok || strings.Contains(b, " ") {
				return fmt.Errorf("merge %q is not two tokens with a space between", line)
			}
			return on(a, b)
		}
		var pair [2]string
		n := 0
		err := s.list('[', ']', func() (err error) {
			var part string
			if part, err = s.str(); n < 2 {
				pair[n] = part
			}
			n++
			return err
		})
		if err == nil && n != 2 {
			err = fmt.Errorf("merge of %d tokens, not 2", n)
		}
		if err != nil {
			return err
		}
		return on(pair[0], pair[1])
	})
}
