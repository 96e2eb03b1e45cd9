package model

import "math"

// llama also stands for everything that was released in its shape. In a GGUF it covers Mistral too.
var llama = family{
	types: []string{"llama"}, archs: []string{"llama"},
	defaults: map[string]any{"rms_norm_eps": 1e-6, "max_position_embeddings": 2048.0},
	spec: func(c *Config) *Spec {
		if !c.gguf() {
			c.Refuse("sliding_window")
			c.Refuse("layer_types")
		}
		s := llamaShape(c)
		bias := c.BoolOr("attention_bias", false)
		s.each(func(_ int, l *Layer) {
			l.Attn.QKVBias, l.Attn.OBias, l.FFN.Bias = bias, bias, c.BoolOr("mlp_bias", false)
		})
		return s
	},
}

// llamaShape reads the configuration that Llama and its descendants share: RMSNorm before each part, rotary embedding,
// grouped queries, gated feed-forward, no biases.
func llamaShape(c *Config) *Spec {
	hidden, heads := c.Int("hidden_size"), c.Int("num_attention_heads")
	if !c.Has("head_dim") && heads > 0 && hidden%heads != 0 {
		c.fail("%s %d is no multiple of %s %d, and there is no %s", c.key("hidden_size"), hidden, c.key("num_attention_heads"), heads, c.key("head_dim"))
	}
	a := Attention{
		Heads:   heads,
		KVHeads: c.IntOr("num_key_value_heads", heads),
		HeadDim: c.IntOr("head_dim", hidden/max(heads, 1)),
		Window:  c.IntOr("sliding_window", 0),
	}
	a.ValueDim = c.IntOr("v_head_dim", a.HeadDim)
	a.Scale = float32(1 / math.Sqrt(float64(a.HeadDim)))
	c.refuseExtras()
	rope := c.rope("full_attention", a.HeadDim)
	rope.Interleaved = c.gguf() // these files hold queries and keys in pairs of neighbours
	s := &Spec{
		Family: "llama", Vocab: c.Int("vocab_size"), Hidden: hidden, Context: c.Int("max_position_embeddings"),
		EmbedScale: 1, ResidualScale: 1, LogitScale: 1,
		Norm:     Norm{Eps: float32(c.Float("rms_norm_eps"))},
		Ropes:    []Rope{rope},
		TiedHead: c.BoolOr("tie_word_embeddings", false),
	}
	s.uniform(c, Layer{
		PreNorm: true,
		Attn:    a,
		FFN:     FeedForward{Width: c.Int("intermediate_size"), Act: c.activation("hidden_act"), Gated: true},
	})
	return s
}

// refuseExtras refuses what descendants of Llama add to it, unless it is off.
func (c *Config) refuseExtras() {
	for _, key := range []string{"num_experts", "num_local_experts", "attn_logit_softcapping", "final_logit_softcapping", "clip_qkv",
		"alibi_bias_max", "attention_temperature_scale", "sliding_window_pattern", "rope_local_base_freq"} {
		c.Refuse(key, 0)
	}
	for _, key := range []string{"attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling"} {
		c.Refuse(key, 0, 1)
	}
	if !c.BoolOr("causal", true) {
		c.fail("%q is false; only decoders are supported", c.key("causal"))
	}
}
