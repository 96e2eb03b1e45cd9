package family

import "github.com/kvasir-llm/kvasir/model"

// smollm3 is Llama without rope in some layers: those with a 0 in no_rope_layers, or every no_rope_layer_interval-th.
// Only they may have a window.
var smollm3 = family{
	types: []string{"smollm3"}, archs: []string{"smollm3"}, permuted: true,
	defaults: map[string]any{
		"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "num_key_value_heads": 4, "rope_theta": 2e6,
		"tie_word_embeddings": true,
	},
	spec: func(c *Config) *draft {
		s := llamaShape(c)
		roped, interval := c.Ints("no_rope_layers"), c.IntOr("no_rope_layer_interval", 4)
		if roped != nil && len(roped) != len(s.Layers) {
			c.Fail("no_rope_layers has %d entries for %d layers", len(roped), len(s.Layers))
		} else if roped == nil && interval < 1 {
			c.Fail("no_rope_layer_interval is %d; want at least 1", interval)
		}
		if c.Err() != nil {
			return s
		}
		s.attention(func(i int, a *model.GQA) {
			if roped != nil && roped[i] == 0 || roped == nil && (i+1)%interval == 0 {
				a.Rope = -1
			}
		})
		if !c.BoolOr("use_sliding_window", false) {
			c.set("sliding_window", nil)
		}
		s.windows(c, func(i int) bool { return s.Layers[i].Mixer.(model.GQA).Rope < 0 })
		return s
	},
}
