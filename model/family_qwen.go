package model

import "maps"

// qwen2 is Llama with biases on queries, keys and values, and a window in some layers where the configuration says so.
var qwen2 = family{
	types: []string{"qwen2"}, archs: []string{"qwen2"}, defaults: qwenDefaults(nil),
	spec: func(c *Config) *Spec {
		s := qwenShape(c, "qwen2")
		s.each(func(_ int, l *Layer) { l.Attn.QKVBias = true })
		return s
	},
}

// qwen3 is Qwen2 with normalised queries and keys in place of the biases, which are optional.
var qwen3 = family{
	types: []string{"qwen3"}, archs: []string{"qwen3"}, defaults: qwenDefaults(map[string]any{"head_dim": 128.0}),
	spec: func(c *Config) *Spec {
		s := qwenShape(c, "qwen3")
		bias := c.BoolOr("attention_bias", false)
		s.each(func(_ int, l *Layer) { l.Attn.QKNorm, l.Attn.QKVBias, l.Attn.OBias = true, bias, bias })
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
func qwenShape(c *Config, family string) *Spec {
	s := llamaShape(c)
	s.Family = family
	s.Ropes[0].Interleaved = false
	if !c.gguf() && !c.BoolOr("use_sliding_window", false) {
		s.each(func(_ int, l *Layer) { l.Attn.Window = 0 })
	}
	kinds, from := c.Texts("layer_types"), c.IntOr("max_window_layers", 0)
	if kinds != nil && len(kinds) != len(s.Layers) {
		c.fail("layer_types has %d entries for %d layers", len(kinds), len(s.Layers))
		return s
	}
	s.each(func(i int, l *Layer) {
		windowed := i >= from
		if kinds != nil {
			windowed = kinds[i] == "sliding_attention"
			if !windowed && kinds[i] != "full_attention" {
				c.fail("layer_types: layer %d is %q, which is not supported; known are full_attention, sliding_attention", i, kinds[i])
			}
			if windowed && l.Attn.Window == 0 {
				c.fail("layer_types: layer %d is sliding_attention, but there is no sliding_window in use", i)
			}
		}
		if !windowed {
			l.Attn.Window = 0
		}
	})
	return s
}
