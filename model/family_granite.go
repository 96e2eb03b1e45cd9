package model

// granite is Llama with four multipliers. A GGUF may turn its rope off.
var granite = family{
	types: []string{"granite"}, archs: []string{"granite"}, permuted: true,
	defaults: map[string]any{"rms_norm_eps": 1e-6, "max_position_embeddings": 2048.0, "attention_multiplier": 1.0},
	keys:     map[string]string{"logit_scale": "logits_scaling"},
	spec: func(c *Config) *Spec {
		s := llamaShape(c)
		s.EmbedScale = float32(c.positive("embedding_multiplier", 1))
		s.ResidualScale = float32(c.positive("residual_multiplier", 1))
		s.LogitScale = float32(1 / c.positive("logits_scaling", 1))
		s.each(func(_ int, l *Layer) {
			l.Attn.Scale = float32(c.positive("attention_multiplier", float64(l.Attn.Scale)))
			if !c.BoolOr("rope_finetuned", true) {
				l.Attn.Rope = -1
			}
		})
		return s
	},
}
