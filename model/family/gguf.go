package family

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/weights"
)

// ggufNames maps the keys that follow "<architecture>." in a GGUF to the names of config.json. Those of the second
// group change what the model computes and are refused by families that do not know them.
var ggufNames = map[string]string{
	"embedding_length":                     "hidden_size",
	"block_count":                          "num_hidden_layers",
	"attention.head_count":                 "num_attention_heads",
	"attention.head_count_kv":              "num_key_value_heads",
	"attention.key_length":                 "head_dim",
	"attention.value_length":               "v_head_dim",
	"feed_forward_length":                  "intermediate_size",
	"context_length":                       "max_position_embeddings",
	"attention.layer_norm_rms_epsilon":     "rms_norm_eps",
	"attention.layer_norm_epsilon":         "rms_norm_eps",
	"attention.sliding_window":             "sliding_window",
	"rope.freq_base":                       "rope_theta",
	"rope.dimension_count":                 "rope_dim",
	"rope.scale_linear":                    "rope_scale_linear",
	"rope.scaling.type":                    "rope_scaling.rope_type",
	"rope.scaling.factor":                  "rope_scaling.factor",
	"rope.scaling.original_context_length": "rope_scaling.original_max_position_embeddings",
	"rope.scaling.attn_factor":             "rope_scaling.attn_factor",
	"rope.scaling.yarn_attn_factor":        "rope_scaling.attention_factor",
	"rope.scaling.yarn_beta_fast":          "rope_scaling.beta_fast",
	"rope.scaling.yarn_beta_slow":          "rope_scaling.beta_slow",

	"rope.scaling.yarn_ext_factor":     "rope_scaling.extrapolation_factor",
	"rope.scaling.yarn_log_multiplier": "rope_scaling.yarn_log_multiplier",
	"rope.scaling.alpha":               "rope_scaling.alpha",
	"rope.freq_base_swa":               "rope_local_base_freq",
	"attention.causal":                 "causal",
	"attention.sliding_window_pattern": "sliding_window_pattern",
	"attention.scale":                  "attention_multiplier",
	"attention.clamp_kqv":              "clip_qkv",
	"attention.max_alibi_bias":         "alibi_bias_max",
	"attention.temperature_scale":      "attention_temperature_scale",
	"attn_logit_softcapping":           "attn_logit_softcapping",
	"final_logit_softcapping":          "final_logit_softcapping",
	"embedding_scale":                  "embedding_multiplier",
	"residual_scale":                   "residual_multiplier",
	"logit_scale":                      "logit_scale",
	"rope.scaling.finetuned":           "rope_finetuned",

	"expert_count":                      "num_experts",
	"expert_used_count":                 "num_experts_per_tok",
	"expert_feed_forward_length":        "moe_intermediate_size",
	"expert_shared_count":               "n_shared_experts",
	"expert_shared_feed_forward_length": "shared_expert_intermediate_size",
	"expert_weights_scale":              "routed_scaling_factor",
	"expert_weights_norm":               "norm_topk_prob",
	"expert_gating_func":                "scoring_func",
	"expert_group_count":                "n_group",
	"expert_group_used_count":           "topk_group",
	"leading_dense_block_count":         "first_k_dense_replace",
	"attention.q_lora_rank":             "q_lora_rank",
	"attention.kv_lora_rank":            "kv_lora_rank",
	"attention.key_length_mla":          "qk_head_dim",
	"attention.value_length_mla":        "mla_v_head_dim",
	"full_attention_interval":           "full_attention_interval",
	"attention.recurrent_layers":        "recurrent_layers",
	"ssm.conv_kernel":                   "linear_conv_kernel_dim",
	"ssm.state_size":                    "linear_key_head_dim",
	"ssm.group_count":                   "linear_num_key_heads",
	"ssm.time_step_rank":                "linear_num_value_heads",
	"ssm.inner_size":                    "ssm_inner_size",
	"nextn_predict_layers":              "num_nextn_predict_layers",
	"pooling_type":                      "pooling_type",
}

// errNoArchitecture is what a GGUF without a model in it gives.
var errNoArchitecture = errors.New(`model: GGUF: "general.architecture" is missing: this file holds no model`)

// ggufConfig reads the metadata of a GGUF as a Config, and returns its architecture.
func ggufConfig(meta map[string]any) (*Config, string, error) {
	arch, ok := meta["general.architecture"].(string)
	if !ok || arch == "" {
		return nil, "", errNoArchitecture
	}
	c := &Config{source: "GGUF", arch: arch, values: map[string]any{}, read: map[string]bool{}, err: new(error)}
	scaling := map[string]any{}
	for _, theirs := range slices.Sorted(maps.Keys(ggufNames)) {
		ours := ggufNames[theirs]
		v, ok := meta[arch+"."+theirs]
		if !ok {
			continue
		}
		if had := c.values[ours]; had != nil && !reflect.DeepEqual(had, v) {
			c.Fail("%q is %s, but another key with the same meaning is %s", arch+"."+theirs, show(v), show(had))
		}
		if in, ok := strings.CutPrefix(ours, "rope_scaling."); ok {
			scaling[in] = v
		} else {
			c.set(ours, v)
		}
	}
	if len(scaling) > 0 {
		c.set("rope_scaling", scaling)
	}
	return c, arch, nil
}

