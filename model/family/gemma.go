package family

import (
	"maps"
	"math"

	"github.com/kvasir-llm/kvasir/model"
)

// gemma2 has a norm before and one after each part, soft caps on scores and logits, and a window in every other layer.
var gemma2 = family{
	types: []string{"gemma2"}, archs: []string{"gemma2"}, slots: gemmaSlots, keys: gemmaKeys,
	defaults: gemmaDefaults(map[string]any{
		"max_position_embeddings": 8192, "num_attention_heads": 8, "attn_logit_softcapping": 50, "final_logit_softcapping": 30,
		"sliding_window_pattern": 2,
	}),
	assumed: map[string]any{"hidden_act": "gelu_pytorch_tanh", "sliding_window": 4096, "sliding_window_pattern": 2},
	spec: func(c *Config) *draft {
		s := gemmaShape(c, 46)
		softcap := float32(c.FloatOr("attn_logit_softcapping", 0))
		s.attention(func(_ int, a *model.GQA) { a.Softcap = softcap })
		return s
	},
}

// gemma3 is Gemma 2 with normalised queries and keys in place of soft caps on scores, and another rope in windowed
// layers.
var gemma3 = family{
	types: []string{"gemma3_text"}, archs: []string{"gemma3"}, slots: gemmaSlots, keys: gemmaKeys,
	defaults: gemmaDefaults(map[string]any{
		"vocab_size": 262208, "max_position_embeddings": 131072, "num_attention_heads": 8, "rope_theta": 1e6,
		"rope_local_base_freq": 10000, "sliding_window_pattern": 6,
	}),
	assumed: map[string]any{
		"hidden_act": "gelu_pytorch_tanh", "rope_theta": 1e6, "rope_local_base_freq": 10000, "sliding_window_pattern": 6,
	},
	spec: func(c *Config) *draft {
		s := gemmaShape(c, 62)
		s.attention(func(i int, a *model.GQA) {
			if i == 0 {
				s.Ropes = append(s.Ropes, c.rope("sliding_attention", a.HeadDim))
			}
			if a.QKNorm = true; a.Window > 0 {
				a.Rope = 1
			}
		})
		return s
	},
}

var (
	gemmaSlots = Slots{
		"attn.post": "model.layers.%d.post_attention_layernorm",
		"ffn.norm":  "model.layers.%d.pre_feedforward_layernorm",
		"ffn.post":  "model.layers.%d.post_feedforward_layernorm",
	}
	gemmaKeys = map[string]string{"hidden_activation": "hidden_act"}
)

func gemmaDefaults(more map[string]any) map[string]any {
	d := map[string]any{
		"rms_norm_eps": 1e-6, "head_dim": 256, "num_key_value_heads": 4, "query_pre_attn_scalar": 256,
		"hidden_activation": "gelu_pytorch_tanh", "sliding_window": 4096, "tie_word_embeddings": true,
	}
	maps.Copy(d, more)
	return d
}

// gemmaShape reads what Gemma 2 and 3 share. A GGUF has no query_pre_attn_scalar: it is the size of a head, but that
// of an even share of the hidden size in the largest model of each generation, which has largest layers.
func gemmaShape(c *Config, largest int) *draft {
	s := llamaShape(c)
	s.Norm.PlusOne = true
	s.EmbedScale = float32(math.Sqrt(float64(s.Hidden)))
	pattern := c.Int("sliding_window_pattern")
	if pattern < 1 {
		c.Fail("%q is %d; want at least 1", c.key("sliding_window_pattern"), pattern)
		return s
	}
	s.windows(c, func(i int) bool { return (i+1)%pattern != 0 })
	s.each(func(_ int, l *model.Layer) { l.PostNorm = true })
	s.LogitSoftcap = float32(c.FloatOr("final_logit_softcapping", 0))
	s.attention(func(_ int, a *model.GQA) {
		scalar := float64(a.HeadDim)
		if c.gguf() && len(s.Layers) == largest {
			scalar = float64(s.Hidden) / float64(a.Heads)
		}
		a.Scale = float32(1 / math.Sqrt(c.positive("query_pre_attn_scalar", scalar)))
	})
	return s
}
