package grammar

// unevaluated adds what unevaluatedProperties and unevaluatedItems say to the shapes that a value has by all else that
// stands beside them. A shape knows which schemas the value fits, and so which properties and items these evaluate.
func (c *compiler) unevaluated(v *value, list []*shape) []*shape {
	for _, key := range []string{"unevaluatedProperties", "unevaluatedItems"} {
		x := v.get(key)
		if x == nil || c.old || c.err != nil {
			continue
		}
		if by := c.unsure(v, key, 0); by != "" {
			c.fail(x, "%q is not supported beside %q: it is not told which of its schemas evaluate a part", key, by)
			return nil
		}
		var out []*shape
		for _, s := range c.deref(list) {
			if s.lit != nil && s.lit.kind&(isObject|isArray) != 0 {
				c.fail(x, "%q is not supported beside a list of values that are objects or arrays", key)
			}
			out = append(out, c.product(x, []*shape{s}, []*shape{s.rest(key, x)})...)
		}
		list = out
	}
	return list
}

// later limits nothing yet: unevaluated comes when all else is known.
func (c *compiler) later(v *value) []*shape {
	if c.old {
		c.fail(v, "%q is not of this draft", v.key)
	}
	return []*shape{anything()}
}

// rest returns what the schema of a keyword says of the properties, or items, that no schema of s evaluates.
func (s *shape) rest(key string, schema *value) *shape {
	t := anything()
	if key == "unevaluatedItems" {
		if len(s.items) == 0 {
			t.prefix, t.items = make([][]*value, len(s.prefix)), []*value{schema}
		}
		return t
	}
	l := &layer{listed: map[string]*value{}, rest: schema}
	for _, from := range s.layers {
		switch {
		case from.denies:
			continue
		case from.rest != nil:
			return t
		}
		for _, name := range from.names {
			if l.listed[name] == nil {
				l.names = append(l.names, name)
				l.listed[name] = always
			}
		}
		for _, p := range from.patterns {
			l.patterns = append(l.patterns, namePattern{p.name, always})
		}
	}
	t.layers = []*layer{l}
	return t
}

// always is the schema that every value fits.
var always = &value{kind: isTrue}

// unsure returns a keyword in a schema, or in those that it joins, by which a shape does not tell what the schemas of a
// value evaluate: a value of one shape may fit schemas of another, and these count too.
func (c *compiler) unsure(v *value, key string, depth int) string {
	if depth > c.limits.Depth || v.kind != isObject {
		return ""
	}
	if ref := v.get("$ref"); ref != nil {
		if by := c.unsure(c.target(ref), key, depth+1); by != "" {
			return by
		}
	}
	unsure := []string{"anyOf", "$dynamicRef"}
	if key == "unevaluatedItems" {
		unsure = []string{"anyOf", "$dynamicRef", "contains", "oneOf", "not", "if", "dependentSchemas"}
	}
	for _, k := range unsure {
		if v.get(k) != nil {
			return k
		}
	}
	if x := v.get("if"); x != nil && (!plain(x) || v.get("then") == nil && v.get("else") == nil) {
		return "if"
	}
	if x := v.get("not"); x != nil && !plain(x) {
		return "not"
	}
	if x := v.get("oneOf"); x != nil && c.exact[x] {
		return "oneOf"
	}
	for _, k := range []string{"allOf", "oneOf", "if", "then", "else", "dependentSchemas"} {
		x := v.get(k)
		if x == nil {
			continue
		}
		parts := append([]*value{x}, x.list...)
		if k == "dependentSchemas" {
			for _, name := range x.keys {
				parts = append(parts, x.fields[name])
			}
		}
		for _, part := range parts {
			if by := c.unsure(part, key, depth+1); by != "" {
				return by
			}
		}
	}
	return ""
}

// plain reports whether what a schema does not take evaluates nothing: within it there is no other not.
func plain(v *value) bool {
	for _, key := range v.keys {
		switch key {
		case "required", "properties", "type", "enum", "const":
		default:
			return false
		}
	}
	return true
}
