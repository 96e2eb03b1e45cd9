package grammar

import (
	"cmp"
	"math/big"
	"slices"
)

// shape is what a schema says of a value when it leaves no alternatives: a limit for each type.
type shape struct {
	types valueKind
	lit   *value // the value itself: a number, an array or an object; nil is none
	ref   *value // the shape is any of this schema's; nothing else is set but types, to isAny, and picks
	picks []pick // where it comes from oneOf

	integer bool
	whole   bool // multipleOf 1
	lo, hi  *bound
	by      []factor

	content        []id // of a string, between its quotes: all of them match
	minLen, maxLen int  // in characters; -1 is no limit, here and below

	prefix             [][]*value // schemas of the first items: all of a list
	items              []*value   // of the others
	minItems, maxItems int
	unique             *value     // uniqueItems, if no two items may be equal
	holds              []*holding // what the items are counted by

	layers             []*layer
	required           []string
	nameOf             []id // contents of the names of properties: all of them match
	minProps, maxProps int
}

// holding says how many items fit a schema.
type holding struct {
	of       *value
	min, max int // -1 is no limit
}

// pick is a schema of a oneOf.
type pick struct {
	oneOf *value
	i     int
}

// layer is what one schema says of properties.
type layer struct {
	names    []string
	listed   map[string]*value
	patterns []namePattern
	rest     *value // of names that are neither listed nor match; nil is any value
	denies   bool   // it comes from not: it evaluates no property
}

// namePattern is a schema for the properties whose names match.
type namePattern struct {
	name   id // contents of strings
	schema *value
}

func anything() *shape { return &shape{types: isAny, maxLen: -1, maxItems: -1, maxProps: -1} }

func refTo(v *value) *shape {
	s := anything()
	s.ref = v
	return s
}

// deref replaces references by what they refer to.
func (c *compiler) deref(list []*shape) []*shape {
	var out []*shape
	for _, s := range list {
		if s.ref == nil {
			out = append(out, s)
		} else if c.err == nil {
			for _, t := range c.through(s.ref) {
				if len(s.picks) > 0 {
					with := *t
					with.picks = slices.Concat(s.picks, t.picks)
					t = &with
				}
				out = append(out, t)
			}
		}
	}
	return out
}

func (c *compiler) through(v *value) []*shape {
	c.expanding[v] = c.expanding[v] || false
	if c.depth++; c.depth > c.limits.Depth {
		c.fail(v, "is nested more than %d deep, or refers to itself", c.limits.Depth)
	}
	list := c.deref(c.shapes(v))
	c.depth--
	return list
}

// product returns the shapes of both lists.
func (c *compiler) product(at *value, xs, ys []*shape) []*shape {
	if len(xs) == 1 && xs[0].trivial() {
		return ys
	}
	if len(ys) == 1 && ys[0].trivial() {
		return xs
	}
	xs, ys = c.joinTexts(c.deref(xs)), c.joinTexts(c.deref(ys))
	if len(xs)*len(ys) > mostShapes {
		c.fail(at, "has more than %d alternatives", mostShapes)
		return nil
	}
	var out []*shape
	for _, x := range xs {
		for _, y := range ys {
			if s := c.intersect(x, y); c.err == nil && !c.dead(s) {
				out = append(out, s)
			}
		}
	}
	return c.joinTexts(out)
}

// joinTexts makes one shape of those that differ only in what they say of strings, so that alternatives of patterns do
// not multiply.
func (c *compiler) joinTexts(list []*shape) []*shape {
	var out []*shape
	parts := map[*shape][]*shape{}
	for _, s := range list {
		i := slices.IndexFunc(out, func(t *shape) bool { return t.types == s.types && t.textual() && s.textual() })
		if i < 0 {
			out = append(out, s)
			continue
		}
		parts[out[i]] = append(parts[out[i]], s)
	}
	for i, s := range out {
		if len(parts[s]) == 0 {
			continue
		}
		joined := only(s.types)
		var texts []id
		free := false
		for _, t := range append(parts[s], s) {
			texts = append(texts, c.content(t))
			free = free || len(t.content) == 0 && t.minLen == 0 && t.maxLen < 0
		}
		if !free {
			joined.content = []id{c.a.alt(texts...)}
		}
		out[i] = joined
	}
	return out
}

// textual reports whether a shape limits strings, and nothing else but types.
func (s *shape) textual() bool {
	t := *s
	t.types, t.content, t.minLen, t.maxLen = isAny, nil, 0, -1
	return s.types&isString != 0 && t.trivial()
}

