package chat

import "strings"

// namedCall is a call that names its tool first and then gives the arguments as a JSON value: head, the name, sep, lead
// (which may be missing), the arguments, tail.
type namedCall struct {
	head, tail string
	sep        []string                            // any of them; "{" begins the arguments itself
	idMark     string                              // one of sep, between a name and an id
	lead       string                              // between sep and the arguments
	name       func(text string) (id, name string) // of what is between head and sep; nil is that text
}

// namedRegion is the state between calls that name their tool first.
func (p *Parser) namedRegion() bool {
	p.keep(len(p.in) - len(strings.TrimLeft(p.in, whiteSpace)))
	if p.in == "" {
		return false
	}
	if over, wait := p.leave(); over || wait {
		return over
	}
	c := p.tools.named
	if c.head == "" && p.calls > 0 && !p.pending { // the mark comes before each call
		return p.fail()
	}
	if c.head == "" && p.tools.json && (p.in[0] == '[' || p.in[0] == '{') {
		p.state = p.jsonRegion
		return true
	}
	if head, wait := p.markAt(0, []string{c.head}); wait {
		return false
	} else if c.head != "" && head == "" {
		return p.fail()
	}
	p.open()
	p.keep(len(c.head))
	p.object = jsonObject{}
	p.state = p.namedName
	return true
}

// namedName is the state in a call's name.
func (p *Parser) namedName() bool {
	o, c := &p.object, p.tools.named
	mark, ok := p.word(&o.text, c.sep...)
	if !ok {
		return p.fail()
	}
	if mark == "" {
		return false
	}
	id, name := "", strings.TrimSpace(o.text.String())
	if mark == c.idMark {
		o.member = name
		o.text.Reset()
		return true
	}
	if o.member != "" {
		id, name = name, o.member
	} else if c.name != nil {
		id, name = c.name(name)
	}
	if !p.begin(id, name) {
		return p.fail()
	}
	if mark == "{" {
		p.in = mark + p.in
	}
	p.state = p.namedLead
	return true
}

// namedLead is the state before the arguments.
func (p *Parser) namedLead() bool {
	p.space()
	if p.in == "" {
		return false
	}
	if lead := p.tools.named.lead; lead != "" {
		if mark, wait := p.markAt(0, []string{lead}); wait {
			return false
		} else if mark != "" {
			p.take(len(mark))
			return true
		}
	}
	if p.in[0] != '{' {
		p.argue("{}")
		return p.broken()
	}
	p.value, p.state = jsonScan{}, p.namedArguments
	return true
}

// namedArguments is the state in the arguments.
func (p *Parser) namedArguments() bool {
	n, over := p.value.end(p.in)
	p.argue(p.take(n))
	if over {
		p.finish()
		p.state = p.namedTail
	}
	return over
}

// namedTail is the state after the arguments.
func (p *Parser) namedTail() bool {
	c := p.tools.named
	if c.tail == "" {
		p.state = p.afterNamed()
		return true
	}
	marks := append(p.tools.closes(p.mark), c.tail)
	_, mark := p.until(marks...)
	if mark == "" {
		return false
	}
	p.state = p.content
	if mark == c.tail {
		p.state = p.afterNamed()
	}
	return true
}

// afterNamed returns the state after a call: in the region that holds it, or in the content.
func (p *Parser) afterNamed() func() bool {
	if len(p.tools.closes(p.mark)) == 0 {
		return p.content
	}
	return p.namedRegion
}
