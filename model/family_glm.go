package model

// glm4 has a norm before and one after each part, biases on queries, keys and values, and turns half of each head.
var glm4 = family{
	types: []string{"glm4"}, archs: []string{"glm4"}, partial: true,
	defaults: map[string]any{
		"rms_norm_eps": 1.5625e-7, "max_position_embeddings": 131072.0, "head_dim": 128.0, "num_key_value_heads": 2.0,
		"partial_rotary_factor": 0.5, "attention_bias": true,
	},
	slots: slots{
		"attn.post": "model.layers.%d.post_self_attn_layernorm",
		"ffn.post":  "model.layers.%d.post_mlp_layernorm",
	},
	spec: func(c *Config) *Spec {
		s := llamaShape(c)
		s.pairNeighbours(true)
		s.each(func(_ int, l *Layer) { l.PostNorm, l.Attn.OBias = true, false })
		return s
	},
}
