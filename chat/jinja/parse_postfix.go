package jinja

// postfix parses attributes, subscripts and calls after x.
func (p *parser) postfix(x expr) (expr, error) {
	for {
		var err error
		switch {
		case p.isOp("."):
			x, err = p.attribute(x)
		case p.isOp("["):
			x, err = p.subscript(x)
		case p.isOp("("):
			x, err = p.call(x)
		default:
			return x, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) attribute(x expr) (expr, error) {
	line := p.line()
	p.i++
	switch t := p.cur(); t.kind {
	case tokName:
		p.i++
		return &attrExpr{line, x, t.text}, nil
	case tokInt:
		p.i++
		index, err := p.integer(t)
		return &itemExpr{line, x, index}, err
	default:
		return nil, p.fail(`expected a name or a number after ".", found %s`, t)
	}
}

func (p *parser) subscript(x expr) (expr, error) {
	s := &sliceExpr{at: p.line(), obj: x}
	p.i++
	var err error
	if !p.isOp(":") {
		if s.lo, err = p.expression(); err != nil {
			return nil, err
		}
		if p.skipOp("]") {
			return &itemExpr{s.at, x, s.lo}, nil
		}
		if p.isOp(",") {
			index := &listExpr{s.at, kindTuple, []expr{s.lo}}
			for p.skipOp(",") {
				item, err := p.expression()
				if err != nil {
					return nil, err
				}
				index.items = append(index.items, item)
			}
			return &itemExpr{s.at, x, index}, p.expectOp("]")
		}
	}
	if err := p.expectOp(":"); err != nil {
		return nil, err
	}
	if !p.isOp(":") && !p.isOp("]") {
		if s.hi, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if p.skipOp(":") && !p.isOp("]") {
		if s.step, err = p.expression(); err != nil {
			return nil, err
		}
	}
	return s, p.expectOp("]")
}

func (p *parser) call(fn expr) (*callExpr, error) {
	c := &callExpr{at: p.line(), fn: fn}
	var err error
	c.args, err = p.arguments()
	return c, err
}

func (p *parser) arguments() (argList, error) {
	var a argList
	if err := p.expectOp("("); err != nil {
		return a, err
	}
	for !p.isOp(")") {
		var err error
		switch {
		case p.isOp("**") && a.star2 == nil:
			p.i++
			a.star2, err = p.expression()
		case p.isOp("*") && a.star == nil && a.star2 == nil:
			p.i++
			a.star, err = p.expression()
		case p.cur().kind == tokName && p.peek().kind == tokOp && p.peek().text == "=" && a.star2 == nil:
			a.kwNames = append(a.kwNames, p.cur().text)
			p.i += 2
			var x expr
			x, err = p.expression()
			a.kwVals = append(a.kwVals, x)
		case a.kwNames != nil || a.star != nil || a.star2 != nil:
			err = p.fail("positional argument after keyword or starred arguments")
		default:
			var x expr
			x, err = p.expression()
			a.pos = append(a.pos, x)
		}
		if err != nil {
			return a, err
		}
		if !p.skipOp(",") {
			break
		}
	}
	return a, p.expectOp(")")
}

// dottedName reads the name of a filter or test.
func (p *parser) dottedName(what string) (string, error) {
	id, err := p.expectName(what)
	for err == nil && p.skipOp(".") {
		var part string
		part, err = p.expectName(what)
		id += "." + part
	}
	return id, err
}

// filter parses the name and arguments of a filter applied to x; the bar has been read.
func (p *parser) filter(x expr) (*filterExpr, error) {
	f := &filterExpr{at: p.line(), in: x}
	var err error
	if f.name, err = p.dottedName("the name of a filter"); err != nil {
		return nil, err
	}
	// As in jinja2, an unknown filter in a branch that may not be taken is an error only when it is reached.
	if f.fn = filters[f.name]; f.fn == nil && p.optional == 0 && p.unknown == nil {
		p.unknown = &Error{Line: f.line(), Msg: unknown("filter", f.name)}
	}
	if p.isOp("(") {
		f.args, err = p.arguments()
	}
	return f, err
}

func unknown(what, name string) string { return "unknown " + what + ` "` + name + `"` }

func (p *parser) test(x expr) (expr, error) {
	t := &testExpr{at: p.line(), in: x}
	p.i++
	negated := p.skipName("not")
	var err error
	if t.name, err = p.dottedName("the name of a test"); err != nil {
		return nil, err
	}
	if t.fn = tests[t.name]; t.fn == nil && p.optional == 0 && p.unknown == nil {
		p.unknown = &Error{Line: t.line(), Msg: unknown("test", t.name)}
	}
	switch c := p.cur(); {
	case p.isOp("("):
		t.args, err = p.arguments()
	case c.kind == tokName && (c.text == "else" || c.text == "or" || c.text == "and"):
	case p.isName("is"):
		return nil, p.fail(`tests cannot be chained with "is"`)
	case c.kind == tokName, c.kind == tokString, c.kind == tokInt, c.kind == tokFloat, p.isOp("["), p.isOp("{"):
		var arg expr
		if arg, err = p.primary(); err == nil {
			arg, err = p.postfix(arg)
		}
		t.args.pos = []expr{arg}
	}
	if err != nil {
		return nil, err
	}
	if negated {
		return &notExpr{t.at, t}, nil
	}
	return t, nil
}
