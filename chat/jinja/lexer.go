package jinja

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokData
	tokVarBegin
	tokVarEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
)

// A token is one word of the source. text is the data, the name, the operator, the number as written, or the string's
// value after its escapes are resolved.
type token struct {
	kind tokenKind
	text string
	line int
}

func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "end of template"
	case tokData:
		return "template data"
	case tokVarBegin:
		return `"{{"`
	case tokVarEnd:
		return `"}}"`
	case tokBlockBegin:
		return `"{%"`
	case tokBlockEnd:
		return `"%}"`
	}
	return fmt.Sprintf("%q", t.text)
}

// lexer splits a source as jinja2 does with trim_blocks (the first newline after a block tag or comment is dropped) and
// lstrip_blocks (so is the blank text before one that begins its line).
type lexer struct {
	src       string
	pos       int
	line      int
	lineStart bool // the last thing read ended in a newline
	tokens    []token
}

// lex returns the tokens of a template, the last of them tokEOF.
func lex(source string) ([]token, error) {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	source = strings.TrimSuffix(source, "\n")
	l := &lexer{src: source, line: 1, lineStart: true}
	for l.pos < len(l.src) {
		if err := l.root(); err != nil {
			return nil, err
		}
	}
	l.emit(tokEOF, "")
	return l.tokens, nil
}

func (l *lexer) emit(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind, text, l.line})
}

// advance moves to position to, counting lines.
func (l *lexer) advance(to int) {
	if to > l.pos {
		l.line += strings.Count(l.src[l.pos:to], "\n")
		l.lineStart = l.src[to-1] == '\n'
		l.pos = to
	}
}

func (l *lexer) fail(format string, args ...any) error {
	return &Error{Line: l.line, Msg: fmt.Sprintf(format, args...)}
}

// root reads text up to the next tag, and that tag.
func (l *lexer) root() error {
	start := l.pos
	for {
		i := strings.IndexByte(l.src[start:], '{')
		if i < 0 || start+i+1 >= len(l.src) {
			l.emit(tokData, l.src[l.pos:])
			l.advance(len(l.src))
			return nil
		}
		start += i
		if c := l.src[start+1]; c == '%' || c == '{' || c == '#' {
			break
		}
		start++
	}
	tag, open := l.src[start+1], start+2
	var sign byte
	if open < len(l.src) && (l.src[open] == '-' || l.src[open] == '+') {
		sign = l.src[open]
		open++
	}
	if text := l.strip(l.src[l.pos:start], sign, tag != '{'); text != "" {
		l.emit(tokData, text)
	}
	l.advance(start)
	if tag == '%' {
		if end, ok := l.rawBegin(open); ok {
			l.advance(end)
			return l.raw()
		}
	}
	switch tag {
	case '#':
		l.advance(open)
		return l.comment()
	case '{':
		l.emit(tokVarBegin, "")
	default:
		l.emit(tokBlockBegin, "")
	}
	l.advance(open)
	return l.inside(tag == '%')
}

// strip removes white space from text that precedes a tag, as the tag's sign or lstrip_blocks requires.
func (l *lexer) strip(text string, sign byte, block bool) string {
	if sign == '-' {
		return strings.TrimRightFunc(text, isSpace)
	}
	if sign == '+' || !block {
		return text
	}
	cut := strings.LastIndexByte(text, '\n') + 1
	if (cut > 0 || l.lineStart) && strings.TrimFunc(text[cut:], isSpace) == "" {
		return text[:cut]
	}
	return text
}

func (l *lexer) skipSpace(at int) int {
	rest := l.src[at:]
	return at + len(rest) - len(strings.TrimLeftFunc(rest, isSpace))
}

// rawBegin reports whether "raw %}" follows at, and where it ends.
func (l *lexer) rawBegin(at int) (int, bool) {
	at = l.skipSpace(at)
	if !strings.HasPrefix(l.src[at:], "raw") {
		return 0, false
	}
	at = l.skipSpace(at + len("raw"))
	switch {
	case strings.HasPrefix(l.src[at:], "-%}"):
		return l.skipSpace(at + 3), true
	case strings.HasPrefix(l.src[at:], "%}"):
		return at + 2, true
	}
	return 0, false
}

