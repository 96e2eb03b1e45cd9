package family

import "github.com/kvasir-llm/kvasir/model"

// cohere (Command R) runs attention and feed-forward side by side, from one LayerNorm without a bias. Command R+ also
// normalises queries and keys, with gains for each head.
var cohere = family{
	types: []string{"cohere"}, archs: []string{"command-r"},
	defaults: map[string]any{
		"rms_norm_eps": 1e-5, "max_position_embeddings": 8192, "rope_theta": 500000, "logit_scale": 0.0625,
		"tie_word_embeddings": true,
	},
	keys: map[string]string{"layer_norm_eps": "rms_norm_eps"},
	spec: func(c *Config) *draft {
		s := llamaShape(c)
		s.pairNeighbours(true)
		s.Norm.Center = true
		s.LogitScale = float32(c.Float("logit_scale"))
		norm := c.BoolOr("use_qk_norm", false)
		s.each(func(_ int, l *model.Layer) { l.Parallel = true })
		s.attention(func(_ int, a *model.GQA) { a.QKNorm = norm })
		return s
	},
}
