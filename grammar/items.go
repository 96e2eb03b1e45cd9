package grammar

import "slices"

// Lists of items that depend on one another.

const (
	mostDistinct = 512  // values that items may be of which no two are equal
	mostCounts   = 4096 // pairs of a number of items and how many of them contains counts
)

// distinct matches a list of which no two items are equal, where enum or const says what they may be: it is like an
// object that has the values as members.
func (c *compiler) distinct(s *shape) id {
	values := c.finite(s.items)
	if values == nil || len(values) > mostDistinct || len(s.prefix)+len(s.holds) > 0 {
		c.fail(s.unique, `"uniqueItems" is supported only where enum or const lists the items, at most %d, and with neither prefixItems nor contains`,
			mostDistinct)
		return none
	}
	members := make([]member, len(values))
	for i, v := range values {
		members[i].pair = c.literal(v)
	}
	if len(values) < s.minItems {
		return none
	}
	return c.inside("[", object{members: members, least: int32(s.minItems), most: int32(s.maxItems)}, "]")
}

// finite returns the values that fit all schemas of a list, if one of them is an enum or a const; else nil.
func (c *compiler) finite(list []*value) []*value {
	for _, v := range list {
		for hops := 0; c.reference(v) != nil && c.err == nil && hops < c.limits.Depth; hops++ {
			v = c.target(c.reference(v))
		}
		var from []*value
		if x := v.get("const"); x != nil {
			from = []*value{x}
		} else if x := v.get("enum"); x != nil {
			from = x.list
		}
		if from == nil {
			continue
		}
		values := []*value{}
		for _, x := range from {
			if !slices.ContainsFunc(values, x.equal) && c.fits(x, list) {
				values = append(values, x)
			}
		}
		return values
	}
	return nil
}

// holdsIn reports whether as many values of a list fit as should.
func (c *compiler) holdsIn(list []*value, h *holding) bool {
	n := 0
	for _, v := range list {
		if c.fits(v, []*value{h.of}) {
			n++
		}
	}
	return n >= h.min && (h.max < 0 || n <= h.max)
}

// counted matches a list of which some items, but not too many, fit a schema.
func (c *compiler) counted(s *shape) id {
	h := s.holds[0]
	items, fit := max(len(s.prefix), s.minItems, s.maxItems, 1), max(h.min, h.max)
	if len(s.holds) > 1 || (items+1)*(fit+1) > mostCounts {
		c.fail(h.of, `"contains" is supported once in a list, with at most %d pairs of a number of items and of those that it counts`, mostCounts)
		return none
	}
	after := make([]id, (items+1)*(fit+1)) // rules of what follows so many items, of which so many fit
	for i := range after {
		after[i] = c.a.rule()
	}
	for i := range items + 1 {
		for n := range fit + 1 {
			at := i*(fit+1) + n
			c.a.define(after[at], c.after(s, i, n, func(fits int) id { return after[min(i+1, items)*(fit+1)+fits] }))
		}
	}
	return c.a.seq(c.a.cat(c.a.literal("["), c.ws), after[0], c.a.cat(c.ws, c.a.literal("]")))
}

// after matches what follows i items of a list, of which n fit what it holds; next is what follows one more.
func (c *compiler) after(s *shape, i, n int, next func(fits int) id) id {
	h := s.holds[0]
	var parts []id
	if i >= s.minItems && n >= h.min {
		parts = append(parts, empty)
	}
	if s.maxItems >= 0 && i >= s.maxItems {
		return c.a.choice(parts...)
	}
	add := func(also *value, fits int) {
		list := slices.Clone(s.item(i))
		if also != nil {
			list = append(list, also)
		}
		x := c.a.seq(c.conjunction(list), next(fits))
		if i > 0 {
			x = c.a.seq(c.punct(","), x)
		}
		parts = append(parts, x)
	}
	switch {
	case h.max >= 0: // each item is one that fits, or one that does not
		if n < h.max {
			add(h.of, n+1)
		}
		add(c.not(h.of), n)
	case n < h.min: // an item that fits need not be counted: another way to read the list counts it
		add(h.of, n+1)
		add(nil, n)
	default:
		add(nil, n)
	}
	return c.a.choice(parts...)
}
