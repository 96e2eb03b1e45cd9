package family

import (
	"maps"

	"github.com/kvasir-llm/kvasir/model"
)

// qwen2 is Llama with biases on queries, keys and values, and a window in some layers where the configuration says so.
var qwen2 = family{
	types: []string{"qwen2"}, archs: []string{"qwen2"}, defaults: qwenDefaults(nil),
	spec: func(c *Config) *draft {
		s := qwenShape(c)
		s.attention(func(_ int, a *model.GQA) { a.QKVBias, a.OBias = true, false })
		return s
	},
}

// qwen3 is Qwen2 with normalised queries and keys in place of the biases, which are optional.
var qwen3 = family{
	types: []string{"qwen3"}, archs: []string{"qwen3"}, defaults: qwenDefaults(map[string]any{"head_dim": 128}),
	spec: func(c *Config) *draft {
		s := qwenShape(c)
		s.attention(func(_ int, a *model.GQA) { a.QKNorm = true })
		return s
	},
}

func qwenDefaults(more map[string]any) map[string]any {
	d := map[string]any{
		"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "num_key_value_heads": 32, "sliding_window": 4096,
		"max_window_layers": 28,
	}
	maps.Copy(d, more)
	return d
}

// qwenShape reads what Qwen2 and Qwen3 share. With use_sliding_window, layers from max_window_layers on have a window;
// layer_types says the same in newer files.
func qwenShape(c *Config) *draft {
	s := llamaShape(c)
	if !c.gguf() && !c.BoolOr("use_sliding_window", false) {
		c.set("sliding_window", nil)
	}
	from := c.IntOr("max_window_layers", 0)
	s.windows(c, func(i int) bool { return i >= from })
	return s
}
