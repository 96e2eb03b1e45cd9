package family

// ernie (ERNIE 4.5, dense) is Llama with ropes that pair adjacent values, and biases everywhere or nowhere.
var ernie = family{
	types: []string{"ernie4_5"}, archs: []string{"ernie4_5"},
	defaults: map[string]any{
		"rms_norm_eps": 1e-5, "max_position_embeddings": 131072, "head_dim": 128, "num_key_value_heads": 2, "rope_theta": 500000,
		"tie_word_embeddings": true,
	},
	spec: func(c *Config) *draft {
		s := llamaShape(c)
		s.pairNeighbours(true)
		s.biased(c.BoolOr("use_bias", false))
		return s
	},
}
