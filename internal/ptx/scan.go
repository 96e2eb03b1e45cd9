package ptx

import "fmt"

// scanner splits PTX into tokens. The end is an empty token.
type scanner struct {
	source string
	at     int
	line   int // of the current token
	token  string
	quoted bool // the token is a string
	err    error
}

// fail keeps the first error, with its line.
func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("ptx: line %d: %s", s.line, fmt.Sprintf(format, args...))
	}
	s.token, s.at = "", len(s.source)
}

// isWord says whether a byte can be in a name, a number or an instruction.
func isWord(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' ||
		b == '_' || b == '.' || b == '$' || b == '%'
}

// advance goes to the next token: a word, a string or a sign.
func (s *scanner) advance() {
	s.skip()
	s.quoted = false
	begin := s.at
	switch {
	case s.at == len(s.source):
	case isWord(s.source[s.at]):
		for s.at < len(s.source) {
			if isWord(s.source[s.at]) {
				s.at++
			} else if s.at+2 < len(s.source) && s.source[s.at:s.at+2] == "::" && isWord(s.source[s.at+2]) {
				s.at += 2 // shared::cta
			} else {
				break
			}
		}
	case s.source[s.at] == '"':
		s.quoted = true
		for s.at++; s.at < len(s.source) && s.source[s.at] != '"' && s.source[s.at] != '\n'; s.at++ {
		}
		if s.at == len(s.source) || s.source[s.at] != '"' {
			s.fail("a string does not end")
			return
		}
		s.at++
	default:
		s.at++
	}
	s.token = s.source[begin:s.at]
}

// skip passes spaces and comments.
func (s *scanner) skip() {
	for s.at < len(s.source) {
		switch c := s.source[s.at]; {
		case c == '\n':
			s.line++
			s.at++
		case c == ' ' || c == '\t' || c == '\r':
			s.at++
		case c == '/' && s.at+1 < len(s.source) && s.source[s.at+1] == '/':
			for s.at < len(s.source) && s.source[s.at] != '\n' {
				s.at++
			}
		default:
			return
		}
	}
}

// take advances past a token if it is the current one.
func (s *scanner) take(token string) bool {
	if s.token != token {
		return false
	}
	s.advance()
	return true
}

// want advances past a token that has to be the current one.
func (s *scanner) want(token string) {
	if !s.take(token) {
		s.fail("found %q, want %q", s.token, token)
	}
}

// word returns the current token, which has to be a word, and advances.
func (s *scanner) word() string {
	t := s.token
	if t == "" || s.quoted || !isWord(t[0]) {
		s.fail("found %q, want a name", t)
		return ""
	}
	s.advance()
	return t
}
