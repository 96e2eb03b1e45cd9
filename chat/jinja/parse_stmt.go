package jinja

import "fmt"

// parser turns tokens into statements by recursive descent.
type parser struct {
	tokens   []token
	i        int
	depth    int
	optional int         // greater than 0 inside code that may not be reached: if blocks and conditional expressions
	unknown  error       // an unknown filter or test in what has been read of an expression that will be reached
	macros   []*macroDef // the macros being read, innermost last
	loops    []bool      // whether break and continue reach each block being read, innermost last
}

func (p *parser) cur() token { return p.tokens[min(p.i, len(p.tokens)-1)] }
func (p *parser) peek() token {
	return p.tokens[min(p.i+1, len(p.tokens)-1)]
}
func (p *parser) line() at             { return at(p.cur().line) }
func (p *parser) isOp(op string) bool  { t := p.cur(); return t.kind == tokOp && t.text == op }
func (p *parser) isName(n string) bool { t := p.cur(); return t.kind == tokName && t.text == n }

func (p *parser) skipOp(op string) bool {
	ok := p.isOp(op)
	if ok {
		p.i++
	}
	return ok
}

func (p *parser) skipName(n string) bool {
	ok := p.isName(n)
	if ok {
		p.i++
	}
	return ok
}

func (p *parser) fail(format string, args ...any) error {
	return &Error{Line: p.cur().line, Msg: fmt.Sprintf(format, args...)}
}

func (p *parser) expectOp(op string) error {
	if !p.skipOp(op) {
		return p.fail("expected %q, found %s", op, p.cur())
	}
	return nil
}

func (p *parser) expectName(what string) (string, error) {
	t := p.cur()
	if t.kind != tokName {
		return "", p.fail("expected %s, found %s", what, t)
	}
	p.i++
	return t.text, nil
}

func (p *parser) expectBlockEnd() error {
	if p.cur().kind != tokBlockEnd {
		return p.fail(`expected "%%}", found %s`, p.cur())
	}
	p.i++
	return nil
}

// nest counts a level of nesting, to be left by unnest.
func (p *parser) nest() error {
	if p.depth++; p.depth > maxNest*3 { // an expression in parentheses is three levels
		return p.fail("nested more than %d levels deep", maxNest)
	}
	return nil
}

func (p *parser) unnest() { p.depth-- }

// mention notes that the code being read uses a variable, for the names that macros treat specially.
func (p *parser) mention(id string) {
	for _, m := range p.macros {
		m.usesCaller = m.usesCaller || id == "caller"
		m.usesVarargs = m.usesVarargs || id == "varargs"
		m.usesKwargs = m.usesKwargs || id == "kwargs"
	}
}

func (p *parser) template() ([]stmt, error) {
	body, end, err := p.statements()
	if err == nil && end != "" {
		err = p.fail("unexpected tag %q", end)
	}
	return body, err
}

// statements reads up to one of the tags in ends, and that tag's name, which it returns; without ends, up to the end
// of the template, and "".
func (p *parser) statements(ends ...string) (body []stmt, end string, err error) {
	if err := p.nest(); err != nil {
		return nil, "", err
	}
	defer p.unnest()
	opened := p.tokens[max(p.i-1, 0)].line
	for {
		t, line := p.cur(), p.line()
		switch t.kind {
		case tokEOF:
			if ends != nil {
				return nil, "", p.fail("expected tag %q for the block opened on line %d, found the end of the template",
					ends[len(ends)-1], opened)
			}
			return body, "", nil
		case tokData:
			p.i++
			body = append(body, &dataStmt{line, t.text})
		case tokVarBegin:
			p.i++
			x, err := p.tuple(tupleBare)
			if err != nil {
				return nil, "", err
			}
			if p.cur().kind != tokVarEnd {
				return nil, "", p.fail(`expected "}}", found %s`, p.cur())
			}
			p.i++
			if p.unknown != nil {
				return nil, "", p.unknown
			}
			body = append(body, &printStmt{line, x})
		default:
			p.i++
			tag := p.cur()
			for _, e := range ends {
				if p.isName(e) {
					p.i++
					return body, e, nil
				}
			}
			s, err := p.statement()
			if err != nil {
				return nil, "", err
			}
			if p.cur().kind != tokBlockEnd {
				return nil, "", p.fail(`expected "%%}" to end tag %q, found %s`, tag.text, p.cur())
			}
			p.i++
			if p.unknown != nil {
				return nil, "", p.unknown
			}
			body = append(body, s)
		}
	}
}

// block reads the end of an opening tag, a body, and the name of the tag that ends it. An unknown filter in the body is
// an error even if the block stands in a branch, as in jinja2.
func (p *parser) block(ends ...string) ([]stmt, string, error) {
	saved := p.optional
	p.optional = 0
	defer func() { p.optional = saved }()
	return p.branch(ends...)
}

// branch is block for bodies that may not be reached, whose unknown filters may be fine.
func (p *parser) branch(ends ...string) ([]stmt, string, error) {
	p.skipOp(":")
	if err := p.expectBlockEnd(); err != nil {
		return nil, "", err
	}
	return p.statements(ends...)
}

// statement reads a tag whose "{%" has been read, and its body, up to the last "%}".
func (p *parser) statement() (stmt, error) {
	line := p.line()
	tag, err := p.expectName("the name of a tag")
	if err != nil {
		return nil, err
	}
	switch tag {
	case "if":
		return p.ifStatement(line)
	case "for":
		return p.forStatement(line)
	case "set":
		return p.setStatement(line)
	case "macro":
		return p.macroStatement(line)
	case "call":
		return p.callStatement(line)
	case "filter":
		return p.filterStatement(line)
	case "with":
		return p.withStatement(line)
	case "generation":
		body, _, err := p.block("endgeneration")
		return &scopeStmt{line, body}, err
	case "print":
		x, err := p.tuple(tupleBare)
		if t, ok := x.(*listExpr); ok && t.kind == kindTuple {
			x = &concatExpr{line, t.items}
		}
		return &printStmt{line, x}, err
	case "break", "continue":
		if len(p.loops) == 0 || !p.loops[len(p.loops)-1] {
			return nil, &Error{Line: int(line), Msg: fmt.Sprintf("tag %q outside of a loop", tag)}
		}
		return &loopStmt{line, map[string]signal{"break": sigBreak, "continue": sigContinue}[tag]}, nil
	case "extends", "include", "import", "from", "block", "autoescape":
		return nil, &Error{Line: int(line), Msg: fmt.Sprintf("tag %q is not supported in a chat template", tag)}
	}
	return nil, &Error{Line: int(line), Msg: unknown("tag", tag)}
}
