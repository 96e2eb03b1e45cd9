package family

import (
	"math"

	"github.com/kvasir-llm/kvasir/model"
)

// rope reads the rotary embedding of a head of dim values, in the newest style (rope_parameters, which may hold an
// object for each kind of layer) or the older one (rope_theta and rope_scaling).
func (c *Config) rope(layerType string, dim int) model.Rope {
	p, theta := c.ropeOf(layerType)
	if partial := p.FloatOr("partial_rotary_factor", c.FloatOr("partial_rotary_factor", 1)); partial != 1 {
		if !c.partial {
			c.Fail("\"partial_rotary_factor\" is %v, which is not supported", partial)
		}
		dim = int(float64(dim) * partial)
	}
	if c.gguf() {
		dim = c.IntOr("rope_dim", dim)
	}
	if dim < 2 || dim%2 != 0 || dim > 1<<16 || !(theta > 0) {
		c.Fail("rope: %d dimensions with base %v", dim, theta)
		return model.Rope{}
	}
	if alpha := p.FloatOr("alpha", 0); alpha != 0 && p.textOr("rope_type", p.textOr("type", "")) == "dynamic" {
		theta *= math.Pow(p.positive("alpha", 0), float64(dim)/float64(dim-2)) // Hunyuan's
	}
	r := model.Rope{Freqs: make([]float32, dim/2), Scale: 1}
	for i := range r.Freqs {
		r.Freqs[i] = frequency(theta, i, len(r.Freqs))
	}
	c.scaleRope(&r, p, theta)
	for i, f := range r.Freqs {
		if !(f >= 0 && f <= math.MaxFloat32) {
			c.Fail("rope: frequency %d is %v", i, f)
		}
	}
	if !(r.Scale > 0 && r.Scale <= math.MaxFloat32) {
		c.Fail("rope: sines and cosines are scaled by %v; want a number above 0", r.Scale)
	}
	return r
}

// frequency returns frequency i of n before it is scaled, rounded where the models' own code rounds: far positions
// multiply every difference.
func frequency(theta float64, i, n int) float32 {
	return 1 / float32(math.Pow(theta, float64(float32(2*i)/float32(2*n))))
}

func (c *Config) ropeParameters() *Config {
	p, ok := c.Sub("rope_scaling")
	if !ok || len(p.values) == 0 {
		p, _ = c.Sub("rope_parameters")
	}
	return p
}

// ropeOf returns the rope parameters of a type of layer, and the base.
func (c *Config) ropeOf(layerType string) (p *Config, theta float64) {
	p = c.ropeParameters()
	inner, nested := p.Sub(layerType)
	if nested {
		p = inner
	}
	if local := c.FloatOr("rope_local_base_freq", 0); layerType == "sliding_attention" && local != 0 && !nested {
		return &Config{read: map[string]bool{}, err: c.err}, local // not scaled
	}
	return p, p.FloatOr("rope_theta", c.FloatOr("rope_theta", 10000))
}

// ropeType returns the kind of scaling that p asks for. A GGUF that gives a factor but no type means linear.
func (c *Config) ropeType(p *Config) string {
	kind := "default"
	if c.gguf() {
		kind = "linear"
	}
	return p.textOr("rope_type", p.textOr("type", kind))
}

// scaleRope applies the scaling that p asks for. A GGUF's attn_factor counts whatever the type.
func (c *Config) scaleRope(r *model.Rope, p *Config, theta float64) {
	kind := c.ropeType(p)
	switch kind {
	case "default", "none":
	case "dynamic": // the base grows beyond the trained length only
		r.Limit = int(c.trained(p))
	case "linear":
		if c.gguf() && p.FloatOr("factor", c.FloatOr("rope_scale_linear", 0)) == 0 {
			break
		}
		factor := p.positive("factor", c.FloatOr("rope_scale_linear", 0))
		for i := range r.Freqs {
			r.Freqs[i] /= float32(factor)
		}
	case "llama3":
		c.llama3(r, p)
	case "yarn":
		c.yarn(r, p, theta)
	case "longrope", "su":
		c.longrope(r, p)
	default:
		c.Fail("rope type %q is not supported; known are default, linear, dynamic, llama3, yarn, longrope", kind)
	}
	p.Refuse("extrapolation_factor", 1.0, -1.0)
	p.Refuse("yarn_log_multiplier", 0.0)
	if kind != "dynamic" {
		p.Refuse("alpha")
	}
	if c.gguf() {
		r.Scale *= float32(p.positive("attn_factor", 1))
	} else {
		p.Refuse("attn_factor", 1.0)
	}
}

