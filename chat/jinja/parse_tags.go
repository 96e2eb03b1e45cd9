package jinja

func (p *parser) ifStatement(line at) (stmt, error) {
	p.optional++
	defer func() { p.optional-- }()
	s := &ifStmt{at: line}
	for tag := "elif"; tag == "elif"; {
		test, err := p.tuple(tupleNoCond)
		if err != nil {
			return nil, err
		}
		var body []stmt
		if body, tag, err = p.branch("elif", "else", "endif"); err != nil {
			return nil, err
		}
		s.tests, s.bodies = append(s.tests, test), append(s.bodies, body)
		if tag == "else" {
			s.otherwise, _, err = p.branch("endif")
			return s, err
		}
	}
	return s, nil
}

func (p *parser) forStatement(line at) (stmt, error) {
	s := &forStmt{at: line}
	var err error
	if s.target, err = p.target(); err != nil {
		return nil, err
	}
	if !p.skipName("in") {
		return nil, p.fail(`expected "in", found %s`, p.cur())
	}
	if s.iter, err = p.tuple(tupleNoCond); err != nil {
		return nil, err
	}
	if p.skipName("if") {
		if s.test, err = p.expression(); err != nil {
			return nil, err
		}
	}
	s.recursive = p.skipName("recursive")
	p.loops = append(p.loops, true)
	body, tag, err := p.block("else", "endfor")
	p.loops = p.loops[:len(p.loops)-1]
	if err != nil {
		return nil, err
	}
	s.body = body
	if tag == "else" {
		s.otherwise, _, err = p.block("endfor")
	}
	return s, err
}

func (p *parser) setStatement(line at) (stmt, error) {
	to, err := p.target()
	if err != nil {
		return nil, err
	}
	if p.skipOp("=") {
		x, err := p.tuple(tupleBare)
		return &setStmt{line, to, x}, err
	}
	s := &setBlockStmt{at: line, target: to}
	for p.skipOp("|") {
		if s.filter, err = p.chainFilter(s.filter); err != nil {
			return nil, err
		}
	}
	s.body, _, err = p.border().block("endset")
	p.unborder()
	return s, err
}

// chainFilter reads a filter applied to the result of another, which may be nil for a block's text.
func (p *parser) chainFilter(before *filterExpr) (*filterExpr, error) {
	if before == nil {
		return p.filter(nil)
	}
	return p.filter(before)
}

// border marks that break and continue in what follows cannot reach the loops around it.
func (p *parser) border() *parser {
	p.loops = append(p.loops, false)
	return p
}

func (p *parser) unborder() { p.loops = p.loops[:len(p.loops)-1] }

func (p *parser) filterStatement(line at) (stmt, error) {
	s := &filterStmt{at: line}
	var err error
	for first := true; first || p.skipOp("|"); first = false {
		if s.filter, err = p.chainFilter(s.filter); err != nil {
			return nil, err
		}
	}
	s.body, _, err = p.border().block("endfilter")
	p.unborder()
	return s, err
}

func (p *parser) withStatement(line at) (stmt, error) {
	s := &withStmt{at: line}
	for p.cur().kind != tokBlockEnd {
		if s.targets != nil {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		to, err := p.target()
		if err != nil {
			return nil, err
		}
		if err := p.expectOp("="); err != nil {
			return nil, err
		}
		x, err := p.expression()
		if err != nil {
			return nil, err
		}
		s.targets, s.values = append(s.targets, to), append(s.values, x)
	}
	var err error
	s.body, _, err = p.block("endwith")
	return s, err
}

func (p *parser) macroStatement(line at) (stmt, error) {
	id, err := p.expectName("the name of the macro")
	if err != nil {
		return nil, err
	}
	def := &macroDef{name: id}
	if err := p.signature(def); err != nil {
		return nil, err
	}
	return &macroStmt{line, def}, p.macroBody(def, "endmacro")
}

func (p *parser) macroBody(def *macroDef, end string) (err error) {
	p.macros = append(p.macros, def)
	p.border()
	def.body, _, err = p.block(end)
	p.unborder()
	p.macros = p.macros[:len(p.macros)-1]
	return err
}

func (p *parser) signature(def *macroDef) error {
	if err := p.expectOp("("); err != nil {
		return err
	}
	for !p.isOp(")") {
		if def.params != nil {
			if err := p.expectOp(","); err != nil {
				return err
			}
		}
		id, err := p.expectName("the name of a parameter")
		if err != nil {
			return err
		}
		def.params = append(def.params, id)
		if p.skipOp("=") {
			x, err := p.expression()
			if err != nil {
				return err
			}
			def.defaults = append(def.defaults, x)
		} else if def.defaults != nil {
			return p.fail("parameter %q without a default follows one with a default", id)
		}
	}
	return p.expectOp(")")
}

func (p *parser) callStatement(line at) (stmt, error) {
	s := &callStmt{at: line, caller: &macroDef{name: "caller"}}
	if p.isOp("(") {
		if err := p.signature(s.caller); err != nil {
			return nil, err
		}
	}
	x, err := p.expression()
	if err != nil {
		return nil, err
	}
	var ok bool
	if s.call, ok = x.(*callExpr); !ok {
		return nil, &Error{Line: int(line), Msg: "expected the call of a macro after \"call\""}
	}
	return s, p.macroBody(s.caller, "endcall")
}

// target reads what is assigned to: names separated by commas, perhaps in parentheses, or an attribute of a namespace.
func (p *parser) target() (target, error) {
	if err := p.nest(); err != nil {
		return target{}, err
	}
	defer p.unnest()
	var items []target
	isTuple := false
	for {
		if p.isOp("=") || p.isOp(")") || p.isName("in") || p.cur().kind == tokBlockEnd {
			break
		}
		item, err := p.oneTarget()
		if err != nil {
			return target{}, err
		}
		items = append(items, item)
		if !p.skipOp(",") {
			break
		}
		isTuple = true
	}
	if len(items) == 0 {
		return target{}, p.fail("expected a name to assign to, found %s", p.cur())
	}
	if isTuple {
		return target{tuple: items}, nil
	}
	return items[0], nil
}

func (p *parser) oneTarget() (target, error) {
	if p.skipOp("(") {
		t, err := p.target()
		if err != nil {
			return target{}, err
		}
		return t, p.expectOp(")")
	}
	id, err := p.expectName("a name to assign to")
	if err != nil {
		return target{}, err
	}
	switch id {
	case "true", "false", "none", "True", "False", "None":
		return target{}, p.fail("cannot assign to %q", id)
	}
	t := target{name: id}
	if p.skipOp(".") {
		p.mention(id)
		t.attr, err = p.expectName("the name of an attribute")
	}
	return t, err
}
