package model

// qwen2 is Llama with biases on queries, keys and values, and a window in some layers where the configuration says so.
var qwen2 = family{types: []string{"qwen2"}, archs: []string{"qwen2"}, spec: func(c *Config) *Spec {
	s := qwenShape(c, "qwen2")
	for i := range s.Layers {
		s.Layers[i].Attn.QKVBias = true
	}
	return s
}}

// qwen3 is Qwen2 with normalised queries and keys in place of the biases.
var qwen3 = family{types: []string{"qwen3"}, archs: []string{"qwen3"}, spec: func(c *Config) *Spec {
	s := qwenShape(c, "qwen3")
	for i := range s.Layers {
		s.Layers[i].Attn.QKNorm = true
	}
	return s
}}

// qwenShape reads what Qwen2 and Qwen3 share. Layers from max_window_layers on have a window if use_sliding_window is
// set; layer_types says the same in newer files.
func qwenShape(c *Config, family string) *Spec {
	s := llamaShape(c)
	s.Family = family
	s.Ropes[0].Interleaved = false
	kinds := c.Texts("layer_types")
	if kinds != nil && len(kinds) != len(s.Layers) {
		c.fail("layer_types has %d entries for %d layers", len(kinds), len(s.Layers))
		return s
	}
	for i := range s.Layers {
		windowed := c.gguf || c.BoolOr("use_sliding_window", false) && i >= c.IntOr("max_window_layers", 28)
		if kinds != nil {
			windowed = kinds[i] == "sliding_attention"
		}
		if !windowed {
			s.Layers[i].Attn.Window = 0
		}
	}
	return s
}
