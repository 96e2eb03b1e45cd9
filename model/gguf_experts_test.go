package model

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// inExperts reports whether a tensor belongs to the experts of a mixture.
func inExperts(name string) bool { return strings.Contains(name, ".experts.") }

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

// TestExpertsApart loads experts from a tensor for each, as the first GGUFs with experts had them.
func TestExpertsApart(t *testing.T) {
	g := openGolden(t, "mixtral")
	stacked := asGGUF(t, g.ckpt, quant.F32)
	var meta []weights.KV
	for _, k := range stacked.MetadataKeys() {
		meta = append(meta, weights.KV{Key: k, Value: stacked.Metadata()[k]})
	}
	var tensors []weights.Source
	for _, info := range stacked.Tensors() {
		w, _ := stacked.Tensor(info.Name)
		stem, experts := strings.CutSuffix(info.Name, "_exps.weight")
		if !experts {
			tensors = append(tensors, weights.Source{Name: info.Name, Type: info.Type, Shape: info.Shape, Write: weights.Bytes(w.Data)})
			continue
		}
		size := len(w.Data) / info.Shape[0]
		for e := range info.Shape[0] {
			part := weights.Bytes(w.Data[e*size:][:size])
			tensors = append(tensors, weights.Source{Name: fmt.Sprintf("%s.%d.weight", stem, e), Type: info.Type, Shape: info.Shape[1:], Write: part})
		}
	}
	checkLogits(t, g, newRunner(t, written(t, meta, tensors), ""))
}
