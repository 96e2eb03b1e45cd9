package family

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Slots are the names of a model's tensors, without ".weight" and ".bias". The patterns' %d is the layer.
type Slots map[string]string

// Name returns the tensor name of a slot of layer i, without its suffix.
func (s Slots) Name(slot string, i int) string {
	if pattern := s[slot]; strings.Contains(pattern, "%d") {
		return fmt.Sprintf(pattern, i)
	}
	return s[slot]
}

// All walks through the slots by name, so that of several faults always the same is found first.
func (s Slots) All() iter.Seq2[string, string] {
	return func(yield func(slot, pattern string) bool) {
		for _, slot := range slices.Sorted(maps.Keys(s)) {
			if !yield(slot, s[slot]) {
				return
			}
		}
	}
}

// PerExpert reports whether each expert has a tensor of its own: the pattern's second %d is the expert.
func (s Slots) PerExpert(slot string) bool { return strings.Count(s[slot], "%d") == 2 }

// Expert returns the tensor name of expert e in a slot of layer i, without its suffix.
func (s Slots) Expert(slot string, i, e int) string { return fmt.Sprintf(s[slot], i, e) }

// Tensors returns the names of the tensors that a slot of layer i may have: of slots with a tensor for each expert,
// the first one's.
func (s Slots) Tensors(slot string, i int) []string {
	if s.PerExpert(slot) {
		return []string{s.Expert(slot, i, 0) + ".weight", s.Expert(slot, i, 0) + ".bias"}
	}
	name := s.Name(slot, i)
	return []string{name, name + ".weight", name + ".bias"}
}

// hfSlots are the names in most safetensors checkpoints. "qkv" holds the rows of "q", "k" and "v", and "gate_up"
// those of "gate" and "up", in checkpoints that do not have them apart. "sinks" and "scores.bias" are whole names.
var hfSlots = Slots{
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

	"sinks": "model.layers.%d.self_attn.sinks",

	"router":          "model.layers.%d.mlp.gate",
	"scores.bias":     "model.layers.%d.mlp.gate.e_score_correction_bias",
	"experts.gate_up": "model.layers.%d.mlp.experts.gate_up_proj",
	"experts.gate":    "model.layers.%d.mlp.experts.%d.gate_proj",
	"experts.up":      "model.layers.%d.mlp.experts.%d.up_proj",
	"experts.down":    "model.layers.%d.mlp.experts.%d.down_proj",
	"shared.gate":     "model.layers.%d.mlp.shared_experts.gate_proj",
	"shared.up":       "model.layers.%d.mlp.shared_experts.up_proj",
	"shared.down":     "model.layers.%d.mlp.shared_experts.down_proj",
	"shared.factor":   "model.layers.%d.mlp.shared_expert_gate",
}

// ggufSlots are the names in GGUF files.
var ggufSlots = Slots{
	"embed":     "token_embd",
	"positions": "position_embd",
	"types":     "token_types",
	"pooler":    "cls",
	"classes":   "cls.output",
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

	"sinks": "blk.%d.attn_sinks.weight",

	"router":          "blk.%d.ffn_gate_inp",
	"scores.bias":     "blk.%d.exp_probs_b.bias",
	"experts.gate_up": "blk.%d.ffn_gate_up_exps",
	"experts.gate":    "blk.%d.ffn_gate_exps",
	"experts.up":      "blk.%d.ffn_up_exps",
	"experts.down":    "blk.%d.ffn_down_exps",
	"shared.gate":     "blk.%d.ffn_gate_shexp",
	"shared.up":       "blk.%d.ffn_up_shexp",
	"shared.down":     "blk.%d.ffn_down_shexp",
	"shared.factor":   "blk.%d.ffn_gate_inp_shexp",
}
