package family

import (
	"maps"

	"github.com/kvasir-llm/kvasir/model"
)

// qwen2moe is Qwen2 with experts, and a gated shared expert that every token goes to.
var qwen2moe = family{
	types: []string{"qwen2_moe"}, archs: []string{"qwen2moe"},
	defaults: qwenMoEDefaults(map[string]any{
		"num_key_value_heads": 16, "max_window_layers": 28, "moe_intermediate_size": 1408, "num_experts": 60,
		"num_experts_per_tok": 4, "shared_expert_intermediate_size": 5632, "qkv_bias": true,
	}),
	assumed: map[string]any{"qkv_bias": true},
	slots: Slots{
		"shared.gate": "model.layers.%d.mlp.shared_expert.gate_proj",
		"shared.up":   "model.layers.%d.mlp.shared_expert.up_proj",
		"shared.down": "model.layers.%d.mlp.shared_expert.down_proj",
	},
	spec: func(c *Config) *draft {
		until, bias := c.IntOr("max_window_layers", 0), c.BoolOr("qkv_bias", false)
		s := qwenMoEShape(c)
		s.windows(c, func(i int) bool { return i%2 == 0 && i < until })
		s.attention(func(_ int, a *model.GQA) { a.QKVBias, a.OBias = bias, false })
		e := c.experts()
		e.SharedGate = true
		if c.gguf() {
			e.Shared = c.IntOr("shared_expert_intermediate_size", c.Int("intermediate_size"))
		}
		s.mixture(c, e)
		return s
	},
}

// qwen3moe is Qwen3 with experts.
var qwen3moe = family{
	types: []string{"qwen3_moe"}, archs: []string{"qwen3moe"},
	defaults: qwenMoEDefaults(map[string]any{
		"num_key_value_heads": 4, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
	}),
	assumed: map[string]any{"norm_topk_prob": true},
	keys:    map[string]string{"num_local_experts": "num_experts"},
	spec: func(c *Config) *draft {
		s := qwenMoEShape(c)
		s.windowed(c)
		s.attention(func(_ int, a *model.GQA) { a.QKNorm = true })
		s.mixture(c, c.experts())
		return s
	},
}

func qwenMoEDefaults(more map[string]any) map[string]any {
	d := map[string]any{"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "sliding_window": 4096}
	maps.Copy(d, more)
	return d
}

// qwenMoEShape reads what the two share. Early GGUFs lack the width of an expert.
func qwenMoEShape(c *Config) *draft {
	if !c.gguf() && !c.BoolOr("use_sliding_window", false) {
		c.set("sliding_window", nil)
	}
	s := llamaShape(c)
	if width := c.Int("intermediate_size") / max(c.Int("num_experts_per_tok"), 1); c.gguf() {
		c.setDefaults(nil, map[string]any{"moe_intermediate_size": width})
	}
	return s
}
