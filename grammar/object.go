package grammar

import (
	"math/bits"
	"slices"
)

// object is what the states of an object share. Its properties come in any order, or in the schema's.
type object struct {
	members  []member
	others   id // pairs that are not members; none is none
	least    int32
	most     int32 // properties; -1 is no limit
	comma    id
	end      id // the closing brace, with the space before it
	ordered  bool
	counting bool // pairs beyond the members are counted, for least and most
}

// member is a property that an object may have.
type member struct {
	pair     id // its name, colon and value
	required bool
}

// seenSet is a set of members of an object.
type seenSet []uint64

func (s seenSet) has(i int) bool { return i/64 < len(s) && s[i/64]>>(i%64)&1 != 0 }

// with returns s and member i, and in an ordered object those before it.
func (s seenSet) with(i int, ordered bool) seenSet {
	out := make(seenSet, max(len(s), i/64+1))
	copy(out, s)
	out[i/64] |= 1 << (i % 64)
	if ordered {
		for j := range i / 64 {
			out[j] = ^uint64(0)
		}
		out[i/64] |= 1<<(i%64) - 1
	}
	return out
}

func (s seenSet) key() string {
	b := make([]byte, 0, 8*len(s))
	for _, w := range s {
		for i := 0; i < 64; i += 8 {
			b = append(b, byte(w>>i))
		}
	}
	return string(b)
}

func (a *arena) seenID(s seenSet) int32 {
	key := s.key()
	n, ok := a.seenIDs[key]
	if !ok {
		n = int32(len(a.seen))
		a.seen = append(a.seen, s)
		a.seenWords += len(s) + 8
		a.seenIDs[key] = n
	}
	return n
}

// pairs is the rest of an object after its brace or a comma; tail is its rest after a pair. seen are the members that
// have come, n how many others.
func (a *arena) pairs(object, seen, n int32) id {
	return a.intern(expr{kind: kPairs, a: object, b: seen, c: n}, nil)
}
func (a *arena) tail(object, seen, n int32) id {
	return a.intern(expr{kind: kTail, a: object, b: seen, c: n}, nil)
}

// count returns how many properties have come, and how many members are still needed.
func (a *arena) count(e *expr) (came, need int32) {
	o := &a.objects[e.a]
	seen := a.seen[e.b]
	for _, w := range seen {
		came += int32(bits.OnesCount64(w))
	}
	for i, m := range o.members {
		if m.required && !seen.has(i) {
			need++
		}
	}
	return came + e.c, need
}

// openPairs calls f for each pair that may come next, and what follows it.
func (a *arena) openPairs(e expr, f func(pair, tail id)) {
	o := &a.objects[e.a]
	seen := a.seen[e.b]
	came, need := a.count(&e)
	room := func(needed int32) bool { return o.most < 0 || came+1+needed <= o.most }
	for i, m := range o.members {
		if seen.has(i) || m.required && !room(need-1) || !m.required && !room(need) {
			continue
		}
		f(m.pair, a.tail(e.a, a.seenID(seen.with(i, o.ordered)), e.c))
		if o.ordered && m.required {
			return
		}
	}
	if o.others == none || !room(need) || o.ordered && need > 0 {
		return
	}
	n := e.c
	if o.counting {
		n++
	}
	if o.ordered && len(o.members) > 0 {
		seen = seen.with(len(o.members)-1, true)
	}
	f(o.others, a.tail(e.a, a.seenID(seen), n))
}

// mayEnd reports whether an object may end after what has come.
func (a *arena) mayEnd(e expr) bool {
	came, need := a.count(&e)
	return need == 0 && came >= a.objects[e.a].least
}

// canContinue reports whether a pair may follow what has come.
func (a *arena) canContinue(e expr) bool {
	may := false
	a.openPairs(e, func(id, id) { may = true })
	return may
}

