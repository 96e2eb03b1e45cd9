package family

import (
	"encoding/json"
	"strings"
	"testing"
)

// tinyConfig is the configuration of a Llama with one layer. Each pair of changes sets a key, or removes it if the
// value is remove{}.
func tinyConfig(t testing.TB, changes ...any) []byte {
	t.Helper()
	config := map[string]any{
		"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1,
		"intermediate_size": 12, "vocab_size": 5, "rms_norm_eps": 1e-5, "tie_word_embeddings": true,
	}
	for i := 0; i < len(changes); i += 2 {
		if config[changes[i].(string)] = changes[i+1]; changes[i+1] == (remove{}) {
			delete(config, changes[i].(string))
		}
	}
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

type remove struct{}

func TestConfigRefused(t *testing.T) {
	type m = map[string]any
	for _, test := range []struct {
		name    string
		changes []any
		want    string
	}{
		{"unknown family", []any{"model_type", "mamba"}, `model_type "mamba" is not supported; known are llama, mistral, qwen2, qwen3, phi3`},
		{"no family", []any{"model_type", remove{}}, `"model_type" is missing`},
		{"family is a number", []any{"model_type", 3}, `"model_type" is 3; want a string`},
		{"key missing", []any{"hidden_size", remove{}}, `"hidden_size" is missing`},
		{"key null", []any{"num_hidden_layers", nil}, `"num_hidden_layers" is missing`},
		{"no vocabulary", []any{"vocab_size", 0}, `vocabulary is 0; want 1 to`},
		{"text for a number", []any{"intermediate_size", "12"}, `"intermediate_size" is "12"; want a number`},
		{"fraction", []any{"num_attention_heads", 2.5}, `"num_attention_heads" is 2.5; want a whole number`},
		{"list for a number", []any{"vocab_size", []int{5}}, `"vocab_size" is [5]; want a number`},
		{"text for a truth value", []any{"tie_word_embeddings", "yes"}, `"tie_word_embeddings" is "yes"; want true or false`},
		{"heads do not divide", []any{"num_attention_heads", 3}, "hidden_size 8 is no multiple of num_attention_heads 3, and there is no head_dim"},
		{"KV heads do not divide", []any{"num_attention_heads", 4, "num_key_value_heads", 3}, "4 query heads cannot share 3 KV heads evenly"},
		{"no heads", []any{"num_attention_heads", 0}, "0 query heads"},
		{"negative heads", []any{"num_attention_heads", -2}, "-2 query heads"},
		{"no KV heads", []any{"num_key_value_heads", 0}, "2 query heads cannot share 0 KV heads"},
		{"odd head", []any{"head_dim", 5}, "rope: 5 dimensions"},
		{"negative head", []any{"head_dim", -4}, "rope: -4 dimensions"},
		{"huge head", []any{"head_dim", 1 << 30}, "rope: 1073741824 dimensions"},
		{"huge number", []any{"hidden_size", 1e300}, `"hidden_size" is 1e+300; want a whole number`},
		{"huge width", []any{"intermediate_size", 1 << 39}, "feed-forward width is 549755813888"},
		{"a billion layers", []any{"num_hidden_layers", 1000000000}, `"num_hidden_layers" is 1000000000; want 1 to 16384`},
		{"no layers", []any{"num_hidden_layers", 0}, `"num_hidden_layers" is 0; want 1 to 16384`},
		{"negative epsilon", []any{"rms_norm_eps", -1e-5}, "norm epsilon is -1e-05"},
		{"no context", []any{"max_position_embeddings", 0}, "context is 0"},
		{"activation", []any{"hidden_act", "mish"}, `"hidden_act" is "mish", which is not supported; known are [gelu gelu_new`},
		{"rope base", []any{"rope_theta", 0}, "4 dimensions with base 0"},
		{"rope type", []any{"rope_scaling", m{"type": "spiral", "factor": 2}}, `rope type "spiral" is not supported; known are default, linear, dynamic, llama3, yarn, longrope`},
		{"rope no object", []any{"rope_scaling", "linear"}, `"rope_scaling" is "linear"; want an object`},
		{"rope factor", []any{"rope_scaling", m{"type": "linear"}}, `"rope_scaling.factor" is 0; want a number above 0`},
		{"rope factor text", []any{"rope_scaling", m{"type": "linear", "factor": "2"}}, `"rope_scaling.factor" is "2"; want a number`},
		{"rope negative factor", []any{"rope_parameters", m{"rope_type": "yarn", "factor": -2}}, `"rope_parameters.factor" is -2; want a number above 0`},
		{"rope beta", []any{"rope_scaling", m{"type": "yarn", "factor": 2, "beta_fast": 0}}, `"rope_scaling.beta_fast" is 0; want a number above 0`},
		{"rope contradiction", []any{"rope_scaling", m{"rope_type": "llama3", "factor": 8, "low_freq_factor": 2, "high_freq_factor": 2}},
			"rope: low_freq_factor 2 is not below high_freq_factor 2"},
		{"rope beyond float32", []any{"rope_scaling", m{"type": "linear", "factor": 1e-320}}, "rope: frequency 0 is +Inf"},
		{"sliding llama", []any{"sliding_window", 4096}, `"sliding_window" is 4096, which is not supported`},
		{"negative window", []any{"model_type", "mistral", "sliding_window", -1}, "sliding window of -1 tokens"},
		{"layer types too short", []any{"model_type", "qwen2", "num_hidden_layers", 2, "layer_types", []string{"full_attention"}}, "layer_types has 1 entries for 2 layers"},
		{"unknown layer type", []any{"model_type", "qwen2", "layer_types", []string{"linear_attention"}}, `layer_types: layer 0 is "linear_attention", which is not supported`},
		{"layer types of numbers", []any{"model_type", "qwen3", "head_dim", 4, "layer_types", []int{1}}, `"layer_types" is [1]; want a list of strings`},
		{"layer without window", []any{"model_type", "qwen2", "layer_types", []string{"sliding_attention"}}, "layer 0 is sliding_attention, but there is no sliding_window in use"},
		{"experts", []any{"num_local_experts", 8}, `"num_local_experts" is 8, which is not supported`},
		{"more chosen than there are", []any{"model_type", "mixtral", "num_local_experts", 4, "num_experts_per_tok", 5}, "layer 0: each token goes to 5 of 4 experts"},
		{"uneven groups", []any{"model_type", "glm4_moe", "n_routed_experts", 8, "first_k_dense_replace", 0, "n_group", 3}, "layer 0: 8 experts cannot form 3 equal groups"},
		{"too many groups", []any{"model_type", "glm4_moe", "n_routed_experts", 8, "first_k_dense_replace", 0, "n_group", 2, "topk_group", 3},
			"layer 0: each token goes to 3 of 2 groups of experts"},
		{"too few groups", []any{"model_type", "glm4_moe", "n_routed_experts", 8, "first_k_dense_replace", 0, "n_group", 4, "num_experts_per_tok", 3},
			"layer 0: each token goes to 3 experts, but only to 1 groups of 2"},
		{"scores", []any{"model_type", "glm4_moe", "scoring_func", "softmax"}, `"scoring_func" is "softmax", which is not supported`},
		{"no experts", []any{"model_type", "qwen3_moe", "num_experts", -1}, "layer 0: -1 experts; want 1 to 65536"},
		{"no step", []any{"model_type", "qwen2_moe", "decoder_sparse_step", 0}, "decoder_sparse_step is 0 and moe_layer_freq 1; want at least 1"},
		{"another clamp", []any{"model_type", "gpt_oss", "swiglu_limit", 5}, `"swiglu_limit" is 5, which is not supported`},
		{"multiplier", []any{"logits_scaling", 16}, `"logits_scaling" is 16, which is not supported`},
		{"attention both ways", []any{"model_type", "gemma2", "head_dim", 4, "use_bidirectional_attention", true}, `"use_bidirectional_attention" is true, which`},
		{"scores by layer", []any{"scale_attn_by_inverse_layer_idx", true}, `"scale_attn_by_inverse_layer_idx" is true, which`},
		{"norms of queries", []any{"use_qk_norm", true}, `"use_qk_norm" is true, which is not supported`},
		{"negative clip", []any{"model_type", "olmoe", "num_experts", 8, "clip_qkv", -1}, "queries, keys and values are limited to -1"},
		{"shared layers", []any{"model_type", "hunyuan_v1_dense", "use_cla", true}, `"use_cla" is true, which`},
		{"own name of a key", []any{"model_type", "gpt2", "n_embd", "x"}, `"n_embd" is "x"; want a number`},
		{"no window at all", []any{"model_type", "gemma3_text", "head_dim", 4, "sliding_window_pattern", 0}, `"sliding_window_pattern" is 0; want at least 1`},
		{"part of a head", []any{"rope_parameters", m{"rope_type": "default", "partial_rotary_factor": 0.5}}, `"partial_rotary_factor" is 0.5, which is not supported`},
		{"no interval", []any{"model_type", "smollm3", "no_rope_layer_interval", 0}, "no_rope_layer_interval is 0; want at least 1"},
		{"rope list too long", []any{"model_type", "smollm3", "no_rope_layers", []int{1, 1}}, "no_rope_layers has 2 entries for 1 layers"},
		{"rope list of text", []any{"model_type", "smollm3", "no_rope_layers", []string{"1"}}, `"no_rope_layers" is [1]; want a list of whole numbers`},
		{"yarn of phi3", []any{"model_type", "phi3", "rope_scaling", m{"type": "yarn"}}, "has a factor for each frequency, which is not supported"},
		{"no factors", []any{"model_type", "phi3", "rope_scaling", m{"type": "longrope"}}, `"rope_scaling.long_factor" is a list of 0 numbers`},
		{"negative multiplier", []any{"model_type", "granite", "residual_multiplier", -1}, `"residual_multiplier" is -1; want a number above 0`},
		{"guide", []any{"model_type", "grok"}, "docs/add-a-model.md says how to add one"},
		{"unknown quantisation", []any{"quantization_config", m{"quant_method": "bitsandbytes"}},
			`"quantization_config.quant_method" is "bitsandbytes", which is not supported; known are awq, compressed-tensors, fp8, gptq, mxfp4`},
		{"unnamed quantisation", []any{"quantization_config", m{"bits": 4}}, `quant_method" is missing`},
		{"AWQ without zero points", []any{"quantization_config", m{"quant_method": "awq", "bits": 4, "zero_point": false}}, `zero_point" is false, which`},
		{"AWQ of 3 bits", []any{"quantization_config", m{"quant_method": "awq", "w_bit": 3}}, `"quantization_config.w_bit" is 3, which is not supported; known is 4`},
		{"blocks of one side", []any{"quantization_config", m{"quant_method": "fp8", "weight_block_size": []int{128}}}, "is [128]; want two numbers above 0"},
		{"floats of 4 bits", []any{"quantization_config", m{"quant_method": "compressed-tensors", "config_groups": m{"g": m{"weights": m{"num_bits": 4, "type": "float"}}}}},
			`"quantization_config.config_groups.g.weights.num_bits" is 4 for weights of type float; known are 2 to 8 for int, 8 for float`},
		{"sparse weights", []any{"quantization_config", m{"quant_method": "compressed-tensors", "sparsity_config": m{"format": "sparse-24-bitmask"}}}, `sparsity_config.format" is "sparse-24-bitmask"`},
		{"turned weights", []any{"quantization_config", m{"quant_method": "compressed-tensors", "transform_config": m{"config_groups": 1}}}, "transform_config"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, _, err := jsonSpec(tinyConfig(t, test.changes...)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v\nwant  %q", err, test.want)
			}
		})
	}
}

func TestConfigAccepted(t *testing.T) {
	get := func(changes ...any) *draft {
		_, s, err := jsonSpec(tinyConfig(t, changes...))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, ok := range map[string]bool{
		"mistral has a window by default": get("model_type", "mistral", "num_key_value_heads", 2).Attention().Window == 4096,
		"null is no window":               get("model_type", "mistral", "sliding_window", nil).Attention().Window == 0,
		"no window if it is not in use":   get("model_type", "qwen2", "sliding_window", 9).Attention().Window == 0,
		"heads are not grouped":           get("num_key_value_heads", nil).Attention().KVHeads == 2,
		"qwen3 heads have 128 values":     get("model_type", "qwen3").Attention().HeadDim == 128,
		"epsilon by default":              get("rms_norm_eps", remove{}).Norm.Eps == 1e-6,
		"a multiplier of 1 is none":       get("logits_scaling", 1).LogitScale == 1,
		"other keys are nobody's":         get("quantization_config", nil, "vendor_key", []int{1}).Vocab == 5,
	} {
		if !ok {
			t.Errorf("%s: it is not so", name)
		}
	}
}
