package chat

import (
	"encoding/json"
	"strings"

	"github.com/kvasir-llm/kvasir/chat/jinja"
)

// paramCall is a call whose arguments are tagged one by one, as Qwen3-Coder's and GLM's are: head, the tool's name,
// sep, for each argument key, its name, keyEnd, value, the value, valueEnd, and end. White space may be between tags.
type paramCall struct {
	head, sep       string
	key, keyEnd     string
	value, valueEnd string // value may be ""
	end             string // "" is the mark that closes the region
	trim            bool   // a line break after keyEnd, and one before valueEnd, are no part of a value
}

// paramReader is the state of reading such a call.
type paramReader struct {
	name     string // of the tool
	key      string
	text     strings.Builder
	written  int  // arguments
	textual  bool // the value is text, and is told as it comes
	begun    bool // some of it was
	newline  bool // it ended with a line break, which was not told yet
	declared string
}

// paramRegion is the state between calls with tagged arguments.
func (p *Parser) paramRegion() bool {
	p.keep(len(p.in) - len(strings.TrimLeft(p.in, whiteSpace)))
	if p.in == "" {
		return false
	}
	c := p.tools.param
	if p.mark != c.head {
		if over, wait := p.leave(); over || wait {
			return over
		}
		head, wait := p.markAt(0, []string{c.head})
		switch {
		case wait:
			return false
		case p.tools.json && (p.in[0] == '{' || p.in[0] == '['):
			p.state = p.jsonRegion
			return true
		case c.head != "" && head == "", c.head == "" && !p.pending:
			return p.fail()
		}
		p.open()
		p.keep(len(c.head))
	}
	p.param = paramReader{}
	p.state = p.paramName
	return true
}

// paramEnd returns the tag that ends a call.
func (p *Parser) paramEnd() string {
	if end := p.tools.param.end; end != "" {
		return end
	}
	return p.tools.sections[0].close
}

// paramName is the state in a tool's name.
func (p *Parser) paramName() bool {
	c, r := p.tools.param, &p.param
	mark, ok := p.word(&r.text, c.sep, c.key, p.paramEnd())
	if !ok {
		return p.fail()
	}
	if mark == "" {
		return false
	}
	r.name = strings.TrimSpace(r.text.String())
	if !p.begin("", r.name) {
		return p.fail()
	}
	r.text.Reset()
	switch mark {
	case c.sep:
		p.state = p.paramTags
	case c.key:
		p.state = p.paramKey
	default:
		p.paramCallEnds()
	}
	return true
}

// paramTags is the state between arguments. What is no tag there is skipped.
func (p *Parser) paramTags() bool {
	_, mark := p.until(p.tools.param.key, p.paramEnd())
	switch mark {
	case "":
		return false
	case p.tools.param.key:
		p.state = p.paramKey
	default:
		p.paramCallEnds()
	}
	return true
}

// paramCallEnds ends a call after its last tag.
func (p *Parser) paramCallEnds() {
	if p.param.written == 0 {
		p.argue("{")
	}
	p.argue("}")
	p.finish()
	p.state = p.paramRegion
	if p.tools.param.end == "" || p.mark == p.tools.param.head {
		p.state = p.content
	}
}

// paramKey is the state in an argument's name.
func (p *Parser) paramKey() bool {
	r := &p.param
	mark, ok := p.word(&r.text, p.tools.param.keyEnd)
	if !ok {
		return p.broken()
	}
	if mark == "" {
		return false
	}
	r.key, r.declared = strings.TrimSpace(r.text.String()), ""
	r.text.Reset()
	if key, kind, ok := strings.Cut(r.key, `" string="`); ok { // DeepSeek's say which values are texts
		r.key, r.declared = key, kind
	}
	open := "{"
	if r.written++; r.written > 1 {
		open = ", "
	}
	p.argue(open + quote(r.key) + ": ")
	r.textual = r.declared == "true" || r.declared == "" && p.known[r.name].text(r.key)
	r.begun, r.newline = false, false
	if r.textual {
		p.argue(`"`)
	}
	p.state = p.paramValue
	if p.tools.param.value != "" {
		p.state = p.paramOpen
	}
	return true
}

