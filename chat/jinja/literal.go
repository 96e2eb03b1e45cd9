package jinja

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// number reads an integer or a float, as Python writes them: 10, 1_000, 0xff, 0o7, 0b1, 1.5, 1e-3.
func (l *lexer) number() {
	rest := l.src[l.pos:]
	digits := func(at int, set string) int {
		for at < len(rest) {
			switch {
			case strings.IndexByte(set, rest[at]) >= 0:
				at++
			case rest[at] == '_' && at > 0 && at+1 < len(rest) && strings.IndexByte(set, rest[at+1]) >= 0:
				at += 2
			default:
				return at
			}
		}
		return at
	}
	const dec = "0123456789"
	end, kind := digits(0, dec), tokInt
	if len(rest) > 2 && rest[0] == '0' {
		for _, p := range []struct{ prefix, set string }{{"xX", "0123456789abcdefABCDEF"}, {"oO", "01234567"}, {"bB", "01"}} {
			if strings.IndexByte(p.prefix, rest[1]) >= 0 {
				if e := digits(2, p.set); e > 2 {
					l.emit(tokInt, strings.ReplaceAll(rest[:e], "_", ""))
					l.advance(l.pos + e)
					return
				}
			}
		}
	}
	if l.pos == 0 || l.src[l.pos-1] != '.' {
		if end+1 < len(rest) && rest[end] == '.' && strings.IndexByte(dec, rest[end+1]) >= 0 {
			end, kind = digits(end+1, dec), tokFloat
		}
		if end < len(rest) && (rest[end] == 'e' || rest[end] == 'E') {
			e := end + 1
			if e < len(rest) && (rest[e] == '+' || rest[e] == '-') {
				e++
			}
			if e < len(rest) && strings.IndexByte(dec, rest[e]) >= 0 {
				end, kind = digits(e, dec), tokFloat
			}
		}
	}
	l.emit(kind, strings.ReplaceAll(rest[:end], "_", ""))
	l.advance(l.pos + end)
}

// str reads a quoted string.
func (l *lexer) str(quote byte) error {
	for i := l.pos + 1; i < len(l.src); i++ {
		switch l.src[i] {
		case '\\':
			i++
		case quote:
			value, err := unescape(l.src[l.pos+1 : i])
			if err != "" {
				return l.fail("string literal: %s", err)
			}
			l.emit(tokString, value)
			l.advance(i + 1)
			return nil
		}
	}
	return l.fail("string literal is not closed: expected %q, found the end of the template", string(quote))
}

var simpleEscapes = map[byte]string{
	'\n': "", '\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v",
}

// unescape resolves the backslash escapes of a Python string literal; an unknown one stays as it is. The second result
// says what is wrong with the literal, if anything.
func unescape(s string) (string, string) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, ""
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 >= len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		if text, ok := simpleEscapes[c]; ok {
			b.WriteString(text)
			continue
		}
		switch width := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]; {
		case width > 0:
			if i+width >= len(s) {
				return "", "truncated \\" + string(c) + " escape"
			}
			n, err := strconv.ParseUint(s[i+1:i+1+width], 16, 32)
			if err != nil || n > utf8.MaxRune {
				return "", "wrong \\" + string(c) + " escape"
			}
			i += width
			// Two \u halves of a surrogate pair make one character.
			if c == 'u' && n>>10 == 0xD800>>10 && i+6 < len(s) && s[i+1] == '\\' && s[i+2] == 'u' {
				if low, err := strconv.ParseUint(s[i+3:i+7], 16, 32); err == nil && low>>10 == 0xDC00>>10 {
					n = 0x10000 + (n-0xD800)<<10 + (low - 0xDC00)
					i += 6
				}
			}
			b.WriteRune(rune(n))
		case c >= '0' && c <= '7':
			n, end := 0, i
			for end < len(s) && end < i+3 && s[end] >= '0' && s[end] <= '7' {
				n = n*8 + int(s[end]-'0')
				end++
			}
			i = end - 1
			b.WriteRune(rune(n))
		case c == 'N':
			return "", "\\N escapes are not supported"
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}
