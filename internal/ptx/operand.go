package ptx

// operands returns the current statement's operands, of which there have to be n.
func (c *compiler) operands(n int) []operand {
	ops := c.statement.operands
	if len(ops) != n {
		c.fail("%d operands, want %d", len(ops), n)
		ops = make([]operand, n)
	}
	return ops
}

// reg returns the register of an operand. Immediates, special registers and addresses of variables have one too.
func (c *compiler) reg(o operand) int32 {
	switch o.kind {
	case register:
		return c.assigned[int(o.number)+c.frame.registers]
	case immediate:
		if c.width > 0 && c.width < 64 {
			o.value &= 1<<c.width - 1
		}
		return c.constant(o.value)
	case special:
		if c.specials[o.number] < 0 {
			c.specials[o.number] = c.registers
			c.registers++
		}
		return int32(c.specials[o.number])
	case symbol:
		return c.constant(c.addressOf(o.variable))
	}
	c.fail("an operand is no register")
	return 0
}

// constant returns a register that holds a value.
func (c *compiler) constant(value uint64) int32 {
	r, ok := c.immediates[value]
	if !ok {
		r = c.registers
		c.registers++
		c.immediates[value] = r
		c.constants = append(c.constants, constant{r, value})
	}
	return int32(r)
}

// Two predicates are there for immediates.
const (
	never  = iota // set for no lane
	always        // set for all
	predicates
)

// pred returns the number of a predicate. Immediates have one too.
func (c *compiler) pred(o operand) int32 {
	switch o.kind {
	case predicate:
		return o.number + int32(c.frame.predicates)
	case immediate:
		if o.value == 0 {
			return never
		}
		return always
	}
	c.fail("an operand is no predicate")
	return 0
}

// regs returns the registers of a vector of n, or of one operand.
func (c *compiler) regs(o operand, n int) []int32 {
	list := o.list
	if o.kind != vector {
		list = []operand{o}
	}
	if len(list) != n {
		c.fail("a vector of %d, want %d", len(list), n)
	}
	var all []int32
	for _, o := range list {
		all = append(all, c.reg(o))
	}
	return all
}

// place is where an instruction accesses memory.
type place struct {
	space  space
	base   int32 // a register
	offset uint64
}

// address returns the place of an operand in brackets. A variable's space goes before the one that the instruction
// names: ld.param reads parameters of the kernel and of functions.
func (c *compiler) address(o operand, s space) place {
	if o.kind != address {
		c.fail("an operand is no address")
		return place{}
	}
	p := place{space: s, offset: o.value}
	width := c.width
	c.width = 64
	if v := o.list[0].variable; v != nil {
		p.base = c.constant(0)
		p.offset += c.addressOf(v)
		switch v.space {
		case argument, local:
			p.space = local
		case s:
		default:
			c.fail("%s is in another space", v.name)
		}
	} else {
		p.base = c.reg(o.list[0])
	}
	c.width = width
	return p
}

// addressOf returns the address of a variable in its space.
func (c *compiler) addressOf(v *variable) uint64 {
	switch v.space {
	case global:
		return moduleWindow + uint64(v.offset)
	case shared:
		return sharedBase + uint64(c.places[v])
	case local:
		return uint64(c.placeIn(v, &c.local))
	case argument:
		if at, ok := c.frame.arguments[v]; ok {
			return uint64(at)
		}
		return uint64(c.placeIn(v, &c.local))
	}
	return uint64(v.offset)
}

// numbers returns the n immediates that follow the first operands.
func (c *compiler) numbers(first, n int) []uint64 {
	all := make([]uint64, n)
	for i, o := range c.operands(first + n)[first:] {
		if o.kind != immediate {
			c.fail("operand %d is no immediate", first+i)
		}
		all[i] = o.value
	}
	return all
}
