package chat

import (
	"encoding/json"
	"strings"
)

// maxName bounds the bytes of a tool's name, of a parameter's and of the tags around them: what is longer is no call.
const maxName = 512

// jsonScan finds the end of a JSON value, byte by byte.
type jsonScan struct {
	depth           int // open objects and arrays
	quoted, escaped bool
	scalar          bool // a number or a word
	begun           bool
}

// end returns how many bytes of text belong to the value, and whether it ends there. A '<' outside of a string ends any
// value: it is no JSON, but may begin a mark.
func (s *jsonScan) end(text string) (n int, over bool) {
	for i := range len(text) {
		switch b := text[i]; {
		case s.escaped:
			s.escaped = false
		case s.quoted && b == '\\':
			s.escaped = true
		case s.quoted && b == '"':
			if s.quoted = false; s.depth == 0 {
				return i + 1, true
			}
		case s.quoted:
		case b == '<' || s.scalar && s.depth == 0 && strings.IndexByte(" \t\r\n,;:{}[]\"", b) >= 0:
			return i, true
		case b == '"':
			s.quoted, s.begun = true, true
		case b == '{' || b == '[':
			s.depth++
			s.begun = true
		case b == '}' || b == ']':
			if s.depth--; s.depth <= 0 {
				return i + 1, true
			}
		case !s.begun:
			s.scalar, s.begun = true, true
		}
	}
	return len(text), false
}

// jsonObject is the state of reading a call that is an object, {"name": …, "arguments": {…}}, or one with only one
// member, {name: arguments}.
type jsonObject struct {
	depth  int    // objects around the members: {"type": "function", "function": {"name": …}} has two
	phase  int    // what comes next
	member string // whose value is read
	stream bool   // the value is arguments, which are told as they come
	text   strings.Builder
	args   string // that came before the name
	given  bool   // there were arguments
	id     string
	quote  byte // of a text in Python's notation
}

const (
	wantKey = iota
	wantColon
	wantValue
	inValue
	wantComma
)

// jsonRegion is the state between calls that are JSON objects, alone, one after the other, or in a list.
func (p *Parser) jsonRegion() bool {
	p.keep(len(p.in) - len(strings.TrimLeft(p.in, whiteSpace)))
	if p.in == "" {
		return false
	}
	if over, wait := p.leave(); over || wait {
		return over
	}
	switch b := p.in[0]; {
	case b == '{':
		p.open()
		p.object = jsonObject{depth: 1}
		p.keep(1)
		p.state = p.jsonMembers
	case b == '[' && p.nested < 4:
		p.nested++
		p.keep(1)
	case b == ']' && p.nested > 0:
		p.nested--
		p.keep(1)
	case b == ',' || b == ';' && p.nested == 0:
		p.keep(1)
	default:
		return p.fail()
	}
	return true
}

// open begins a call whose name is yet to come.
func (p *Parser) open() { p.named, p.pending = false, true }

// leave leaves the region if its closing mark is next.
func (p *Parser) leave() (over, wait bool) {
	mark, wait := p.markAt(0, p.tools.closes(p.mark))
	if mark != "" {
		p.keep(len(mark))
		p.abandon()
		p.state = p.content
	}
	return mark != "", wait
}

// jsonMembers is the state between the members of a call.
func (p *Parser) jsonMembers() bool {
	o := &p.object
	p.keep(len(p.in) - len(strings.TrimLeft(p.in, whiteSpace)))
	if p.in == "" {
		return false
	}
	switch b := p.in[0]; {
	case o.phase == wantKey && b == '"':
		key, n, ok := jsonString(p.in)
		if !ok || n > maxName {
			return p.broken()
		}
		if n == 0 {
			return false
		}
		p.keep(n)
		o.member, o.phase = key, wantColon
	case o.phase == wantColon && b == ':':
		p.keep(1)
		o.phase = wantValue
	case o.phase == wantValue:
		return p.jsonValueBegins(b)
	case o.phase == wantComma && b == ',':
		p.keep(1)
		o.phase = wantKey
	case (o.phase == wantComma || o.phase == wantKey) && b == '}':
		p.keep(1)
		o.phase = wantComma
		if o.depth--; o.depth == 0 {
			return p.jsonCallEnds()
		}
	default:
		return p.broken()
	}
	return true
}

// jsonValueBegins decides what becomes of a member's value.
func (p *Parser) jsonValueBegins(b byte) bool {
	o := &p.object
	if o.member == "function" && b == '{' && o.depth == 1 {
		p.keep(1)
		o.depth, o.phase = 2, wantKey
		return true
	}
	if p.tools.keyed && o.depth == 1 && b == '{' && !p.named {
		if !p.begin("", o.member) {
			return p.broken()
		}
		o.member = "arguments"
	}
	o.stream = isArguments(o.member) && p.named && b == '{'
	o.text.Reset()
	o.phase, p.value, p.state = inValue, jsonScan{}, p.jsonValue
	return true
}

func isArguments(member string) bool { return member == "arguments" || member == "parameters" }

// jsonValue is the state inside of a member's value.
func (p *Parser) jsonValue() bool {
	o := &p.object
	n, over := p.value.end(p.in)
	text := p.keep(n)
	if o.stream {
		p.argue(text)
	} else {
		o.text.WriteString(text)
	}
	if !over {
		return false
	}
	o.phase, p.state = wantComma, p.jsonMembers
	value := o.text.String()
	switch o.member {
	case "name", "tool_name", "function":
		name, _, ok := jsonString(value)
		if !ok || p.named || !p.begin(o.id, name) {
			return p.broken()
		}
		if o.given {
			p.argue(o.args)
		}
	case "id", "tool_call_id":
		if id, _, ok := jsonString(value); ok && p.tools.ownIDs {
			o.id = id
		}
	case "arguments", "parameters":
		if o.given = true; !o.stream {
			o.args = jsonArguments(value)
			if p.named {
				p.argue(o.args)
			}
		}
	}
	return true
}

// jsonArguments returns arguments as JSON text: some models write that text as a string.
func jsonArguments(value string) string {
	if s, _, ok := jsonString(value); ok && json.Valid([]byte(s)) {
		return s
	}
	if value == "null" {
		return "{}"
	}
	return value
}

// jsonCallEnds ends a call whose object is complete.
func (p *Parser) jsonCallEnds() bool {
	if !p.named {
		return p.fail()
	}
	if !p.object.given {
		p.argue("{}")
	}
	p.finish()
	p.state = p.jsonRegion
	return true
}

// broken leaves a call that is not written as it should be. If its name is known, it ends there, and what follows is
// skipped up to the closing mark.
func (p *Parser) broken() bool {
	if !p.named {
		return p.fail()
	}
	p.finish()
	p.state = p.skip
	return true
}

// skip is the state after a broken call.
func (p *Parser) skip() bool {
	marks := p.tools.closes(p.mark)
	if len(marks) == 0 {
		p.state = p.content
		return true
	}
	if _, mark := p.until(marks...); mark == "" {
		return false
	}
	p.state = p.content
	return true
}

// jsonString reads the string that text begins with, of n bytes; n is 0 if it has no end yet. ok is false if it is no
// string, or too long.
func jsonString(text string) (s string, n int, ok bool) {
	if text == "" || text[0] != '"' {
		return "", 0, false
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			err := json.Unmarshal([]byte(text[:i+1]), &s)
			return s, i + 1, err == nil
		}
	}
	return "", 0, len(text) <= maxName
}
