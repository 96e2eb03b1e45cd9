package family

import (
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
)

// experts reads what most mixtures share: softmax scores, perhaps normalised and scaled, and a shared expert.
func (c *Config) experts() model.Experts {
	e := model.Experts{Count: c.Int("num_experts"), Chosen: c.Int("num_experts_per_tok")}
	e.Router = compute.Router{Normalise: c.BoolOr("norm_topk_prob", false), Scale: float32(c.positive("routed_scaling_factor", 1))}
	e.Shared = c.IntOr("shared_expert_intermediate_size", c.IntOr("n_shared_experts", 0)*c.IntOr("moe_intermediate_size", 0))
	return e
}

// biasedExperts reads a mixture of sigmoid scores that a learned bias balances, in groups judged by their best two
// (DeepSeek-V3, arXiv:2412.19437, section 2.1.2).
func (c *Config) biasedExperts() model.Experts {
	e := c.experts()
	e.Router.Sigmoid, e.ScoreBias = true, true
	c.expertGroups(&e.Router, 2)
	c.Refuse("scoring_func", "sigmoid", 2.0)
	c.Refuse("topk_method", "noaux_tc")
	return e
}

// expertGroups reads the groups of experts. A group's score is the sum of its best scores, best of them.
func (c *Config) expertGroups(r *compute.Router, best int) {
	kept := c.IntOr("topk_group", 1)
	if n := c.IntOr("n_group", 1); n != 1 {
		r.Groups, r.Kept, r.GroupBest = n, kept, best
	}
}

// mixture gives experts to the layers that the configuration names: all but the first few and those listed, or those at
// regular distances.
func (s *draft) mixture(c *Config, e model.Experts) {
	dense, skip := c.IntOr("first_k_dense_replace", 0), c.Ints("mlp_only_layers")
	step, every := c.IntOr("decoder_sparse_step", 1), c.IntOr("moe_layer_freq", 1)
	if step < 1 || every < 1 {
		c.Fail("decoder_sparse_step is %d and moe_layer_freq %d; want at least 1", step, every)
		return
	}
	s.each(func(i int, l *model.Layer) {
		if i < dense || i%every != 0 || (i+1)%step != 0 || slices.Contains(skip, i) {
			return
		}
		l.FFN.Experts = e
		l.FFN.Width = c.IntOr("moe_intermediate_size", l.FFN.Width)
	})
}
