package grammar

import (
	"math/big"
	"slices"
)

// negate returns the shapes of the values that a schema does not take: those that violate one of its keywords. It is
// exact, or refuses the keyword.
func (c *compiler) negate(v *value) []*shape {
	if c.depth++; c.depth > c.limits.Depth {
		c.fail(v, "is nested more than %d deep, or refers to itself", c.limits.Depth)
	}
	defer func() { c.depth-- }()
	switch {
	case c.err != nil || v.kind == isTrue:
		return nil
	case v.kind == isFalse:
		return []*shape{anything()}
	case v.kind != isObject:
		c.fail(v, "is no schema: want an object or a boolean")
		return nil
	}
	if ref := c.reference(v); ref != nil {
		return c.negate(c.target(ref))
	}
	var list []*shape
	for _, key := range v.keys {
		if c.err == nil && !annotations[key] {
			list = append(list, c.violate(key, v.fields[key])...)
		}
	}
	return slices.DeleteFunc(list, func(s *shape) bool { return s.ref == nil && c.dead(s) })
}

// only returns the shape of all values of some types.
func only(types valueKind) *shape {
	s := anything()
	s.types = types
	return s
}

// violate returns the shapes of the values that violate a keyword, of which x is the value.
func (c *compiler) violate(key string, x *value) (list []*shape) {
	one := func(types valueKind, limit func(s *shape)) []*shape {
		s := only(types)
		limit(s)
		return []*shape{s}
	}
	switch key {
	case "$ref":
		return c.negate(c.target(x))
	case "not":
		return []*shape{refTo(x)}
	case "allOf":
		for _, y := range c.list(x) {
			list = append(list, c.negate(y)...)
		}
		return list
	case "anyOf":
		list = []*shape{anything()}
		for _, y := range c.list(x) {
			list = c.product(x, list, c.negate(y))
		}
		return list
	case "type":
		s := anything()
		if c.typeKeyword(s, x); s.integer {
			c.fail(x, `"integer" is not supported within not`)
		}
		return []*shape{only(isAny &^ s.types)}
	case "enum":
		return c.otherThan(x.list)
	case "const":
		return c.otherThan([]*value{x})
	case "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum":
		s := anything()
		c.numberKeyword(s, x)
		if s.lo != nil {
			return one(isNumber, func(t *shape) { t.hi = &bound{s.lo.at, !s.lo.strict} })
		} else if s.hi != nil {
			return one(isNumber, func(t *shape) { t.lo = &bound{s.hi.at, !s.hi.strict} })
		}
		return nil // draft 4's booleans
	case "pattern":
		return one(isString, func(s *shape) { s.content = []id{c.plainBut(c.pattern(x, x.text))} })
	case "minLength", "minItems", "minProperties", "maxLength", "maxItems", "maxProperties":
		return c.otherSize(key, c.count(x))
	case "required":
		for _, name := range x.list {
			list = append(list, one(isObject, func(s *shape) { s.layers = []*layer{property(name.text, never)} })...)
		}
		return list
	case "properties":
		for _, name := range x.keys {
			list = append(list, one(isObject, func(s *shape) {
				s.required, s.layers = []string{name}, []*layer{property(name, c.not(x.fields[name]))}
				s.layers[0].denies = true
			})...)
		}
		return list
	}
	return c.violateParts(key, x)
}

// violateParts is violate for keywords that are about parts which have no name.
func (c *compiler) violateParts(key string, x *value) (list []*shape) {
	free := x.kind == isTrue || x.kind == isObject && len(x.keys) == 0
	in := x.in
	switch {
	case key == "items" && x.kind == isArray || key == "prefixItems":
		for i, y := range x.list {
			s := only(isArray)
			s.minItems = i + 1
			s.prefix = append(make([][]*value, i), []*value{c.not(y)})
			list = append(list, s)
		}
		return list
	case free && (key == "items" || key == "additionalItems" || key == "additionalProperties" || key == "propertyNames" ||
		key == "patternProperties"):
		return nil
	case key == "additionalItems" && (in.get("items") == nil || in.get("items").kind != isArray):
		return nil
	case (key == "items" || key == "additionalItems") && x.kind == isFalse:
		s := only(isArray)
		if s.minItems = 1; key == "additionalItems" {
			s.minItems += len(in.get("items").list)
		} else if first := in.get("prefixItems"); first != nil {
			s.minItems += len(first.list)
		}
		return []*shape{s}
	case key == "additionalProperties" && x.kind == isFalse && in.get("properties") == nil && in.get("patternProperties") == nil:
		s := only(isObject)
		s.minProps = 1
		return []*shape{s}
	}
	if !c.idle(key, x) && (keywords[key] != nil || applicators[key] != nil || refused[key] != 0) {
		c.fail(x, "%q is not supported within not", key)
	}
	return nil
}

