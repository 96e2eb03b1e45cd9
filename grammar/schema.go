package grammar

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// compiler makes expressions of a JSON Schema. A schema becomes a list of shapes, any of which a value may have
// (shape.go); shapes become expressions (compile.go).
type compiler struct {
	a       *arena
	p       *prelude
	v       *Vocab
	ws, gap id  // white space around tokens, and after commas and colons
	compact int // 1 if compact: an index of prelude.any
	ordered bool
	limits  Limits
	root    *value
	named   map[string]*value // by $id, $anchor and id
	nots    map[*value]*value // by what they are not
	exact   map[*value]bool   // a oneOf of which a value may fit two schemas: each is without what fits another
	overlap *value            // one that is found to be so
	old     bool              // a draft where what is beside $ref does not count
	early   bool              // a draft before 7

	known     map[*value][]*shape
	expanding map[*value]bool
	made      map[string]*madeRule
	depth     int
	err       *Error
}

// never is the schema that no value fits.
var never = &value{kind: isFalse}

// mostShapes bounds the shapes of one schema.
const mostShapes = 4096

func compileSchema(a *arena, p *prelude, spec *Spec, v *Vocab, l Limits) (id, error) {
	root, err := parseJSON(spec.Schema, l.Depth)
	if err != nil {
		return none, &Error{Problem: err.Error()}
	}
	exact := map[*value]bool{}
	var first *Error
	for {
		c := newCompiler(a, p, spec, v, l, root)
		c.exact = exact
		x := c.conjunction([]*value{root})
		switch {
		case c.err == nil:
			return x, nil
		case first == nil:
			first = c.err
		}
		if c.overlap == nil || exact[c.overlap] {
			return none, first
		}
		exact[c.overlap] = true // and once more
	}
}

func newCompiler(a *arena, p *prelude, spec *Spec, v *Vocab, l Limits, root *value) *compiler {
	c := &compiler{a: a, p: p, v: v, ws: p.ws, gap: p.ws, limits: l, root: root, named: map[string]*value{}, known: map[*value][]*shape{},
		expanding: map[*value]bool{}, made: map[string]*madeRule{}, nots: map[*value]*value{}}
	c.ordered = spec.Ordered
	if spec.Compact {
		c.ws, c.gap, c.compact = empty, p.gap, 1
	}
	if s := root.get("$schema"); s != nil {
		for _, d := range []string{"draft-03", "draft-04", "draft-06", "draft-07"} {
			if strings.Contains(s.text, d) {
				c.old, c.early = true, d != "draft-07"
			}
		}
	}
	c.index(root, "")
	return c
}

// fail keeps the first error.
func (c *compiler) fail(at *value, format string, args ...any) {
	if c.err == nil {
		c.err = &Error{at.path(), fmt.Sprintf(format, args...)}
	}
}

// annotations are keywords that say nothing of what is valid, or only name things.
var annotations = map[string]bool{"$schema": true, "$id": true, "id": true, "$anchor": true, "$dynamicAnchor": true,
	"$comment": true, "$defs": true, "definitions": true, "$vocabulary": true, "title": true, "description": true,
	"default": true, "examples": true, "deprecated": true, "readOnly": true, "writeOnly": true, "contentEncoding": true,
	"contentMediaType": true, "contentSchema": true, "then": true, "else": true, "minContains": true, "maxContains": true}

// refused are keywords that would have to be obeyed, and for which types.
var refused = map[string]valueKind{"$dynamicRef": isAny, "$recursiveRef": isAny, "extends": isAny, "disallow": isAny,
	"divisibleBy": isNumber}

// reference returns the $ref of a schema that says nothing else, or nil.
func (c *compiler) reference(v *value) *value {
	ref := v.get("$ref")
	if ref == nil || c.old {
		return ref
	}
	for _, key := range v.keys {
		if key != "$ref" && !annotations[key] && keywords[key] == nil && refused[key] == 0 && applicators[key] == nil {
			continue // not a keyword
		}
		if key != "$ref" && !annotations[key] {
			return nil
		}
	}
	return ref
}

// keywords say what a shape is limited to.
var keywords map[string]func(c *compiler, s *shape, v *value)

// applicators join shapes of other schemas.
var applicators map[string]func(c *compiler, v *value) []*shape

