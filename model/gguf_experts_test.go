package model

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/weights"
)

// inExperts reports whether a tensor belongs to the experts of a mixture.
func inExperts(name string) bool { return strings.Contains(name, ".experts.") }

// expertTensors returns the experts of a golden with a name and values of a GGUF: one tensor for all experts of a layer.
func expertTensors(t *testing.T, ckpt *weights.Checkpoint, names slots, put func(name string, shape []int, v []float32)) {
	t.Helper()
	for i := range 10 {
		if pairs := names.name("experts.gate_up", i); names["experts.gate"] == "" {
			pairedTensors(t, ckpt, pairs, names.name("experts.down", i), i, put)
			continue
		}
		for _, slot := range []string{"experts.gate", "experts.up", "experts.down"} {
			var all []float32
			var shape []int
			for e := range 100 {
				info, ok := ckpt.Tensor(names.expert(slot, i, e) + ".weight")
				if !ok {
					break
				}
				all, shape = append(all, values(t, ckpt, info.Name)...), []int{e + 1, info.Shape[0], info.Shape[1]}
			}
			if shape != nil {
				put(ggufSlots.name(slot, i)+".weight", shape, all)
			}
		}
	}
}

// pairedTensors does the same for gates and ups by turns in the columns of [experts, in, 2·out].
func pairedTensors(t *testing.T, ckpt *weights.Checkpoint, pairs, down string, i int, put func(name string, shape []int, v []float32)) {
	t.Helper()
	for _, from := range []struct {
		name, slot  string
		step, first int
	}{{pairs, "experts.gate", 2, 0}, {pairs, "experts.up", 2, 1}, {down, "experts.down", 1, 0}} {
		bias, ok := ckpt.Tensor(from.name + "_bias")
		if !ok {
			continue
		}
		v, biases := pairedValues(t, ckpt, from.name), values(t, ckpt, bias.Name)
		count, out := bias.Shape[0], bias.Shape[1]/from.step
		in := len(v) / len(biases)
		var turned, mine []float32
		for e := range count {
			for o := range out {
				for k := range in {
					turned = append(turned, v[(e*in+k)*out*from.step+o*from.step+from.first])
				}
				mine = append(mine, biases[(e*out+o)*from.step+from.first])
			}
		}
		put(ggufSlots.name(from.slot, i)+".weight", []int{count, out, in}, turned)
		put(ggufSlots.name(from.slot, i)+".bias", []int{count, out}, mine)
	}
}

// pairedValues returns the values of gpt-oss's experts as [experts, in, out]. Packed ones are blocks of 32 values of each output:
// an exponent of two, which counts from 127, times four-bit floats, of which the first stands in a byte's low half.
func pairedValues(t *testing.T, ckpt *weights.Checkpoint, name string) []float32 {
	t.Helper()
	blocks, ok := ckpt.Tensor(name + "_blocks")
	if !ok {
		return values(t, ckpt, name)
	}
	scales, _ := ckpt.Tensor(name + "_scales")
	floats := []float64{0, 0.5, 1, 1.5, 2, 3, 4, 6}
	count, out, in := blocks.Shape[0], blocks.Shape[1], blocks.Shape[2]*32
	v := make([]float32, count*out*in)
	for i := range v {
		e, o, k := i/(out*in), i/in%out, i%in
		code := blocks.Data[i/2] >> (i % 2 * 4) & 15
		f := math.Ldexp(floats[code&7], int(scales.Data[i/32])-127)
		if code > 7 {
			f = -f
		}
		v[(e*in+k)*out+o] = float32(f)
	}
	return v
}

// expertMeta are the keys of mixtures in a GGUF, by model type.
var expertMeta = map[string]map[string]string{
	"mixtral": {"expert_count": "num_local_experts"},
	"qwen2_moe": {"expert_count": "num_experts", "expert_feed_forward_length": "moe_intermediate_size",
		"expert_shared_feed_forward_length": "shared_expert_intermediate_size"},
	"qwen3_moe": {"expert_count": "num_experts", "expert_feed_forward_length": "moe_intermediate_size"},
	"olmoe":     {"expert_count": "num_experts"},
	"glm4_moe": {"expert_count": "n_routed_experts", "expert_feed_forward_length": "moe_intermediate_size",
		"expert_shared_count": "n_shared_experts", "leading_dense_block_count": "first_k_dense_replace",
		"expert_group_count": "n_group", "expert_group_used_count": "topk_group"},
	"gpt_oss": {"expert_count": "num_local_experts", "expert_feed_forward_length": "intermediate_size"},
}

// putExpertMeta writes the metadata of a mixture.
func putExpertMeta(kind string, config map[string]any, put func(key string, v any)) {
	keys := expertMeta[kind]
	if keys == nil {
		return
	}
	if config["num_experts"] == nil {
		config["num_experts"] = config["num_local_experts"]
	}
	for theirs, ours := range keys {
		if v, ok := config[ours].(float64); ok {
			put(theirs, uint32(v))
		}
	}
	if norm, ok := config["norm_topk_prob"]; ok {
		put("expert_weights_norm", norm)
	}
	put("expert_used_count", uint32(config["num_experts_per_tok"].(float64)))
	switch kind {
	case "glm4_moe":
		put("expert_gating_func", uint32(2))
		put("expert_weights_scale", float32(config["routed_scaling_factor"].(float64)))
		put("nextn_predict_layers", uint32(1))
		put("rope.dimension_count", turned(config))
	case "gpt_oss":
		put("attention.sliding_window", uint32(config["sliding_window"].(float64)))
	}
}

// TestExpertsStacked loads experts from the one tensor that newer files keep them in: gates and ups joined, all experts stacked.
func TestExpertsStacked(t *testing.T) {
	const name = "qwen3_moe"
	g := openGolden(t, name)
	var joined []weights.Source
	for i := range 2 {
		var parts [2][]byte
		var down []byte
		kind, _ := g.ckpt.Tensor(fmt.Sprintf(hfSlots["experts.gate"], i, 0) + ".weight")
		for e := range 8 {
			for _, slot := range []string{"experts.gate", "experts.up"} {
				w, _ := g.ckpt.Tensor(hfSlots.expert(slot, i, e) + ".weight")
				parts[0] = append(parts[0], w.Data...)
			}
			w, _ := g.ckpt.Tensor(hfSlots.expert("experts.down", i, e) + ".weight")
			down = append(down, w.Data...)
		}
		width, hidden := kind.Shape[0], kind.Shape[1]
		joined = append(joined,
			weights.Source{Name: hfSlots.name("experts.gate_up", i), Type: kind.Type, Shape: []int{8, 2 * width, hidden}, Write: weights.Bytes(parts[0])},
			weights.Source{Name: fmt.Sprintf("model.layers.%d.mlp.experts.down_proj", i), Type: kind.Type, Shape: []int{8, hidden, width}, Write: weights.Bytes(down)})
	}
	rename := func(name string) string {
		if inExperts(name) {
			return ""
		}
		return name
	}
	same := func(c map[string]any) map[string]any { return c }
	checkLogits(t, g, newRunner(t, rewritten(t, g, rename, same, joined...), ""))
}
