package family

import "github.com/kvasir-llm/kvasir/model"

// olmo2 normalises what attention and feed-forward give, not what they read, and whole rows of queries and keys.
var olmo2 = family{
	types: []string{"olmo2"}, archs: []string{"olmo2"},
	defaults: map[string]any{"rms_norm_eps": 1e-5, "max_position_embeddings": 2048},
	slots: Slots{
		"attn.post": "model.layers.%d.post_attention_layernorm",
		"ffn.norm":  "",
		"ffn.post":  "model.layers.%d.post_feedforward_layernorm",
	},
	spec: func(c *Config) *draft {
		s := llamaShape(c)
		s.each(func(_ int, l *model.Layer) { l.PreNorm, l.PostNorm = false, true })
		s.attention(func(_ int, a *model.GQA) { a.QKNorm = true })
		return s
	},
}