func init() {
	keywords = map[string]func(c *compiler, s *shape, v *value){
		"type":              (*compiler).typeKeyword,
		"minimum":           (*compiler).numberKeyword,
		"maximum":           (*compiler).numberKeyword,
		"exclusiveMinimum":  (*compiler).numberKeyword,
		"exclusiveMaximum":  (*compiler).numberKeyword,
		"multipleOf":        (*compiler).multipleKeyword,
		"minLength":         func(c *compiler, s *shape, v *value) { s.minLen = c.count(v) },
		"maxLength":         func(c *compiler, s *shape, v *value) { s.maxLen = c.count(v) },
		"pattern":           (*compiler).patternKeyword,
		"format":            (*compiler).formatKeyword,
		"minItems":          func(c *compiler, s *shape, v *value) { s.minItems = c.count(v) },
		"maxItems":          func(c *compiler, s *shape, v *value) { s.maxItems = c.count(v) },
		"minProperties":     func(c *compiler, s *shape, v *value) { s.minProps = c.count(v) },
		"maxProperties":     func(c *compiler, s *shape, v *value) { s.maxProps = c.count(v) },
		"required":          (*compiler).requiredKeyword,
		"items":             (*compiler).itemsKeyword,
		"prefixItems":       (*compiler).prefixKeyword,
		"additionalItems":   func(*compiler, *shape, *value) {},
		"contains":          (*compiler).containsKeyword,
		"uniqueItems":       (*compiler).uniqueKeyword,
		"properties":        (*compiler).objectKeyword,
		"patternProperties": (*compiler).objectKeyword,

		"additionalProperties": (*compiler).objectKeyword,
		"propertyNames":        (*compiler).namesKeyword,
	}
	applicators = map[string]func(c *compiler, v *value) []*shape{
		"$ref":  func(c *compiler, v *value) []*shape { return []*shape{refTo(c.target(v))} },
		"allOf": (*compiler).allOf,
		"anyOf": (*compiler).anyOf,
		"oneOf": (*compiler).oneOf,
		"enum":  (*compiler).enum,
		"const": func(c *compiler, v *value) []*shape { return c.literals([]*value{v}) },
		"not":   (*compiler).negate,
		"if":    (*compiler).conditional,

		"unevaluatedProperties": (*compiler).later,
		"unevaluatedItems":      (*compiler).later,

		"dependencies":      (*compiler).dependencies,
		"dependentRequired": (*compiler).dependencies,
		"dependentSchemas":  (*compiler).dependencies,
	}
}

// shapes returns the shapes that a value may have by a schema.
func (c *compiler) shapes(v *value) []*shape {
	if list, ok := c.known[v]; ok {
		return list
	}
	if c.depth++; c.depth > c.limits.Depth {
		c.fail(v, "is nested more than %d deep", c.limits.Depth)
	}
	defer func() { c.depth-- }()
	if c.expanding[v] {
		c.fail(v, "refers to itself without taking a part of the value")
	}
	switch {
	case c.err != nil || v.kind == isFalse:
		return nil
	case v.kind == isTrue:
		return []*shape{anything()}
	case v.kind != isObject:
		c.fail(v, "is no schema: want an object or a boolean")
		return nil
	}
	c.expanding[v] = true
	list := c.expand(v)
	delete(c.expanding, v)
	c.known[v] = list
	return list
}

func (c *compiler) expand(v *value) []*shape {
	if ref := c.reference(v); ref != nil {
		return []*shape{refTo(c.target(ref))}
	}
	s := anything()
	if t := v.get("type"); t != nil {
		c.typeKeyword(s, t)
	}
	list := []*shape{s}
	limits := false
	for _, key := range v.keys {
		x := v.fields[key]
		if f := keywords[key]; f != nil {
			limits = true
			f(c, s, x)
		} else if types, ok := refused[key]; ok && types&s.types != 0 && !c.idle(key, x) {
			c.fail(x, "%q is not supported", key)
		}
	}
	if c.dead(s) {
		return nil
	}
	for _, key := range v.keys {
		if f := applicators[key]; f != nil && c.err == nil {
			with := f(c, v.fields[key])
			if !limits {
				list, limits = with, true
				continue
			}
			list = c.product(v, list, with)
		}
	}
	return c.unevaluated(v, list)
}

// idle reports whether a keyword that is refused says nothing here.
func (c *compiler) idle(key string, v *value) bool {
	switch key {
	case "uniqueItems":
		return v.kind == isFalse
	case "unevaluatedItems", "unevaluatedProperties":
		return v.kind == isTrue
	}
	return false
}

func (c *compiler) list(v *value) []*value {
	if v.kind != isArray || len(v.list) == 0 {
		c.fail(v, "is no list of schemas")
	}
	return v.list
}

