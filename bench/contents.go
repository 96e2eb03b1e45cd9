package bench

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/forge"
	"github.com/kvasir-llm/kvasir/weights"
)

// tensorList collects the tensors of a shape by their names in a GGUF.
type tensorList []forge.Translated

func (l *tensorList) add(name, slot string, layer int, shape ...int) {
	*l = append(*l, forge.Translated{Name: name, Slot: slot, Layer: layer, Shape: shape})
}

// weights lists a shape's tensors with the properties that recipes depend on.
func (s Shape) weights() []forge.Translated {
	var list tensorList
	list.add("token_embd.weight", "embed", 0, s.Vocab, s.Hidden)
	for i := range s.Layers {
		in := func(part, slot string, shape ...int) {
			list.add(fmt.Sprintf("blk.%d.%s.weight", i, part), slot, i, shape...)
			if n := len(shape); s.Family == "gpt-oss" && n > 1 {
				list.add(fmt.Sprintf("blk.%d.%s.bias", i, part), slot, i, shape[:n-1]...)
			}
		}
		in("attn_norm", "attn.norm", s.Hidden)
		s.attention(in)
		if s.Family == "gpt-oss" {
			in("attn_sinks", "sinks", s.Heads)
			in("post_attention_norm", "ffn.norm", s.Hidden)
		} else {
			in("ffn_norm", "ffn.norm", s.Hidden)
		}
		s.feedForward(i, in)
	}
	list.add("output_norm.weight", "norm", 0, s.Hidden)
	list.add("output.weight", "head", 0, s.Vocab, s.Hidden)
	return list
}

func (s Shape) attention(in func(part, slot string, shape ...int)) {
	q, kv, o := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim, s.Heads*s.HeadDim
	in("attn_q", "q", q, s.Hidden)
	if s.Family == "deepseek2" {
		in("attn_kv_a_mqa", "kv.latent", latentRank+latentRope, s.Hidden)
		in("attn_kv_a_norm", "kv.latent.norm", latentRank)
		in("attn_k_b", "k.up", s.Heads, latentRank, s.HeadDim-latentRope)
		in("attn_v_b", "v.up", s.Heads, latentValue, latentRank)
		o = s.Heads * latentValue
	} else {
		in("attn_k", "k", kv, s.Hidden)
		in("attn_v", "v", kv, s.Hidden)
	}
	in("attn_output", "o", s.Hidden, o)
	if s.arch() == "qwen3moe" {
		in("attn_q_norm", "q.norm", s.HeadDim)
		in("attn_k_norm", "k.norm", s.HeadDim)
	}
}

func (s Shape) feedForward(layer int, in func(part, slot string, shape ...int)) {
	m := s.Mixture
	if m.Experts == 0 || layer < m.Dense {
		in("ffn_gate", "gate", s.Width, s.Hidden)
		in("ffn_up", "up", s.Width, s.Hidden)
		in("ffn_down", "down", s.Hidden, s.Width)
		return
	}
	in("ffn_gate_inp", "router", m.Experts, s.Hidden)
	in("ffn_gate_exps", "experts.gate", m.Experts, m.Width, s.Hidden)
	in("ffn_up_exps", "experts.up", m.Experts, m.Width, s.Hidden)
	in("ffn_down_exps", "experts.down", m.Experts, s.Hidden, m.Width)
	if m.Shared > 0 {
		in("ffn_gate_shexp", "shared.gate", m.Shared*m.Width, s.Hidden)
		in("ffn_up_shexp", "shared.up", m.Shared*m.Width, s.Hidden)
		in("ffn_down_shexp", "shared.down", s.Hidden, m.Shared*m.Width)
	}
}

// arch is the architecture of a GGUF of the shape.
func (s Shape) arch() string {
	switch {
	case s.Family != "":
		return s.Family
	case s.Mixture.Experts > 0:
		return "qwen3moe"
	}
	return "llama"
}

// metadata describes the shape, and a tokenizer with one token for each word of the workloads. Packed ones are in no
// file, whose number they would have.
func (s Shape) metadata(fileType uint32, packed bool) []weights.KV {
	tokens, scores, types := s.tokens()
	meta := []weights.KV{
		{Key: "general.architecture", Value: s.arch()},
		{Key: "general.name", Value: s.Name},
		{Key: "general.quantization_version", Value: uint32(2)},
		{Key: "tokenizer.ggml.model", Value: "llama"},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.scores", Value: scores},
		{Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(1)},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(2)},
		{Key: "tokenizer.ggml.add_bos_token", Value: true},
		{Key: "tokenizer.chat_template", Value: "{% for m in messages %}{{ m.content }}{% endfor %}"},
	}
	if !packed {
		meta = append(meta, weights.KV{Key: "general.file_type", Value: fileType})
	}
	number := func(key string, n int) {
		meta = append(meta, weights.KV{Key: s.arch() + "." + key, Value: uint32(n)})
	}
	fraction := func(key string, v float32) {
		meta = append(meta, weights.KV{Key: s.arch() + "." + key, Value: v})
	}
	number("block_count", s.Layers)
	number("embedding_length", s.Hidden)
	number("feed_forward_length", s.Width)
	number("attention.head_count", s.Heads)
	number("attention.head_count_kv", s.KVHeads)
	number("context_length", 1<<17)
	number("vocab_size", s.Vocab)
	fraction("attention.layer_norm_rms_epsilon", 1e-5)
	fraction("rope.freq_base", 10000)
	if m := s.Mixture; m.Experts > 0 {
		number("expert_count", m.Experts)
		number("expert_used_count", m.Chosen)
		number("expert_feed_forward_length", m.Width)
	}
	switch s.Family {
	case "deepseek2":
		number("attention.key_length", latentRank+latentRope)
		number("attention.value_length", latentRank)
		number("attention.key_length_mla", s.HeadDim)
		number("attention.value_length_mla", latentValue)
		number("attention.kv_lora_rank", latentRank)
		number("rope.dimension_count", latentRope)
		number("leading_dense_block_count", s.Mixture.Dense)
		number("expert_shared_count", s.Mixture.Shared)
		fraction("expert_weights_scale", 1)
		return meta
	case "gpt-oss":
		number("attention.sliding_window", 128)
	}
	number("attention.key_length", s.HeadDim)
	number("attention.value_length", s.HeadDim)
	number("rope.dimension_count", s.HeadDim)
	return meta
}

// tokens returns a SentencePiece vocabulary: three special tokens, the bytes, the words with the prefixes that merge
// into them, and synthetic words for the rest.
func (s Shape) tokens() (tokens []string, scores []float32, types []int32) {
	const normal, unknown, control, isByte = 1, 2, 3, 6
	add := func(token string, score float32, kind int32) {
		if len(tokens) < s.Vocab {
			tokens, scores, types = append(tokens, token), append(scores, score), append(types, kind)
		}
	}
	add("<unk>", 0, unknown)
	add("<s>", 0, control)
	add("</s>", 0, control)
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), 0, isByte)
	}
	seen := map[string]bool{}
	for _, w := range words {
		for n := range len(w) + 1 {
			if token := "▁" + w[:n]; !seen[token] {
				seen[token] = true
				add(token, -float32(n), normal)
			}
		}
	}
	for c := 'a'; c <= 'z'; c++ {
		add(string(c), -100, normal)
	}
	for len(tokens) < s.Vocab {
		add(fmt.Sprintf("▁q%d", len(tokens)), -1000, normal)
	}
	return tokens, scores, types
}
