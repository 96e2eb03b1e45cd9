package ptx

import (
	"fmt"
	"strings"
	"sync"
)

// maxCode bounds what functions that call functions can grow to, instructions.
const maxCode = 1 << 20

// compute writes an operation's results for all lanes. Those that execute nothing may hold anything.
type compute func(d, a, b, c *lanes)

// builder compiles an instruction that is more than arithmetic.
type builder func(c *compiler, s *statement) action

// program is a compiled kernel.
type program struct {
	name       string
	code       []instr
	registers  int
	predicates int
	constants  []constant
	specials   []int // registers by their number in specials, -1 if unused
	shared     int   // bytes of static shared memory; what the launch adds begins after them
	local      int   // bytes of a thread
	sites      int   // instructions that access global memory
	data       []byte
	idle       sync.Pool // of clusters that ran to their end
	async      bool      // tensor cores or bulk copies read shared memory
}

// constant is a register that holds an immediate.
type constant struct {
	register int
	value    uint64
}

// frame is a function that is being compiled into its caller.
type frame struct {
	registers, predicates int               // the numbers of its first ones
	arguments             map[*variable]int // places of its parameters in local memory
}

// flat is a statement of a kernel, after functions took the place of their calls.
type flat struct {
	*statement
	frame  *frame
	target int // of a branch; -1 for others

	writes, reads []int32 // registers, see note
}

// leaves reports whether what follows the statement is not executed after it.
func (f *flat) leaves() bool {
	return f.guard < 0 && (f.name == "ret" || f.name == "bra" || f.name == "bra.uni")
}

// compiler makes a program of a kernel.
type compiler struct {
	program
	flats      []flat
	frames     map[*function]*frame // the first frame: registers are the same in all calls
	places     map[*variable]int    // in shared or local memory
	assigned   []int32              // places of registers
	immediates map[uint64]int
	frame      *frame
	width      uint8 // of immediates in the current statement
	statement  *statement
	err        error
}

// compile compiles a kernel.
func (f *function) compile(m *Module) (*program, error) {
	c := &compiler{
		program:    program{name: f.name, data: m.data, specials: make([]int, len(specials)), predicates: predicates},
		frames:     map[*function]*frame{},
		places:     map[*variable]int{},
		immediates: map[uint64]int{},
		statement:  &statement{},
	}
	for i := range c.specials {
		c.specials[i] = -1
	}
	c.expand(f, nil)
	c.placeShared()
	if c.err != nil {
		return nil, fmt.Errorf("ptx: %s: %w", f.name, c.err)
	}
	c.allocate()
	c.code = make([]instr, len(c.flats))
	for i := range c.flats {
		c.build(&c.code[i], &c.flats[i])
	}
	if c.err != nil {
		return nil, fmt.Errorf("ptx: %s: %w", f.name, c.err)
	}
	return &c.program, nil
}

// fail keeps the first error, with the statement it is about.
func (c *compiler) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("line %d: %s: %s", c.statement.line, c.statement.name, fmt.Sprintf(format, args...))
	}
}

// expand appends a function's statements, with those of the functions that it calls in place of calls. A function has
// its arguments' places; a kernel has none.
func (c *compiler) expand(f *function, arguments map[*variable]int) {
	first := c.frames[f]
	if first == nil {
		first = &frame{registers: c.registers, predicates: c.predicates}
		c.registers += f.registers
		c.predicates += f.predicates
		c.frames[f] = first
	}
	fr := &frame{registers: first.registers, predicates: first.predicates, arguments: arguments}
	at := make([]int, len(f.statements)+1)
	begin := len(c.flats)
	for i := range f.statements {
		s := &f.statements[i]
		c.statement = s
		at[i] = len(c.flats)
		if s.callee == nil {
			c.flats = append(c.flats, flat{statement: s, frame: fr, target: -1})
			continue
		}
		if s.guard >= 0 {
			c.fail("a call with a guard")
		}
		inner := map[*variable]int{}
		for i, formal := range s.callee.formals() {
			v := s.operands[i].variable
			place, ok := arguments[v]
			if !ok {
				place = c.placeIn(v, &c.local)
			}
			inner[formal] = place
		}
		if c.expand(s.callee, inner); len(c.flats) > maxCode {
			c.fail("more than %d instructions", maxCode)
			return
		}
	}
	at[len(f.statements)] = len(c.flats)
	for i := begin; i < len(c.flats); i++ {
		switch s := &c.flats[i]; {
		case s.frame != fr:
		case s.name == "bra" || s.name == "bra.uni":
			s.target = at[f.targets[s.operands[0].number]]
		case s.name == "ret" && arguments != nil:
			s.target = len(c.flats)
		}
	}
	if n := len(c.flats); arguments == nil && (n == 0 || !c.flats[n-1].leaves()) {
		c.fail("the last instruction is no ret, and no branch")
	}
}