func (c *compiler) allOf(v *value) []*shape {
	var list []*shape
	for i, x := range c.list(v) {
		if i == 0 {
			list = []*shape{refTo(x)}
			continue
		}
		list = c.product(x, list, []*shape{refTo(x)})
	}
	if len(list) == 1 && list[0].ref != nil {
		return c.deref(list)
	}
	return list
}

func (c *compiler) anyOf(v *value) []*shape {
	var list []*shape
	for _, x := range c.list(v) {
		list = append(list, refTo(x))
	}
	return list
}

// oneOf is anyOf for now: its shapes remember which they are, and exclusive looks at them when all else is known. Where
// that finds a value that may fit two, all is compiled again, and each schema is joined with what the others are not.
func (c *compiler) oneOf(v *value) []*shape {
	var list []*shape
	for i, x := range c.list(v) {
		if c.exact[v] {
			alone := []*shape{refTo(x)}
			for j, y := range v.list {
				if j != i {
					alone = c.product(v, alone, c.negate(y))
				}
			}
			list = append(list, alone...)
			continue
		}
		s := refTo(x)
		s.picks = []pick{{v, i}}
		list = append(list, s)
	}
	return list
}

func (c *compiler) enum(v *value) []*shape {
	if v.kind != isArray {
		c.fail(v, "is no list")
	}
	return c.literals(v.list)
}

// literals returns the shapes of the values of a list.
func (c *compiler) literals(list []*value) []*shape {
	simple := &shape{maxLen: -1, maxItems: -1, maxProps: -1}
	var texts []id
	var out []*shape
	for _, x := range list {
		switch x.kind {
		case isString:
			texts = append(texts, c.a.literal(quote(x.text)))
			simple.types |= isString
		case isNumber, isArray, isObject:
			s := anything()
			s.types, s.lit = x.kind, x
			out = append(out, s)
		default:
			simple.types |= x.kind
		}
	}
	if simple.types&isString != 0 {
		simple.content = []id{c.a.alt(texts...)}
	}
	if simple.types != 0 {
		out = append(out, simple)
	}
	return out
}

var typeNames = map[string]valueKind{"null": isNull, "boolean": isFalse | isTrue, "number": isNumber, "integer": isNumber,
	"string": isString, "array": isArray, "object": isObject, "any": isAny}

func (c *compiler) typeKeyword(s *shape, v *value) {
	list := v.list
	if v.kind == isString {
		list = []*value{v}
	} else if v.kind != isArray {
		c.fail(v, "is neither the name of a type nor a list of them")
	}
	s.types, s.integer = 0, false
	real := false
	for _, t := range list {
		kind, ok := typeNames[t.text]
		if !ok || t.kind != isString {
			c.fail(t, "%q is no type", short100(t.text))
		}
		s.types |= kind
		s.integer = s.integer || t.text == "integer"
		real = real || t.text == "number" || t.text == "any"
	}
	s.integer = s.integer && !real
}

// count reads the number of a limit.
func (c *compiler) count(v *value) int {
	r, ok := v.rat()
	if !ok || !r.IsInt() || r.Sign() < 0 {
		c.fail(v, "is no whole number from 0 on")
		return 0
	}
	if n := r.Num(); n.IsInt64() && n.Int64() < 1<<30 {
		return int(n.Int64())
	}
	return 1 << 30
}

func (c *compiler) numberKeyword(s *shape, v *value) {
	if v.key == "exclusiveMinimum" || v.key == "exclusiveMaximum" {
		if v.kind == isTrue || v.kind == isFalse {
			return // draft 4's, which minimum and maximum look at
		}
	}
	r, ok := v.rat()
	if !ok {
		c.fail(v, "is no number of up to 100 digits")
		return
	}
	b := &bound{r, strings.HasPrefix(v.key, "exclusive")}
	if strings.HasSuffix(v.key, "inimum") {
		if x := v.in.get("exclusiveMinimum"); x != nil && x.kind == isTrue {
			b.strict = true
		}
		s.lo = tighter(s.lo, b, 1)
	} else {
		if x := v.in.get("exclusiveMaximum"); x != nil && x.kind == isTrue {
			b.strict = true
		}
		s.hi = tighter(s.hi, b, -1)
	}
}

