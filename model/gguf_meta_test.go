package model

import (
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/weights"
)

// ggufArchs are the architectures in GGUF that have another name than the model type.
var ggufArchs = map[string]string{
	"mistral": "llama", "gemma3_text": "gemma3", "cohere": "command-r", "hunyuan_v1_dense": "hunyuan-dense",
	"mixtral": "llama", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe", "glm4_moe": "glm4moe", "gpt_oss": "gpt-oss",
}

// ggufNumbers and ggufWholes are the keys that some model types have in a GGUF beside the usual ones, and what they are in
// config.json.
var (
	ggufNumbers = map[string]map[string]string{
		"gemma2":      {"attn_logit_softcapping": "attn_logit_softcapping", "final_logit_softcapping": "final_logit_softcapping"},
		"gemma3_text": {"final_logit_softcapping": "final_logit_softcapping"},
		"granite": {"attention.scale": "attention_multiplier", "embedding_scale": "embedding_multiplier",
			"residual_scale": "residual_multiplier", "logit_scale": "logits_scaling"},
		"starcoder2": {"attention.layer_norm_epsilon": "norm_epsilon"},
		"gpt2":       {"attention.layer_norm_epsilon": "layer_norm_epsilon"},
		"cohere":     {"attention.layer_norm_epsilon": "layer_norm_eps", "logit_scale": "logit_scale"},
	}
	ggufWholes = map[string]map[string]string{
		"mixtral":     {"attention.sliding_window": "sliding_window"},
		"qwen3_moe":   {"attention.sliding_window": "sliding_window"},
		"mistral":     {"attention.sliding_window": "sliding_window"},
		"phi3":        {"attention.sliding_window": "sliding_window", "rope.scaling.original_context_length": "original_max_position_embeddings"},
		"gemma2":      {"attention.sliding_window": "sliding_window"},
		"gemma3_text": {"attention.sliding_window": "sliding_window"},
		"gpt2": {"embedding_length": "n_embd", "block_count": "n_layer", "context_length": "n_positions",
			"attention.head_count": "n_head"},
	}
)

// ggufMeta writes a config.json as a GGUF's metadata. It fills in head_dim.
func ggufMeta(config map[string]any) []weights.KV {
	kind := config["model_type"].(string)
	arch := kind
	if theirs, ok := ggufArchs[kind]; ok {
		arch = theirs
	}
	meta := []weights.KV{{Key: "general.architecture", Value: arch}}
	put := func(key string, v any) { meta = append(meta, weights.KV{Key: arch + "." + key, Value: v}) }
	number := func(key string, from map[string]any, name string) {
		if v, ok := from[name].(float64); ok {
			put(key, float32(v))
		}
	}
	whole := func(key, name string) {
		if v, ok := config[name].(float64); ok {
			put(key, uint32(v))
		}
	}
	if arch == "qwen3" && config["head_dim"] == nil {
		config["head_dim"] = 128.0
	}
	whole("attention.key_length", "head_dim")
	whole("attention.value_length", "head_dim")
	if config["head_dim"] == nil && kind != "gpt2" {
		config["head_dim"] = config["hidden_size"].(float64) / config["num_attention_heads"].(float64)
	}
	if arch == "llama" {
		whole("vocab_size", "vocab_size")
	}
	if slices.Contains([]string{"llama", "granite", "smollm3", "phi3"}, arch) {
		put("rope.dimension_count", turned(config))
	}
	if kind == "glm4_moe" { // which counts the layer that predicts further tokens
		config["num_hidden_layers"] = config["num_hidden_layers"].(float64) + 1
	}
	whole("block_count", "num_hidden_layers")
	whole("context_length", "max_position_embeddings")
	whole("embedding_length", "hidden_size")
	whole("feed_forward_length", "intermediate_size")
	whole("attention.head_count", "num_attention_heads")
	whole("attention.head_count_kv", "num_key_value_heads")
	number("attention.layer_norm_rms_epsilon", config, "rms_norm_eps")
	for theirs, ours := range ggufNumbers[kind] {
		number(theirs, config, ours)
	}
	for theirs, ours := range ggufWholes[kind] {
		whole(theirs, ours)
	}
	switch kind {
	case "cohere":
		put("rope.scaling.type", "none")
	case "gemma3_text":
		if kinds, ok := config["layer_types"].([]any); ok {
			put("attention.sliding_window_pattern", uint32(slices.Index(kinds, any("full_attention"))+1))
		}
		whole("attention.sliding_window_pattern", "sliding_window_pattern")
		number("rope.freq_base_swa", config, "rope_local_base_freq")
	case "glm4":
		put("rope.dimension_count", turned(config))
	case "gpt2":
		if config["n_inner"] == nil {
			config["n_inner"] = 4 * config["n_embd"].(float64)
		}
		whole("feed_forward_length", "n_inner")
	}
	putExpertMeta(kind, config, put)
	p := ropeParameters(config)
	if alpha, ok := p["alpha"].(float64); ok {
		dim := config["head_dim"].(float64)
		p["rope_theta"], p["rope_type"] = p["rope_theta"].(float64)*math.Pow(alpha, dim/(dim-2)), "none"
		put("rope.scaling.type", "none")
		put("rope.scaling.factor", float32(1))
	}
	number("rope.freq_base", p, "rope_theta")
	if kind := p["rope_type"]; kind == "linear" || kind == "yarn" {
		put("rope.scaling.type", kind)
		number("rope.scaling.factor", p, "factor")
	}
	if p["rope_type"] == "yarn" {
		put("rope.scaling.original_context_length", uint32(p["original_max_position_embeddings"].(float64)))
		number("rope.scaling.yarn_attn_factor", p, "attention_factor")
		number("rope.scaling.yarn_beta_fast", p, "beta_fast")
		number("rope.scaling.yarn_beta_slow", p, "beta_slow")
	}
	return meta
}

// ropeParameters returns the rope of a config.json of either style in the new one.
func ropeParameters(config map[string]any) map[string]any {
	if p, ok := config["rope_parameters"].(map[string]any); ok {
		if full, nested := p["full_attention"].(map[string]any); nested {
			return full
		}
		return p
	}
	p := map[string]any{"rope_theta": config["rope_theta"]}
	scaling, _ := config["rope_scaling"].(map[string]any)
	for k, v := range scaling {
		if k == "type" {
			k = "rope_type"
		}
		p[k] = v
	}
	return p
}

// turned returns how many values of a head the rope turns.
func turned(config map[string]any) uint32 {
	dim := config["head_dim"].(float64)
	part, ok := config["partial_rotary_factor"].(float64)
	if !ok {
		part, ok = ropeParameters(config)["partial_rotary_factor"].(float64)
	}
	if ok {
		dim *= part
	}
	return uint32(dim)
}