// trivial reports whether every value has the shape.
func (s *shape) trivial() bool {
	return s.types == isAny && s.ref == nil && s.lit == nil && len(s.picks) == 0 && !s.integer && !s.whole && s.lo == nil && s.hi == nil &&
		len(s.by)+len(s.content)+len(s.prefix)+len(s.items)+len(s.layers)+len(s.required)+len(s.nameOf)+len(s.holds) == 0 &&
		s.unique == nil && s.minLen+s.minItems+s.minProps == 0 && s.maxLen < 0 && s.maxItems < 0 && s.maxProps < 0
}

// tighter returns the stricter of two bounds; sign is 1 for lower ones.
func tighter(x, y *bound, sign int) *bound {
	if x == nil {
		return y
	}
	if y == nil {
		return x
	}
	if d := x.at.Cmp(y.at) * sign; d > 0 || d == 0 && x.strict {
		return x
	}
	return y
}

func atMost(x, y int) int {
	if x < 0 || y >= 0 && y < x {
		return y
	}
	return x
}

// intersect returns the shape of values that have both.
func (c *compiler) intersect(x, y *shape) *shape {
	if y.lit != nil {
		x, y = y, x
	}
	if x.lit != nil {
		s := *x
		s.picks = slices.Concat(x.picks, y.picks)
		if x.lit.kind&y.types == 0 || !c.has(x.lit, y) {
			s.types = 0
		}
		return &s
	}
	s := &shape{
		types: x.types & y.types, picks: slices.Concat(x.picks, y.picks), integer: x.integer || y.integer, whole: x.whole || y.whole,
		lo: tighter(x.lo, y.lo, 1), hi: tighter(x.hi, y.hi, -1), by: slices.Concat(x.by, y.by),
		content: slices.Concat(x.content, y.content), minLen: max(x.minLen, y.minLen), maxLen: atMost(x.maxLen, y.maxLen),
		items: slices.Concat(x.items, y.items), minItems: max(x.minItems, y.minItems), maxItems: atMost(x.maxItems, y.maxItems),
		unique: cmp.Or(x.unique, y.unique), holds: slices.Concat(x.holds, y.holds),
		layers: slices.Concat(x.layers, y.layers), required: slices.Clone(x.required), nameOf: slices.Concat(x.nameOf, y.nameOf),
		minProps: max(x.minProps, y.minProps), maxProps: atMost(x.maxProps, y.maxProps),
	}
	for i := range max(len(x.prefix), len(y.prefix)) {
		s.prefix = append(s.prefix, slices.Concat(x.item(i), y.item(i)))
	}
	for _, name := range y.required {
		if !slices.Contains(s.required, name) {
			s.required = append(s.required, name)
		}
	}
	return s
}

// item returns the schemas of item i.
func (s *shape) item(i int) []*value {
	if i < len(s.prefix) {
		return s.prefix[i]
	}
	return s.items
}

// property returns the schemas of a property.
func (c *compiler) property(s *shape, name string) []*value {
	var list []*value
	for _, l := range s.layers {
		x := l.listed[name]
		if x != nil {
			list = append(list, x)
		}
		found := x != nil
		for _, p := range l.patterns {
			if c.a.accepts(p.name, quote(name)) {
				list = append(list, p.schema)
				found = true
			}
		}
		if !found && l.rest != nil {
			list = append(list, l.rest)
		}
	}
	for _, n := range s.nameOf {
		if !c.a.accepts(n, quote(name)) {
			list = append(list, never)
		}
	}
	return list
}

// accepts reports whether a term matches a text.
func (a *arena) accepts(x id, text string) bool {
	for i := range len(text) {
		var class byteSet
		x = a.derive(x, text[i], &class)
	}
	return a.nullable(x)
}

// dead reports whether no value has a shape, as far as is seen without its parts.
func (c *compiler) dead(s *shape) bool {
	if s.lit == nil && s.types&isString != 0 && len(s.content) > 0 && !c.a.matches(c.content(s)) {
		s.types &^= isString
	}
	if s.lit == nil && s.types&isNumber != 0 && s.lo != nil && s.hi != nil {
		if d := s.lo.at.Cmp(s.hi.at); d > 0 || d == 0 && (s.lo.strict || s.hi.strict) {
			s.types &^= isNumber
		}
	}
	if s.maxItems >= 0 && s.minItems > s.maxItems {
		s.types &^= isArray
	}
	if s.maxProps >= 0 && max(s.minProps, len(s.required)) > s.maxProps {
		s.types &^= isObject
	}
	return s.types == 0
}

// content returns the term of what is between the quotes of a string.
func (c *compiler) content(s *shape) id {
	if len(s.content) == 0 || s.minLen > 0 || s.maxLen >= 0 {
		n := c.a.rep(c.p.char, int32(s.minLen), int32(s.maxLen))
		return c.a.and(append(slices.Clone(s.content), n)...)
	}
	return c.a.and(s.content...)
}

