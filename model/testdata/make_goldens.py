"""Writes small random-weight checkpoints of odd shapes, with what transformers computes from them, beside this file.

Each goes to goldens/<name>: config.json (in the old or the new style), model.safetensors (or shards and an index), and
golden.safetensors with

    ids_i            int32, token ids
    logits_i         float32, the logits of all of them, or of the last ones
    greedy_1         int32, the tokens that follow ids_1 greedily
    greedy_margin_1  float32, by how much each of them leads the second best
    inv_freq         float32, the frequencies of the rotary embedding, where there is one for all layers

The reference reads the same files: float32 on a CPU, eager attention. Weights, gains and biases are all random, so that
none can be left out unnoticed.

    pip install torch transformers safetensors numpy
    python make_goldens.py [name...]
"""

import json
import pathlib
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent / "goldens"
GREEDY = 24
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}

# The configuration of each checkpoint, the type of its tensors, and how many shards it comes in. "old" is the style of
# config.json before transformers 5 (rope_theta, rope_scaling, torch_dtype), "new" the one since (rope_parameters, dtype).
OLD, NEW = "old", "new"
CASES = {
    "llama_3heads": (OLD, "F16", 1, dict(
        model_type="llama", hidden_size=60, num_attention_heads=3, intermediate_size=100, vocab_size=257,
        num_hidden_layers=2, rms_norm_eps=1e-5, rope_theta=10000.0, rope_scaling=None, tie_word_embeddings=False)),
    "llama_biases": (NEW, "BF16", 1, dict(
        model_type="llama", hidden_size=72, num_attention_heads=6, num_key_value_heads=1, head_dim=16,
        intermediate_size=100, vocab_size=130, num_hidden_layers=2, attention_bias=True, mlp_bias=True,
        rope_parameters=dict(rope_type="default", rope_theta=50000.0), tie_word_embeddings=True)),
    "llama_linear": (OLD, "F32", 1, dict(
        model_type="llama", hidden_size=50, num_attention_heads=5, num_key_value_heads=5, intermediate_size=70,
        vocab_size=101, num_hidden_layers=2, rope_theta=10000.0, rope_scaling=dict(type="linear", factor=2.5),
        tie_word_embeddings=False)),
    "llama_gelu": (NEW, "BF16", 1, dict(
        model_type="llama", hidden_size=48, num_attention_heads=2, num_key_value_heads=1, head_dim=80,
        intermediate_size=72, vocab_size=99, num_hidden_layers=2, hidden_act="gelu",
        rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0), tie_word_embeddings=True)),
    "llama3_old": (OLD, "BF16", 1, dict(
        model_type="llama", hidden_size=24, num_attention_heads=3, num_key_value_heads=1, head_dim=128,
        intermediate_size=100, vocab_size=257, num_hidden_layers=2, rms_norm_eps=1e-5, rope_theta=500000.0,
        rope_scaling=dict(factor=32.0, high_freq_factor=4.0, low_freq_factor=1.0, rope_type="llama3",
                          original_max_position_embeddings=64), tie_word_embeddings=True)),
    "yarn_old": (OLD, "BF16", 1, dict(
        model_type="llama", hidden_size=32, num_attention_heads=2, num_key_value_heads=2, head_dim=96,
        intermediate_size=60, vocab_size=150, num_hidden_layers=2, rope_theta=10000.0,
        rope_scaling=dict(type="yarn", factor=8.0, original_max_position_embeddings=64, beta_fast=16, beta_slow=2,
                          attention_factor=1.1), tie_word_embeddings=False)),
    "yarn_mscale": (NEW, "BF16", 1, dict(
        model_type="llama", hidden_size=40, num_attention_heads=2, num_key_value_heads=1, head_dim=80,
        intermediate_size=60, vocab_size=150, num_hidden_layers=2, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="yarn", rope_theta=20000.0, factor=4.0, original_max_position_embeddings=48,
                             mscale=0.8, mscale_all_dim=0.5, truncate=False))),
    "mistral_old": (OLD, "F32", 3, dict(
        model_type="mistral", hidden_size=36, num_attention_heads=3, num_key_value_heads=3, intermediate_size=60,
        vocab_size=97, num_hidden_layers=3, rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=7,
        tie_word_embeddings=False)),
    "mistral_wide": (NEW, "F16", 2, dict(
        model_type="mistral", hidden_size=20, num_attention_heads=2, num_key_value_heads=1, head_dim=256,
        intermediate_size=52, vocab_size=127, num_hidden_layers=2, sliding_window=None,
        rope_parameters=dict(rope_type="default", rope_theta=1000000.0), tie_word_embeddings=False)),
    "qwen2_window": (OLD, "BF16", 1, dict(
        model_type="qwen2", hidden_size=60, num_attention_heads=5, num_key_value_heads=1, intermediate_size=100,
        vocab_size=151, num_hidden_layers=3, rope_theta=1000000.0, use_sliding_window=True, sliding_window=11,
        max_window_layers=1, tie_word_embeddings=True)),
    "qwen2_layers": (NEW, "F16", 1, dict(
        model_type="qwen2", hidden_size=72, num_attention_heads=3, num_key_value_heads=3, intermediate_size=40,
        vocab_size=131, num_hidden_layers=3, use_sliding_window=True, sliding_window=9, max_window_layers=28,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters=dict(rope_type="default", rope_theta=10000.0), tie_word_embeddings=False)),
    "qwen2_plain": (OLD, "F32", 1, dict(
        model_type="qwen2", hidden_size=42, num_attention_heads=7, num_key_value_heads=7, intermediate_size=50,
        vocab_size=90, num_hidden_layers=2, rope_theta=10000.0, use_sliding_window=False, sliding_window=5,
        max_window_layers=0, tie_word_embeddings=False)),
    "qwen3_biases": (OLD, "BF16", 2, dict(
        model_type="qwen3", hidden_size=72, num_attention_heads=3, num_key_value_heads=1, head_dim=20,
        intermediate_size=100, vocab_size=263, num_hidden_layers=2, rope_theta=1000000.0, rope_scaling=None,
        attention_bias=True, use_sliding_window=False, sliding_window=None, max_window_layers=2,
        tie_word_embeddings=False)),
    "qwen3_window": (OLD, "BF16", 1, dict(
        model_type="qwen3", hidden_size=30, num_attention_heads=2, num_key_value_heads=1, intermediate_size=70,
        vocab_size=123, num_hidden_layers=2, rope_theta=10000.0, use_sliding_window=True, sliding_window=13,
        max_window_layers=1, rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=128),
        tie_word_embeddings=True)),
    "qwen3_small": (NEW, "F32", 1, dict(
        model_type="qwen3", hidden_size=44, num_attention_heads=5, num_key_value_heads=5, head_dim=10,
        intermediate_size=36, vocab_size=93, num_hidden_layers=2, use_sliding_window=False, sliding_window=None,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0), tie_word_embeddings=True)),
    "llama_dynamic": (OLD, "BF16", 1, dict(
        model_type="llama", hidden_size=36, num_attention_heads=3, intermediate_size=50, vocab_size=95,
        num_hidden_layers=2, rope_theta=10000.0, rope_scaling=dict(type="dynamic", factor=3.0),
        tie_word_embeddings=True)),
    "phi3_partial": (OLD, "BF16", 2, dict(
        model_type="phi3", hidden_size=48, num_attention_heads=3, num_key_value_heads=1, intermediate_size=40,
        vocab_size=110, num_hidden_layers=2, rope_theta=10000.0, rope_scaling=None, partial_rotary_factor=0.75,
        sliding_window=9, original_max_position_embeddings=512, tie_word_embeddings=True, pad_token_id=0)),
    "gemma2_old": (OLD, "BF16", 1, dict(
        model_type="gemma2", hidden_size=42, num_attention_heads=3, num_key_value_heads=1, head_dim=20,
        intermediate_size=60, vocab_size=120, num_hidden_layers=3, rope_theta=10000.0, query_pre_attn_scalar=50,
        sliding_window=7, attn_logit_softcapping=5.0, final_logit_softcapping=None, attention_bias=True,
        hidden_activation="gelu_pytorch_tanh")),
    "gemma3_old": (OLD, "BF16", 2, dict(
        model_type="gemma3_text", hidden_size=40, num_attention_heads=2, num_key_value_heads=2, head_dim=24,
        intermediate_size=60, vocab_size=120, num_hidden_layers=5, rope_theta=200000.0, rope_local_base_freq=5000.0,
        rope_scaling=dict(rope_type="linear", factor=8.0), query_pre_attn_scalar=24, sliding_window=8,
        sliding_window_pattern=3, final_logit_softcapping=9.0)),
    "olmo2_biases": (OLD, "F16", 1, dict(
        model_type="olmo2", hidden_size=48, num_attention_heads=3, num_key_value_heads=3, intermediate_size=50,
        vocab_size=120, num_hidden_layers=2, rope_theta=500000.0, attention_bias=True, tie_word_embeddings=True)),
    "granite_biases": (OLD, "BF16", 1, dict(
        model_type="granite", hidden_size=60, num_attention_heads=5, num_key_value_heads=1, intermediate_size=50,
        vocab_size=120, num_hidden_layers=3, rope_theta=10000.0, attention_bias=True, mlp_bias=True,
        attention_multiplier=0.2, embedding_multiplier=3.0, residual_multiplier=0.5, logits_scaling=2.0,
        tie_word_embeddings=True)),
    "smollm3_interval": (OLD, "BF16", 1, dict(
        model_type="smollm3", hidden_size=48, num_attention_heads=3, num_key_value_heads=1, intermediate_size=60,
        vocab_size=120, num_hidden_layers=5, rope_theta=50000.0, no_rope_layer_interval=2, use_sliding_window=True,
        sliding_window=6, attention_bias=True, mlp_bias=True, pad_token_id=0, tie_word_embeddings=False)),
    "glm4_quarter": (OLD, "BF16", 1, dict(
        model_type="glm4", hidden_size=40, num_attention_heads=4, num_key_value_heads=1, head_dim=16,
        intermediate_size=50, vocab_size=120, num_hidden_layers=2, rope_theta=10000.0, partial_rotary_factor=0.25,
        attention_bias=False, pad_token_id=0, tie_word_embeddings=True)),
    "starcoder2_window": (OLD, "F16", 1, dict(
        model_type="starcoder2", hidden_size=48, num_attention_heads=3, num_key_value_heads=1,
        intermediate_size=70, vocab_size=120, num_hidden_layers=2, rope_theta=10000.0, hidden_act="gelu",
        norm_epsilon=1e-3, sliding_window=9, use_bias=False, tie_word_embeddings=False)),
    "gpt2_wide": (OLD, "BF16", 2, dict(
        model_type="gpt2", n_embd=45, n_head=3, n_layer=2, n_inner=100, n_positions=160, vocab_size=120,
        layer_norm_epsilon=1e-3, activation_function="gelu_new", tie_word_embeddings=False)),
    "cohere_biases": (OLD, "BF16", 1, dict(
        model_type="cohere", hidden_size=48, num_attention_heads=4, num_key_value_heads=4, intermediate_size=60,
        vocab_size=120, num_hidden_layers=2, rope_theta=75000.0, layer_norm_eps=1e-4, logit_scale=0.5,
        attention_bias=True, use_qk_norm=False, pad_token_id=0)),
    "ernie4_5_biases": (OLD, "BF16", 1, dict(
        model_type="ernie4_5", hidden_size=40, num_attention_heads=4, num_key_value_heads=1, head_dim=20,
        intermediate_size=60, vocab_size=120, num_hidden_layers=2, rope_theta=10000.0, use_bias=True,
        tie_word_embeddings=False)),
    "hunyuan_alpha": (OLD, "BF16", 1, dict(
        model_type="hunyuan_v1_dense", hidden_size=48, num_attention_heads=3, num_key_value_heads=1, head_dim=20,
        intermediate_size=60, vocab_size=120, num_hidden_layers=2, rope_theta=10000.0, use_qk_norm=True,
        rope_scaling=dict(type="dynamic", alpha=50.0, factor=1.0, beta_fast=32, beta_slow=1, mscale=1.0,
                          mscale_all_dim=1.0), tie_word_embeddings=True)),
    "cohere_plus": (OLD, "F16", 1, dict(
        model_type="cohere", hidden_size=40, num_attention_heads=4, num_key_value_heads=2, intermediate_size=50,
        vocab_size=100, num_hidden_layers=2, rope_theta=10000.0, layer_norm_eps=1e-5, logit_scale=0.25,
        use_qk_norm=True, pad_token_id=0, tie_word_embeddings=True)),
    "gpt2_layers": (OLD, "F16", 1, dict(
        model_type="gpt2", n_embd=36, n_head=2, n_layer=3, n_positions=160, vocab_size=100, scale_attn_weights=False,
        scale_attn_by_inverse_layer_idx=True, activation_function="gelu_new", tie_word_embeddings=True)),
    "olmoe_clip": (OLD, "BF16", 1, dict(
        model_type="olmoe", hidden_size=48, num_attention_heads=3, num_key_value_heads=1, intermediate_size=28,
        vocab_size=90, num_hidden_layers=2, rope_theta=10000.0, num_experts=4, num_experts_per_tok=2, clip_qkv=0.7,
        norm_topk_prob=False, pad_token_id=0, tie_word_embeddings=True)),
    "mixtral_window": (OLD, "F16", 2, dict(
        model_type="mixtral", hidden_size=48, num_attention_heads=3, num_key_value_heads=1, intermediate_size=40,
        vocab_size=120, num_hidden_layers=2, rope_theta=10000.0, num_local_experts=5, num_experts_per_tok=3,
        sliding_window=9, tie_word_embeddings=True)),
    "qwen2_moe_steps": (OLD, "BF16", 1, dict(
        model_type="qwen2_moe", hidden_size=36, num_attention_heads=3, num_key_value_heads=3, intermediate_size=50,
        vocab_size=120, num_hidden_layers=6, rope_theta=10000.0, moe_intermediate_size=20, num_experts=7,
        num_experts_per_tok=4, shared_expert_intermediate_size=28, norm_topk_prob=True, decoder_sparse_step=2,
        mlp_only_layers=[3], use_sliding_window=True, sliding_window=8, max_window_layers=4,
        tie_word_embeddings=True)),
    "qwen3_moe_biases": (OLD, "BF16", 1, dict(
        model_type="qwen3_moe", hidden_size=40, num_attention_heads=4, num_key_value_heads=2, head_dim=20,
        intermediate_size=60, vocab_size=120, num_hidden_layers=3, rope_theta=50000.0, attention_bias=True,
        moe_intermediate_size=24, num_experts=6, num_experts_per_tok=1, norm_topk_prob=False, mlp_only_layers=[0],
        use_sliding_window=True, sliding_window=11, tie_word_embeddings=False)),
    "olmoe_norm": (OLD, "F32", 1, dict(
        model_type="olmoe", hidden_size=32, num_attention_heads=2, intermediate_size=20, vocab_size=90,
        num_hidden_layers=2, rope_theta=10000.0, num_experts=9, num_experts_per_tok=8, norm_topk_prob=True,
        attention_bias=True, pad_token_id=0, tie_word_embeddings=False)),
    "glm4_moe_groups": (OLD, "BF16", 1, dict(
        model_type="glm4_moe", hidden_size=40, num_attention_heads=4, num_key_value_heads=1, head_dim=16,
        intermediate_size=60, vocab_size=120, num_hidden_layers=4, rope_theta=10000.0, partial_rotary_factor=0.25,
        attention_bias=True, use_qk_norm=False, moe_intermediate_size=20, n_routed_experts=12, num_experts_per_tok=5,
        n_group=3, topk_group=2, n_shared_experts=2, routed_scaling_factor=2.5, first_k_dense_replace=2,
        norm_topk_prob=True, num_nextn_predict_layers=1, tie_word_embeddings=False)),
    "glm4_moe_plain": (NEW, "F16", 1, dict(
        model_type="glm4_moe", hidden_size=36, num_attention_heads=2, num_key_value_heads=2, head_dim=24,
        intermediate_size=40, vocab_size=100, num_hidden_layers=2, use_qk_norm=True, moe_intermediate_size=16,
        n_routed_experts=6, num_experts_per_tok=2, n_group=1, topk_group=1, n_shared_experts=1,
        routed_scaling_factor=1.0, first_k_dense_replace=0, norm_topk_prob=False, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "gpt_oss_layers": (OLD, "BF16", 2, dict(
        model_type="gpt_oss", hidden_size=48, num_attention_heads=3, num_key_value_heads=1, head_dim=24,
        intermediate_size=40, vocab_size=120, num_hidden_layers=3, num_local_experts=5, num_experts_per_tok=3,
        sliding_window=7, layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        rope_theta=5000.0, rope_scaling=dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=64,
                                             beta_fast=16.0, beta_slow=2.0, truncate=False),
        initial_context_length=64, experts_per_token=3, swiglu_limit=7.0, attention_bias=True, rms_norm_eps=1e-5,
        tie_word_embeddings=False)),
    "gpt_oss_mxfp4": (OLD, "BF16", 1, dict(
        model_type="gpt_oss", hidden_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=32,
        intermediate_size=96, vocab_size=120, num_hidden_layers=2, num_local_experts=3, num_experts_per_tok=2,
        sliding_window=16, layer_types=["sliding_attention", "full_attention"], rope_theta=150000.0,
        rope_scaling=dict(rope_type="yarn", factor=32.0, original_max_position_embeddings=4096, beta_fast=32.0,
                          beta_slow=1.0, truncate=False),
        attention_bias=True, tie_word_embeddings=False, quantization_config=dict(
            quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                          "model.embed_tokens", "lm_head"]))),
    "deepseek_v2_groups": (OLD, "BF16", 1, dict(
        model_type="deepseek_v2", hidden_size=48, num_attention_heads=3, num_key_value_heads=3, intermediate_size=50,
        vocab_size=120, num_hidden_layers=3, q_lora_rank=20, kv_lora_rank=24, qk_nope_head_dim=12, qk_rope_head_dim=8,
        v_head_dim=20, rope_theta=10000.0, attention_bias=True, first_k_dense_replace=1, moe_intermediate_size=20,
        n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2, topk_method="group_limited_greedy", n_group=3,
        topk_group=2, routed_scaling_factor=3.0, norm_topk_prob=False, tie_word_embeddings=False,
        rope_scaling=dict(type="yarn", factor=8.0, original_max_position_embeddings=64, beta_fast=32, beta_slow=1,
                          mscale=0.707, mscale_all_dim=0.707))),
    "deepseek_v3_halves": (NEW, "F16", 2, dict(
        model_type="deepseek_v3", hidden_size=40, num_attention_heads=5, num_key_value_heads=5, intermediate_size=40,
        vocab_size=110, num_hidden_layers=2, q_lora_rank=None, kv_lora_rank=40, qk_nope_head_dim=32,
        qk_rope_head_dim=12, v_head_dim=8, rope_interleave=False, attention_bias=False, first_k_dense_replace=0,
        moe_intermediate_size=24, n_routed_experts=4, num_experts_per_tok=3, n_shared_experts=1, n_group=1,
        topk_group=1, routed_scaling_factor=1.0, norm_topk_prob=False, tie_word_embeddings=False,
        rope_parameters=dict(rope_type="yarn", rope_theta=20000.0, factor=4.0, mscale=1.0, mscale_all_dim=0.5,
                             original_max_position_embeddings=128))),
    "qwen3_next_heads": (OLD, "BF16", 1, dict(
        model_type="qwen3_next", hidden_size=48, num_attention_heads=3, num_key_value_heads=1, head_dim=24,
        intermediate_size=40, vocab_size=120, num_hidden_layers=4, rope_theta=50000.0, partial_rotary_factor=0.5,
        full_attention_interval=2, attention_bias=True, linear_conv_kernel_dim=3, linear_num_key_heads=2,
        linear_num_value_heads=6, linear_key_head_dim=12, linear_value_head_dim=20, moe_intermediate_size=16,
        num_experts=4, num_experts_per_tok=3, shared_expert_intermediate_size=24, norm_topk_prob=False,
        mlp_only_layers=[1], tie_word_embeddings=True)),
    "qwen3_next_layers": (NEW, "F32", 1, dict(
        model_type="qwen3_next", hidden_size=32, num_attention_heads=2, num_key_value_heads=2, head_dim=16,
        intermediate_size=24, vocab_size=90, num_hidden_layers=3, partial_rotary_factor=0.25,
        layer_types=["full_attention", "linear_attention", "linear_attention"], linear_conv_kernel_dim=4,
        linear_num_key_heads=3, linear_num_value_heads=3, linear_key_head_dim=16, linear_value_head_dim=16,
        moe_intermediate_size=16, num_experts=3, num_experts_per_tok=1, shared_expert_intermediate_size=20,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25),
        tie_word_embeddings=False)),
    "phi3_longrope": (OLD, "BF16", 1, dict(
        model_type="phi3", hidden_size=48, num_attention_heads=3, num_key_value_heads=3, intermediate_size=40,
        vocab_size=110, num_hidden_layers=2, rope_theta=10000.0, original_max_position_embeddings=64,
        rope_scaling=dict(type="longrope", short_factor=[1.0, 1.05, 1.1, 1.2, 1.5, 2.0, 2.5, 3.0],
                          long_factor=[1.1, 1.5, 2.5, 4.0, 8.0, 13.0, 21.0, 34.0]),
        tie_word_embeddings=False, pad_token_id=0)),
    "phi3_longrope_partial": (NEW, "BF16", 1, dict(
        model_type="phi3", hidden_size=48, num_attention_heads=3, num_key_value_heads=1, intermediate_size=40,
        vocab_size=110, num_hidden_layers=2, original_max_position_embeddings=32, sliding_window=100,
        rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75,
                             original_max_position_embeddings=32,
                             short_factor=[1.0, 1.2, 1.4, 1.6, 1.8, 2.0], long_factor=[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]),
        tie_word_embeddings=True, pad_token_id=0)),
    "gpt_oss_unsaid": (OLD, "BF16", 1, dict(
        model_type="gpt_oss", hidden_size=32, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
        intermediate_size=24, vocab_size=90, num_hidden_layers=2, num_local_experts=3, num_experts_per_tok=2,
        sliding_window=9, rope_theta=10000.0, tie_word_embeddings=True)),
    "deepseek_v3_turned": (NEW, "BF16", 1, dict(
        model_type="deepseek_v3", hidden_size=32, num_attention_heads=4, num_key_value_heads=4, intermediate_size=40,
        vocab_size=90, num_hidden_layers=2, q_lora_rank=16, kv_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8,
        v_head_dim=12, rope_interleave=False, attention_bias=True, first_k_dense_replace=1, moe_intermediate_size=16,
        n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, n_group=1, topk_group=1, norm_topk_prob=True,
        routed_scaling_factor=1.5, tie_word_embeddings=False,
        rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.0))),
    "qwen3_all_window": (OLD, "BF16", 1, dict(
        model_type="qwen3", hidden_size=36, num_attention_heads=3, num_key_value_heads=3, head_dim=12,
        intermediate_size=40, vocab_size=90, num_hidden_layers=2, use_sliding_window=True, sliding_window=11,
        max_window_layers=1, layer_types=["sliding_attention", "sliding_attention"], rope_theta=1e6,
        rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=2.0,
                          original_max_position_embeddings=64), tie_word_embeddings=True)),
    "qwen3_next_dense": (OLD, "BF16", 1, dict(
        model_type="qwen3_next", hidden_size=32, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
        intermediate_size=40, vocab_size=90, num_hidden_layers=2, rope_theta=10000.0, partial_rotary_factor=0.5,
        full_attention_interval=2, linear_conv_kernel_dim=2, linear_num_key_heads=1, linear_num_value_heads=2,
        linear_key_head_dim=8, linear_value_head_dim=12, moe_intermediate_size=16, num_experts=4,
        num_experts_per_tok=2, shared_expert_intermediate_size=12, mlp_only_layers=[1], tie_word_embeddings=True)),
}
CLASSES = dict(
    llama="Llama", mistral="Mistral", qwen2="Qwen2", qwen3="Qwen3", phi3="Phi3", gemma2="Gemma2", gemma3_text="Gemma3",
    olmo2="Olmo2", granite="Granite", smollm3="SmolLM3", glm4="Glm4", starcoder2="Starcoder2", cohere="Cohere",
    ernie4_5="Ernie4_5", hunyuan_v1_dense="HunYuanDenseV1", mixtral="Mixtral", qwen2_moe="Qwen2Moe",
    qwen3_moe="Qwen3Moe", olmoe="Olmoe", glm4_moe="Glm4Moe", gpt_oss="GptOss", deepseek_v2="DeepseekV2", deepseek_v3="DeepseekV3",
    qwen3_next="Qwen3Next")