// placeIn gives a variable its place in a memory that has size bytes so far.
func (c *compiler) placeIn(v *variable, size *int) int {
	at, ok := c.places[v]
	if !ok {
		at = (*size + v.align - 1) &^ (v.align - 1)
		*size = at + v.size
		c.places[v] = at
	}
	return at
}

// placeShared gives the variables in shared memory their places: first those that have a size, then those of the size
// that the launch says.
func (c *compiler) placeShared() {
	for _, dynamic := range []bool{false, true} {
		for _, f := range c.flats {
			for _, o := range f.operands {
				if o.kind == address {
					o = o.list[0]
				}
				if v := o.variable; v == nil || v.space != shared || v.dynamic != dynamic {
					continue
				} else if !dynamic {
					c.placeIn(v, &c.shared)
				} else {
					c.shared = (c.shared + v.align - 1) &^ (v.align - 1)
					c.places[v] = c.shared
				}
			}
		}
		c.shared = (c.shared + 15) &^ 15
	}
}

// build compiles one statement.
func (c *compiler) build(in *instr, f *flat) {
	s := f.statement
	c.frame, c.statement = f.frame, s
	c.width = typeWidth(s.name[max(strings.LastIndexByte(s.name, '.'), 0):])
	*in = instr{guard: -1, not: s.not, statement: s}
	if s.guard >= 0 {
		in.guard = int32(s.guard + c.frame.predicates)
	}
	if f.target >= 0 {
		in.kind, in.d = branches, int32(f.target)
		return
	}
	if compare := comparisons[s.name]; compare != nil {
		ops := c.operands(3)
		in.kind, in.compare = compares, compare
		in.d, in.a, in.b = c.pred(ops[0]), c.reg(ops[1]), c.reg(ops[2])
		return
	}
	if strings.HasPrefix(s.name, "selp.") {
		ops := c.operands(4)
		in.kind = selects
		in.d, in.a, in.b, in.c = c.reg(ops[0]), c.reg(ops[1]), c.reg(ops[2]), c.pred(ops[3])
		return
	}
	if sources, compute := c.arithmetic(s); compute != nil {
		in.kind, in.compute = computes, compute
		ops := c.operands(1 + sources + shaped[s.name].immediates)
		in.d = c.reg(ops[0])
		for i, to := range []*int32{&in.a, &in.b, &in.c}[:sources] {
			*to = c.reg(ops[i+1])
		}
		return
	}
	in.kind = acts
	if build := find(s.name); build != nil {
		in.act = build(c, s)
	} else {
		c.fail("unknown instruction")
	}
}

// arithmetic returns what computes a statement, and how many sources it reads; nil if it is no arithmetic.
func (c *compiler) arithmetic(s *statement) (sources int, f compute) {
	if shape, ok := shaped[s.name]; ok {
		return shape.sources, shape.make(c.numbers(1+shape.sources, shape.immediates))
	}
	if op, ok := operations[s.name]; ok {
		for _, o := range s.operands {
			if o.kind == vector {
				return 0, nil // mov also packs
			}
		}
		return op.sources, op.compute
	}
	return 0, nil
}

// known says whether there is an instruction of a name.
func known(name string) bool {
	switch name {
	case "bra", "bra.uni", "call.uni", "selp.b32", "selp.f32", "selp.u32", "selp.u16", "selp.b64", "selp.f64":
		return true
	}
	_, special := shaped[name]
	return special || comparisons[name] != nil || operations[name].compute != nil || find(name) != nil
}

// find returns the builder that has a name, or as much of its beginning as possible, up to a dot.
func find(name string) builder {
	for {
		if b := builders[name]; b != nil {
			return b
		}
		dot := strings.LastIndexByte(name, '.')
		if dot < 0 {
			return nil
		}
		name = name[:dot]
	}
}
