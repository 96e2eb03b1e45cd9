package jinja

import (
	"math/big"
	"strconv"
)

// expression parses a full expression, "a if b else c" included.
func (p *parser) expression() (expr, error) {
	if err := p.nest(); err != nil {
		return nil, err
	}
	defer p.unnest()
	line, before := p.line(), p.unknown
	x, err := p.or()
	for err == nil && p.skipName("if") {
		p.unknown = before // the part before "if" may not be reached
		c := &condExpr{at: line, then: x}
		p.optional++
		if c.test, err = p.or(); err == nil && p.skipName("else") {
			c.otherwise, err = p.expression()
		}
		p.optional--
		x = c
	}
	return x, err
}

func (p *parser) or() (expr, error)  { return p.logic("or", (*parser).and) }
func (p *parser) and() (expr, error) { return p.logic("and", (*parser).not) }

func (p *parser) logic(word string, operand func(*parser) (expr, error)) (expr, error) {
	line := p.line()
	x, err := operand(p)
	if err != nil || !p.isName(word) {
		return x, err
	}
	chain := &logicExpr{at: line, and: word == "and", parts: []expr{x}}
	for p.skipName(word) {
		if x, err = operand(p); err != nil {
			return nil, err
		}
		chain.parts = append(chain.parts, x)
	}
	return chain, nil
}

func (p *parser) not() (expr, error) {
	if err := p.nest(); err != nil {
		return nil, err
	}
	defer p.unnest()
	line := p.line()
	if p.skipName("not") {
		x, err := p.not()
		return &notExpr{line, x}, err
	}
	return p.compare()
}

func (p *parser) compare() (expr, error) {
	line := p.line()
	x, err := p.sum()
	if err != nil {
		return nil, err
	}
	var ops []comparison
	for {
		op := ""
		switch t := p.cur(); {
		case t.kind == tokOp && isComparison(t.text):
			op = t.text
			p.i++
		case p.skipName("in"):
			op = "in"
		case p.isName("not") && p.peek().kind == tokName && p.peek().text == "in":
			op = "not in"
			p.i += 2
		}
		if op == "" {
			break
		}
		operand, err := p.sum()
		if err != nil {
			return nil, err
		}
		ops = append(ops, comparison{op, operand})
	}
	if ops == nil {
		return x, nil
	}
	return &compareExpr{line, x, ops}, nil
}

func isComparison(op string) bool {
	switch op {
	case "==", "!=", "<", "<=", ">", ">=":
		return true
	}
	return false
}

func (p *parser) sum() (expr, error) { return p.binary((*parser).concat, "+", "-") }

func (p *parser) concat() (expr, error) {
	line := p.line()
	x, err := p.product()
	if err != nil || !p.isOp("~") {
		return x, err
	}
	c := &concatExpr{line, []expr{x}}
	for p.skipOp("~") {
		if x, err = p.product(); err != nil {
			return nil, err
		}
		c.parts = append(c.parts, x)
	}
	return c, nil
}

func (p *parser) product() (expr, error) { return p.binary((*parser).power, "*", "/", "//", "%") }
func (p *parser) power() (expr, error) {
	return p.binary(func(p *parser) (expr, error) { return p.unary(true) }, "**")
}

// binary parses operands joined by any of ops, which bind from the left.
func (p *parser) binary(operand func(*parser) (expr, error), ops ...string) (expr, error) {
	x, err := operand(p)
	for err == nil {
		op := ""
		for _, o := range ops {
			if p.isOp(o) {
				op = o
			}
		}
		if op == "" {
			break
		}
		b := &binaryExpr{at: p.line(), op: op, l: x}
		p.i++
		b.r, err = operand(p)
		x = b
	}
	return x, err
}

