package model

import (
	"math"

	"github.com/kvasir-llm/kvasir/compute"
)

// latentShape reads a decoder with latent attention. A GGUF gives the sizes of what the cache holds as those of a head, and
// those of a head beside them; older ones those of a head alone.
func (c *Config) latentShape() *Spec {
	rope := c.IntOr("qk_rope_head_dim", 0)
	head, value := c.IntOr("qk_nope_head_dim", 0)+rope, c.IntOr("v_head_dim", 0)
	if c.gguf() {
		rope = c.Int("rope_dim")
		head, value = c.IntOr("qk_head_dim", c.IntOr("head_dim", 0)), c.IntOr("mla_v_head_dim", value)
	}
	c.values["head_dim"], c.values["v_head_dim"], c.values["num_key_value_heads"] = float64(head), float64(value), nil // as many as heads
	s := decoderShape(c)
	scale := c.latentYarn()
	s.Ropes = []Rope{c.rope("full_attention", rope)}
	s.pairNeighbours(true)
	s.each(func(_ int, l *Layer) {
		l.Attn.Rope = 0
		l.Attn.Latent = Latent{Rank: c.Int("kv_lora_rank"), QueryRank: c.IntOr("q_lora_rank", 0), RopeDim: rope, Eps: 1e-6}
		l.Attn.Scale = float32(scale / math.Sqrt(float64(head)))
	})
	return s
}

// latentYarn returns by how much latent attention scales scores, beside the scale of the rope (DeepSeek V2). A GGUF gives a
// tenth of mscale_all_dim, and assumes that mscale is the same.
func (c *Config) latentYarn() float64 {
	if p, ok := c.values["rope_scaling"].(map[string]any); ok && c.gguf() {
		if m, ok := number(p["yarn_log_multiplier"]); ok {
			p["mscale"], p["mscale_all_dim"] = 10*m, 10*m
			delete(p, "yarn_log_multiplier")
		}
	}
	p := c.ropeParameters()
	m := p.FloatOr("mscale_all_dim", 0)
	if m == 0 {
		return 1
	}
	scale := magnitude(p.positive("factor", c.FloatOr("max_position_embeddings", 0)/c.trained(p)), m)
	return scale * scale
}

// deltaNet reads the shape of gated delta nets.
func (c *Config) deltaNet() compute.Delta {
	d := compute.Delta{
		KeyHeads: c.Int("linear_num_key_heads"), ValueHeads: c.Int("linear_num_value_heads"), KeyDim: c.Int("linear_key_head_dim"),
		Window: c.Int("linear_conv_kernel_dim"),
	}
	if c.gguf() { // which gives the values of all heads
		c.values["linear_value_head_dim"] = float64(c.Int("ssm_inner_size")) / float64(max(d.ValueHeads, 1))
	}
	d.ValueDim = c.Int("linear_value_head_dim")
	return d
}
