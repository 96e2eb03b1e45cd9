package family

import (
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
)

// gptoss has a window in every other layer, a learned logit per head that attention may go to instead of a token,
// biases everywhere, and experts with a clamped activation, stored in MXFP4 with alternating gates and ups. Its yarn
// does not round, which a GGUF does not record.
var gptoss = family{
	types: []string{"gpt_oss"}, archs: []string{"gpt-oss"}, pairedExperts: true,
	defaults: map[string]any{
		"rms_norm_eps": 1e-5, "max_position_embeddings": 131072, "num_key_value_heads": 8, "head_dim": 64, "rope_theta": 150000,
		"sliding_window": 128, "attention_bias": true, "num_local_experts": 128, "num_experts_per_tok": 4,
	},
	assumed: map[string]any{"attention_bias": true, "rope_truncate": false},
	keys:    map[string]string{"num_local_experts": "num_experts"},
	slots: Slots{
		"router":       "model.layers.%d.mlp.router",
		"experts.down": "model.layers.%d.mlp.experts.down_proj",
		"experts.gate": "", "experts.up": "",
	},
	ggufSlots: Slots{"ffn.norm": "blk.%d.post_attention_norm", "attn.post": ""},
	spec: func(c *Config) *draft {
		if !c.gguf() && !c.Has("rope_scaling") && !c.Has("rope_parameters") {
			c.set("rope_scaling", gptossYarn)
		}
		s := llamaShape(c)
		s.windows(c, func(i int) bool { return i%2 == 0 })
		e := mixtralExperts(c)
		e.RouterBias = true
		s.mixture(c, e)
		s.each(func(_ int, l *model.Layer) { l.FFN.Bias, l.FFN.Act = true, compute.SwiGLUClamped })
		s.attention(func(_ int, a *model.GQA) { a.Sinks = true })
		return s
	},
}

// gptossYarn is the rope of a config.json that gives none.
var gptossYarn = map[string]any{
	"rope_type": "yarn", "factor": 32, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1,
	"truncate": false,
}
