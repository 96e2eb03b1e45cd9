package model

// olmoe is Llama with experts that normalises whole rows of queries and keys, and may limit what attention works with.
var olmoe = family{
	types: []string{"olmoe"}, archs: []string{"olmoe"},
	defaults: map[string]any{
		"rms_norm_eps": 1e-5, "max_position_embeddings": 4096.0, "num_experts": 64.0, "num_experts_per_tok": 8.0,
	},
	keys: map[string]string{"num_local_experts": "num_experts"},
	spec: func(c *Config) *Spec {
		s := llamaShape(c)
		clip := float32(c.FloatOr("clip_qkv", 0))
		s.each(func(_ int, l *Layer) { l.Attn.QKNorm, l.Attn.Clip = true, clip })
		s.mixture(c, c.experts())
		return s
	},
}
