package family

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/weights"
)

// ggufFloats are the keys of ggufNames whose values are float32; others are uint32, true or false, or text.
var ggufFloats = []string{
	"epsilon", "scale", "freq_base", "freq_base_swa", "factor", "scale_linear", "softcapping", "beta_fast", "beta_slow", "clamp_kqv",
	"log_multiplier", "alpha", "max_alibi_bias",
}

// metadata returns the metadata of a GGUF for a model that a config.json describes.
func (f *family) metadata(c *Config, s *draft) []weights.KV {
	arch := f.reader().archs[0]
	values := map[string]any{}
	for theirs, ours := range ggufNames {
		if v := c.values[ours]; v != nil && c.read[ours] {
			values[theirs] = v
		}
	}
	if s.Norm.Center {
		delete(values, "attention.layer_norm_rms_epsilon")
	} else {
		delete(values, "attention.layer_norm_epsilon")
	}
	for theirs, ours := range f.keys { // such as logit_scale, which Granite reads as its inverse
		if _, ok := ggufNames[theirs]; ok && c.values[ours] != nil {
			values[theirs] = c.values[ours]
		}
	}
	if e := s.lastLayer().FFN.Experts; e.Count > 0 {
		delete(values, "expert_gating_func")
		if e.Router.Sigmoid {
			values["expert_gating_func"] = 2.0
		}
	}
	a := s.Attention()
	values["attention.head_count_kv"] = float64(a.KVHeads)
	values["attention.key_length"], values["attention.value_length"] = float64(a.HeadDim), float64(a.ValueDim)
	if s.Encoder {
		values["attention.causal"], values["context_length"] = false, float64(s.Context)
	}
	if c.read["sliding_window_pattern"] && c.Has("layer_types") {
		full := slices.Index(s.windowKinds(), "full_attention")
		values["attention.sliding_window_pattern"] = float64(full + 1)
	}
	if s.Recurrent() {
		d := s.Layers[slices.Index(s.recurrentLayers(), true)].Mixer.(model.Delta)
		values["ssm.inner_size"] = float64(d.ValueHeads * d.ValueDim)
		if c.Has("layer_types") {
			delete(values, "full_attention_interval")
			values["attention.recurrent_layers"] = s.recurrentLayers()
		}
	}
	if len(s.Ropes) > 0 {
		c.ropeMetadata(values, s)
	}
	meta := []weights.KV{{Key: "general.architecture", Value: arch}, {Key: arch + ".vocab_size", Value: uint32(s.Vocab)}}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		v := values[key]
		if n, ok := number(v); ok {
			v = uint32(n)
			if slices.ContainsFunc(ggufFloats, func(end string) bool { return strings.HasSuffix(key, end) }) {
				v = float32(n)
			}
		}
		if v != nil {
			meta = append(meta, weights.KV{Key: arch + "." + key, Value: v})
		}
	}
	return meta
}

// ropeMetadata adds the keys of ropes. A factor of the base (alpha) is multiplied in.
func (c *Config) ropeMetadata(values map[string]any, s *draft) {
	p, theta := c.ropeOf("full_attention")
	dim := float64(2 * len(s.Ropes[0].Freqs))
	kind := c.ropeType(p)
	if alpha := p.FloatOr("alpha", 0); alpha != 0 && kind == "dynamic" {
		theta *= math.Pow(alpha, dim/(dim-2))
	}
	values["rope.dimension_count"], values["rope.freq_base"] = dim, theta
	if len(s.Ropes) > 1 {
		_, values["rope.freq_base_swa"] = c.ropeOf("sliding_attention")
	}
	switch kind {
	case "linear":
		values["rope.scaling.type"], values["rope.scaling.factor"] = kind, p.Float("factor")
	case "longrope", "su":
		values["rope.scaling.original_context_length"], values["rope.scaling.attn_factor"] = float64(s.LongFrom), float64(s.Ropes[0].Scale)
	case "yarn":
		original := c.trained(p)
		values["rope.scaling.type"], values["rope.scaling.original_context_length"] = kind, original
		values["rope.scaling.factor"] = p.FloatOr("factor", c.FloatOr("max_position_embeddings", 0)/original)
		if _, latent := s.Layers[0].Mixer.(model.Latent); latent && p.Has("mscale_all_dim") {
			values["rope.scaling.yarn_log_multiplier"] = 0.1 * p.Float("mscale_all_dim")
		}
		for theirs, ours := range map[string]string{"yarn_attn_factor": "attention_factor", "yarn_beta_fast": "beta_fast", "yarn_beta_slow": "beta_slow"} {
			if p.Has(ours) {
				values["rope.scaling."+theirs] = p.Float(ours)
			}
		}
	}
}

// ropeTensors returns what a GGUF divides the frequencies of a rope by.
func (c *Config) ropeTensors(s *draft) []RopeFactors {
	if len(s.Ropes) == 0 {
		return nil
	}
	p, theta := c.ropeOf("full_attention")
	factors := func(name string, freqs []float32) RopeFactors {
		out := make([]float32, len(freqs))
		for i, f := range freqs {
			out[i] = frequency(theta, i, len(freqs)) / f
		}
		return RopeFactors{name, out}
	}
	switch r := &s.Ropes[0]; {
	case r.Long != nil:
		return []RopeFactors{factors(ropeShort, r.Freqs), factors(ropeLong, r.Long)}
	case c.ropeType(p) == "llama3":
		return []RopeFactors{factors(ropeFactors, r.Freqs)}
	}
	return nil
}
