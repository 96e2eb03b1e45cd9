package chat

import (
	"strconv"
	"strings"
)

// pythonRegion is the state between calls in Python's notation: [get_time(zone="UTC"), get_date()].
func (p *Parser) pythonRegion() bool {
	p.keep(len(p.in) - len(strings.TrimLeft(p.in, whiteSpace)))
	if p.in == "" {
		return false
	}
	if over, wait := p.leave(); over || wait {
		return over
	}
	switch b := p.in[0]; {
	case b == '[' && p.nested == 0 && p.pending:
		p.nested++
		p.keep(1)
	case b == ']' && p.nested > 0:
		p.nested--
		p.keep(1)
		if p.mark == "" {
			p.abandon()
			p.state = p.content
		}
	case b == ',' && p.nested > 0 && !p.pending:
		p.keep(1)
	case b == '{' && p.tools.json && p.pending:
		p.state = p.jsonRegion
	case identifier(b) && (p.nested > 0 || p.mark != ""):
		if !p.pending {
			p.open()
		}
		p.object = jsonObject{}
		p.state = p.pythonName
	default:
		return p.fail()
	}
	return true
}

// identifier reports whether b may be in the name of a tool or an argument.
func identifier(b byte) bool {
	return b == '_' || b == '.' || b == '-' || b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9'
}

// pythonName is the state in a tool's name.
func (p *Parser) pythonName() bool {
	name := &p.object.text
	for p.in != "" {
		switch b := p.in[0]; {
		case b == '(':
			p.keep(1)
			p.object.member = name.String()
			p.object.text.Reset()
			p.state = p.pythonKey
			return true
		case !identifier(b) || name.Len() == maxName:
			return p.fail()
		}
		name.WriteString(p.keep(1))
	}
	return false
}

// pythonKey is the state between arguments, and in their names.
func (p *Parser) pythonKey() bool {
	o := &p.object
	for p.in != "" {
		b := p.in[0]
		switch blank := strings.IndexByte(whiteSpace, b) >= 0; {
		case b == ')' && o.text.Len() == 0:
			p.keep(1)
			return p.pythonCallEnds()
		case b == '=' && o.text.Len() > 0:
			if !p.named && !p.begin("", o.member) {
				return p.fail()
			}
			p.keep(1)
			open := ", "
			if !o.given {
				o.given, open = true, "{"
			}
			p.argue(open + quote(o.text.String()) + ": ")
			o.text.Reset()
			p.value, p.state = jsonScan{}, p.pythonValue
			return true
		case b == ',' && o.given && o.text.Len() == 0, blank:
			p.keep(1)
		case !identifier(b) || o.text.Len() == maxName:
			return p.broken()
		default:
			o.text.WriteString(p.keep(1))
		}
	}
	return false
}

// pythonCallEnds ends a call after its parenthesis.
func (p *Parser) pythonCallEnds() bool {
	if !p.named && !p.begin("", p.object.member) {
		return p.fail()
	}
	if !p.object.given {
		p.argue("{")
	}
	p.argue("}")
	p.finish()
	p.state = p.pythonRegion
	return true
}

// pythonValue is the state in an argument's value.
func (p *Parser) pythonValue() bool {
	o, s := &p.object, &p.value
	for i := range len(p.in) {
		switch b := p.in[i]; {
		case s.escaped:
			s.escaped = false
		case s.quoted && b == '\\':
			s.escaped = true
		case s.quoted:
			s.quoted = b != o.quote
		case b == '"' || b == '\'':
			s.quoted, o.quote = true, b
		case s.depth == 0 && (b == ',' || b == ')'):
			o.text.WriteString(p.take(i))
			p.argue(pythonJSON(o.text.String()))
			o.text.Reset()
			p.state = p.pythonKey
			return true
		case b == '(' || b == '[' || b == '{':
			s.depth++
		case b == ')' || b == ']' || b == '}':
			s.depth--
		}
	}
	o.text.WriteString(p.take(len(p.in)))
	return false
}

