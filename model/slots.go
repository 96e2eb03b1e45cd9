package model

import (
	"fmt"
	"maps"
	"strings"

	"github.com/kvasir-llm/kvasir/weights"
)

// slots are the names of a model's tensors, without ".weight" and ".bias". The patterns' %d is the layer.
type slots map[string]string

// name returns the tensor name of a slot of layer i, without its suffix.
func (s slots) name(slot string, i int) string {
	if pattern := s[slot]; strings.Contains(pattern, "%d") {
		return fmt.Sprintf(pattern, i)
	}
	return s[slot]
}

// hfSlots are the names in most safetensors checkpoints. "qkv" holds the rows of "q", "k" and "v", and "gate_up" those of
// "gate" and "up", in checkpoints that do not have them apart.
var hfSlots = slots{
	"embed":     "model.embed_tokens",
	"norm":      "model.norm",
	"head":      "lm_head",
	"attn.norm": "model.layers.%d.input_layernorm",
	"qkv":       "model.layers.%d.self_attn.qkv_proj",
	"q":         "model.layers.%d.self_attn.q_proj",
	"k":         "model.layers.%d.self_attn.k_proj",
	"v":         "model.layers.%d.self_attn.v_proj",
	"o":         "model.layers.%d.self_attn.o_proj",
	"q.norm":    "model.layers.%d.self_attn.q_norm",
	"k.norm":    "model.layers.%d.self_attn.k_norm",
	"ffn.norm":  "model.layers.%d.post_attention_layernorm",
	"gate_up":   "model.layers.%d.mlp.gate_up_proj",
	"gate":      "model.layers.%d.mlp.gate_proj",
	"up":        "model.layers.%d.mlp.up_proj",
	"down":      "model.layers.%d.mlp.down_proj",
}

// ggufSlots are the names in GGUF files.
var ggufSlots = slots{
	"embed":     "token_embd",
	"positions": "position_embd",
	"norm":      "output_norm",
	"head":      "output",
	"attn.norm": "blk.%d.attn_norm",
	"attn.post": "blk.%d.post_attention_norm",
	"qkv":       "blk.%d.attn_qkv",
	"q":         "blk.%d.attn_q",
	"k":         "blk.%d.attn_k",
	"v":         "blk.%d.attn_v",
	"o":         "blk.%d.attn_output",
	"q.norm":    "blk.%d.attn_q_norm",
	"k.norm":    "blk.%d.attn_k_norm",
	"ffn.norm":  "blk.%d.ffn_norm",
	"ffn.post":  "blk.%d.post_ffw_norm",
	"gate_up":   "blk.%d.ffn_up",
	"gate":      "blk.%d.ffn_gate",
	"up":        "blk.%d.ffn_up",
	"down":      "blk.%d.ffn_down",
}

// layouts say where the decoder stands in a safetensors checkpoint: by itself, as a part of a model that also sees or
// hears, in the older and the newer way, or without the prefix of its class.
var layouts = []func(name string) string{
	func(name string) string { return name },
	func(name string) string { return "language_model." + name },
	func(name string) string { return strings.Replace(name, "model.", "model.language_model.", 1) },
	func(name string) string { return strings.TrimPrefix(name, "transformer.") },
}

// slotsOf returns the names of a family's tensors in a checkpoint.
func slotsOf(f *family, ckpt *weights.Checkpoint) slots {
	if ckpt.Format() == weights.GGUF {
		return ggufSlots
	}
	names := maps.Clone(hfSlots)
	maps.Copy(names, f.slots)
	for _, layout := range layouts {
		out := slots{}
		for slot, name := range names {
			out[slot] = layout(name)
		}
		if _, ok := ckpt.Tensor(out["embed"] + ".weight"); ok {
			return out
		}
	}
	return names
}
