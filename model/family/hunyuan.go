package family

import "github.com/kvasir-llm/kvasir/model"

// hunyuan (Hunyuan V1, dense) is Llama that normalises queries and keys after rotating them.
var hunyuan = family{
	types: []string{"hunyuan_v1_dense"}, archs: []string{"hunyuan-dense"},
	defaults: map[string]any{"rms_norm_eps": 1e-5, "max_position_embeddings": 2048},
	slots: Slots{
		"q.norm": "model.layers.%d.self_attn.query_layernorm",
		"k.norm": "model.layers.%d.self_attn.key_layernorm",
	},
	spec: func(c *Config) *draft {
		s := llamaShape(c)
		norm := c.BoolOr("use_qk_norm", true)
		s.attention(func(_ int, a *model.GQA) { a.QKNorm, a.QKNormAfterRope = norm, true })
		return s
	},
}