// raw reads verbatim text up to the endraw tag.
func (l *lexer) raw() error {
	for from := l.pos; ; {
		i := strings.Index(l.src[from:], "{%")
		if i < 0 {
			return l.fail(`tag "raw" is not closed: expected "{%% endraw %%}", found the end of the template`)
		}
		start := from + i
		from = start + 2
		at := from
		var sign byte
		if at < len(l.src) && (l.src[at] == '-' || l.src[at] == '+') {
			sign = l.src[at]
			at++
		}
		at = l.skipSpace(at)
		if !strings.HasPrefix(l.src[at:], "endraw") {
			continue
		}
		end := l.blockEnd(l.skipSpace(at + len("endraw")))
		if end < 0 {
			continue
		}
		if text := l.strip(l.src[l.pos:start], sign, true); text != "" {
			l.emit(tokData, text)
		}
		l.advance(end)
		return nil
	}
}

func (l *lexer) comment() error {
	i := strings.Index(l.src[l.pos:], "#}")
	if i < 0 {
		return l.fail(`comment is not closed: expected "#}", found the end of the template`)
	}
	end := l.pos + i + 2
	switch {
	case i > 0 && l.src[end-3] == '-':
		end = l.skipSpace(end)
	case i > 0 && l.src[end-3] == '+':
	case strings.HasPrefix(l.src[end:], "\n"):
		end++
	}
	l.advance(end)
	return nil
}

// blockEnd returns where the text after a block's end begins, or -1 if no block ends at this position.
func (l *lexer) blockEnd(at int) int {
	switch rest := l.src[at:]; {
	case strings.HasPrefix(rest, "%}\n"):
		return at + 3
	case strings.HasPrefix(rest, "%}"):
		return at + 2
	case strings.HasPrefix(rest, "+%}"):
		return at + 3
	case strings.HasPrefix(rest, "-%}"):
		return l.skipSpace(at + 3)
	}
	return -1
}

func (l *lexer) varEnd(at int) int {
	switch rest := l.src[at:]; {
	case strings.HasPrefix(rest, "}}"):
		return at + 2
	case strings.HasPrefix(rest, "-}}"):
		return l.skipSpace(at + 3)
	}
	return -1
}

var operators = []string{
	"//", "**", "==", "!=", ">=", "<=",
	"+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";",
}

// inside reads the expression tokens of a block or variable tag, and its end.
func (l *lexer) inside(block bool) error {
	var open []byte // closing brackets still expected
	for l.pos < len(l.src) {
		if len(open) == 0 {
			end, kind := l.varEnd(l.pos), tokVarEnd
			if block {
				end, kind = l.blockEnd(l.pos), tokBlockEnd
			}
			if end >= 0 {
				l.emit(kind, "")
				l.advance(end)
				return nil
			}
		}
		if at := l.skipSpace(l.pos); at > l.pos {
			l.advance(at)
			continue
		}
		c := l.src[l.pos]
		switch {
		case c >= '0' && c <= '9':
			l.number()
			continue
		case c == '\'' || c == '"':
			if err := l.str(c); err != nil {
				return err
			}
			continue
		}
		if n := nameLen(l.src[l.pos:]); n > 0 {
			l.emit(tokName, l.src[l.pos:l.pos+n])
			l.advance(l.pos + n)
			continue
		}
		op := l.operator()
		if op == "" {
			r, _ := utf8.DecodeRuneInString(l.src[l.pos:])
			return l.fail("unexpected character %q", r)
		}
		switch op {
		case "(", "[", "{":
			open = append(open, map[string]byte{"(": ')', "[": ']', "{": '}'}[op])
		case ")", "]", "}":
			if len(open) == 0 {
				return l.fail("unexpected %q", op)
			}
			if want := open[len(open)-1]; want != op[0] {
				return l.fail("expected %q, found %q", string(want), op)
			}
			open = open[:len(open)-1]
		}
		l.emit(tokOp, op)
		l.advance(l.pos + len(op))
	}
	return nil
}

func (l *lexer) operator() string {
	for _, op := range operators {
		if strings.HasPrefix(l.src[l.pos:], op) {
			return op
		}
	}
	return ""
}

func nameLen(s string) int {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.Mn, r) {
			return i
		}
	}
	return len(s)
}
