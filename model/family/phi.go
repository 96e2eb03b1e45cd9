package family

// phi3 is Llama with queries, keys and values joined in one tensor, as are gate and up, and a window in every layer
// where the configuration has one.
var phi3 = family{
	types: []string{"phi3"}, archs: []string{"phi3"}, partial: true,
	defaults: map[string]any{"rms_norm_eps": 1e-5, "max_position_embeddings": 4096},
	spec: func(c *Config) *draft {
		if p, ok := c.Sub("rope_scaling"); ok && !c.gguf() && p.textOr("type", "") == "yarn" {
			c.Fail("rope type \"yarn\" of phi3 has a factor for each frequency, which is not supported")
		}
		s := llamaShape(c)
		s.windowed(c)
		return s
	},
}
