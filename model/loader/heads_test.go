package loader_test

import (
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// asLlama writes a checkpoint as a GGUF of the architecture llama, in which the halves of what a rope turns of each
// head alternate: the rows of queries and keys, joined with values or not, their biases, and the gains of their norms.
func asLlama(t *testing.T, ckpt *weights.Checkpoint) *weights.Checkpoint {
	t.Helper()
	plain := golden.AsGGUF(t, ckpt, quant.F32)
	spec := golden.Spec(t, plain)
	a := spec.Layers[0].Mixer.(model.GQA)
	turned := 2 * len(spec.Ropes[a.Rope].Freqs)
	var meta []weights.KV
	for _, kv := range golden.Metadata(plain) {
		if kv.Key == "general.architecture" {
			kv.Value = "llama"
		}
		kv.Key = strings.Replace(kv.Key, spec.Family+".", "llama.", 1)
		meta = append(meta, kv)
	}
	var tensors []weights.Source
	for _, info := range plain.Tensors() {
		v := golden.Values(t, plain, info.Name)
		width, heads := len(v)/info.Shape[0], 0
		switch {
		case strings.Contains(info.Name, "attn_qkv."):
			heads = a.Heads + a.KVHeads
		case strings.Contains(info.Name, "attn_q"), strings.Contains(info.Name, "attn_k"):
			heads = info.Shape[0] / a.HeadDim
		}
		for h := range heads {
			head := v[h*a.HeadDim*width:][:turned*width]
			copy(head, permuted(head, turned, turned))
		}
		tensors = append(tensors, golden.Source(t, info.Name, quant.F32, info.Shape, v))
	}
	return golden.GGUF(t, meta, tensors)
}

// TestHeadsOfGGUF loads models in whose GGUF halves of heads alternate: what they compute is, to the last bit, what
// they do from files in which they do not.
func TestHeadsOfGGUF(t *testing.T) {
	for name, want := range map[string]func(a model.GQA, s *model.Spec) bool{
		"qwen3":        func(a model.GQA, _ *model.Spec) bool { return a.QKNorm },
		"qwen2_plain":  func(a model.GQA, _ *model.Spec) bool { return a.QKVBias },
		"phi3_partial": func(a model.GQA, s *model.Spec) bool { return 2*len(s.Ropes[a.Rope].Freqs) < a.HeadDim },
	} {
		t.Run(name, func(t *testing.T) {
			g := golden.Open(t, name)
			ids, ckpt := g.Ints(t, "ids_0"), asLlama(t, g.Ckpt)
			spec := golden.Spec(t, ckpt)
			if a := spec.Layers[0].Mixer.(model.GQA); spec.Family != "llama" || spec.Ropes[0].Interleaved || !want(a, spec) {
				t.Fatalf("%+v", spec)
			}
			golden.SameBits(t, name, golden.NewRunner(t, ckpt, "").Run(t, ids, 0), golden.NewRunner(t, g.Ckpt, "").Run(t, ids, 0))
		})
	}
}