// mostPairs bounds the pairs of shapes that exclusive looks at.
const mostPairs = 1 << 14

// exclusive refuses shapes of two schemas of one oneOf that the same value may have.
func (c *compiler) exclusive(list []*shape) {
	pairs := 0
	for i, x := range list {
		for _, p := range x.picks {
			for _, y := range list[:i] {
				if !slices.ContainsFunc(y.picks, func(q pick) bool { return q.oneOf == p.oneOf && q.i != p.i }) {
					continue
				}
				if pairs++; pairs > mostPairs {
					c.fail(p.oneOf, "has too many alternatives to see that no value fits two of them")
					return
				}
				for _, s := range c.deref([]*shape{x}) {
					for _, t := range c.deref([]*shape{y}) {
						if c.err == nil && c.possible(c.intersect(s, t), 8) {
							c.overlap = p.oneOf
							c.fail(p.oneOf, "is supported only where no value can fit two of its schemas, as far as can be told")
						}
					}
				}
				if c.err != nil {
					return
				}
			}
		}
	}
}

// meet reports whether a value may fit all schemas of a list, as far as is seen depth levels down.
func (c *compiler) meet(list []*value, depth int) bool {
	if depth == 0 || c.err != nil {
		return true
	}
	shapes := []*shape{anything()}
	for _, v := range list {
		shapes = c.product(v, shapes, []*shape{refTo(v)})
	}
	return slices.ContainsFunc(c.deref(shapes), func(s *shape) bool { return c.possible(s, depth) })
}

// possible reports whether a value may have a shape, as far as is seen depth levels down.
func (c *compiler) possible(s *shape, depth int) bool {
	if c.dead(s) {
		return false
	}
	if s.lit != nil || s.types&^(isArray|isObject) != 0 {
		return true
	}
	all := true
	if s.types&isArray != 0 {
		for i := range min(s.minItems, 8) {
			all = all && (len(s.item(i)) == 0 || c.meet(s.item(i), depth-1))
		}
		if all {
			return true
		}
	}
	if s.types&isObject == 0 {
		return false
	}
	for _, name := range s.required {
		if p := c.property(s, name); len(p) > 0 && !c.meet(p, depth-1) {
			return false
		}
	}
	return true
}

// fits reports whether a value fits all schemas of a list.
func (c *compiler) fits(v *value, list []*value) bool {
	for _, schema := range list {
		if !slices.ContainsFunc(c.deref([]*shape{refTo(schema)}), func(s *shape) bool { return c.has(v, s) }) {
			return false
		}
	}
	return true
}

// has reports whether a value has a shape.
func (c *compiler) has(v *value, s *shape) bool {
	switch {
	case s.lit != nil:
		return v.equal(s.lit)
	case v.kind&s.types == 0:
		return false
	}
	switch v.kind {
	case isNumber:
		return s.hasNumber(v)
	case isString:
		return c.a.accepts(c.content(s), quote(v.text))
	case isArray:
		if len(v.list) < s.minItems || s.maxItems >= 0 && len(v.list) > s.maxItems {
			return false
		}
		for i, x := range v.list {
			if !c.fits(x, s.item(i)) || s.unique != nil && slices.ContainsFunc(v.list[:i], x.equal) {
				return false
			}
		}
		return !slices.ContainsFunc(s.holds, func(h *holding) bool { return !c.holdsIn(v.list, h) })
	case isObject:
		if len(v.keys) < s.minProps || s.maxProps >= 0 && len(v.keys) > s.maxProps {
			return false
		}
		for _, name := range s.required {
			if v.fields[name] == nil {
				return false
			}
		}
		for _, name := range v.keys {
			if !c.fits(v.fields[name], c.property(s, name)) {
				return false
			}
		}
	}
	return true
}

func (s *shape) hasNumber(v *value) bool {
	r, ok := v.rat()
	if !ok || (s.integer || s.whole) && !r.IsInt() {
		return false
	}
	if s.lo != nil && (r.Cmp(s.lo.at) < 0 || s.lo.strict && r.Cmp(s.lo.at) == 0) {
		return false
	}
	if s.hi != nil && (r.Cmp(s.hi.at) > 0 || s.hi.strict && r.Cmp(s.hi.at) == 0) {
		return false
	}
	for _, f := range s.by {
		ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(f.scale)), nil)
		n := new(big.Rat).Mul(r, new(big.Rat).SetInt(ten))
		if !n.Quo(n, big.NewRat(f.div, 1)).IsInt() {
			return false
		}
	}
	return true
}
