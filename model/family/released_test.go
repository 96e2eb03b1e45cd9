package family

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kvasir-llm/kvasir/model"
)

// released are the configurations of models in the field: what matters of their config.json, in the style they came in,
// and of the metadata of their GGUF files, by key after the architecture's name.
var released = []struct {
	name, config string
	arch         string
	meta         map[string]any
	bytes        int64 // of a token's keys and values
	differ       func(s *draft)
}{
	{
		"Mixtral 8x7B", `{"model_type": "mixtral", "attention_dropout": 0, "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
			"max_position_embeddings": 32768, "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32,
			"num_key_value_heads": 8, "num_local_experts": 8, "output_router_logits": false, "rms_norm_eps": 1e-05, "rope_theta": 1000000,
			"router_aux_loss_coef": 0.02, "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 32000}`,
		"llama", map[string]any{"context_length": uint32(32768), "embedding_length": uint32(4096), "block_count": uint32(32),
			"feed_forward_length": uint32(14336), "rope.dimension_count": uint32(128), "attention.head_count": uint32(32),
			"attention.head_count_kv": uint32(8), "attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(1000000),
			"expert_count": uint32(8), "expert_used_count": uint32(2)},
		32 * 8 * 128 * 2 * 4, nil,
	},
	{
		"Qwen3 30B A3B", `{"model_type": "qwen3_moe", "attention_bias": false, "decoder_sparse_step": 1, "head_dim": 128, "hidden_act": "silu",
			"hidden_size": 2048, "intermediate_size": 6144, "max_position_embeddings": 40960, "max_window_layers": 48, "mlp_only_layers": [],
			"moe_intermediate_size": 768, "norm_topk_prob": true, "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8,
			"num_hidden_layers": 48, "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
			"sliding_window": null, "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 151936}`,
		"qwen3moe", map[string]any{"context_length": uint32(40960), "embedding_length": uint32(2048), "block_count": uint32(48),
			"feed_forward_length": uint32(6144), "attention.head_count": uint32(32), "attention.head_count_kv": uint32(4),
			"attention.layer_norm_rms_epsilon": float32(1e-6), "rope.freq_base": float32(1000000), "attention.key_length": uint32(128),
			"attention.value_length": uint32(128), "expert_count": uint32(128), "expert_used_count": uint32(8),
			"expert_feed_forward_length": uint32(768)},
		48 * 4 * 128 * 2 * 4, nil,
	},
	{
		"OLMoE 1B 7B", `{"model_type": "olmoe", "attention_bias": false, "clip_qkv": null, "hidden_act": "silu", "hidden_size": 2048,
			"intermediate_size": 1024, "max_position_embeddings": 4096, "norm_topk_prob": false, "num_attention_heads": 16, "num_experts": 64,
			"num_experts_per_tok": 8, "num_hidden_layers": 16, "num_key_value_heads": 16, "rms_norm_eps": 1e-05, "rope_scaling": null,
			"rope_theta": 10000, "tie_word_embeddings": false, "vocab_size": 50304}`,
		"olmoe", map[string]any{"context_length": uint32(4096), "embedding_length": uint32(2048), "block_count": uint32(16),
			"feed_forward_length": uint32(1024), "attention.head_count": uint32(16), "attention.head_count_kv": uint32(16),
			"attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(10000), "expert_count": uint32(64),
			"expert_used_count": uint32(8)},
		16 * 16 * 128 * 2 * 4, nil,
	},
	{
		"GLM 4.5 Air", `{"model_type": "glm4_moe", "attention_bias": true, "first_k_dense_replace": 1, "head_dim": 128, "hidden_act": "silu",
			"hidden_size": 4096, "intermediate_size": 10944, "max_position_embeddings": 131072, "moe_intermediate_size": 1408, "n_group": 1,
			"n_routed_experts": 128, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 96, "num_experts_per_tok": 8,
			"num_hidden_layers": 46, "num_key_value_heads": 8, "num_nextn_predict_layers": 1, "partial_rotary_factor": 0.5,
			"rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 1000000, "routed_scaling_factor": 1, "tie_word_embeddings": false,
			"topk_group": 1, "use_qk_norm": false, "vocab_size": 151552}`,
		"glm4moe", map[string]any{"context_length": uint32(131072), "embedding_length": uint32(4096), "block_count": uint32(47),
			"feed_forward_length": uint32(10944), "attention.head_count": uint32(96), "attention.head_count_kv": uint32(8),
			"attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(1000000), "attention.key_length": uint32(128),
			"attention.value_length": uint32(128), "rope.dimension_count": uint32(64), "expert_count": uint32(128),
			"expert_used_count": uint32(8), "expert_group_count": uint32(1), "expert_group_used_count": uint32(1), "expert_gating_func": uint32(2),
			"expert_feed_forward_length": uint32(1408), "expert_shared_count": uint32(1), "leading_dense_block_count": uint32(1),
			"expert_weights_scale": float32(1), "expert_weights_norm": true, "nextn_predict_layers": uint32(1)},
		46 * 8 * 128 * 2 * 4, func(s *draft) { s.attention(func(_ int, a *model.GQA) { a.QKVBias = false }) }, // the GGUF has them among its tensors
	},
	{
		"gpt-oss 20B", `{"model_type": "gpt_oss", "attention_bias": true, "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu",
			"hidden_size": 2880, "initial_context_length": 4096, "intermediate_size": 2880, "layer_types": [` +
			strings.Repeat(`"sliding_attention", "full_attention", `, 11) + `"sliding_attention", "full_attention"],
			"max_position_embeddings": 131072, "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 24,
			"num_key_value_heads": 8, "num_local_experts": 32, "quantization_config": {"modules_to_not_convert": ["model.layers.*.self_attn"],
			"quant_method": "mxfp4"}, "rms_norm_eps": 1e-05, "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 32,
			"original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false}, "rope_theta": 150000, "sliding_window": 128,
			"swiglu_limit": 7, "tie_word_embeddings": false, "vocab_size": 201088}`,
		"gpt-oss", map[string]any{"context_length": uint32(131072), "embedding_length": uint32(2880), "block_count": uint32(24),
			"feed_forward_length": uint32(2880), "attention.head_count": uint32(64), "attention.head_count_kv": uint32(8),
			"attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(150000), "attention.key_length": uint32(64),
			"attention.value_length": uint32(64), "attention.sliding_window": uint32(128), "expert_count": uint32(32),
			"expert_used_count": uint32(4), "expert_feed_forward_length": uint32(2880), "rope.scaling.type": "yarn",
			"rope.scaling.factor": float32(32), "rope.scaling.original_context_length": uint32(4096)},
		24 * 8 * 64 * 2 * 4, func(s *draft) { s.Quantization = model.Quantization{} }, // the GGUF has it in the tensors' types
	},
	{
		"TinyLlama 1.1B", `{"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "max_position_embeddings": 2048,
			"num_attention_heads": 32, "num_hidden_layers": 22, "num_key_value_heads": 4, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
			"rope_scaling": null, "rope_theta": 10000, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 32000,
			"attention_bias": false, "hidden_act": "silu"}`,
		"llama", map[string]any{"context_length": uint32(2048), "embedding_length": uint32(2048), "block_count": uint32(22),
			"feed_forward_length": uint32(5632), "rope.dimension_count": uint32(64), "attention.head_count": uint32(32),
			"attention.head_count_kv": uint32(4), "attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(10000)},
		22 * 4 * 64 * 2 * 4, nil,
	},
	{
		"Llama 3.2 1B", `{"model_type": "llama", "attention_bias": false, "head_dim": 64, "hidden_size": 2048, "intermediate_size": 8192,
			"max_position_embeddings": 131072, "mlp_bias": false, "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
			"pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32, "high_freq_factor": 4, "low_freq_factor": 1,
			"original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000, "tie_word_embeddings": true,
			"vocab_size": 128256}`,
		"llama", map[string]any{"block_count": uint32(16), "context_length": uint32(131072), "embedding_length": uint32(2048),
			"feed_forward_length": uint32(8192), "attention.head_count": uint32(32), "attention.head_count_kv": uint32(8),
			"rope.freq_base": float32(500000), "attention.layer_norm_rms_epsilon": float32(1e-5), "attention.key_length": uint32(64),
			"attention.value_length": uint32(64), "vocab_size": uint32(128256), "rope.dimension_count": uint32(64)},
		16 * 8 * 64 * 2 * 4, func(s *draft) { s.Ropes[0].Freqs = nil }, // the GGUF has the stretch in a tensor
	},
	{
		"Mistral 7B v0.1", `{"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
			"num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000,
			"sliding_window": 4096, "tie_word_embeddings": false, "vocab_size": 32000}`,
		"llama", map[string]any{"context_length": uint32(32768), "embedding_length": uint32(4096), "block_count": uint32(32),
			"feed_forward_length": uint32(14336), "rope.dimension_count": uint32(128), "attention.head_count": uint32(32),
			"attention.head_count_kv": uint32(8), "attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(10000)},
		32 * 8 * 128 * 2 * 4, func(s *draft) { s.attention(func(_ int, a *model.GQA) { a.Window = 0 }) }, // the GGUF has no window
	},
	{
		"Mistral 7B v0.3", `{"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
			"num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000,
			"sliding_window": null, "tie_word_embeddings": false, "vocab_size": 32768}`,
		"llama", map[string]any{"context_length": uint32(32768), "embedding_length": uint32(4096), "block_count": uint32(32),
			"feed_forward_length": uint32(14336), "rope.dimension_count": uint32(128), "attention.head_count": uint32(32), "vocab_size": uint32(32768),
			"attention.head_count_kv": uint32(8), "attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(1000000)},
		32 * 8 * 128 * 2 * 4, nil,
	},
	{
		"Qwen2.5 0.5B", `{"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "max_position_embeddings": 32768,
			"max_window_layers": 21, "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
			"rope_theta": 1000000, "sliding_window": 32768, "tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936}`,
		"qwen2", map[string]any{"block_count": uint32(24), "context_length": uint32(32768), "embedding_length": uint32(896),
			"feed_forward_length": uint32(4864), "attention.head_count": uint32(14), "attention.head_count_kv": uint32(2),
			"rope.freq_base": float32(1000000), "attention.layer_norm_rms_epsilon": float32(1e-6)},
		24 * 2 * 64 * 2 * 4, nil,
	},
	{
		"Qwen3 0.6B", `{"model_type": "qwen3", "attention_bias": false, "head_dim": 128, "hidden_size": 1024, "intermediate_size": 3072,
			"max_position_embeddings": 40960, "max_window_layers": 28, "num_attention_heads": 16, "num_hidden_layers": 28,
			"num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
			"tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936}`,
		"qwen3", map[string]any{"block_count": uint32(28), "context_length": uint32(40960), "embedding_length": uint32(1024),
			"feed_forward_length": uint32(3072), "attention.head_count": uint32(16), "attention.head_count_kv": uint32(8),
			"rope.freq_base": float32(1000000), "attention.layer_norm_rms_epsilon": float32(1e-6), "attention.key_length": uint32(128),
			"attention.value_length": uint32(128)},
		28 * 8 * 128 * 2 * 4, nil,
	},
	{
		"Phi 3 mini 4k", `{"model_type": "phi3", "attention_bias": false, "hidden_act": "silu", "hidden_size": 3072, "intermediate_size": 8192,
			"max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
			"original_max_position_embeddings": 4096, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000,
			"sliding_window": 2047, "tie_word_embeddings": false, "vocab_size": 32064}`,
		"phi3", map[string]any{"context_length": uint32(4096), "rope.scaling.original_context_length": uint32(4096),
			"embedding_length": uint32(3072), "feed_forward_length": uint32(8192), "block_count": uint32(32),
			"attention.head_count": uint32(32), "attention.head_count_kv": uint32(32), "attention.layer_norm_rms_epsilon": float32(1e-5),
			"rope.dimension_count": uint32(96), "rope.freq_base": float32(10000), "attention.sliding_window": uint32(2047)},
		32 * 32 * 96 * 2 * 4, nil,
	},
	{
		"Gemma 2 27B", `{"model_type": "gemma2", "attention_bias": false, "attn_logit_softcapping": 50, "final_logit_softcapping": 30,
			"head_dim": 128, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 4608,
			"intermediate_size": 36864, "max_position_embeddings": 8192, "num_attention_heads": 32, "num_hidden_layers": 46,
			"num_key_value_heads": 16, "query_pre_attn_scalar": 144, "rms_norm_eps": 1e-06, "rope_theta": 10000,
			"sliding_window": 4096, "vocab_size": 256000}`,
		"gemma2", map[string]any{"context_length": uint32(8192), "embedding_length": uint32(4608), "block_count": uint32(46),
			"feed_forward_length": uint32(36864), "attention.head_count": uint32(32), "attention.head_count_kv": uint32(16),
			"attention.layer_norm_rms_epsilon": float32(1e-6), "attention.key_length": uint32(128), "attention.value_length": uint32(128),
			"attn_logit_softcapping": float32(50), "final_logit_softcapping": float32(30), "attention.sliding_window": uint32(4096)},
		46 * 16 * 128 * 2 * 4, nil,
	},
	{
		"Gemma 3 4B", `{"model_type": "gemma3", "mm_tokens_per_image": 256, "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
			"intermediate_size": 10240, "num_hidden_layers": 34, "rope_scaling": {"factor": 8, "rope_type": "linear"},
			"sliding_window": 1024}, "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"}}`,
		"gemma3", map[string]any{"context_length": uint32(131072), "embedding_length": uint32(2560), "block_count": uint32(34),
			"feed_forward_length": uint32(10240), "attention.head_count": uint32(8), "attention.head_count_kv": uint32(4),
			"attention.layer_norm_rms_epsilon": float32(1e-6), "attention.key_length": uint32(256), "attention.value_length": uint32(256),
			"rope.freq_base": float32(1e6), "rope.scaling.type": "linear", "rope.scaling.factor": float32(8),
			"attention.sliding_window": uint32(1024)},
		34 * 4 * 256 * 2 * 4, nil,
	},
	{
		"SmolLM3 3B", `{"model_type": "smollm3", "attention_bias": false, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 11008,
			"max_position_embeddings": 65536, "max_window_layers": 28, "mlp_bias": false, "no_rope_layer_interval": 4,
			"no_rope_layers": [1, 1, 1, 0, 1, 1, 1, 0], "num_attention_heads": 16, "num_hidden_layers": 8, "num_key_value_heads": 4,
			"rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 5000000, "sliding_window": null, "use_sliding_window": false,
			"vocab_size": 128256}`, // its first 8 layers
		"smollm3", map[string]any{"block_count": uint32(8), "context_length": uint32(65536), "embedding_length": uint32(2048),
			"feed_forward_length": uint32(11008), "attention.head_count": uint32(16), "attention.head_count_kv": uint32(4),
			"rope.freq_base": float32(5000000), "attention.layer_norm_rms_epsilon": float32(1e-6), "rope.dimension_count": uint32(128)},
		8 * 4 * 128 * 2 * 4, nil,
	},
	{
		"Command R", `{"model_type": "cohere", "attention_bias": false, "hidden_act": "silu", "hidden_size": 8192, "intermediate_size": 22528,
			"layer_norm_eps": 1e-05, "logit_scale": 0.0625, "max_position_embeddings": 8192, "num_attention_heads": 64,
			"num_hidden_layers": 40, "num_key_value_heads": 64, "rope_theta": 8000000, "vocab_size": 256000}`,
		"command-r", map[string]any{"block_count": uint32(40), "context_length": uint32(8192), "embedding_length": uint32(8192),
			"feed_forward_length": uint32(22528), "attention.head_count": uint32(64), "attention.head_count_kv": uint32(64),
			"rope.freq_base": float32(8e6), "attention.layer_norm_epsilon": float32(1e-5), "logit_scale": float32(0.0625),
			"rope.scaling.type": "none"},
		40 * 64 * 128 * 2 * 4, nil,
	},
	{
		"GPT-2", `{"model_type": "gpt2", "activation_function": "gelu_new", "attn_pdrop": 0.1, "layer_norm_epsilon": 1e-05, "n_ctx": 1024,
			"n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257}`,
		"gpt2", map[string]any{"block_count": uint32(12), "context_length": uint32(1024), "embedding_length": uint32(768),
			"feed_forward_length": uint32(3072), "attention.head_count": uint32(12), "attention.layer_norm_epsilon": float32(1e-5)},
		12 * 12 * 64 * 2 * 4, nil,
	},
}

// TestReleased reads both files of each model: they must say the same, but for what is noted, and for the order of the
// values in a rotated pair, the family's name, and tying and vocabulary, which a GGUF says by its tensors.
func TestReleased(t *testing.T) {
	for _, m := range released {
		t.Run(m.name, func(t *testing.T) {
			_, want, err := jsonSpec([]byte(m.config))
			if err != nil {
				t.Fatal(err)
			}
			if got := want.KVTokenBytes(); got != m.bytes {
				t.Errorf("a token takes %d bytes of cache; want %d", got, m.bytes)
			}
			meta := map[string]any{"general.architecture": m.arch}
			for key, v := range m.meta {
				meta[m.arch+"."+key] = v
			}
			c, _, err := ggufConfig(meta)
			if err != nil {
				t.Fatal(err)
			}
			c.values["vocab_size"] = uint64(want.Vocab)
			var got *draft
			for _, f := range families {
				if len(f.archs) > 0 && f.archs[0] == m.arch {
					got, err = f.read(c)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			got.TiedHead, got.Family = want.TiedHead, want.Family
			if m.differ != nil {
				m.differ(got)
				m.differ(want)
			}
			if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
				t.Errorf("config.json and GGUF differ (-config +GGUF):\n%s", diff)
			}
		})
	}
}
