package model

import "math"

// rope reads the rotary embedding of a head of dim values, in the newest style (rope_parameters, which may hold an object
// for each kind of layer) or the older one (rope_theta and rope_scaling).
func (c *Config) rope(layerType string, dim int) Rope {
	p, ok := c.sub("rope_parameters")
	if inner, nested := p.sub(layerType); nested {
		p = inner
	}
	if !ok {
		p, _ = c.sub("rope_scaling")
	}
	get := func(key string, or float64) float64 { return p.FloatOr(key, c.FloatOr(key, or)) }
	theta := get("rope_theta", 10000)
	if partial := get("partial_rotary_factor", 1); partial != 1 {
		dim = int(float64(dim) * partial)
	}
	if c.gguf {
		dim = c.IntOr("rope_dim", dim)
	}
	if dim < 2 || dim%2 != 0 || dim > 1<<16 || !(theta > 0) {
		c.fail("rope: %d dimensions with base %v", dim, theta)
		return Rope{}
	}
	r := Rope{Freqs: make([]float32, dim/2), Scale: 1}
	for i := range r.Freqs {
		r.Freqs[i] = float32(1 / math.Pow(theta, float64(2*i)/float64(dim)))
	}
	switch kind := p.TextOr("rope_type", p.TextOr("type", "default")); kind {
	case "default", "none":
	case "linear":
		for i := range r.Freqs {
			r.Freqs[i] /= float32(c.positive(p, "factor"))
		}
	case "llama3":
		c.llama3(&r, p)
	case "yarn":
		c.yarn(&r, p, theta)
	default:
		c.fail("rope type %q is not supported; known are default, linear, llama3, yarn", kind)
	}
	if c.err == nil {
		c.err = p.err
	}
	return r
}

// positive returns a required number above 0.
func (c *Config) positive(p *Config, key string) float64 {
	v := p.FloatOr(key, 0)
	if !(v > 0) {
		c.fail("rope: %q is %v; want a number above 0", key, v)
		return 1
	}
	return v
}

// llama3 stretches low frequencies by a factor and leaves high ones, with a smooth passage between (the Llama 3.1
// release's rope scaling).
func (c *Config) llama3(r *Rope, p *Config) {
	factor, original := c.positive(p, "factor"), c.positive(p, "original_max_position_embeddings")
	low, high := c.positive(p, "low_freq_factor"), c.positive(p, "high_freq_factor")
	for i, f := range r.Freqs {
		wave := 2 * math.Pi / float64(f)
		switch {
		case wave < original/high:
		case wave > original/low:
			r.Freqs[i] = float32(float64(f) / factor)
		default:
			smooth := (original/wave - low) / (high - low)
			r.Freqs[i] = float32((1-smooth)*float64(f)/factor + smooth*float64(f))
		}
	}
}

// yarn interpolates low frequencies, keeps high ones, with a linear ramp between, and scales attention (YaRN,
// arXiv:2309.00071, section 3.2 and 3.4).
func (c *Config) yarn(r *Rope, p *Config, theta float64) {
	factor := c.positive(p, "factor")
	original := p.FloatOr("original_max_position_embeddings", c.FloatOr("max_position_embeddings", 0))
	if !(original > 0) {
		c.fail("rope: yarn needs \"original_max_position_embeddings\"")
		return
	}
	dim := float64(2 * len(r.Freqs))
	turns := func(beta float64) float64 {
		return dim * math.Log(original/(beta*2*math.Pi)) / (2 * math.Log(theta))
	}
	low, high := turns(p.FloatOr("beta_fast", 32)), turns(p.FloatOr("beta_slow", 1))
	if p.BoolOr("truncate", true) {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, dim-1)
	if low == high {
		high += 0.001
	}
	for i, f := range r.Freqs {
		ramp := min(max((float64(i)-low)/(high-low), 0), 1)
		r.Freqs[i] = float32(float64(f)/factor*ramp + float64(f)*(1-ramp))
	}
	magnitude := func(m float64) float64 { return 0.1*m*math.Log(max(factor, 1)) + 1 }
	scale := magnitude(1)
	if m, all := p.FloatOr("mscale", 0), p.FloatOr("mscale_all_dim", 0); m != 0 && all != 0 {
		scale = magnitude(m) / magnitude(all)
	}
	r.Scale = float32(p.FloatOr("attention_factor", scale*p.FloatOr("attn_factor", 1)))
}
