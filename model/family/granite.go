package family

import "github.com/kvasir-llm/kvasir/model"

// granite is Llama with four multipliers. A GGUF may switch its rope off.
var granite = family{
	types: []string{"granite"}, archs: []string{"granite"}, permuted: true,
	defaults: map[string]any{"rms_norm_eps": 1e-6, "max_position_embeddings": 2048, "attention_multiplier": 1},
	keys:     map[string]string{"logit_scale": "logits_scaling"},
	spec: func(c *Config) *draft {
		s := llamaShape(c)
		s.EmbedScale = float32(c.positive("embedding_multiplier", 1))
		s.ResidualScale = float32(c.positive("residual_multiplier", 1))
		s.LogitScale = float32(1 / c.positive("logits_scaling", 1))
		s.attention(func(_ int, a *model.GQA) {
			a.Scale = float32(c.positive("attention_multiplier", float64(a.Scale)))
			if !c.BoolOr("rope_finetuned", true) {
				a.Rope = -1
			}
		})
		return s
	},
}
