package model

import "maps"

// qwen2 is Llama with biases on queries, keys and values, and a window in some layers where the configuration says so.
var qwen2 = family{
	types: []string{"qwen2"}, archs: []string{"qwen2"}, defaults: qwenDefaults(nil),
	spec: func(c *Config) *Spec {
		s := qwenShape(c)
		s.each(func(_ int, l *Layer) { l.Attn.QKVBias, l.Attn.OBias = true, false })
		return s
	},
}

// qwen3 is Qwen2 with normalised queries and keys in place of the biases, which are optional.
var qwen3 = family{
	types: []string{"qwen3"}, archs: []string{"qwen3"}, defaults: qwenDefaults(map[string]any{"head_dim": 128.0}),
	spec: func(c *Config) *Spec {
		s := qwenShape(c)
		s.each(func(_ int, l *Layer) { l.Attn.QKNorm = true })
		return s
	},
}

func qwenDefaults(more map[string]any) map[string]any {
	d := map[string]any{
		"rms_norm_eps": 1e-6, "max_position_embeddings": 32768.0, "num_key_value_heads": 32.0, "sliding_window": 4096.0,
		"max_window_layers": 28.0,
	}
	maps.Copy(d, more)
	return d
}

// qwenShape reads what Qwen2 and Qwen3 share. With use_sliding_window, layers from max_window_layers on have a window;
// layer_types says the same in newer files.
func qwenShape(c *Config) *Spec {
	s := llamaShape(c)
	if !c.gguf() && !c.BoolOr("use_sliding_window", false) {
		c.values["sliding_window"] = nil
	}
	from := c.IntOr("max_window_layers", 0)
	s.windows(c, func(i int) bool { return i >= from })
	return s
}