func (p *parser) unary(withFilter bool) (x expr, err error) {
	line := p.line()
	if p.isOp("-") || p.isOp("+") {
		if err := p.nest(); err != nil {
			return nil, err
		}
		defer p.unnest()
		op := p.cur().text
		p.i++
		if x, err = p.unary(false); err != nil {
			return nil, err
		}
		x = &unaryExpr{line, op, x}
	} else if x, err = p.primary(); err != nil {
		return nil, err
	}
	if x, err = p.postfix(x); err != nil || !withFilter {
		return x, err
	}
	for {
		switch {
		case p.isOp("|"):
			p.i++
			x, err = p.filter(x)
		case p.isName("is"):
			x, err = p.test(x)
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

func (p *parser) primary() (expr, error) {
	t, line := p.cur(), p.line()
	switch t.kind {
	case tokName:
		p.i++
		switch t.text {
		case "true", "True":
			return &literal{line, true}, nil
		case "false", "False":
			return &literal{line, false}, nil
		case "none", "None":
			return &literal{line, nil}, nil
		}
		p.mention(t.text)
		return &name{line, t.text}, nil
	case tokString:
		s := ""
		for ; p.cur().kind == tokString; p.i++ {
			s += p.cur().text
			if len(s) > maxSource {
				return nil, p.fail("string literal is too long")
			}
		}
		return &literal{line, s}, nil
	case tokInt:
		p.i++
		return p.integer(t)
	case tokFloat:
		p.i++
		f, _ := strconv.ParseFloat(t.text, 64) // out of range is an infinity, as in Python
		return &literal{line, f}, nil
	case tokOp:
		switch t.text {
		case "(":
			p.i++
			x, err := p.tuple(tupleInParens)
			if err != nil {
				return nil, err
			}
			return x, p.expectOp(")")
		case "[":
			return p.list()
		case "{":
			return p.dict()
		}
	}
	return nil, p.fail("expected an expression, found %s", t)
}

func (p *parser) integer(t token) (expr, error) {
	base := 10
	if len(t.text) > 1 && t.text[1] > '9' {
		base = 0
	}
	if len(t.text) > maxBits/3 {
		return nil, p.fail("integer has %d digits", len(t.text))
	}
	n, ok := new(big.Int).SetString(t.text, base)
	if !ok {
		return nil, p.fail("expected an integer, found %s", t)
	}
	return &literal{at(t.line), normal(n)}, nil
}

type tupleMode uint8

const (
	tupleBare     tupleMode = iota // a, b
	tupleInParens                  // may be empty
	tupleNoCond                    // "if" does not belong to the expression
)

// tuple parses one expression, or several separated by commas as a tuple.
func (p *parser) tuple(mode tupleMode) (expr, error) {
	parse, line := (*parser).expression, p.line()
	if mode == tupleNoCond {
		parse = (*parser).or
	}
	var items []expr
	isTuple := false
	for {
		if end := p.cur(); end.kind == tokVarEnd || end.kind == tokBlockEnd || p.isOp(")") {
			break
		}
		x, err := parse(p)
		if err != nil {
			return nil, err
		}
		items = append(items, x)
		if !p.skipOp(",") {
			break
		}
		isTuple = true
	}
	if !isTuple {
		if len(items) == 1 {
			return items[0], nil
		}
		if mode != tupleInParens {
			return nil, p.fail("expected an expression, found %s", p.cur())
		}
	}
	return &listExpr{line, kindTuple, items}, nil
}

func (p *parser) list() (expr, error) {
	l := &listExpr{at: p.line(), kind: kindList}
	p.i++
	for !p.isOp("]") {
		x, err := p.expression()
		if err != nil {
			return nil, err
		}
		l.items = append(l.items, x)
		if !p.skipOp(",") {
			break
		}
	}
	return l, p.expectOp("]")
}

func (p *parser) dict() (expr, error) {
	d := &dictExpr{at: p.line()}
	p.i++
	for !p.isOp("}") {
		k, err := p.expression()
		if err != nil {
			return nil, err
		}
		if err := p.expectOp(":"); err != nil {
			return nil, err
		}
		v, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys, d.vals = append(d.keys, k), append(d.vals, v)
		if !p.skipOp(",") {
			break
		}
	}
	return d, p.expectOp("}")
}
