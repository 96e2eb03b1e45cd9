package model

// ernie (ERNIE 4.5, dense) is Llama that turns neighbours, with biases everywhere or nowhere.
var ernie = family{
	types: []string{"ernie4_5"}, archs: []string{"ernie4_5"},
	defaults: map[string]any{
		"rms_norm_eps": 1e-5, "max_position_embeddings": 131072.0, "head_dim": 128.0, "num_key_value_heads": 2.0, "rope_theta": 500000.0,
		"tie_word_embeddings": true,
	},
	spec: func(c *Config) *Spec {
		s := llamaShape(c)
		s.pairNeighbours(true)
		s.biased(c.BoolOr("use_bias", false))
		return s
	},
}
