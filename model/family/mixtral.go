package family

import "github.com/kvasir-llm/kvasir/model"

// mixtral is Mistral with experts. In a GGUF it is a llama.
var mixtral = family{
	types: []string{"mixtral"}, within: &llama, permuted: true,
	defaults: map[string]any{
		"rms_norm_eps": 1e-5, "max_position_embeddings": 131072, "num_key_value_heads": 8, "rope_theta": 1e6,
		"num_local_experts": 8, "num_experts_per_tok": 2,
	},
	keys: map[string]string{"num_local_experts": "num_experts"},
	slots: Slots{
		"router":       "model.layers.%d.block_sparse_moe.gate",
		"experts.gate": "model.layers.%d.block_sparse_moe.experts.%d.w1",
		"experts.up":   "model.layers.%d.block_sparse_moe.experts.%d.w3",
		"experts.down": "model.layers.%d.block_sparse_moe.experts.%d.w2",
	},
	spec: func(c *Config) *draft {
		s := llamaShape(c)
		s.windowed(c)
		s.mixture(c, mixtralExperts(c))
		return s
	},
}

// mixtralExperts count by their share of the chosen ones' scores.
func mixtralExperts(c *Config) model.Experts {
	e := c.experts()
	e.Router.Normalise = true
	return e
}
