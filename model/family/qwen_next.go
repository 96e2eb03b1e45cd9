package family

import "github.com/kvasir-llm/kvasir/model"

// qwen3next (Qwen3-Next) has gated delta nets in most layers and gated attention in the others, and a mixture of
// experts.
var qwen3next = family{
	types: []string{"qwen3_next"}, archs: []string{"qwen3next"}, partial: true,
	defaults: map[string]any{
		"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "num_key_value_heads": 2, "head_dim": 256,
		"partial_rotary_factor": 0.25, "full_attention_interval": 4, "moe_intermediate_size": 512, "num_experts": 512,
		"num_experts_per_tok": 10, "shared_expert_intermediate_size": 512, "norm_topk_prob": true,
		"linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
		"linear_num_value_heads": 32,
	},
	assumed: map[string]any{"full_attention_interval": 4, "norm_topk_prob": true},
	slots: Slots{
		"delta.qkvz": "model.layers.%d.linear_attn.in_proj_qkvz", "delta.ba": "model.layers.%d.linear_attn.in_proj_ba",
		"delta.conv": "model.layers.%d.linear_attn.conv1d", "delta.norm": "model.layers.%d.linear_attn.norm",
		"delta.decay": "model.layers.%d.linear_attn.A_log", "delta.bias": "model.layers.%d.linear_attn.dt_bias",
		"delta.out":   "model.layers.%d.linear_attn.out_proj",
		"shared.gate": "model.layers.%d.mlp.shared_expert.gate_proj", "shared.up": "model.layers.%d.mlp.shared_expert.up_proj",
		"shared.down": "model.layers.%d.mlp.shared_expert.down_proj",
	},
	ggufSlots: Slots{
		"ffn.norm": "blk.%d.post_attention_norm", "attn.post": "",
		"delta.qkvz": "blk.%d.ssm_in", "delta.z": "blk.%d.attn_gate", "delta.ba": "blk.%d.ssm_ba", "delta.conv": "blk.%d.ssm_conv1d",
		"delta.norm": "blk.%d.ssm_norm", "delta.decay": "blk.%d.ssm_a", "delta.bias": "blk.%d.ssm_dt.bias", "delta.out": "blk.%d.ssm_out",
	},
	spec: func(c *Config) *draft {
		s := llamaShape(c)
		s.Norm.PlusOne = true
		kinds, every := c.Texts("layer_types"), max(c.IntOr("full_attention_interval", 4), 1)
		if list, ok := c.Get("recurrent_layers").([]bool); ok { // of a GGUF
			for _, recurrent := range list {
				kinds = append(kinds, layerKinds[recurrent])
			}
		}
		if kinds != nil && len(kinds) != len(s.Layers) {
			c.Fail("layer_types has %d entries for %d layers", len(kinds), len(s.Layers))
			return s
		}
		s.each(func(i int, l *model.Layer) {
			kind := "full_attention"
			if (i+1)%every != 0 {
				kind = "linear_attention"
			}
			if kinds != nil {
				kind = kinds[i]
			}
			switch kind {
			case "full_attention":
			case "linear_attention":
				l.Mixer = c.deltaNet()
			default:
				c.Fail("layer_types: layer %d is %q, which is not supported; known are full_attention, linear_attention", i, kind)
			}
		})
		s.attention(func(_ int, a *model.GQA) { a.QKNorm, a.Gated = true, true })
		e := c.experts()
		e.SharedGate = true
		s.mixture(c, e)
		return s
	},
}

// layerKinds are the entries of layer_types for layers that are recurrent, and for others.
var layerKinds = map[bool]string{true: "linear_attention", false: "full_attention"}
