package model

// mistral is Llama with a sliding window in every layer.
var mistral = family{
	types: []string{"mistral"}, within: &llama, permuted: true,
	defaults: map[string]any{
		"rms_norm_eps": 1e-6, "max_position_embeddings": 131072.0, "num_key_value_heads": 8.0, "sliding_window": 4096.0,
	},
	spec: func(c *Config) *Spec {
		s := llamaShape(c)
		s.windowed(c)
		return s
	},
}
