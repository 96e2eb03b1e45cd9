package family

import "github.com/kvasir-llm/kvasir/model"

// gpt2 adds learned positions to the embeddings instead of turning queries and keys. It has LayerNorm, biases, and a
// feed-forward without a gate, four times as wide as the model if no width is given.
var gpt2 = family{
	types: []string{"gpt2"}, archs: []string{"gpt2"},
	defaults: map[string]any{
		"rms_norm_eps": 1e-5, "max_position_embeddings": 1024, "hidden_act": "gelu_new", "tie_word_embeddings": true,
	},
	assumed: map[string]any{"hidden_act": "gelu_new"},
	keys: map[string]string{
		"n_embd": "hidden_size", "n_head": "num_attention_heads", "n_layer": "num_hidden_layers", "n_inner": "intermediate_size",
		"n_positions": "max_position_embeddings", "activation_function": "hidden_act", "layer_norm_epsilon": "rms_norm_eps",
	},
	slots: Slots{
		"embed":     "transformer.wte",
		"positions": "transformer.wpe",
		"norm":      "transformer.ln_f",
		"attn.norm": "transformer.h.%d.ln_1",
		"qkv":       "transformer.h.%d.attn.c_attn",
		"o":         "transformer.h.%d.attn.c_proj",
		"ffn.norm":  "transformer.h.%d.ln_2",
		"up":        "transformer.h.%d.mlp.c_fc",
		"down":      "transformer.h.%d.mlp.c_proj",
	},
	transposed: true,
	spec: func(c *Config) *draft {
		wide := map[string]any{"intermediate_size": 4 * c.Int("hidden_size")}
		c.setDefaults(wide, wide)
		s := decoderShape(c)
		s.Positions = s.Context
		s.biased(true)
		s.Norm.Center, s.Norm.Bias = true, true
		scaled, byLayer := c.BoolOr("scale_attn_weights", true), c.BoolOr("scale_attn_by_inverse_layer_idx", false)
		s.each(func(_ int, l *model.Layer) { l.FFN.Gated = false })
		s.attention(func(i int, a *model.GQA) {
			if !scaled {
				a.Scale = 1
			}
			if byLayer {
				a.Scale /= float32(i + 1)
			}
		})
		return s
	},
}
