package grammar

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// madeRule is the expression of a list of schemas.
type madeRule struct {
	x    id
	used bool // while it was made: it is recursive
}

// conjunction returns the expression of the values that fit all schemas of a list.
func (c *compiler) conjunction(list []*value) id {
	var all []*value
	for _, v := range list {
		for hops := 0; ; hops++ {
			ref := c.reference(v)
			if ref == nil || c.err != nil {
				break
			}
			if v = c.target(ref); hops > c.limits.Depth {
				c.fail(v, "refers to itself without taking a part of the value")
			}
		}
		if v.kind != isTrue && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	if c.err != nil {
		return none
	}
	key := new(strings.Builder)
	for _, v := range all {
		fmt.Fprintf(key, "%p ", v)
	}
	if m := c.made[key.String()]; m != nil {
		m.used = true
		return m.x
	}
	if c.a.budget < 0 {
		c.fail(all[0], "the grammar is larger than the limits allow")
		return none
	}
	if c.depth++; c.depth > c.limits.Depth {
		c.fail(all[0], "is nested more than %d deep", c.limits.Depth)
		return none
	}
	defer func() { c.depth-- }()
	m := &madeRule{x: c.a.rule()}
	c.made[key.String()] = m
	shapes := []*shape{anything()}
	for _, v := range all {
		shapes = c.product(v, shapes, []*shape{refTo(v)})
	}
	if len(shapes) == 1 && shapes[0].ref != nil {
		shapes = c.shapes(shapes[0].ref)
	}
	c.exclusive(shapes)
	var parts []id
	for _, s := range shapes {
		if s.ref != nil {
			parts = append(parts, c.conjunction([]*value{s.ref}))
		} else {
			parts = append(parts, c.shape(s)...)
		}
	}
	body := c.either(parts)
	if c.a.define(m.x, body); !m.used {
		m.x = body
	}
	return m.x
}

// either joins alternatives: literals to one term, others to a choice.
func (c *compiler) either(parts []id) id {
	var short, other []id
	for _, x := range parts {
		if k := c.a.kindOf(x); k == kCat || k == kAlt || k == kSet {
			if e := &c.a.exprs[x]; e.plain && !e.nullable && x != c.p.str && x != c.p.number {
				short = append(short, x)
				continue
			}
		}
		other = append(other, x)
	}
	if len(short) > 0 {
		other = append(other, c.a.alt(short...))
	}
	return c.a.choice(other...)
}

// shape returns the expressions of the values of a shape.
func (c *compiler) shape(s *shape) []id {
	if c.err != nil {
		return nil
	}
	if s.lit != nil {
		return []id{c.literal(s.lit)}
	}
	if s.trivial() {
		return []id{c.p.any[c.compact]}
	}
	var parts []id
	for kind, text := range map[valueKind]string{isNull: "null", isTrue: "true", isFalse: "false"} {
		if s.types&kind != 0 {
			parts = append(parts, c.a.literal(text))
		}
	}
	if s.types&isNumber != 0 {
		parts = append(parts, c.numeric(s))
	}
	if s.types&isString != 0 {
		if len(s.content) == 0 && s.minLen == 0 && s.maxLen < 0 {
			parts = append(parts, c.p.str)
		} else if x := c.a.cat(c.a.literal(`"`), c.content(s), c.a.literal(`"`)); c.a.matches(x) {
			parts = append(parts, x)
		}
	}
	if s.types&isArray != 0 {
		parts = append(parts, c.array(s))
	}
	if s.types&isObject != 0 {
		parts = append(parts, c.object(s))
	}
	return parts
}

func (c *compiler) numeric(s *shape) id {
	integer := s.integer || s.whole
	lo, hi := s.lo, s.hi
	if integer {
		round := func(b *bound, up int64) *bound {
			if b == nil {
				return nil
			}
			n, m := new(big.Int).DivMod(b.at.Num(), b.at.Denom(), new(big.Int)) // down
			if m.Sign() != 0 && up > 0 || m.Sign() == 0 && b.strict {
				n.Add(n, big.NewInt(up))
			}
			return &bound{at: new(big.Rat).SetInt(n)}
		}
		lo, hi = round(lo, 1), round(hi, -1)
	}
	x := c.a.numbers(c.p, integer, lo, hi, s.by)
	if !c.a.matches(x) {
		return none
	}
	return x
}

// literal matches a value as the schema has it.
func (c *compiler) literal(v *value) id {
	var parts []id
	switch v.kind {
	case isNumber:
		return c.sameNumber(v)
	case isString:
		return c.a.literal(`"` + quote(v.text) + `"`)
	case isNull:
		return c.a.literal("null")
	case isTrue:
		return c.a.literal("true")
	case isFalse:
		return c.a.literal("false")
	case isArray:
		for i, x := range v.list {
			if i > 0 {
				parts = append(parts, c.punct(","))
			}
			parts = append(parts, c.literal(x))
		}
		return c.a.seq(c.a.cat(c.a.literal("["), c.ws), c.a.seq(parts...), c.a.cat(c.ws, c.a.literal("]")))
	}
	var members []member
	for _, key := range v.keys {
		members = append(members, member{c.a.seq(c.key(key), c.literal(v.fields[key])), true})
	}
	return c.inside("{", object{members: members, most: -1}, "}")
}

// sameNumber matches a number as the schema has it, and in the other plain ways to write it if it is whole.
func (c *compiler) sameNumber(v *value) id {
	r, ok := v.rat()
	if !ok || !r.IsInt() || len(r.Num().String()) > 40 {
		return c.a.literal(v.text)
	}
	zeros := c.a.optional(c.a.cat(c.a.literal("."), c.a.rep(c.a.literal("0"), 1, -1)))
	return c.a.alt(c.a.literal(v.text), c.a.cat(c.a.literal(r.Num().String()), zeros))
}

// punct is a punctuation mark with white space on both sides; key is a name with its colon.
func (c *compiler) punct(s string) id  { return c.a.cat(c.ws, c.a.literal(s), c.gap) }
func (c *compiler) key(name string) id { return c.a.before(`"`+quote(name)+`"`, c.punct(":")) }

func (c *compiler) array(s *shape) id {
	switch {
	case s.unique != nil && (s.maxItems < 0 || s.maxItems > 1):
		return c.distinct(s)
	case len(s.holds) > 0:
		return c.counted(s)
	}
	a, comma := c.a, c.punct(",")
	item := c.conjunction(s.items)
	lo, hi, n := int32(s.minItems), int32(s.maxItems), int32(len(s.prefix))
	if hi >= 0 && n > hi {
		n = hi
	}
	more := hi // beyond the first n
	if hi >= 0 {
		more = hi - n
	}
	rest := a.many(a.seq(comma, item), max(lo-n, 0), more)
	if n == 0 && hi != 0 {
		if more > 0 {
			more--
		}
		rest = a.seq(item, a.many(a.seq(comma, item), max(lo-1, 0), more))
		if lo == 0 {
			rest = a.choice(empty, rest)
		}
	}
	for i := n - 1; i >= 0; i-- {
		x := a.seq(c.conjunction(s.prefix[i]), rest)
		if i > 0 {
			x = a.seq(comma, x)
		}
		if i >= lo {
			x = a.choice(empty, x)
		}
		rest = x
	}
	return a.seq(a.cat(a.literal("["), c.ws), rest, a.cat(c.ws, a.literal("]")))
}
