package model

import (
	"maps"
	"math"
	"slices"
)

// decoderShape reads what nearly all families share: a norm before each part, grouped queries, a gated feed-forward, and no
// positions yet.
func decoderShape(c *Config) *Spec {
	hidden, heads := c.Int("hidden_size"), c.Int("num_attention_heads")
	if !c.Has("head_dim") && heads > 0 && hidden%heads != 0 {
		c.fail("%s %d is no multiple of %s %d, and there is no %s", c.key("hidden_size"), hidden, c.key("num_attention_heads"), heads, c.key("head_dim"))
	}
	bias := c.BoolOr("attention_bias", false)
	a := Attention{
		Heads:   heads,
		KVHeads: c.IntOr("num_key_value_heads", heads),
		HeadDim: c.IntOr("head_dim", hidden/max(heads, 1)),
		Rope:    -1,
		QKVBias: bias, OBias: bias,
	}
	a.ValueDim = c.IntOr("v_head_dim", a.HeadDim)
	a.Scale = float32(1 / math.Sqrt(float64(a.HeadDim)))
	s := &Spec{
		Vocab: c.Int("vocab_size"), Hidden: hidden, Context: c.Int("max_position_embeddings"),
		EmbedScale: 1, ResidualScale: 1, LogitScale: 1,
		Norm:     Norm{Eps: float32(c.Float("rms_norm_eps"))},
		TiedHead: c.BoolOr("tie_word_embeddings", false),
	}
	s.uniform(c, Layer{
		PreNorm: true,
		Attn:    a,
		FFN: FeedForward{
			Width: c.Int("intermediate_size"), Act: c.activation("hidden_act"), Gated: true, Bias: c.BoolOr("mlp_bias", false),
		},
	})
	return s
}

// llamaShape reads what Llama and its descendants share: the shape of a decoder, with one rotary embedding in all layers.
func llamaShape(c *Config) *Spec {
	s := decoderShape(c)
	dim := 0
	s.each(func(_ int, l *Layer) { dim, l.Attn.Rope = l.Attn.HeadDim, 0 })
	if len(s.Layers) > 0 {
		s.Ropes = []Rope{c.rope("full_attention", dim)}
	}
	return s
}

// uniform fills a Spec with equal layers, as many as the configuration says.
func (s *Spec) uniform(c *Config, l Layer) {
	n := c.Int("num_hidden_layers")
	if c.gguf() { // which counts the layers that predict further tokens
		n -= c.IntOr("num_nextn_predict_layers", 0)
	}
	if n < 1 || n > maxLayers {
		c.fail("%q is %d; want 1 to %d", c.key("num_hidden_layers"), n, maxLayers)
		return
	}
	s.Layers = slices.Repeat([]Layer{l}, n)
}

// each calls f for every layer.
func (s *Spec) each(f func(i int, l *Layer)) {
	for i := range s.Layers {
		f(i, &s.Layers[i])
	}
}

// biased sets whether every weight of the layers has a bias.
func (s *Spec) biased(bias bool) {
	s.each(func(_ int, l *Layer) { l.Attn.QKVBias, l.Attn.OBias, l.FFN.Bias = bias, bias, bias })
}

// pairNeighbours makes neighbours the pairs that ropes rotate, if so.
func (s *Spec) pairNeighbours(so bool) {
	for i := range s.Ropes {
		s.Ropes[i].Interleaved = so
	}
}

// windowed gives every layer the sliding window of the configuration.
func (s *Spec) windowed(c *Config) {
	window := c.IntOr("sliding_window", 0)
	s.each(func(_ int, l *Layer) { l.Attn.Window = window })
}

// windows gives the sliding window to the layers that layer_types calls sliding_attention, or, in files without
// layer_types, to those that sliding says.
func (s *Spec) windows(c *Config, sliding func(i int) bool) {
	kinds, window := c.Texts("layer_types"), c.IntOr("sliding_window", 0)
	if kinds != nil && len(kinds) != len(s.Layers) {
		c.fail("layer_types has %d entries for %d layers", len(kinds), len(s.Layers))
		return
	}
	s.each(func(i int, l *Layer) {
		slides := kinds == nil && sliding(i)
		if kinds != nil {
			if slides = kinds[i] == "sliding_attention"; !slides && kinds[i] != "full_attention" {
				c.fail("layer_types: layer %d is %q, which is not supported; known are full_attention, sliding_attention", i, kinds[i])
			}
			if slides && window == 0 {
				c.fail("layer_types: layer %d is sliding_attention, but there is no sliding_window in use", i)
			}
		}
		if slides {
			l.Attn.Window = window
		}
	})
}

// telling are keys that change what a model computes, each with the values by which it does not.
var telling = map[string][]any{
	"num_experts": {0.0}, "num_local_experts": {0.0}, "n_routed_experts": {0.0}, "n_shared_experts": {0.0},
	"shared_expert_intermediate_size": {0.0}, "n_group": {0.0, 1.0}, "routed_scaling_factor": {1.0}, "topk_method": nil,
	"scoring_func": nil, "swiglu_limit": {7.0}, "swiglu_alpha": {1.702},
	"attn_logit_softcapping": {0.0}, "final_logit_softcapping": {0.0}, "clip_qkv": {0.0}, "alibi_bias_max": {0.0},
	"attention_temperature_scale": {0.0},
	"sliding_window":              {0.0}, "layer_types": nil, "sliding_window_pattern": {0.0}, "rope_local_base_freq": {0.0},
	"attention_multiplier": {0.0, 1.0}, "embedding_multiplier": {0.0, 1.0}, "residual_multiplier": {0.0, 1.0},
	"logits_scaling": {0.0, 1.0}, "logit_scale": {0.0, 1.0}, "query_pre_attn_scalar": nil,
	"no_rope_layers": nil, "rope_finetuned": {true}, "use_bias": {false}, "use_qk_norm": {false}, "qk_layernorm": {false},
	"use_cla": {false}, "causal": {true}, "use_bidirectional_attention": {false}, "add_cross_attention": {false},
	"scale_attn_weights": {true}, "scale_attn_by_inverse_layer_idx": {false},
}

// refuseUnread refuses the telling keys that the family has not read.
func (c *Config) refuseUnread() {
	for _, key := range slices.Sorted(maps.Keys(telling)) {
		if !c.read[key] {
			c.Refuse(key, telling[key]...)
		}
	}
}
