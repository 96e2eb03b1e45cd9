package grammar

import (
	"fmt"
	"strings"
)

// index finds the names that references may use.
func (c *compiler) index(v *value, base string) {
	if v.kind == isObject && !(c.old && v.get("$ref") != nil) {
		for _, key := range []string{"$id", "id"} {
			if s := v.get(key); s != nil && s.kind == isString && (key == "$id" || !strings.Contains(s.in.path(), "properties")) {
				base = resolve(base, s.text)
				c.named[base] = v
				c.named[strings.TrimSuffix(base, "#")] = v
			}
		}
		for _, key := range []string{"$anchor", "$dynamicAnchor"} {
			if s := v.get(key); s != nil && s.kind == isString {
				c.named[strings.TrimSuffix(base, "#")+"#"+s.text] = v
			}
		}
	}
	for _, key := range v.keys {
		if key != "enum" && key != "const" {
			c.index(v.fields[key], base)
		}
	}
	for _, x := range v.list {
		c.index(x, base)
	}
}

// resolve returns a reference as it is seen from base.
func resolve(base, ref string) string {
	base, _, _ = strings.Cut(base, "#")
	switch {
	case strings.HasPrefix(ref, "#"):
		return base + ref
	case strings.Contains(ref, ":"):
		return ref
	case strings.HasPrefix(ref, "/"):
		if i := strings.Index(base, "://"); i >= 0 {
			if j := strings.IndexByte(base[i+3:], '/'); j >= 0 {
				base = base[:i+3+j]
			}
			return base + ref
		}
		return ref
	}
	return base[:strings.LastIndexByte(base, '/')+1] + ref
}

// baseOf returns the $id that references in v start from.
func (c *compiler) baseOf(v *value) string {
	if v == nil {
		return ""
	}
	base := c.baseOf(v.in)
	if s := v.get("$id"); s != nil && s.kind == isString && !(c.old && v.get("$ref") != nil) {
		return resolve(base, s.text)
	}
	return base
}

// target returns the schema that a $ref means.
func (c *compiler) target(ref *value) *value {
	if ref.kind != isString {
		c.fail(ref, "is no string")
		return never
	}
	full := resolve(c.baseOf(ref.in), ref.text)
	if v := c.named[full]; v != nil {
		return v
	}
	doc, pointer, _ := strings.Cut(full, "#")
	v := c.root
	if doc != "" && c.named[doc] != nil {
		v = c.named[doc]
	} else if doc != "" && !strings.HasPrefix(ref.text, "#") {
		c.fail(ref, "refers to another document, %q, which is not supported", short100(ref.text))
		return never
	}
	if pointer != "" && !strings.HasPrefix(pointer, "/") {
		c.fail(ref, "refers to %q, which is not there", short100(ref.text))
		return never
	}
	for part := range strings.SplitSeq(pointer, "/") {
		if part == "" && v == c.root {
			continue
		}
		if part == "" && !strings.Contains(pointer, "//") {
			continue
		}
		part = unescape(part)
		next := v.get(part)
		if v.kind == isArray {
			for _, x := range v.list {
				if x.key == "["+part+"]" {
					next = x
				}
			}
		}
		if next == nil {
			c.fail(ref, "refers to %q, which is not there", short100(ref.text))
			return never
		}
		v = next
	}
	return v
}

// unescape reads a part of a JSON pointer in a URI (RFC 6901, section 6).
func unescape(s string) string {
	if strings.Contains(s, "%") {
		var out []byte
		for i := 0; i < len(s); i++ {
			if s[i] == '%' && i+2 < len(s) {
				var b byte
				if _, err := fmt.Sscanf(s[i+1:i+3], "%02x", &b); err == nil {
					out = append(out, b)
					i += 2
					continue
				}
			}
			out = append(out, s[i])
		}
		s = string(out)
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
}
