package family

// mistral is Llama with a sliding window in every layer.
var mistral = family{
	types: []string{"mistral"}, within: &llama, permuted: true,
	defaults: map[string]any{
		"rms_norm_eps": 1e-6, "max_position_embeddings": 131072, "num_key_value_heads": 8, "sliding_window": 4096,
	},
	spec: func(c *Config) *draft {
		s := llamaShape(c)
		s.windowed(c)
		return s
	},
}
