package model

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/weights"
)

// ggufFloats are the keys of ggufNames whose values are float32; others are uint32, true or false, or text.
var ggufFloats = []string{
	"epsilon", "scale", "freq_base", "freq_base_swa", "factor", "scale_linear", "softcapping", "beta_fast", "beta_slow", "clamp_kqv",
	"log_multiplier", "alpha", "max_alibi_bias",
}

// metadata returns what a GGUF says of a model that a config.json describes.
func (f *family) metadata(c *Config, s *Spec) []weights.KV {
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
	a := s.attending().Attn
	values["attention.head_count_kv"] = float64(a.KVHeads)
	values["attention.key_length"], values["attention.value_length"] = float64(a.HeadDim), float64(a.ValueDim)
	if s.Encoder {
		values["attention.causal"], values["context_length"] = false, float64(s.Context)
	}
	if c.read["sliding_window_pattern"] && c.Has("layer_types") {
		full := slices.IndexFunc(s.Layers, func(l Layer) bool { return l.Attn.Window == 0 })
		values["attention.sliding_window_pattern"] = float64(full + 1)
	}
	if s.Recurrent() {
		i := slices.Index(s.recurrentLayers(), true)
		d := s.Layers[i].Attn.Delta
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

// ropeMetadata adds what a GGUF says of ropes. What a base is multiplied with (alpha) is in the base.
func (c *Config) ropeMetadata(values map[string]any, s *Spec) {
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
		if s.Layers[0].Attn.Latent.Rank > 0 && p.Has("mscale_all_dim") {
			values["rope.scaling.yarn_log_multiplier"] = 0.1 * p.Float("mscale_all_dim")
		}
		for theirs, ours := range map[string]string{"yarn_attn_factor": "attention_factor", "yarn_beta_fast": "beta_fast", "yarn_beta_slow": "beta_slow"} {
			if p.Has(ours) {
				values["rope.scaling."+theirs] = p.Float(ours)
			}
		}
	}
}

// ropeTensors returns what a GGUF divides the frequencies of a rope by, by the name of the tensor that holds it.
func (c *Config) ropeTensors(s *Spec) map[string][]float32 {
	if len(s.Ropes) == 0 {
		return nil
	}
	p, theta := c.ropeOf("full_attention")
	factors := func(freqs []float32) []float32 {
		out := make([]float32, len(freqs))
		for i, f := range freqs {
			out[i] = frequency(theta, i, len(freqs)) / f
		}
		return out
	}
	r := &s.Ropes[0]
	switch {
	case r.Long != nil:
		return map[string][]float32{ropeShort: factors(r.Freqs), ropeLong: factors(r.Long)}
	case c.ropeType(p) == "llama3":
		return map[string][]float32{ropeFactors: factors(r.Freqs)}
	}
	return nil
}

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
func (f *family) config(c *Config, s *Spec, ckpt *weights.Checkpoint) (map[string]any, error) {
	kind := f.types[0]
	a := s.attending().Attn
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
	if e := s.lastLayer().FFN.Experts; e.Count > 0 {
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
	if slices.ContainsFunc(s.Layers, func(l Layer) bool { return l.Attn.Window > 0 }) {
		values["use_sliding_window"] = true
		if c.read["layer_types"] {
			delete(values, "sliding_window_pattern")
			values["layer_types"] = s.windowKinds()
		}
	}
	if l := a.Latent; l.Rank > 0 {
		maps.DeleteFunc(values, func(key string, _ any) bool {
			return slices.Contains([]string{"head_dim", "qk_head_dim", "mla_v_head_dim"}, key)
		})
		values["kv_lora_rank"], values["q_lora_rank"], values["v_head_dim"] = l.Rank, l.QueryRank, a.ValueDim
		if l.QueryRank == 0 {
			values["q_lora_rank"] = nil
		}
		values["qk_rope_head_dim"], values["qk_nope_head_dim"] = l.RopeDim, a.HeadDim-l.RopeDim
		values["num_key_value_heads"] = a.Heads
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

// ropeConfig adds what a config.json says of ropes.
func (c *Config) ropeConfig(values map[string]any, s *Spec, ckpt *weights.Checkpoint) error {
	p, theta := c.ropeOf("full_attention")
	values["rope_theta"] = float32(theta)
	if dim := s.attending().Attn.HeadDim; c.partial {
		values["partial_rotary_factor"] = float64(2*len(s.Ropes[0].Freqs)) / float64(dim)
	}
	if t, ok := ckpt.Tensor(ropeFactors); ok {
		factors, err := decode(t)
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
		if c.arch == gptoss.archs[0] { // of which a config.json without means yarn
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
func longScaling(values map[string]any, s *Spec, ckpt *weights.Checkpoint) error {
	scaling := map[string]any{"rope_type": "longrope", "attention_factor": s.Ropes[0].Scale}
	for key, name := range map[string]string{"short_factor": ropeShort, "long_factor": ropeLong} {
		t, _ := ckpt.Tensor(name)
		factors, err := decode(t)
		if err != nil {
			return err
		}
		scaling[key] = factors
	}
	values["rope_scaling"], values["original_max_position_embeddings"] = scaling, s.LongFrom
	return nil
}

// llama3Scaling finds the rope_scaling of a config.json whose factors a GGUF holds: of the frequencies between the two
// bounds, 1/factor grows in a line. The lower bound is taken for 1, as its scale is that of the original context. Where fewer than
// two are between, several lines give the same factors, and the first that does is taken.
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
			"rope_type": "llama3", "factor": float32(most), "low_freq_factor": 1.0, "high_freq_factor": high,
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

// Differ names the first value by which two Specs mean another computation, and is "" where there is none. Whether pairs
// that a rope turns are neighbours is left out: the weights go with it.
func Differ(a, b *Spec) string {
	x, y := *a, *b
	x.Family, y.Family = "", ""
	for _, s := range []*Spec{&x, &y} {
		if s.Quantization.Method == "mxfp4" { // the type of the tensors says it
			s.Quantization = Quantization{}
		}
	}
	x.PositionsFrom, y.PositionsFrom = 0, 0 // as are the rows of a table that nothing reads
	return differ("", reflect.ValueOf(x), reflect.ValueOf(y))
}

func differ(name string, a, b reflect.Value) string {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			field := a.Type().Field(i).Name
			if d := differ(strings.TrimPrefix(name+"."+field, "."), a.Field(i), b.Field(i)); d != "" && field != "Interleaved" {
				return d
			}
		}
		return ""
	case reflect.Slice:
		if a.Len() != b.Len() {
			return fmt.Sprintf("%s has %d entries and then %d", name, a.Len(), b.Len())
		}
		for i := range a.Len() {
			if d := differ(fmt.Sprintf("%s[%d]", name, i), a.Index(i), b.Index(i)); d != "" {
				return d
			}
		}
		return ""
	case reflect.Pointer:
		if !a.IsNil() && !b.IsNil() {
			return differ(name, a.Elem(), b.Elem())
		}
	case reflect.Float32, reflect.Float64:
		if x, y := a.Float(), b.Float(); math.Abs(x-y) <= 1e-5*math.Abs(x) {
			return ""
		}
	}
	if x, y := a.Interface(), b.Interface(); x != y {
		return fmt.Sprintf("%s is %v and then %v", name, x, y)
	}
	return ""
}

// lastLayer returns the last layer that is a mixture, or the last one: others of a mixture may be dense.
func (s *Spec) lastLayer() *Layer {
	for i := len(s.Layers) - 1; i >= 0; i-- {
		if s.Layers[i].FFN.Experts.Count > 0 {
			return &s.Layers[i]
		}
	}
	return &s.Layers[len(s.Layers)-1]
}

// windowKinds lists the layers as layer_types does.
func (s *Spec) windowKinds() []string {
	kinds := make([]string, len(s.Layers))
	for i, l := range s.Layers {
		if kinds[i] = "full_attention"; l.Attn.Window > 0 {
			kinds[i] = "sliding_attention"
		}
	}
	return kinds
}

// dense lists the layers that are no mixtures.
func (s *Spec) dense() []int {
	var list []int
	for i, l := range s.Layers {
		if l.FFN.Experts.Count == 0 {
			list = append(list, i)
		}
	}
	return list
}

// attending returns the first layer that is not recurrent, or the first one.
func (s *Spec) attending() *Layer {
	return &s.Layers[max(0, slices.Index(s.recurrentLayers(), false))]
}

// recurrentLayers returns which layers are recurrent.
func (s *Spec) recurrentLayers() []bool {
	out := make([]bool, len(s.Layers))
	for i, l := range s.Layers {
		out[i] = l.Attn.Delta.ValueHeads > 0
	}
	return out
}
