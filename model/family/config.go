package family

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/model"
)

// Config reads a checkpoint's configuration by the names of Hugging Face's config.json. It keeps the first value that
// is missing or of the wrong type as an error, so that a family reads like a table.
type Config struct {
	source  string // for errors: "config.json" or "GGUF"
	arch    string // general.architecture of a GGUF, "" for a config.json
	within  string // of an object inside another: that one's key and a dot
	values  map[string]any
	renamed map[string]string // the family's own names, to the names used here
	read    map[string]bool   // keys that the family has read

	quantized model.Quantization

	partial bool   // the family's ropes may rotate only a part of each head
	err     *error // shared with the objects inside
}

// NewConfig returns a Config of values as encoding/json decodes them. Errors call it source.
func NewConfig(source string, values map[string]any) *Config {
	return &Config{source: source, values: values, read: map[string]bool{}, err: new(error)}
}

// parseConfig reads a config.json.
func parseConfig(data []byte) (*Config, error) {
	var values map[string]any
	if err := json.Unmarshal(data, &values); err != nil {
		return nil, fmt.Errorf("model: config.json: %w", err)
	}
	c := NewConfig("config.json", values)
	q := c.quantization()
	// A checkpoint with vision or audio parts keeps the decoder's configuration in a part of its own.
	if text, ok := c.Sub("text_config"); ok {
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
	for _, theirs := range slices.Sorted(maps.Keys(c.renamed)) {
		if c.renamed[theirs] == name && (c.Has(theirs) || !c.Has(name)) {
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
	c.renamed = keys
	for _, theirs := range slices.Sorted(maps.Keys(keys)) {
		ours := keys[theirs]
		if v := c.Get(theirs); v != nil {
			c.values[ours] = v
		}
	}
}

// Fail keeps a fault, if it is the first.
func (c *Config) Fail(format string, args ...any) {
	if *c.err == nil {
		*c.err = fmt.Errorf("model: %s: "+format, append([]any{c.source}, args...)...)
	}
}

// Has reports whether key has a value other than null. It does not mark it as read.
func (c *Config) Has(key string) bool { return c.values[key] != nil }

// Get returns a value and marks its key as read.
func (c *Config) Get(key string) any {
	c.read[key] = true
	return c.values[key]
}

// set gives a key another value than the file has; nil is none.
func (c *Config) set(key string, v any) {
	if c.values[key] = v; v == nil {
		delete(c.values, key)
	}
}

// keys returns the keys that there are, sorted.
func (c *Config) keys() []string { return slices.Sorted(maps.Keys(c.values)) }

// Unread returns the keys that were not read, sorted.
func (c *Config) Unread() []string {
	return slices.DeleteFunc(c.keys(), func(key string) bool { return c.read[key] })
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
		c.Fail("%q is missing", c.key(key))
	}
}

// IntOr returns a whole number, or or if it is absent.
func (c *Config) IntOr(key string, or int) int {
	f := c.FloatOr(key, float64(or))
	if f != math.Trunc(f) || math.Abs(f) > 1<<40 {
		c.Fail("%q is %v; want a whole number", c.key(key), f)
		return 0
	}
	return int(f)
}

// FloatOr returns a number, or or if it is absent.
func (c *Config) FloatOr(key string, or float64) float64 {
	v := c.Get(key)
	if v == nil {
		return or
	}
	f, ok := number(v)
	if !ok {
		c.Fail("%q is %s; want a number", c.key(key), show(v))
	}
	return f
}

// BoolOr returns a truth value, or or if it is absent.
func (c *Config) BoolOr(key string, or bool) bool {
	v := c.Get(key)
	if v == nil {
		return or
	}
	b, ok := v.(bool)
	if !ok {
		c.Fail("%q is %s; want true or false", c.key(key), show(v))
	}
	return b
}

// textOr returns a string, or or if it is absent.
func (c *Config) textOr(key, or string) string {
	v := c.Get(key)
	if v == nil {
		return or
	}
	s, ok := v.(string)
	if !ok {
		c.Fail("%q is %s; want a string", c.key(key), show(v))
	}
	return s
}

// Text returns a required string.
func (c *Config) Text(key string) string {
	c.require(key)
	return c.textOr(key, "")
}

// Texts returns a list of strings, nil if it is absent.
func (c *Config) Texts(key string) []string {
	v := c.Get(key)
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
		c.Fail("%q is %s; want a list of strings", c.key(key), show(v))
	}
	return out
}

// Ints returns a list of whole numbers, nil if it is absent.
func (c *Config) Ints(key string) []int {
	v := c.Get(key)
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
		c.Fail("%q is %s; want a list of whole numbers", c.key(key), show(v))
	}
	return out
}

// Refuse marks key as read and makes any value other than null and those given an error: the family does not
// implement it.
func (c *Config) Refuse(key string, unless ...any) {
	c.read[key] = true
	c.refuse(key, unless...)
}

// refuse is Refuse without marking the key as read.
func (c *Config) refuse(key string, unless ...any) {
	v := c.values[key]
	f, isNumber := number(v)
	same := func(u any) bool {
		want, ok := number(u)
		return isNumber && ok && want == f || !isNumber && u == v
	}
	if v == nil || slices.ContainsFunc(unless, same) {
		return
	}
	c.Fail("%q is %s, which is not supported", c.key(key), show(v))
}

// positive returns a finite number above 0, or or if it is absent.
func (c *Config) positive(key string, or float64) float64 {
	v := c.FloatOr(key, or)
	if !(v > 0 && v <= math.MaxFloat64) {
		c.Fail("%q is %v; want a number above 0", c.key(key), v)
		return 1
	}
	return v
}

// Sub returns a nested object as a Config that reports to the same error.
func (c *Config) Sub(key string) (*Config, bool) {
	m, ok := c.Get(key).(map[string]any)
	if !ok && c.Has(key) {
		c.Fail("%q is %s; want an object", c.key(key), show(c.values[key]))
	}
	return &Config{source: c.source, arch: c.arch, within: c.within + key + ".", values: m, read: map[string]bool{}, err: c.err}, ok
}

// number returns a number of JSON, of a GGUF or of a default.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case float32:
		return float64(v), true
	case int:
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
