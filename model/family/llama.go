package family

// llama is also the family of all models released in its shape. As a GGUF architecture it covers Mistral and Mixtral
// too.
var llama = family{
	types: []string{"llama"}, archs: []string{"llama"}, permuted: true,
	defaults: map[string]any{"rms_norm_eps": 1e-6, "max_position_embeddings": 2048},
	spec: func(c *Config) *draft {
		s := llamaShape(c)
		if c.gguf() {
			s.windowed(c)
		}
		if c.gguf() && c.IntOr("num_experts", 0) > 0 {
			s.mixture(c, mixtralExperts(c))
		}
		return s
	},
}
