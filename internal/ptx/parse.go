package ptx

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// maxVariable bounds what a declaration can make Parse allocate, bytes.
const maxVariable = 1 << 24

// parser makes a module of tokens.
type parser struct {
	scanner
	module    *Module
	functions map[string]*function
	scope     *scope
	body      *function // the one being parsed
	depth     int
}

// scope is what braces enclose: names of registers, variables and labels are known inside.
type scope struct {
	outer     *scope
	registers map[string]registers // by name, or by what stands before the number: %r of .reg .b32 %r<8>
	variables map[string]*variable
	labels    map[string]int // statements
	branches  []branch       // to labels that are not known yet
}

// registers is a declaration of them.
type registers struct {
	first, count int // count is -1 for a name without a number
	width        uint8
	predicate    bool
}

// branch is a reference to a label.
type branch struct {
	name   string
	line   int
	number int // of function.targets
}

// Parse parses PTX, and checks that it knows its instructions. It checks their operands when a kernel first runs.
func Parse(source []byte) (*Module, error) {
	p := &parser{
		scanner:   scanner{source: string(source), line: 1},
		module:    &Module{entries: map[string]*Entry{}},
		functions: map[string]*function{},
	}
	p.open()
	p.advance()
	for p.token != "" {
		p.declaration()
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.module, nil
}

// declaration parses what stands outside of functions.
func (p *parser) declaration() {
	switch directive := p.word(); directive {
	case ".version", ".target", ".address_size":
		p.word()
	case ".visible", ".extern":
	case ".global":
		p.global()
	case ".shared":
		p.declare(shared)
	case ".entry":
		f := p.function(param)
		if p.err == nil {
			p.module.entries[f.name] = &Entry{module: p.module, body: f}
		}
	case ".func":
		var results []*variable
		if p.token == "(" {
			results = p.parameters(argument)
		}
		f := p.function(argument)
		f.results = results
		p.functions[f.name] = f
	default:
		p.fail("unknown directive %q", directive)
	}
}

// global parses a variable of the module, and what it holds at first.
func (p *parser) global() {
	v, width := p.variable(global)
	data := make([]byte, v.size)
	if p.take("=") {
		braces := p.take("{")
		for at := 0; p.err == nil; at += width {
			value := p.number().value
			if at+width > v.size {
				p.fail("%s has more than %d bytes", v.name, v.size)
				break
			}
			switch width {
			case 1:
				data[at] = byte(value)
			case 2:
				binary.LittleEndian.PutUint16(data[at:], uint16(value))
			case 4:
				binary.LittleEndian.PutUint32(data[at:], uint32(value))
			default:
				binary.LittleEndian.PutUint64(data[at:], value)
			}
			if !braces || !p.take(",") {
				break
			}
		}
		if braces {
			p.want("}")
		}
	}
	p.want(";")
	m := p.module
	if len(m.data) > maxVariable {
		p.fail("variables of more than %d bytes", maxVariable)
		return
	}
	m.data = append(m.data, make([]byte, -len(m.data)&(v.align-1))...)
	v.offset = len(m.data)
	m.data = append(m.data, data...)
}

// declare parses variables of a space up to the semicolon.
func (p *parser) declare(s space) {
	p.variable(s)
	p.want(";")
}

// variable parses a variable from its alignment to its name and size, makes it known, and returns the bytes of its
// elements.
func (p *parser) variable(s space) (v *variable, width int) {
	v = &variable{space: s, align: 1}
	if p.take(".align") {
		if n, ok := p.integer(); ok && n > 0 && n <= 1024 && n&(n-1) == 0 {
			v.align = int(n)
		} else {
			p.fail("an alignment is no power of 2 up to 1024")
		}
	}
	width = int(typeWidth(p.word())) / 8
	if width == 0 {
		p.fail("a variable has no type")
	}
	v.align = max(v.align, width)
	v.name = p.word()
	v.size = width
	if p.take("[") {
		if v.dynamic = p.take("]"); v.dynamic {
			v.size = 0
		} else {
			n, ok := p.integer()
			if !ok || n > maxVariable {
				p.fail("%s has no size below %d", v.name, maxVariable)
				n = 0
			}
			v.size = int(n) * width
			p.want("]")
		}
	}
	p.scope.variables[v.name] = v
	return v, width
}

// parameters parses a list of parameters in parentheses.
func (p *parser) parameters(s space) []*variable {
	var all []*variable
	p.want("(")
	for at := 0; p.err == nil && p.token != ")"; {
		if len(all) > 0 {
			p.want(",")
		}
		p.want(".param")
		v, _ := p.variable(s)
		at = (at + v.align - 1) &^ (v.align - 1)
		v.offset = at
		at += v.size
		all = append(all, v)
	}
	p.want(")")
	return all
}

// function parses a kernel or a function from its name on. Its parameters live in a space.
func (p *parser) function(s space) *function {
	f := &function{name: p.word()}
	p.open()
	f.params = p.parameters(s)
	for p.err == nil && p.token != "{" {
		p.demand(f)
	}
	p.body = f
	p.block()
	for _, b := range p.scope.branches {
		p.line = b.line
		p.fail("no label %s", b.name)
	}
	p.close()
	return f
}

// demand parses what a kernel asks of its launch.
func (p *parser) demand(f *function) {
	switch directive := p.word(); directive {
	case ".maxntid":
		d := p.dimensions()
		f.threads = d[0] * d[1] * d[2]
	case ".reqnctapercluster":
		f.cluster = p.dimensions()
	case ".minnctapersm":
		p.integer()
	case ".explicitcluster":
	default:
		p.fail("unknown directive %q of a kernel", directive)
	}
}

// dimensions parses three numbers.
func (p *parser) dimensions() (d [3]int) {
	for i := range d {
		if i > 0 {
			p.want(",")
		}
		n, ok := p.integer()
		if !ok || n > 1<<16 {
			p.fail("found %d, want a dimension", n)
		}
		d[i] = int(n)
	}
	return d
}

// block parses what braces enclose.
func (p *parser) block() {
	p.want("{")
	p.enter()
	defer p.leave()
	p.open()
	for p.err == nil && p.token != "}" {
		switch {
		case p.token == "":
			p.fail("a block does not end")
		case p.token == "{":
			p.block()
		case p.take(".reg"):
			p.registers()
		case p.take(".shared"):
			p.declare(shared)
		case p.take(".local"):
			p.declare(local)
		case p.take(".param"):
			p.declare(argument)
		case p.take(".pragma"):
			p.advance()
			p.want(";")
		default:
			p.instruction()
		}
	}
	p.close()
	p.want("}")
}

// enter bounds how deep braces and brackets nest.
func (p *parser) enter() {
	if p.depth++; p.depth > 100 {
		p.fail("too deep")
	}
}

func (p *parser) leave() { p.depth-- }

// open begins a scope.
func (p *parser) open() {
	p.scope = &scope{
		outer:     p.scope,
		registers: map[string]registers{},
		variables: map[string]*variable{},
		labels:    map[string]int{},
	}
}

// close ends a scope. Branches to labels that it lacks may go to those of the outer one.
func (p *parser) close() {
	inner := p.scope
	p.scope = inner.outer
	for _, b := range inner.branches {
		if at, ok := inner.labels[b.name]; ok {
			p.body.targets[b.number] = at
		} else {
			p.scope.branches = append(p.scope.branches, b)
		}
	}
}

// registers parses a declaration of registers from its type on.
func (p *parser) registers() {
	t := p.word()
	r := registers{width: typeWidth(t), predicate: t == ".pred"}
	if r.width == 0 && !r.predicate {
		p.fail("unknown type %q of registers", t)
	}
	next := &p.body.registers
	if r.predicate {
		next = &p.body.predicates
	}
	for p.err == nil {
		name := p.word()
		r.first, r.count = *next, -1
		*next++
		if p.take("<") {
			n, ok := p.integer()
			if !ok || n < 1 || n > 1<<20 {
				p.fail("found %d registers", n)
			}
			r.count = int(n)
			*next += r.count - 1
			p.want(">")
		}
		p.scope.registers[name] = r
		if !p.take(",") {
			break
		}
	}
	p.want(";")
}

// typeWidth returns the bits of a type such as .f32, 0 if there is no such type.
func typeWidth(t string) uint8 {
	switch t {
	case ".b8", ".u8", ".s8":
		return 8
	case ".b16", ".u16", ".s16", ".f16":
		return 16
	case ".b32", ".u32", ".s32", ".f32", ".f16x2", ".bf16x2":
		return 32
	case ".b64", ".u64", ".s64", ".f64":
		return 64
	}
	return 0
}

// instruction parses a label or an instruction.
func (p *parser) instruction() {
	s := statement{line: p.line, guard: -1}
	if p.take("@") {
		s.not = p.take("!")
		o := p.named(p.word())
		if o.kind != predicate {
			p.fail("a guard is no predicate")
		}
		s.guard = int(o.number)
	}
	s.name = p.word()
	if s.guard < 0 && p.take(":") {
		if _, ok := p.scope.labels[s.name]; ok {
			p.fail("label %s is there twice", s.name)
		}
		p.scope.labels[s.name] = len(p.body.statements)
		return
	}
	if p.err == nil && !known(s.name) {
		p.line = s.line
		p.fail("unknown instruction %s", s.name)
	}
	switch s.name {
	case "call.uni":
		p.call(&s)
	case "bra", "bra.uni":
		n := len(p.body.targets)
		s.operands = []operand{{kind: label, number: int32(n)}}
		p.body.targets = append(p.body.targets, 0)
		p.scope.branches = append(p.scope.branches, branch{p.word(), s.line, n})
	default:
		s.operands = p.list(";")
	}
	p.want(";")
	p.body.statements = append(p.body.statements, s)
}

// call parses (results), function, (arguments).
func (p *parser) call(s *statement) {
	var results []operand
	if p.take("(") {
		results = p.list(")")
		p.want(")")
		p.want(",")
	}
	name := p.word()
	s.callee = p.functions[name]
	if s.callee == nil {
		p.fail("no function %s", name)
		return
	}
	var arguments []operand
	if p.take(",") {
		p.want("(")
		arguments = p.list(")")
		p.want(")")
	}
	if len(results) != len(s.callee.results) || len(arguments) != len(s.callee.params) {
		p.fail("%s has %d results and %d parameters", name, len(s.callee.results), len(s.callee.params))
		return
	}
	s.operands = append(results, arguments...)
	for i, formal := range s.callee.formals() {
		if v := s.operands[i].variable; v == nil || v.space != argument || v.size != formal.size {
			p.fail("argument %d of %s is no .param of %d bytes", i, name, formal.size)
		}
	}
}

// list parses operands up to a token.
func (p *parser) list(end string) []operand {
	var all []operand
	for p.err == nil && p.token != end {
		if len(all) > 0 {
			p.want(",")
		}
		o := p.operand()
		if p.take("|") {
			o = operand{kind: pair, list: []operand{o, p.operand()}}
		}
		all = append(all, o)
	}
	return all
}

// operand parses one operand.
func (p *parser) operand() operand {
	p.enter()
	defer p.leave()
	switch {
	case p.take("{"):
		o := operand{kind: vector, list: p.list("}")}
		p.want("}")
		return o
	case p.take("["):
		return p.address()
	case p.take("_"):
		return operand{kind: nothing}
	case p.token == "-" || p.token != "" && p.token[0] >= '0' && p.token[0] <= '9':
		return p.number()
	}
	return p.named(p.word())
}

// address parses what brackets enclose.
func (p *parser) address() operand {
	o := operand{kind: address, list: []operand{p.operand()}}
	if p.take("+") {
		n, ok := p.integer()
		if !ok {
			p.fail("found %q, want an offset", p.token)
		}
		o.value = n
	}
	if p.take(",") {
		coordinates := p.operand()
		if coordinates.kind != vector {
			p.fail("an address has no vector of coordinates")
		}
		o.list = append(o.list, coordinates.list...)
	}
	p.want("]")
	return o
}

// named returns the operand of a name.
func (p *parser) named(name string) operand {
	prefix := strings.TrimRight(name, "0123456789")
	index, err := strconv.Atoi(name[len(prefix):])
	for s := p.scope; s != nil; s = s.outer {
		r, ok := s.registers[prefix]
		number := r.first + index
		if ok = ok && err == nil && index < r.count; !ok {
			r, ok = s.registers[name]
			ok = ok && r.count < 0
			number = r.first
		}
		if ok {
			o := operand{kind: register, number: int32(number), width: r.width}
			if r.predicate {
				o.kind = predicate
			}
			return o
		}
		if v := s.variables[name]; v != nil {
			return operand{kind: symbol, variable: v}
		}
	}
	for i, s := range specials {
		if s == name {
			return operand{kind: special, number: int32(i)}
		}
	}
	p.fail("unknown name %q", name)
	return operand{kind: nothing}
}

// integer parses an integer with an optional sign.
func (p *parser) integer() (uint64, bool) {
	negative := p.take("-")
	n, err := strconv.ParseUint(p.token, 0, 64)
	if err != nil {
		return 0, false
	}
	p.advance()
	if negative {
		n = -n
	}
	return n, true
}

// number parses an integer or the bits of a float: 0f3F800000, 0d3FF0000000000000.
func (p *parser) number() operand {
	t := p.token
	if len(t) == 10 && (t[:2] == "0f" || t[:2] == "0F") || len(t) == 18 && (t[:2] == "0d" || t[:2] == "0D") {
		n, err := strconv.ParseUint(t[2:], 16, 64)
		if err != nil {
			p.fail("found %q, want a number", t)
		}
		p.advance()
		return operand{kind: immediate, value: n}
	}
	n, ok := p.integer()
	if !ok {
		p.fail("found %q, want a number", t)
	}
	return operand{kind: immediate, value: n}
}
