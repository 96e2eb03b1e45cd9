package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// style is a set of ways in which a terminal can show text.
type style int

const (
	bold style = 1 << iota
	dim
	italic
	underlined
	mono // of code
)

// sequence is what sets a terminal to the style: ECMA-48, "select graphic rendition".
func (s style) sequence() string {
	out := "\x1b[0"
	for i, parameter := range []int{1, 2, 3, 4, 36} {
		if s&(1<<i) != 0 {
			out += fmt.Sprintf(";%d", parameter)
		}
	}
	return out + "m"
}

// span is a piece of text in one style.
type span struct {
	text  string
	style style
}

type spans []span

// parseSpans reads the emphases and the code within a line of Markdown. prev is what precedes it, 0 for nothing. open
// reports that a mark's other half is missing, which may follow; the mark is taken for text.
func parseSpans(s string, prev rune, in style) (out spans, open bool) {
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		if r == '\\' && len(s) > 1 && strings.ContainsRune("\\`*_#", rune(s[1])) {
			out, prev, s = append(out, span{s[1:2], in}), rune(s[1]), s[2:]
			continue
		}
		mark, kind := markAt(s)
		if mark == "" || kind != mono && isWord(prev) {
			out, prev, s = append(out, span{s[:size], in}), r, s[size:]
			continue
		}
		inner, after, found := cutMark(s[len(mark):], mark)
		switch {
		case !found:
			open = open || kind == mono || !strings.HasPrefix(s[len(mark):], " ")
			out, s = append(out, span{mark, in}), s[len(mark):]
		case kind == mono:
			if trimmed := strings.TrimSpace(inner); trimmed != "" {
				inner = trimmed
			}
			out, s = append(out, span{inner, in | mono}), after
		default:
			nested, _ := parseSpans(inner, 0, in|kind)
			out, s = append(out, nested...), after
		}
		prev, _ = utf8.DecodeLastRuneInString(mark)
	}
	return out, open
}

// markAt returns the mark that a text begins with, "" if it begins with none.
func markAt(s string) (string, style) {
	if n := len(s) - len(strings.TrimLeft(s, "`")); n > 0 {
		return s[:n], mono
	}
	for _, m := range []struct {
		mark string
		style
	}{{"***", bold | italic}, {"**", bold}, {"__", bold}, {"*", italic}, {"_", italic}} {
		if strings.HasPrefix(s, m.mark) {
			return m.mark, m.style
		}
	}
	return "", 0
}

// cutMark splits a text at the mark that ends what began with the same mark.
func cutMark(s, mark string) (inner, after string, found bool) {
	for i := 1; i+len(mark) <= len(s); i++ {
		if s[i:i+len(mark)] != mark || s[i-1] == mark[0] && mark[0] == '`' {
			continue
		}
		rest := s[i+len(mark):]
		if mark[0] == '`' {
			if !strings.HasPrefix(rest, "`") {
				return s[:i], rest, true
			}
			continue
		}
		next, _ := utf8.DecodeRuneInString(rest)
		if s[i-1] != ' ' && s[0] != ' ' && !strings.HasPrefix(rest, mark[:1]) && (len(mark) > 1 || s[i-1] != mark[0] && !isWord(next)) {
			return s[:i], rest, true
		}
	}
	return "", "", false
}

// isWord reports whether a mark beside a character is part of a word, such as snake_case, or of a formula. Chinese has
// no spaces around emphasis.
func isWord(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsDigit(r)) && !unicode.Is(unicode.Han, r)
}