// pythonJSON returns a Python literal as JSON: as text, if it is none.
func pythonJSON(text string) string {
	r := literal{in: strings.TrimSpace(text)}
	if r.read(0); r.bad || strings.TrimSpace(r.in) != "" {
		return quote(strings.TrimSpace(text))
	}
	return r.out.String()
}

// literal reads a Python literal and writes it as JSON.
type literal struct {
	in  string
	out strings.Builder
	bad bool
}

func (r *literal) space() { r.in = strings.TrimLeft(r.in, whiteSpace) }

// accept takes a byte if it is next.
func (r *literal) accept(b byte) bool {
	if r.in == "" || r.in[0] != b {
		return false
	}
	r.in = r.in[1:]
	return true
}

func (r *literal) read(depth int) {
	r.space()
	if r.in == "" || depth > maxLiteralDepth {
		r.bad = true
		return
	}
	switch b := r.in[0]; b {
	case '"', '\'':
		r.text()
	case '[':
		r.list(']', depth)
	case '(':
		r.list(')', depth)
	case '{':
		r.dict(depth)
	default:
		r.word()
	}
}

// maxLiteralDepth bounds how deeply a literal's lists may be nested.
const maxLiteralDepth = 64

func (r *literal) list(end byte, depth int) {
	r.in = r.in[1:]
	r.out.WriteByte('[')
	for n := 0; !r.bad; n++ {
		if r.space(); r.accept(end) {
			break
		}
		if n > 0 {
			if !r.accept(',') {
				r.bad = true
				return
			}
			if r.space(); r.accept(end) {
				break
			}
			r.out.WriteString(", ")
		}
		r.read(depth + 1)
	}
	r.out.WriteByte(']')
}

func (r *literal) dict(depth int) {
	r.in = r.in[1:]
	r.out.WriteByte('{')
	for n := 0; !r.bad; n++ {
		if r.space(); r.accept('}') {
			break
		}
		if n > 0 {
			if !r.accept(',') {
				r.bad = true
				return
			}
			if r.space(); r.accept('}') {
				break
			}
			r.out.WriteString(", ")
		}
		if r.space(); r.in == "" || r.in[0] != '"' && r.in[0] != '\'' {
			r.bad = true
			return
		}
		r.text()
		if r.space(); !r.accept(':') {
			r.bad = true
			return
		}
		r.out.WriteString(": ")
		r.read(depth + 1)
	}
	r.out.WriteByte('}')
}

// text reads a string, or several in a row, which are one.
func (r *literal) text() {
	var all strings.Builder
	for r.in != "" && (r.in[0] == '"' || r.in[0] == '\'') {
		mark := r.in[0]
		r.in = r.in[1:]
		for {
			c, _, rest, err := strconv.UnquoteChar(r.in, mark)
			if err != nil {
				if r.accept(mark) {
					break
				}
				if len(r.in) < 2 { // its end is missing
					r.bad = true
					return
				}
				all.WriteString(r.in[:1]) // a line break, an unknown escape or the other quotation mark
				r.in = r.in[1:]
				continue
			}
			r.in = rest
			all.WriteRune(c)
		}
		r.space()
	}
	r.out.WriteString(quote(all.String()))
}

// word reads a number, True, False or None.
func (r *literal) word() {
	n := strings.IndexAny(r.in, " \t\r\n,:()[]{}")
	if n < 0 {
		n = len(r.in)
	}
	word := r.in[:n]
	r.in = r.in[n:]
	switch word {
	case "True", "true":
		r.out.WriteString("true")
	case "False", "false":
		r.out.WriteString("false")
	case "None", "null":
		r.out.WriteString("null")
	default:
		number := strings.ReplaceAll(strings.TrimPrefix(word, "+"), "_", "")
		if s := jsonNumber(number); s != "" {
			r.out.WriteString(s)
			return
		}
		r.bad = true
	}
}

// jsonNumber returns a number as JSON writes it, "" if it is none that JSON has.
func jsonNumber(word string) string {
	if n, err := strconv.ParseInt(word, 0, 64); err == nil {
		return strconv.FormatInt(n, 10)
	}
	x, err := strconv.ParseFloat(word, 64)
	if err != nil || x-x != 0 {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}
