package family

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/weights"
)

// classes are the names of the classes that run each model type, which some readers of config.json want.
var classes = map[string]string{
	"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
	"phi3": "Phi3ForCausalLM", "gemma2": "Gemma2ForCausalLM", "gemma3_text": "Gemma3ForCausalLM", "olmo2": "Olmo2ForCausalLM",
	"granite": "GraniteForCausalLM", "smollm3": "SmolLM3ForCausalLM", "glm4": "Glm4ForCausalLM", "starcoder2": "Starcoder2ForCausalLM",
	"gpt2": "GPT2LMHeadModel", "cohere": "CohereForCausalLM", "ernie4_5": "Ernie4_5ForCausalLM", "hunyuan_v1_dense": "HunYuanDenseV1ForCausalLM",
	"gpt_oss":   "GptOssForCausalLM",
	"glm4_moe":  "Glm4MoeForCausalLM",
	"olmoe":     "OlmoeForCausalLM",
	"qwen3_moe": "Qwen3MoeForCausalLM",
	"qwen2_moe": "Qwen2MoeForCausalLM",
	"mixtral":   "MixtralForCausalLM",
	"bert":      "BertModel",
}

// config returns the config.json of a model that a GGUF describes.
func (f *family) config(c *Config, s *draft, ckpt *weights.Checkpoint) (map[string]any, error) {
	kind := f.types[0]
	a := s.Attention()
	values := map[string]any{}
	for key, v := range c.values {
		if c.read[key] && !slices.Contains([]string{"rope_dim", "rope_scaling", "rope_scale_linear", "rope_finetuned"}, key) {
			values[key] = v
		}
	}
	for key, v := range map[string]any{
		"attention_bias": a.QKVBias || a.OBias, "mlp_bias": s.Layers[0].FFN.Bias, "use_qk_norm": a.QKNorm, "use_bias": a.OBias,
		"tie_word_embeddings": s.TiedHead, "num_key_value_heads": a.KVHeads, "head_dim": a.HeadDim, "vocab_size": s.Vocab,
		"sliding_window": c.values["sliding_window"], "query_pre_attn_scalar": math.Round(1e3/float64(a.Scale*a.Scale)) / 1e3,
	} {
		if c.read[key] {
			values[key] = v
		}
	}
	if c.read["hidden_act"] && values["hidden_act"] == nil {
		values["hidden_act"] = "silu"
	}
	if a.ValueDim == a.HeadDim {
		delete(values, "v_head_dim")
	}
	c.mixtureConfig(values, s)
	c.mixerConfig(values, s)
	named := map[string]any{}
	for theirs, ours := range f.keys {
		if v, ok := values[ours]; ok && ggufNames[theirs] == "" {
			named[theirs] = v
		}
	}
	for theirs := range named {
		delete(values, f.keys[theirs])
	}
	maps.Copy(values, named)
	if len(s.Ropes) > 0 {
		if err := c.ropeConfig(values, s, ckpt); err != nil {
			return nil, err
		}
	}
	values["model_type"] = kind
	if class := classes[kind]; s.Classes > 0 {
		values["architectures"] = []string{strings.TrimSuffix(class, "Model") + "ForSequenceClassification"}
	} else if class != "" {
		values["architectures"] = []string{class}
	}
	return values, nil
}

// mixerConfig adds what a config.json says of windows, latent attention and recurrent layers.
func (c *Config) mixerConfig(values map[string]any, s *draft) {
	if s.slides() {
		values["use_sliding_window"] = true
		if c.read["layer_types"] {
			delete(values, "sliding_window_pattern")
			values["layer_types"] = s.windowKinds()
		}
	}
	if l, ok := s.Layers[0].Mixer.(model.Latent); ok {
		latentConfig(values, l)
	}
	if s.Recurrent() {
		delete(values, "ssm_inner_size")
		delete(values, "recurrent_layers")
		var kinds []string
		for _, recurrent := range s.recurrentLayers() {
			kinds = append(kinds, layerKinds[recurrent])
		}
		values["layer_types"] = kinds
	}
}

// mixtureConfig adds what a config.json says of experts.
func (c *Config) mixtureConfig(values map[string]any, s *draft) {
	e := s.lastLayer().FFN.Experts
	if e.Count == 0 {
		return
	}
	delete(values, "scoring_func")
	if e.Router.Sigmoid {
		values["scoring_func"] = "sigmoid"
	}
	if c.read["norm_topk_prob"] {
		values["norm_topk_prob"] = e.Router.Normalise
	}
	if e.SharedGate {
		values["shared_expert_intermediate_size"] = e.Shared
	}
	if e.Router.Groups > 0 && !e.Router.Sigmoid {
		values["topk_method"] = "group_limited_greedy"
	}
	if dense := s.dense(); c.IntOr("first_k_dense_replace", 0) != len(dense) {
		values["mlp_only_layers"] = dense
	}
}

