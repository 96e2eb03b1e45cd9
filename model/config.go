package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Config reads a checkpoint's configuration by the names of Hugging Face's config.json. The first value that is missing
// or of the wrong type is kept as an error, so that a family reads like a table.
type Config struct {
	source string // for errors: "config.json" or the GGUF's architecture
	gguf   bool
	values map[string]any
	err    error
}

// ParseConfig reads a config.json.
func ParseConfig(data []byte) (*Config, error) {
	c := &Config{source: "config.json"}
	if err := json.Unmarshal(data, &c.values); err != nil {
		return nil, fmt.Errorf("model: config.json: %w", err)
	}
	// A checkpoint with vision or audio parts keeps the decoder's configuration in a part of its own.
	if text, ok := c.values["text_config"].(map[string]any); ok {
		c.values = text
	}
	return c, nil
}

// Err returns the first fault met while reading.
func (c *Config) Err() error { return c.err }

func (c *Config) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("model: %s: "+format, append([]any{c.source}, args...)...)
	}
}

// Has reports whether key has a value other than null.
func (c *Config) Has(key string) bool { return c.values[key] != nil }

// Int returns a required whole number.
func (c *Config) Int(key string) int {
	if !c.Has(key) {
		c.fail("%q is missing", key)
		return 0
	}
	return c.IntOr(key, 0)
}

// IntOr returns a whole number, or or if it is absent.
func (c *Config) IntOr(key string, or int) int {
	f := c.FloatOr(key, float64(or))
	if f != math.Trunc(f) || math.Abs(f) > 1<<40 {
		c.fail("%q is %v; want a whole number", key, f)
		return 0
	}
	return int(f)
}

// FloatOr returns a number, or or if it is absent.
func (c *Config) FloatOr(key string, or float64) float64 {
	v := c.values[key]
	if v == nil {
		return or
	}
	f, ok := number(v)
	if !ok {
		c.fail("%q is %s; want a number", key, show(v))
	}
	return f
}

// BoolOr returns a truth value, or or if it is absent.
func (c *Config) BoolOr(key string, or bool) bool {
	v := c.values[key]
	if v == nil {
		return or
	}
	b, ok := v.(bool)
	if !ok {
		c.fail("%q is %s; want true or false", key, show(v))
	}
	return b
}

// TextOr returns a string, or or if it is absent.
func (c *Config) TextOr(key, or string) string {
	v := c.values[key]
	if v == nil {
		return or
	}
	s, ok := v.(string)
	if !ok {
		c.fail("%q is %s; want a string", key, show(v))
	}
	return s
}

// Texts returns a list of strings, nil if it is absent.
func (c *Config) Texts(key string) []string {
	v := c.values[key]
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
		c.fail("%q is %s; want a list of strings", key, show(v))
	}
	return out
}

// Refuse makes it an error for key to have a value other than the ones given, absent counting as null: the family does
// not implement what it would mean.
func (c *Config) Refuse(key string, unless ...any) {
	v := c.values[key]
	if v != nil && !slices.Contains(unless, v) {
		c.fail("%q is %s, which is not supported", key, show(v))
	}
}

// sub returns a nested object as a Config that reports to the same error.
func (c *Config) sub(key string) (*Config, bool) {
	m, ok := c.values[key].(map[string]any)
	if !ok && c.Has(key) {
		c.fail("%q is %s; want an object", key, show(c.values[key]))
	}
	return &Config{source: c.source + ": " + key, gguf: c.gguf, values: m}, ok
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

// ggufNames maps the keys that follow "<architecture>." in a GGUF to the names of config.json. Those of the second group
// change what the model computes and are refused by families that do not know them.
var ggufNames = map[string]string{
	"embedding_length":                     "hidden_size",
	"block_count":                          "num_hidden_layers",
	"attention.head_count":                 "num_attention_heads",
	"attention.head_count_kv":              "num_key_value_heads",
	"attention.key_length":                 "head_dim",
	"attention.value_length":               "v_head_dim",
	"feed_forward_length":                  "intermediate_size",
	"context_length":                       "max_position_embeddings",
	"attention.layer_norm_rms_epsilon":     "rms_norm_eps",
	"attention.sliding_window":             "sliding_window",
	"vocab_size":                           "vocab_size",
	"rope.freq_base":                       "rope_theta",
	"rope.dimension_count":                 "rope_dim",
	"rope.scaling.type":                    "rope_scaling.rope_type",
	"rope.scaling.factor":                  "rope_scaling.factor",
	"rope.scaling.original_context_length": "rope_scaling.original_max_position_embeddings",
	"rope.scaling.attn_factor":             "rope_scaling.attn_factor",
	"rope.scaling.yarn_beta_fast":          "rope_scaling.beta_fast",
	"rope.scaling.yarn_beta_slow":          "rope_scaling.beta_slow",

	"expert_count":                "num_experts",
	"attention.scale":             "attention_multiplier",
	"embedding_scale":             "embedding_multiplier",
	"residual_scale":              "residual_multiplier",
	"logit_scale":                 "logits_scaling",
	"attn_logit_softcapping":      "attn_logit_softcapping",
	"final_logit_softcapping":     "final_logit_softcapping",
	"attention.clamp_kqv":         "clip_qkv",
	"attention.max_alibi_bias":    "alibi_bias_max",
	"attention.temperature_scale": "attention_temperature_scale",
}

// errNoArchitecture is what a GGUF without a model in it gives.
var errNoArchitecture = errors.New(`model: GGUF: "general.architecture" is missing: this file holds no model`)

// GGUFConfig reads the metadata of a GGUF as a Config, and returns its architecture.
func GGUFConfig(meta map[string]any) (*Config, string, error) {
	arch, ok := meta["general.architecture"].(string)
	if !ok || arch == "" {
		return nil, "", errNoArchitecture
	}
	c := &Config{source: "GGUF " + arch, gguf: true, values: map[string]any{}}
	scaling := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		name := ggufNames[strings.TrimPrefix(key, arch+".")]
		if name == "" || !strings.HasPrefix(key, arch+".") {
			continue
		}
		if in, ok := strings.CutPrefix(name, "rope_scaling."); ok {
			scaling[in] = meta[key]
		} else {
			c.values[name] = meta[key]
		}
	}
	if len(scaling) > 0 {
		c.values["rope_scaling"] = scaling
	}
	if tokens, ok := meta["tokenizer.ggml.tokens"].([]string); ok && !c.Has("vocab_size") {
		c.values["vocab_size"] = uint64(len(tokens))
	}
	return c, arch, nil
}
