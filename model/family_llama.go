package model

import "math"

// llama also stands for everything that was released in its shape. In a GGUF it covers Mistral too.
var llama = family{types: []string{"llama"}, archs: []string{"llama"}, spec: func(c *Config) *Spec {
	if !c.gguf {
		c.Refuse("sliding_window")
	}
	return llamaShape(c)
}}

// llamaShape reads the configuration that Llama and its descendants share: RMSNorm before each part, rotary embedding,
// grouped queries, gated feed-forward.
func llamaShape(c *Config) *Spec {
	heads := c.Int("num_attention_heads")
	a := Attention{
		Heads:   heads,
		KVHeads: c.IntOr("num_key_value_heads", heads),
		HeadDim: c.IntOr("head_dim", c.Int("hidden_size")/max(heads, 1)),
		QKVBias: c.BoolOr("attention_bias", false),
		OBias:   c.BoolOr("attention_bias", false),
	}
	if !c.Has("head_dim") && heads > 0 && c.Int("hidden_size")%heads != 0 {
		c.fail("hidden_size %d is no multiple of num_attention_heads %d, and there is no head_dim", c.Int("hidden_size"), heads)
	}
	a.ValueDim = c.IntOr("v_head_dim", a.HeadDim)
	a.Scale = float32(1 / math.Sqrt(float64(a.HeadDim)))
	a.Window = c.IntOr("sliding_window", 0)
	for _, key := range []string{"num_experts", "num_local_experts", "attention_multiplier", "embedding_multiplier", "residual_multiplier",
		"logits_scaling", "attn_logit_softcapping", "final_logit_softcapping", "clip_qkv", "alibi_bias_max", "attention_temperature_scale"} {
		c.Refuse(key, float64(0), uint32(0), float32(0))
	}
	rope := c.rope("full_attention", a.HeadDim)
	rope.Interleaved = c.gguf // these files hold queries and keys in pairs of neighbours
	s := &Spec{
		Family: "llama", Vocab: c.Int("vocab_size"), Hidden: c.Int("hidden_size"), Context: c.IntOr("max_position_embeddings", 2048),
		EmbedScale: 1, ResidualScale: 1, LogitScale: 1,
		Norm:     Norm{Eps: float32(c.FloatOr("rms_norm_eps", 1e-6))},
		Ropes:    []Rope{rope},
		TiedHead: c.BoolOr("tie_word_embeddings", false),
	}
	s.uniform(c.Int("num_hidden_layers"), Layer{
		PreNorm: true,
		Attn:    a,
		FFN:     FeedForward{Width: c.Int("intermediate_size"), Act: c.activation("hidden_act"), Gated: true, Bias: c.BoolOr("mlp_bias", false)},
	})
	return s
}