// otherSize returns the shapes of the values that a limit of a size leaves out.
func (c *compiler) otherSize(key string, n int) []*shape {
	s := anything()
	least := func(to *int) { *to = n + 1 }
	most := func(to *int) { *to = n - 1 }
	switch key {
	case "maxLength":
		s.types = isString
		least(&s.minLen)
	case "maxItems":
		s.types = isArray
		least(&s.minItems)
	case "maxProperties":
		s.types = isObject
		least(&s.minProps)
	case "minLength":
		s.types = isString
		most(&s.maxLen)
	case "minItems":
		s.types = isArray
		most(&s.maxItems)
	case "minProperties":
		s.types = isObject
		most(&s.maxProps)
	}
	if n == 0 && key[:3] == "min" {
		return nil
	}
	return []*shape{s}
}

// plainBut returns the contents of strings that a term of contents does not match. The term must match every plain way
// to write a string, if it matches one.
func (c *compiler) plainBut(x id) id { return c.a.and(c.a.star(c.p.plain), c.a.not(x)) }

// property returns what a schema says of one property.
func property(name string, schema *value) *layer {
	return &layer{names: []string{name}, listed: map[string]*value{name: schema}}
}

// not returns the schema of what a schema does not take, always the same one.
func (c *compiler) not(v *value) *value {
	n := c.nots[v]
	if n == nil {
		n = &value{kind: isObject, keys: []string{"not"}, fields: map[string]*value{"not": v}, in: v.in, key: v.key}
		c.nots[v] = n
	}
	return n
}

// otherThan returns the shapes of all values but those of a list.
func (c *compiler) otherThan(list []*value) (out []*shape) {
	rest := valueKind(isAny)
	var texts []id
	var numbers []*big.Rat
	for _, x := range list {
		switch r, ok := x.rat(); {
		case x.kind == isString:
			texts = append(texts, c.a.quotedText(x.text))
		case ok:
			numbers = append(numbers, r)
		case x.kind == isNumber || x.kind == isArray || x.kind == isObject:
			c.fail(x, "is not supported within not: want a text, a number of up to 100 digits, a boolean or null")
		default:
			rest &^= x.kind
		}
	}
	if len(texts) > 0 {
		rest &^= isString
		s := only(isString)
		s.content = []id{c.plainBut(c.a.alt(texts...))}
		out = append(out, s)
	}
	if len(numbers) > 0 {
		rest &^= isNumber
		slices.SortFunc(numbers, (*big.Rat).Cmp)
		for i := range len(numbers) + 1 {
			s := only(isNumber)
			if i > 0 {
				s.lo = &bound{numbers[i-1], true}
			}
			if i < len(numbers) {
				s.hi = &bound{numbers[i], true}
			}
			out = append(out, s)
		}
	}
	return append(out, only(rest))
}

// conditional is the keyword if, with then and else.
func (c *compiler) conditional(v *value) []*shape {
	if c.early {
		c.fail(v, "%q is not of this draft", v.key)
		return nil
	}
	branch := func(list []*shape, key string) []*shape {
		if then := v.in.get(key); then != nil {
			return c.product(then, list, []*shape{refTo(then)})
		}
		return list
	}
	if v.in.get("then") == nil && v.in.get("else") == nil {
		return []*shape{anything()}
	}
	return slices.Concat(branch([]*shape{refTo(v)}, "then"), branch(c.negate(v), "else"))
}

// dependencies is the keyword of draft 7 and before, and since then dependentRequired and dependentSchemas: what an
// object must be that has a property. Later drafts allow to obey the older one.
func (c *compiler) dependencies(v *value) []*shape {
	if v.kind != isObject {
		c.fail(v, "is no object")
		return nil
	}
	if c.old && v.key != "dependencies" && len(v.keys) > 0 {
		c.fail(v, "%q is not of this draft", v.key)
	}
	list := []*shape{anything()}
	for _, name := range v.keys {
		x := v.fields[name]
		absent, has := anything(), only(isObject)
		absent.layers = []*layer{property(name, never)}
		with := []*shape{has}
		if has.required = []string{name}; x.kind == isArray {
			c.requiredKeyword(has, x)
		} else {
			with = c.product(x, with, []*shape{refTo(x)})
		}
		list = c.product(x, list, append(with, absent))
	}
	return list
}