func (c *compiler) multipleKeyword(s *shape, v *value) {
	r, ok := v.rat()
	if !ok || r.Sign() <= 0 {
		c.fail(v, "is no number above 0")
		return
	}
	f := factor{}
	ten := big.NewRat(10, 1)
	for r = new(big.Rat).Set(r); !r.IsInt() && f.scale < 30; f.scale++ {
		r.Mul(r, ten)
	}
	if !r.IsInt() || !r.Num().IsInt64() || r.Num().Int64() > mostDiv {
		c.fail(v, "multipleOf is supported up to %d, counted in its last digit", mostDiv)
		return
	}
	f.div = r.Num().Int64()
	if f.div == 1 && f.scale == 0 {
		s.whole = true
	}
	s.by = append(s.by, f)
}

func (c *compiler) requiredKeyword(s *shape, v *value) {
	if v.kind == isTrue || v.kind == isFalse {
		c.fail(v, "is no list of names")
	}
	for _, x := range v.list {
		if x.kind != isString {
			c.fail(x, "is no string")
		} else if !slices.Contains(s.required, x.text) {
			s.required = append(s.required, x.text)
		}
	}
}

func (c *compiler) patternKeyword(s *shape, v *value) {
	if s.types&isString != 0 {
		s.content = append(s.content, c.pattern(v, v.text))
	}
}

// pattern returns the contents of strings with a part that a regular expression matches.
func (c *compiler) pattern(at *value, text string) id {
	p, err := parsePattern(text, dialect{runeSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}, c.limits.Depth})
	if err == nil {
		var x id
		if x, err = (writer{c.a, c.a.quoted}).search(p); err == nil && p.risky(false) {
			err = c.a.try(c.v, c.a.cat(c.a.and(x, c.a.star(c.p.char)), c.a.literal(`"`)))
		}
		if err == nil {
			return x
		}
	}
	c.fail(at, "the regular expression %q %v", short100(text), err)
	return none
}

func (c *compiler) formatKeyword(s *shape, v *value) {
	if s.types&isString == 0 {
		return
	}
	text, ok := formats[v.text]
	if !ok {
		c.fail(v, "format %q is not supported", short100(v.text))
		return
	}
	if text == "" {
		return
	}
	p, err := parsePattern(text, dialect{depth: 100})
	if err == nil {
		var x id
		if x, err = (writer{c.a, c.a.quoted}).whole(p); err == nil {
			s.content = append(s.content, x)
			return
		}
	}
	c.fail(v, "format %q: %v", v.text, err)
}

func (c *compiler) itemsKeyword(s *shape, v *value) {
	if v.kind == isArray {
		for _, x := range v.list {
			s.prefix = append(s.prefix, []*value{x})
		}
		if x := v.in.get("additionalItems"); x != nil {
			s.items = []*value{x}
		}
		return
	}
	s.items = []*value{v}
}

func (c *compiler) prefixKeyword(s *shape, v *value) {
	for _, x := range c.list(v) {
		s.prefix = append(s.prefix, []*value{x})
	}
}

func (c *compiler) uniqueKeyword(s *shape, v *value) {
	if v.kind == isTrue {
		s.unique = v
	}
}

// containsKeyword reads contains with minContains and maxContains, which are later than draft 7.
func (c *compiler) containsKeyword(s *shape, v *value) {
	h := &holding{of: v, min: 1, max: -1}
	if x := v.in.get("minContains"); x != nil && !c.old {
		h.min = c.count(x)
	}
	if x := v.in.get("maxContains"); x != nil && !c.old {
		h.max = c.count(x)
	}
	if h.min > 0 || h.max >= 0 {
		s.holds = append(s.holds, h)
	}
}

// objectKeyword reads properties, patternProperties and additionalProperties, which belong together.
func (c *compiler) objectKeyword(s *shape, v *value) {
	if len(s.layers) > 0 {
		return
	}
	l := &layer{}
	s.layers = []*layer{l}
	if x := v.in.get("properties"); x != nil {
		if x.kind != isObject {
			c.fail(x, "is no object")
		}
		l.names, l.listed = x.keys, x.fields
	}
	if x := v.in.get("patternProperties"); x != nil && s.types&isObject != 0 {
		if x.kind != isObject {
			c.fail(x, "is no object")
		}
		for _, key := range x.keys {
			l.patterns = append(l.patterns, namePattern{c.pattern(x.fields[key], key), x.fields[key]})
		}
	}
	l.rest = v.in.get("additionalProperties")
}

func (c *compiler) namesKeyword(s *shape, v *value) {
	if s.types&isObject == 0 {
		return
	}
	var parts []id
	for _, t := range c.deref(c.shapes(v)) {
		if t.types&isString != 0 {
			parts = append(parts, c.content(t))
		}
	}
	s.nameOf = append(s.nameOf, c.a.alt(parts...))
}