// object matches the properties of a shape.
func (c *compiler) object(s *shape) id {
	names, members := c.members(s)
	if c.err != nil || members == nil {
		return none
	}
	others := c.others(s, names)
	if s.minProps == 0 && s.maxProps < 0 && len(s.layers)+len(s.required)+len(s.nameOf) == 0 {
		return c.p.object[c.compact]
	}
	if s.minProps > mostCount {
		c.fail(nil, "minProperties is supported up to %d", mostCount)
	}
	if others == none && len(members) < s.minProps {
		return none
	}
	return c.inside("{", object{members: members, others: others, least: int32(s.minProps), most: int32(s.maxProps),
		ordered: c.ordered, counting: s.minProps > 0 || s.maxProps >= 0}, "}")
}

// inside matches an object, or a list whose items are its members, between its brackets.
func (c *compiler) inside(open string, o object, shut string) id {
	a := c.a
	o.comma, o.end = c.punct(","), a.cat(c.ws, a.literal(shut))
	a.objects = append(a.objects, o)
	n := int32(len(a.objects) - 1)
	x := a.pairs(n, 0, 0)
	if !a.canContinue(a.exprs[x]) {
		x = none
	}
	if a.mayEnd(a.exprs[a.tail(n, 0, 0)]) {
		x = a.choice(x, a.literal(shut))
	}
	return a.seq(a.cat(a.literal(open), c.ws), x)
}

// members returns the properties that are listed or required, and all their names. Both are nil if a required one
// cannot be.
func (c *compiler) members(s *shape) ([]string, []member) {
	names := []string{}
	seen := map[string]bool{}
	add := func(list []string) {
		for _, name := range list {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	for _, l := range s.layers {
		add(l.names)
	}
	add(s.required)
	need := map[string]bool{}
	for _, name := range s.required {
		need[name] = true
	}
	members := []member{}
	for _, name := range names {
		x := c.conjunction(c.property(s, name))
		if x == none {
			if need[name] {
				return nil, nil
			}
			continue
		}
		members = append(members, member{c.a.seq(c.key(name), x), need[name]})
	}
	return names, members
}

// others returns the pairs that are not listed: one for each set of patterns that a name may match.
func (c *compiler) others(s *shape, names []string) id {
	type class struct {
		name    id
		schemas []*value
	}
	listed := make([]id, len(names))
	for i, name := range names {
		listed[i] = c.a.quotedText(name)
	}
	name := c.a.star(c.p.plain)
	if len(listed) > 0 {
		name = c.a.and(name, c.a.not(c.a.alt(listed...)))
	}
	classes := []class{{c.a.and(append(slices.Clone(s.nameOf), name)...), nil}}
	for _, l := range s.layers {
		var next []class
		for _, k := range classes {
			parts := []class{{k.name, nil}} // what the layer says of them
			for _, p := range l.patterns {
				var split []class
				for _, q := range parts {
					if x := c.a.and(q.name, p.name); c.a.matches(x) {
						split = append(split, class{x, append(slices.Clip(q.schemas), p.schema)})
					}
					if x := c.a.and(q.name, c.a.not(p.name)); c.a.matches(x) {
						split = append(split, class{x, q.schemas})
					}
				}
				if parts = split; len(parts) > 256 {
					c.fail(p.schema, "patternProperties make more than 256 kinds of names")
					return none
				}
			}
			for _, q := range parts {
				if len(q.schemas) == 0 && l.rest != nil {
					q.schemas = []*value{l.rest}
				}
				q.schemas = append(slices.Clip(k.schemas), q.schemas...)
				next = append(next, q)
			}
		}
		classes = next
	}
	var out []id
	for _, k := range classes {
		if x := c.conjunction(k.schemas); x != none && c.a.matches(k.name) {
			out = append(out, c.a.seq(c.a.cat(c.a.literal(`"`), k.name, c.a.literal(`"`), c.punct(":")), x))
		}
	}
	return c.a.choice(out...)
}
