package model

// phi3 is Llama whose queries, keys and values stand in one tensor, as do gate and up, with a window in every layer where the
// configuration has one.
var phi3 = family{
	types: []string{"phi3"}, archs: []string{"phi3"}, partial: true,
	defaults: map[string]any{"rms_norm_eps": 1e-5, "max_position_embeddings": 4096.0},
	spec: func(c *Config) *Spec {
		if p, ok := c.sub("rope_scaling"); ok && !c.gguf() && p.TextOr("type", "") == "yarn" {
			c.fail("rope type \"yarn\" of phi3 has a factor for each frequency, which is not supported")
		}
		s := llamaShape(c)
		s.windowed(c)
		return s
	},
}
