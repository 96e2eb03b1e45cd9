package family

import "github.com/kvasir-llm/kvasir/model"

// glm4moe (GLM 4.5 to 4.7) rotates half of each head, may normalise queries and keys, and has DeepSeek-V3's mixture.
var glm4moe = family{
	types: []string{"glm4_moe"}, archs: []string{"glm4moe"}, partial: true,
	defaults: map[string]any{
		"rms_norm_eps": 1e-5, "max_position_embeddings": 131072, "num_key_value_heads": 8, "partial_rotary_factor": 0.5,
		"moe_intermediate_size": 1408, "n_routed_experts": 128, "num_experts_per_tok": 8, "n_shared_experts": 1,
		"first_k_dense_replace": 1, "norm_topk_prob": true,
	},
	keys:      map[string]string{"n_routed_experts": "num_experts", "num_local_experts": "num_experts"},
	ggufSlots: Slots{"ffn.norm": "blk.%d.post_attention_norm", "attn.post": ""},
	spec: func(c *Config) *draft {
		s := llamaShape(c)
		norm := c.BoolOr("use_qk_norm", false)
		s.attention(func(_ int, a *model.GQA) { a.QKNorm, a.OBias = norm, false })
		s.mixture(c, c.biasedExperts())
		return s
	},
}