def write_config(folder, style, dtype, config):
    full = dict(bos_token_id=1, eos_token_id=2, use_cache=True)
    if config["model_type"] == "gpt2":
        full |= dict(architectures=["GPT2LMHeadModel"])
    else:
        full |= dict(architectures=[CLASSES[config["model_type"]] + "ForCausalLM"], hidden_act="silu",
                     max_position_embeddings=512, rms_norm_eps=1e-6)
    full |= config
    name = str(TYPES[dtype]).removeprefix("torch.")
    full |= dict(torch_dtype=name, transformers_version="4.44.0") if style == OLD else dict(dtype=name)
    (folder / "config.json").write_text(json.dumps(full, indent=2, sort_keys=True) + "\n")


def state(model):
    """The tensors of a model by the names that its checkpoints have, where the model itself stacks experts."""
    if not hasattr(model.config, "num_experts_per_tok"):
        return model.state_dict()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_file(pathlib.Path(folder) / "model.safetensors")


def pack(tensors, generator):
    """Replaces the experts of gpt-oss, [experts, in, out], by random blocks of 32 four-bit floats with a scale each."""
    for name in [n for n in tensors if n.endswith(("gate_up_proj", "down_proj"))]:
        experts, width, out = tensors.pop(name).shape
        shape = (experts, out, width // 32)
        tensors[name + "_blocks"] = torch.randint(0, 256, shape + (16,), generator=generator).to(torch.uint8)
        tensors[name + "_scales"] = torch.randint(121, 126, shape, generator=generator).to(torch.uint8)


def write_weights(folder, dtype, shards, generator):
    config = transformers.AutoConfig.from_pretrained(folder)
    packed = getattr(config, "quantization_config", None)
    if packed:
        del config.quantization_config
    model = transformers.AutoModelForCausalLM.from_config(config)
    tensors = {}
    for name, value in state(model).items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        noise = torch.randn(value.shape, generator=generator)
        if value.dim() == 2:
            noise = noise * 1.2 * value.shape[1] ** -0.5
        elif name.endswith("conv1d.weight"):
            noise = noise * 0.7
        elif value.dim() == 3:  # [experts, in, out], so large that the activation clamps
            noise = noise * 3 * value.shape[1] ** -0.5
        else:
            centred = config.model_type == "qwen3_next" and "linear_attn.norm" not in name
            noise = noise * 0.3 + (0 if name.endswith("bias") or "gemma" in config.model_type or centred else 1)
        tensors[name] = noise.to(TYPES[dtype])
    if packed:
        pack(tensors, generator)
    if shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    index = {}
    for i in range(shards):
        part = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        names = list(tensors)[i::shards]
        save_file({n: tensors[n] for n in names}, folder / part, metadata={"format": "pt"})
        index |= {n: part for n in names}
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    text = json.dumps({"metadata": {"total_size": size}, "weight_map": dict(sorted(index.items()))}, indent=2)
    (folder / "model.safetensors.index.json").write_text(text + "\n")


@torch.no_grad()
def write_golden(folder, generator):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    model.eval()
    out = {}
    for i, (length, last) in enumerate([(7, 7), (33, 33), (90, 8)]):
        ids = torch.randint(0, model.config.vocab_size, (length,), generator=generator)
        out[f"ids_{i}"] = ids.to(torch.int32)
        out[f"logits_{i}"] = model(ids[None]).logits[0, -last:].contiguous()
    ids, tokens, margins = out["ids_1"].long(), [], []
    for _ in range(GREEDY):
        best = model(ids[None]).logits[0, -1].topk(2)
        tokens.append(best.indices[0])
        margins.append(best.values[0] - best.values[1])
        ids = torch.cat([ids, best.indices[:1]])
    out["greedy_1"] = torch.stack(tokens).to(torch.int32)
    out["greedy_margin_1"] = torch.stack(margins)
    if hasattr(getattr(model.base_model, "rotary_emb", None), "inv_freq"):
        out["inv_freq"] = model.base_model.rotary_emb.inv_freq.clone()
    source = f"transformers {transformers.__version__} torch {torch.__version__} eager float32 cpu"
    save_file(out, folder / "golden.safetensors", metadata={"source": source})
    logits = out["logits_1"]
    print(f"{folder.name}: logits {logits.std():.2f}, smallest margin {out['greedy_margin_1'].min():.4f}")


def main():
    torch.manual_seed(0)
    for i, (name, (style, dtype, shards, config)) in enumerate(CASES.items()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        folder = HERE / name
        folder.mkdir(parents=True, exist_ok=True)
        generator = torch.Generator().manual_seed(1000 + i)
        write_config(folder, style, dtype, config)
        write_weights(folder, dtype, shards, generator)
        write_golden(folder, generator)


main()