// trained returns the length in tokens that the model was trained with before its context was stretched.
func (c *Config) trained(p *Config) float64 {
	const key = "original_max_position_embeddings"
	if c.Has(key) {
		return c.positive(key, 0)
	}
	return p.positive(key, c.FloatOr("max_position_embeddings", 0))
}

// llama3 stretches low frequencies by a factor and leaves high ones, with a smooth passage between (the Llama 3.1
// release's rope scaling).
func (c *Config) llama3(r *model.Rope, p *Config) {
	factor, original := p.positive("factor", 0), c.trained(p)
	low, high := p.positive("low_freq_factor", 0), p.positive("high_freq_factor", 0)
	if low >= high {
		c.Fail("rope: low_freq_factor %v is not below high_freq_factor %v", low, high)
	}
	for i, f := range r.Freqs {
		wave := float32(2*math.Pi) / f
		switch {
		case float64(wave) < original/high:
		case float64(wave) > original/low:
			r.Freqs[i] = f / float32(factor)
		default:
			smooth := (float32(original)/wave - float32(low)) / float32(high-low)
			r.Freqs[i] = float32(float32((1-smooth)*f)/float32(factor)) + float32(smooth*f)
		}
	}
}

// yarn interpolates low frequencies, keeps high ones, with a linear ramp between, and scales attention (YaRN,
// arXiv:2309.00071, section 3.2 and 3.4).
func (c *Config) yarn(r *model.Rope, p *Config, theta float64) {
	original := c.trained(p)
	factor := p.positive("factor", c.FloatOr("max_position_embeddings", 0)/original)
	dim := float64(2 * len(r.Freqs))
	turns := func(beta float64) float64 {
		return dim * math.Log(original/(beta*2*math.Pi)) / (2 * math.Log(theta))
	}
	low, high := turns(p.positive("beta_fast", 32)), turns(p.positive("beta_slow", 1))
	if p.BoolOr("truncate", c.BoolOr("rope_truncate", true)) {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, dim-1)
	if low == high {
		high += 0.001
	}
	for i, f := range r.Freqs {
		ramp := min(max((float32(i)-float32(low))/float32(high-low), 0), 1)
		r.Freqs[i] = float32(f/float32(factor)*ramp) + float32(f*(1-ramp))
	}
	scale := magnitude(factor, 1)
	if m, all := p.FloatOr("mscale", 0), p.FloatOr("mscale_all_dim", 0); m != 0 && all != 0 {
		scale = magnitude(factor, m) / magnitude(factor, all)
	}
	r.Scale = float32(p.positive("attention_factor", scale))
}

// longrope divides the frequencies by factors of their own, others in short than in long sequences, and scales
// attention (LongRoPE, arXiv:2402.13753).
func (c *Config) longrope(r *model.Rope, p *Config) {
	original := c.trained(p)
	if factor := p.positive("factor", c.FloatOr("max_position_embeddings", 0)/original); factor > 1 {
		r.Scale = float32(math.Sqrt(1 + math.Log(factor)/math.Log(original)))
	}
	r.Scale = float32(p.positive("attention_factor", float64(r.Scale)))
	r.Long = c.divided(r.Freqs, p, "long_factor")
	r.Freqs = c.divided(r.Freqs, p, "short_factor")
}

// divided returns frequencies divided by a list of factors.
func (c *Config) divided(freqs []float32, p *Config, key string) []float32 {
	list, _ := p.Get(key).([]any)
	if len(list) != len(freqs) {
		c.Fail("%q is a list of %d numbers; the rope has %d frequencies", p.key(key), len(list), len(freqs))
		return freqs
	}
	out := make([]float32, len(freqs))
	for i, f := range freqs {
		factor, _ := number(list[i])
		if !(factor > 0) {
			c.Fail("%q: factor %d is %s; want a number above 0", p.key(key), i, show(list[i]))
		}
		out[i] = 1 / (float32(factor) * (1 / f))
	}
	return out
}

// magnitude is by how much yarn scales attention for a context of factor times the trained one.
func magnitude(factor, m float64) float64 { return 0.1*m*math.Log(max(factor, 1)) + 1 }
