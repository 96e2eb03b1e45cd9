package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Config reads a checkpoint's configuration by the names of Hugging Face's config.json. The first value that is missing
// or of the wrong type is kept as an error, so that a family reads like a table.
type Config struct {
	source string // for errors: "config.json" or "GGUF"
	arch   string // general.architecture of a GGUF, "" for a config.json
	within string // of an object inside another: that one's key and a dot
	values map[string]any
	keys   map[string]string // the family's own names, to the names used here
	read   map[string]bool   // keys that the family has asked for

	quantized Quantization

	partial bool   // the family's ropes may turn a part of each head
	err     *error // shared with the objects inside
}

// ParseConfig reads a config.json.
func ParseConfig(data []byte) (*Config, error) {
	c := &Config{source: "config.json", read: map[string]bool{}, err: new(error)}
	if err := json.Unmarshal(data, &c.values); err != nil {
		return nil, fmt.Errorf("model: config.json: %w", err)
	}
	q := c.quantization()
	// A checkpoint with vision or audio parts keeps the decoder's configuration in a part of its own.
	if text, ok := c.sub("text_config"); ok {
		c = text
		if q.Method == "" {
			q = c.quantization()
		}
	}
	c.quantized = q
	return c, nil
}

// Err returns the first fault met while reading.
func (c *Config) Err() error { return *c.err }

// gguf reports whether the configuration comes from a GGUF.
func (c *Config) gguf() bool { return c.arch != "" }

// key returns the name of a value as the file has it, for errors.
func (c *Config) key(name string) string {
	for _, theirs := range slices.Sorted(maps.Keys(c.keys)) {
		if c.keys[theirs] == name && (c.Has(theirs) || !c.Has(name)) {
			name = theirs
			break
		}
	}
	name = c.within + name
	var known []string
	for theirs, ours := range ggufNames {
		if c.gguf() && ours == name {
			known = append(known, c.arch+"."+theirs)
		}
	}
	if len(known) > 0 {
		return slices.Max(known) // the root mean square of two norms
	}
	return name
}

// setDefaults gives values to keys that are absent from a config.json or a GGUF; null stays null.
func (c *Config) setDefaults(json, gguf map[string]any) {
	values := json
	if c.gguf() {
		values = gguf
	}
	for key, v := range values {
		if _, ok := c.values[key]; !ok {
			c.values[key] = v
		}
	}
}

// rename gives the values of the family's own keys to the keys that most families use.
func (c *Config) rename(keys map[string]string) {
	c.keys = keys
	for theirs, ours := range keys {
		if v := c.get(theirs); v != nil {
			c.values[ours] = v
		}
	}
}

func (c *Config) fail(format string, args ...any) {
	if *c.err == nil {
		*c.err = fmt.Errorf("model: %s: "+format, append([]any{c.source}, args...)...)
	}
}

// Has reports whether key has a value other than null.
func (c *Config) Has(key string) bool { return c.values[key] != nil }

// get returns a value and remembers that it was asked for.
func (c *Config) get(key string) any {
	c.read[key] = true
	return c.values[key]
}

// Int returns a required whole number.
func (c *Config) Int(key string) int {
	c.require(key)
	return c.IntOr(key, 0)
}

// Float returns a required number.
func (c *Config) Float(key string) float64 {
	c.require(key)
	return c.FloatOr(key, 0)
}

func (c *Config) require(key string) {
	if !c.Has(key) {
		c.fail("%q is missing", c.key(key))
	}
}

// IntOr returns a whole number, or or if it is absent.
func (c *Config) IntOr(key string, or int) int {
	f := c.FloatOr(key, float64(or))
	if f != math.Trunc(f) || math.Abs(f) > 1<<40 {
		c.fail("%q is %v; want a whole number", c.key(key), f)
		return 0
	}
	return int(f)
}

// FloatOr returns a number, or or if it is absent.
func (c *Config) FloatOr(key string, or float64) float64 {
	v := c.get(key)
	if v == nil {
		return or
	}
	f, ok := number(v)
	if !ok {
		c.fail("%q is %s; want a number", c.key(key), show(v))
	}
	return f
}

// BoolOr returns a truth value, or or if it is absent.
func (c *Config) BoolOr(key string, or bool) bool {
	v := c.get(key)
	if v == nil {
		return or
	}
	b, ok := v.(bool)
	if !ok {
		c.fail("%q is %s; want true or false", c.key(key), show(v))
	}
	return b
}

// TextOr returns a string, or or if it is absent.
func (c *Config) TextOr(key, or string) string {
	v := c.get(key)
	if v == nil {
		return or
	}
	s, ok := v.(string)
	if !ok {
		c.fail("%q is %s; want a string", c.key(key), show(v))
	}
	return s
}

// Text returns a required string.
func (c *Config) Text(key string) string {
	c.require(key)
	return c.TextOr(key, "")
}

// Texts returns a list of strings, nil if it is absent.
func (c *Config) Texts(key string) []string {
	v := c.get(key)
	if v == nil {
		return nil
	}
	list, ok := v.([]any)
	out := make([]string, len(list))
	for i := range list {
		s, isText := list[i].(string)
		out[i], ok = s, ok && isText
	}
	if !ok {
		c.fail("%q is %s; want a list of strings", c.key(key), show(v))
	}
	return out
}

// Ints returns a list of whole numbers, nil if it is absent.
func (c *Config) Ints(key string) []int {
	v := c.get(key)
	if v == nil {
		return nil
	}
	list, ok := v.([]any)
	out := make([]int, len(list))
	for i := range list {
		f, isNumber := number(list[i])
		ok = ok && isNumber && f == math.Trunc(f) && math.Abs(f) <= 1<<40
		if ok {
			out[i] = int(f)
		}
	}
	if !ok {
		c.fail("%q is %s; want a list of whole numbers", c.key(key), show(v))
	}
	return out
}

// Refuse makes it an error for key to have a value, other than null and those given: the family does not implement what
// it would mean.
func (c *Config) Refuse(key string, unless ...any) {
	v := c.values[key]
	f, isNumber := number(v)
	if v == nil || slices.ContainsFunc(unless, func(u any) bool { return isNumber && u == f || !isNumber && u == v }) {
		return
	}
	c.fail("%q is %s, which is not supported", c.key(key), show(v))
}

// positive returns a finite number above 0, or or if it is absent.
func (c *Config) positive(key string, or float64) float64 {
	v := c.FloatOr(key, or)
	if !(v > 0 && v <= math.MaxFloat64) {
		c.fail("%q is %v; want a number above 0", c.key(key), v)
		return 1
	}
	return v
}

// sub returns a nested object as a Config that reports to the same error.
func (c *Config) sub(key string) (*Config, bool) {
	m, ok := c.get(key).(map[string]any)
	if !ok && c.Has(key) {
		c.fail("%q is %s; want an object", c.key(key), show(c.values[key]))
	}
	return &Config{source: c.source, arch: c.arch, within: c.within + key + ".", values: m, read: map[string]bool{}, err: c.err}, ok
}

// number returns a JSON or GGUF number.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case float32:
		return float64(v), true
	case uint32:
		return float64(v), true
	case int32:
		return float64(v), true
	case uint64:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint16:
		return float64(v), true
	case int16:
		return float64(v), true
	case uint8:
		return float64(v), true
	case int8:
		return float64(v), true
	}
	return 0, false
}

// show prints a value for an error, shortened.
func show(v any) string {
	s := fmt.Sprintf("%v", v)
	if t, ok := v.(string); ok {
		s = fmt.Sprintf("%q", t)
	}
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return s
}
