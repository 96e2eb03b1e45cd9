package model

// hunyuan (Hunyuan V1, dense) is Llama that normalises queries and keys after turning them.
var hunyuan = family{
	types: []string{"hunyuan_v1_dense"}, archs: []string{"hunyuan-dense"},
	defaults: map[string]any{"rms_norm_eps": 1e-5, "max_position_embeddings": 2048.0},
	slots: slots{
		"q.norm": "model.layers.%d.self_attn.query_layernorm",
		"k.norm": "model.layers.%d.self_attn.key_layernorm",
	},
	spec: func(c *Config) *Spec {
		s := llamaShape(c)
		norm := c.BoolOr("use_qk_norm", true)
		s.each(func(_ int, l *Layer) { l.Attn.QKNorm, l.Attn.QKNormAfterRope = norm, true })
		return s
	},
}