// ggufSpec reads the metadata of a GGUF, and what its tensors add to it.
func ggufSpec(ckpt *weights.Checkpoint) (*Config, *draft, error) {
	c, arch, err := ggufConfig(ckpt.Metadata())
	if err != nil {
		return nil, nil, err
	}
	if t, ok := ckpt.Tensor(ggufSlots["embed"] + ".weight"); ok && len(t.Shape) == 2 {
		c.set("vocab_size", t.Shape[0]) // the metadata may lack it or count differently
	}
	for slot, key := range map[string]string{"types": "type_vocab_size", "classes": "num_labels"} {
		if t, ok := ckpt.Tensor(ggufSlots[slot] + ".weight"); ok && len(t.Shape) == 2 {
			c.set(key, t.Shape[0])
		}
	}
	for _, f := range families {
		if slices.Contains(f.archs, arch) {
			s, err := f.read(c)
			if err != nil {
				return nil, nil, err
			}
			return c, s, complete(c, s, ckpt)
		}
	}
	_, archs := known()
	return nil, nil, fmt.Errorf("model: GGUF architecture %q is not supported; known are %s; %s", arch, strings.Join(archs, ", "), guide)
}

// complete adds to the Spec of a GGUF what only its tensors show: whether the head is the embedding table, which
// layers are dense, which weights have biases, whether queries and keys are normalised, and by which factors the
// ropes are stretched.
func complete(c *Config, s *draft, ckpt *weights.Checkpoint) error {
	names := LayoutOf(&s.Spec, ckpt).Slots
	_, head := ckpt.Tensor(names["head"] + ".weight")
	s.TiedHead = !head && !s.Encoder
	biased := func(i int, slots ...string) bool {
		return slices.ContainsFunc(slots, func(slot string) bool {
			_, ok := ckpt.Tensor(names.Name(slot, i) + ".bias")
			return ok
		})
	}
	routed := func(i int) bool {
		_, ok := ckpt.Tensor(names.Name("router", i) + ".weight")
		return ok
	}
	mixed := false
	for i := range s.Layers {
		mixed = mixed || routed(i)
	}
	for i := range s.Layers {
		l := &s.Layers[i]
		if up, ok := ckpt.Tensor(names.Name("up", i) + ".weight"); ok && mixed && !routed(i) && len(up.Shape) == 2 {
			l.FFN.Experts, l.FFN.Width = model.Experts{}, up.Shape[0]
		}
		switch a := l.Mixer.(type) {
		case model.GQA:
			a.QKVBias, a.OBias = a.QKVBias || biased(i, "qkv", "q", "k", "v"), biased(i, "o")
			if _, ok := ckpt.Tensor(names.Name("q.norm", i) + ".weight"); ok {
				a.QKNorm = true
			}
			l.Mixer = a
		case model.Latent:
			a.Bias, a.OBias = a.Bias || biased(i, "q.latent", "kv.latent"), biased(i, "o")
			l.Mixer = a
		}
		l.FFN.Bias = biased(i, "gate", "up", "down", "experts.up")
		l.FFN.Experts.RouterBias = biased(i, "router")
	}
	factors, _ := ckpt.Tensor(ropeFactors)
	short, isLong := ckpt.Tensor(ropeShort)
	if long, ok := ckpt.Tensor(ropeLong); ok || isLong {
		s.LongFrom, factors = int(c.trained(c.ropeParameters())), short
		if err := s.stretch(long, func(r *model.Rope, freqs []float32) { r.Long = freqs }); err != nil {
			return err
		}
	}
	if factors.Name == "" {
		return nil
	}
	return s.stretch(factors, func(r *model.Rope, freqs []float32) { r.Freqs = freqs })
}

// stretch divides the frequencies of every rope by the factors that a GGUF stores for them (Llama 3.1 and later).
func (s *draft) stretch(t weights.Tensor, set func(r *model.Rope, freqs []float32)) error {
	factors, err := t.Floats()
	if err != nil {
		return err
	}
	for i := range s.Ropes {
		r := &s.Ropes[i]
		if n := len(r.Freqs); len(factors) != n {
			return fmt.Errorf("model: tensor %q has %d factors; the rope has %d frequencies", t.Name, len(factors), n)
		}
		freqs := make([]float32, len(factors))
		for j, f := range factors {
			if !(f > 0) {
				return fmt.Errorf("model: tensor %q: factor %d is %v; want a number above 0", t.Name, j, f)
			}
			freqs[j] = r.Freqs[j] / f
		}
		set(r, freqs)
	}
	return nil
}
