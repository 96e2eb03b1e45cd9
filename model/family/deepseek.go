package family

import "maps"

// deepseek2 (DeepSeek V2 and, in GGUF, V3) has latent attention and a mixture of experts that may be chosen by groups.
var deepseek2 = family{
	types: []string{"deepseek_v2"}, archs: []string{"deepseek2"},
	defaults: deepseekDefaults(map[string]any{
		"max_position_embeddings": 2048, "first_k_dense_replace": 0, "num_experts": 64, "n_shared_experts": 2,
		"moe_intermediate_size": 1407, "topk_method": "greedy",
	}),
	keys: map[string]string{"n_routed_experts": "num_experts"}, slots: latentSlots, ggufSlots: latentGGUFSlots,
	spec: func(c *Config) *draft {
		s := c.latentShape()
		if c.gguf() && c.IntOr("scoring_func", 1) == 2 {
			s.mixture(c, c.biasedExperts())
			return s
		}
		e := c.experts()
		if c.gguf() || c.textOr("topk_method", "") == "group_limited_greedy" {
			c.expertGroups(&e.Router, 1)
		} else {
			c.Refuse("topk_method", "greedy")
		}
		if !c.gguf() {
			c.Refuse("norm_topk_prob", false)
		}
		c.Refuse("scoring_func", "softmax", 1.0)
		c.Get("n_group") // which means nothing to a greedy choice
		s.mixture(c, e)
		return s
	},
}

// deepseek3 is DeepSeek V2 with sigmoid scores that a bias balances.
var deepseek3 = family{
	types: []string{"deepseek_v3"}, within: &deepseek2,
	defaults: deepseekDefaults(map[string]any{
		"max_position_embeddings": 4096, "first_k_dense_replace": 3, "num_experts": 256, "n_shared_experts": 1,
		"moe_intermediate_size": 2048, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4, "norm_topk_prob": true,
		"routed_scaling_factor": 2.5,
	}),
	keys: map[string]string{"n_routed_experts": "num_experts", "num_local_experts": "num_experts"}, slots: latentSlots,
	spec: func(c *Config) *draft {
		s := c.latentShape()
		s.pairNeighbours(c.BoolOr("rope_interleave", true))
		s.mixture(c, c.biasedExperts())
		return s
	},
}

func deepseekDefaults(more map[string]any) map[string]any {
	d := map[string]any{
		"rms_norm_eps": 1e-6, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
		"v_head_dim": 128,
	}
	maps.Copy(d, more)
	return d
}

var latentSlots = Slots{
	"q.latent": "model.layers.%d.self_attn.q_a_proj", "q.latent.norm": "model.layers.%d.self_attn.q_a_layernorm",
	"q.up":      "model.layers.%d.self_attn.q_b_proj",
	"kv.latent": "model.layers.%d.self_attn.kv_a_proj_with_mqa", "kv.latent.norm": "model.layers.%d.self_attn.kv_a_layernorm",
	"kv.up": "model.layers.%d.self_attn.kv_b_proj",
}

var latentGGUFSlots = Slots{
	"q.latent": "blk.%d.attn_q_a", "q.latent.norm": "blk.%d.attn_q_a_norm", "q.up": "blk.%d.attn_q_b",
	"kv.latent": "blk.%d.attn_kv_a_mqa", "kv.latent.norm": "blk.%d.attn_kv_a_norm",
	"kv.up": "blk.%d.attn_kv_b", "k.up": "blk.%d.attn_k_b", "v.up": "blk.%d.attn_v_b",
}
