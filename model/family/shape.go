package family

import (
	"maps"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/model"
)

// draft is a Spec in the making: its methods say in a word what several families have.
type draft struct{ model.Spec }

// decoderShape reads what nearly all families share: a norm before each part, grouped queries, a gated feed-forward,
// and no positions yet.
func decoderShape(c *Config) *draft {
	hidden, heads := c.Int("hidden_size"), c.Int("num_attention_heads")
	if !c.Has("head_dim") && heads > 0 && hidden%heads != 0 {
		c.Fail("%s %d is no multiple of %s %d, and there is no %s", c.key("hidden_size"), hidden, c.key("num_attention_heads"), heads, c.key("head_dim"))
	}
	bias := c.BoolOr("attention_bias", false)
	a := model.GQA{
		Heads:   heads,
		KVHeads: c.IntOr("num_key_value_heads", heads),
		HeadDim: c.IntOr("head_dim", hidden/max(heads, 1)),
		Rope:    -1,
		QKVBias: bias, OBias: bias,
	}
	a.ValueDim = c.IntOr("v_head_dim", a.HeadDim)
	a.Scale = float32(1 / math.Sqrt(float64(a.HeadDim)))
	s := &draft{Spec: model.Spec{
		Vocab: c.Int("vocab_size"), Hidden: hidden, Context: c.Int("max_position_embeddings"),
		EmbedScale: 1, ResidualScale: 1, LogitScale: 1,
		Norm:     model.Norm{Eps: float32(c.Float("rms_norm_eps"))},
		TiedHead: c.BoolOr("tie_word_embeddings", false),
	}}
	s.uniform(c, model.Layer{
		PreNorm: true,
		Mixer:   a,
		FFN: model.FeedForward{
			Width: c.Int("intermediate_size"), Act: c.activation("hidden_act"), Gated: true, Bias: c.BoolOr("mlp_bias", false),
		},
	})
	return s
}

// llamaShape reads what Llama and its descendants share: the shape of a decoder, with one rotary embedding in all
// layers.
func llamaShape(c *Config) *draft {
	s := decoderShape(c)
	dim := 0
	s.attention(func(_ int, a *model.GQA) { dim, a.Rope = a.HeadDim, 0 })
	if len(s.Layers) > 0 {
		s.Ropes = []model.Rope{c.rope("full_attention", dim)}
	}
	return s
}

// uniform fills a Spec with equal layers, as many as the configuration says.
func (s *draft) uniform(c *Config, l model.Layer) {
	n := c.Int("num_hidden_layers")
	if c.gguf() { // which counts the layers that predict further tokens
		n -= c.IntOr("num_nextn_predict_layers", 0)
	}
	if n < 1 || n > model.MaxLayers {
		c.Fail("%q is %d; want 1 to %d", c.key("num_hidden_layers"), n, model.MaxLayers)
		return
	}
	s.Layers = slices.Repeat([]model.Layer{l}, n)
}

// each calls f for every layer.
func (s *draft) each(f func(i int, l *model.Layer)) {
	for i := range s.Layers {
		f(i, &s.Layers[i])
	}
}

// attention calls f for the mixer of every layer that has grouped queries.
func (s *draft) attention(f func(i int, a *model.GQA)) {
	for i := range s.Layers {
		if a, ok := s.Layers[i].Mixer.(model.GQA); ok {
			f(i, &a)
			s.Layers[i].Mixer = a
		}
	}
}

// biased sets whether every weight of the layers has a bias.
func (s *draft) biased(bias bool) {
	s.each(func(_ int, l *model.Layer) { l.FFN.Bias = bias })
	s.attention(func(_ int, a *model.GQA) { a.QKVBias, a.OBias = bias, bias })
}

// pairNeighbours sets whether ropes pair adjacent values.
func (s *draft) pairNeighbours(so bool) {
	for i := range s.Ropes {
		s.Ropes[i].Interleaved = so
	}
}

// windowed gives every layer the sliding window of the configuration.
func (s *draft) windowed(c *Config) {
	window := c.IntOr("sliding_window", 0)
	s.attention(func(_ int, a *model.GQA) { a.Window = window })
}

// windows gives the sliding window to the layers that layer_types calls sliding_attention, or, in files without
// layer_types, to those for which sliding returns true.
func (s *draft) windows(c *Config, sliding func(i int) bool) {
	kinds, window := c.Texts("layer_types"), c.IntOr("sliding_window", 0)
	if kinds != nil && len(kinds) != len(s.Layers) {
		c.Fail("layer_types has %d entries for %d layers", len(kinds), len(s.Layers))
		return
	}
	s.attention(func(i int, a *model.GQA) {
		slides := kinds == nil && sliding(i)
		if kinds != nil {
			if slides = kinds[i] == "sliding_attention"; !slides && kinds[i] != "full_attention" {
				c.Fail("layer_types: layer %d is %q, which is not supported; known are full_attention, sliding_attention", i, kinds[i])
			}
			if slides && window == 0 {
				c.Fail("layer_types: layer %d is sliding_attention, but there is no sliding_window in use", i)
			}
		}
		if slides {
			a.Window = window
		}
	})
}

// telling are keys that change what a model computes, each with the values that change nothing.
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
			c.refuse(key, telling[key]...)
		}
	}
}
