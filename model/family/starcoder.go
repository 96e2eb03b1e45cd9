package family

import "github.com/kvasir-llm/kvasir/model"

// starcoder2 has LayerNorm, biases, and a feed-forward without a gate.
var starcoder2 = family{
	types: []string{"starcoder2"}, archs: []string{"starcoder2"},
	defaults: map[string]any{
		"rms_norm_eps": 1e-5, "max_position_embeddings": 4096, "num_key_value_heads": 2, "hidden_act": "gelu_pytorch_tanh",
		"use_bias": true, "tie_word_embeddings": true,
	},
	assumed: map[string]any{"hidden_act": "gelu_pytorch_tanh"},
	keys:    map[string]string{"norm_epsilon": "rms_norm_eps"},
	slots:   Slots{"up": "model.layers.%d.mlp.c_fc", "down": "model.layers.%d.mlp.c_proj"},
	spec: func(c *Config) *draft {
		s := llamaShape(c)
		s.windowed(c)
		s.biased(c.BoolOr("use_bias", false))
		s.Norm.Center, s.Norm.Bias = true, true
		s.each(func(_ int, l *model.Layer) { l.FFN.Gated = false })
		return s
	},
}