// latentConfig adds what a config.json says of latent attention.
func latentConfig(values map[string]any, l model.Latent) {
	maps.DeleteFunc(values, func(key string, _ any) bool {
		return slices.Contains([]string{"head_dim", "qk_head_dim", "mla_v_head_dim"}, key)
	})
	values["kv_lora_rank"], values["q_lora_rank"], values["v_head_dim"] = l.Rank, l.QueryRank, l.ValueDim
	if l.QueryRank == 0 {
		values["q_lora_rank"] = nil
	}
	values["qk_rope_head_dim"], values["qk_nope_head_dim"] = l.RopeDim, l.HeadDim-l.RopeDim
	values["num_key_value_heads"] = l.Heads
}

// ropeConfig adds what a config.json says of ropes.
func (c *Config) ropeConfig(values map[string]any, s *draft, ckpt *weights.Checkpoint) error {
	p, theta := c.ropeOf("full_attention")
	values["rope_theta"] = float32(theta)
	if dim := s.Attention().HeadDim; c.partial {
		values["partial_rotary_factor"] = float64(2*len(s.Ropes[0].Freqs)) / float64(dim)
	}
	if t, ok := ckpt.Tensor(ropeFactors); ok {
		factors, err := t.Floats()
		if err == nil {
			values["rope_scaling"], err = llama3Scaling(factors, theta)
		}
		return err
	}
	if s.LongFrom > 0 {
		return longScaling(values, s, ckpt)
	}
	kind, factor := c.ropeType(p), p.FloatOr("factor", c.FloatOr("rope_scale_linear", 0))
	if kind != "yarn" && (kind != "linear" || factor == 0) {
		if c.arch == gptoss.archs[0] { // where a config.json without one means yarn
			values["rope_scaling"] = map[string]any{"rope_type": "default"}
		}
		return nil
	}
	scaling := map[string]any{}
	for key, v := range p.values {
		scaling[key] = v
	}
	scaling["rope_type"], scaling["factor"] = kind, float32(factor)
	values["rope_scaling"] = scaling
	return nil
}

// longScaling adds the rope_scaling of a config.json whose factors a GGUF holds.
func longScaling(values map[string]any, s *draft, ckpt *weights.Checkpoint) error {
	scaling := map[string]any{"rope_type": "longrope", "attention_factor": s.Ropes[0].Scale}
	for _, of := range []struct{ key, name string }{{"short_factor", ropeShort}, {"long_factor", ropeLong}} {
		t, _ := ckpt.Tensor(of.name)
		factors, err := t.Floats()
		if err != nil {
			return err
		}
		scaling[of.key] = factors
	}
	values["rope_scaling"], values["original_max_position_embeddings"] = scaling, s.LongFrom
	return nil
}

// llama3Scaling finds the rope_scaling of a config.json whose factors a GGUF holds: of the frequencies between the
// two bounds, 1/factor grows in a line. The lower bound is taken for 1, as its scale is that of the original context.
// Where fewer than two are between, several lines give the same factors, and the first that does is taken.
func llama3Scaling(factors []float32, theta float64) (map[string]any, error) {
	n := len(factors)
	most := float64(slices.Max(factors))
	smooth := func(i int) float64 { return (1/float64(factors[i]) - 1/most) / (1 - 1/most) }
	turns := func(i int) float64 { return float64(frequency(theta, i, n)) / (2 * math.Pi) }
	var between []int
	for i := range factors {
		if s := smooth(i); s > 1e-6 && s < 1-1e-6 {
			between = append(between, i)
		}
	}
	var fault error
	try := func(original, high float64) map[string]any {
		original, high = math.Round(original), math.Round(high*1000)/1000
		for i, f := range factors {
			s := min(max((original*turns(i)-1)/(high-1), 0), 1)
			if want := 1 / ((1-s)/most + s); !(math.Abs(want-float64(f)) < 1e-3*want) {
				fault = fmt.Errorf("model: tensor %q: factor %d is %v; that is no rope_scaling of type llama3", ropeFactors, i, f)
				return nil
			}
		}
		return map[string]any{
			"rope_type": "llama3", "factor": float32(most), "low_freq_factor": 1, "high_freq_factor": high,
			"original_max_position_embeddings": int(original),
		}
	}
	if len(between) > 1 {
		i, j := between[0], between[len(between)-1]
		slope := (smooth(i) - smooth(j)) / (turns(i) - turns(j))
		high := 1 + 1/(slope*turns(i)-smooth(i)) // low / (high - low)
		found := try(slope*(high-1), high)
		return found, fault
	}
	stretched := slices.IndexFunc(factors, func(f float32) bool { return f > 1 })
	for _, high := range []float64{4, 2, 8, 1.5, 1.1} { // 4 of all models in the field
		originals := []float64{8192, math.Ceil(high / turns(max(stretched, 1)-1)), math.Floor(1 / turns(max(stretched, 0)))}
		if len(between) == 1 {
			originals = []float64{((high-1)*smooth(between[0]) + 1) / turns(between[0])}
		}
		for _, original := range originals {
			if found := try(original, high); found != nil {
				return found, nil
			}
		}
	}
	return nil, fault
}