// paramOpen is the state between an argument's name and the tag before its value.
func (p *Parser) paramOpen() bool {
	_, mark := p.until(p.tools.param.value)
	if mark != "" {
		p.state = p.paramValue
	}
	return mark != ""
}

// paramValue is the state in an argument's value.
func (p *Parser) paramValue() bool {
	c, r := p.tools.param, &p.param
	text, mark := p.until(c.valueEnd)
	if !r.textual {
		r.text.WriteString(text)
	} else {
		p.paramText(text)
	}
	if mark == "" {
		return false
	}
	if r.textual {
		if r.newline && !c.trim {
			p.argue(`\n`)
		}
		p.argue(`"`)
	} else {
		value := r.text.String()
		if c.trim {
			value = strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")
		}
		p.argue(p.known[r.name].value(r.key, value))
		r.text.Reset()
	}
	p.state = p.paramTags
	return true
}

// paramText tells a piece of a value that is text, but for line breaks that may be no part of it.
func (p *Parser) paramText(text string) {
	r := &p.param
	if text != "" && !r.begun {
		if r.begun = true; p.tools.param.trim {
			text = strings.TrimPrefix(text, "\n")
		}
	}
	if text == "" {
		return
	}
	if r.newline {
		text = "\n" + text
	}
	r.newline = strings.HasSuffix(text, "\n")
	quoted := quote(strings.TrimSuffix(text, "\n"))
	p.argue(quoted[1 : len(quoted)-1])
}

// paramTypes are the types that a tool's parameters may have, by name, as far as the schema tells at once.
type paramTypes struct{ types map[string][]string }

// readTypes reads the types of a schema's properties.
func readTypes(schema []byte) *paramTypes {
	type property struct {
		Type  json.RawMessage
		Enum  []any
		AnyOf []property
		OneOf []property
	}
	var s struct{ Properties map[string]json.RawMessage }
	t := &paramTypes{types: map[string][]string{}}
	if json.Unmarshal(schema, &s) != nil {
		return t
	}
	var of func(p property) []string
	of = func(p property) (all []string) {
		var one string
		var list []string
		if json.Unmarshal(p.Type, &one) == nil {
			all = append(all, one)
		} else if json.Unmarshal(p.Type, &list) == nil {
			all = append(all, list...)
		}
		for _, v := range p.Enum {
			if _, ok := v.(string); ok && len(p.Type) == 0 {
				all = append(all, "string")
			} else if !ok {
				all = append(all, "number")
			}
		}
		for _, q := range append(p.AnyOf, p.OneOf...) {
			all = append(all, of(q)...)
		}
		return all
	}
	for name, raw := range s.Properties {
		var p property
		if json.Unmarshal(raw, &p) == nil {
			t.types[name] = of(p)
		}
	}
	return t
}

// text reports whether a parameter is text and nothing else.
func (t *paramTypes) text(name string) bool {
	if t == nil || len(t.types[name]) == 0 {
		return false
	}
	for _, kind := range t.types[name] {
		if kind != "string" {
			return false
		}
	}
	return true
}

// value returns a value that the model wrote without quotes as JSON: text if it is no JSON, or of no type that the
// parameter may have.
func (t *paramTypes) value(name, text string) string {
	trimmed := strings.TrimSpace(text)
	switch trimmed {
	case "True":
		trimmed = "true"
	case "False":
		trimmed = "false"
	case "None":
		trimmed = "null"
	}
	if json.Valid([]byte(trimmed)) && (trimmed[0] != '"' || !t.allows(name, "string")) {
		return trimmed
	}
	return quote(text)
}

// quote returns a JSON string.
func quote(text string) string {
	quoted, err := jinja.EncodeJSON(text, -1)
	if err != nil { // texts always encode
		panic(err)
	}
	return quoted
}

// allows reports whether a parameter may have a type.
func (t *paramTypes) allows(name, kind string) bool {
	if t == nil {
		return false
	}
	for _, k := range t.types[name] {
		if k == kind {
			return true
		}
	}
	return false
}
