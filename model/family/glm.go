package family

import "github.com/kvasir-llm/kvasir/model"

// glm4 has a norm before and one after each part, biases on queries, keys and values, and rotates half of each head.
var glm4 = family{
	types: []string{"glm4"}, archs: []string{"glm4"}, partial: true,
	defaults: map[string]any{
		"rms_norm_eps": 1.5625e-7, "max_position_embeddings": 131072, "head_dim": 128, "num_key_value_heads": 2,
		"partial_rotary_factor": 0.5, "attention_bias": true,
	},
	slots: Slots{
		"attn.post": "model.layers.%d.post_self_attn_layernorm",
		"ffn.post":  "model.layers.%d.post_mlp_layernorm",
	},
	spec: func(c *Config) *draft {
		s := llamaShape(c)
		s.pairNeighbours(true)
		s.each(func(_ int, l *model.Layer) { l.PostNorm = true })
		s.attention(func(_ int, a *model.GQA) { a.OBias = false })
		return s
	},
}
