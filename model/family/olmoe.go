package family

import "github.com/kvasir-llm/kvasir/model"

// olmoe is Llama with experts that normalises whole rows of queries and keys, and may limit what attention works with.
var olmoe = family{
	types: []string{"olmoe"}, archs: []string{"olmoe"},
	defaults: map[string]any{
		"rms_norm_eps": 1e-5, "max_position_embeddings": 4096, "num_experts": 64, "num_experts_per_tok": 8,
	},
	keys: map[string]string{"num_local_experts": "num_experts"},
	spec: func(c *Config) *draft {
		s := llamaShape(c)
		clip := float32(c.FloatOr("clip_qkv", 0))
		s.attention(func(_ int, a *model.GQA) { a.QKNorm, a.Clip = true, clip })
		s.mixture(c, c.experts())
		return s
	},
}
