package family

import (
	"math"

	"github.com/kvasir-llm/kvasir/model"
)

// latentShape reads a decoder with latent attention. A GGUF gives the sizes of what the cache holds as those of a
// head, and those of a head beside them; older ones those of a head alone.
func (c *Config) latentShape() *draft {
	rope := c.IntOr("qk_rope_head_dim", 0)
	head, value := c.IntOr("qk_nope_head_dim", 0)+rope, c.IntOr("v_head_dim", 0)
	if c.gguf() {
		rope = c.Int("rope_dim")
		head, value = c.IntOr("qk_head_dim", c.IntOr("head_dim", 0)), c.IntOr("mla_v_head_dim", value)
	}
	c.set("head_dim", head)
	c.set("v_head_dim", value)
	c.set("num_key_value_heads", nil) // as many as heads
	s := decoderShape(c)
	scale := c.latentYarn()
	s.Ropes = []model.Rope{c.rope("full_attention", rope)}
	s.pairNeighbours(true)
	bias := c.BoolOr("attention_bias", false)
	s.each(func(_ int, l *model.Layer) {
		l.Mixer = model.Latent{
			Heads: c.Int("num_attention_heads"), HeadDim: head, ValueDim: value,
			Rank: c.Int("kv_lora_rank"), QueryRank: c.IntOr("q_lora_rank", 0), RopeDim: rope,
			Scale: float32(scale / math.Sqrt(float64(head))), Eps: 1e-6, Bias: bias, OBias: bias,
		}
	})
	return s
}

// latentYarn returns by how much latent attention scales scores, beside the scale of the rope (DeepSeek V2). A GGUF
// gives a tenth of mscale_all_dim, and assumes that mscale is the same.
func (c *Config) latentYarn() float64 {
	p := c.ropeParameters()
	if m := p.FloatOr("yarn_log_multiplier", 0); c.gguf() && m != 0 {
		p.set("mscale", 10*m)
		p.set("mscale_all_dim", 10*m)
		p.set("yarn_log_multiplier", nil)
	}
	m := p.FloatOr("mscale_all_dim", 0)
	if m == 0 {
		return 1
	}
	scale := magnitude(p.positive("factor", c.FloatOr("max_position_embeddings", 0)/c.trained(p)), m)
	return scale * scale
}

// deltaNet reads the shape of gated delta nets.
func (c *Config) deltaNet() model.Delta {
	d := model.Delta{
		KeyHeads: c.Int("linear_num_key_heads"), ValueHeads: c.Int("linear_num_value_heads"), KeyDim: c.Int("linear_key_head_dim"),
		Window: c.Int("linear_conv_kernel_dim"),
	}
	if c.gguf() { // which gives the values of all heads
		c.set("linear_value_head_dim", float64(c.Int("ssm_inner_size"))/float64(max(d.ValueHeads, 1)))
	}
	d.ValueDim = c.Int("linear_value_head_dim")
	return d
}
