package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/weights"
)

// readGGUF reads an adapter as llama.cpp's converter writes it: general.type is adapter, adapter.type is lora, and each
// weight's matrices are <tensor>.lora_a and <tensor>.lora_b. They count adapter.lora.alpha / rank, or 1 if alpha is 0.
func (r *adapterReader) readGGUF() error {
	meta, f := r.ckpt.Metadata(), familyOf(r.m.Spec)
	for key, want := range map[string]string{"general.type": "adapter", "adapter.type": "lora"} {
		if v := meta[key]; v != want {
			return fmt.Errorf("%q is %s; want %q", key, show(v), want)
		}
	}
	if arch, _ := meta["general.architecture"].(string); !slices.Contains(f.archs, arch) {
		return fmt.Errorf("it is for the architecture %q; the model is a %s (%s)", arch, f.types[0], strings.Join(f.archs, ", "))
	}
	alpha, ok := number(meta["adapter.lora.alpha"])
	if !ok {
		return fmt.Errorf("%q is %s; want a number", "adapter.lora.alpha", show(meta["adapter.lora.alpha"]))
	}
	for key := range meta {
		if strings.HasPrefix(key, "adapter.") && key != "adapter.type" && key != "adapter.lora.alpha" && key != "adapter.lora.task_name" && key != "adapter.lora.prompt_prefix" {
			return fmt.Errorf("%q is %s, which is not supported", key, show(meta[key]))
		}
	}
	r.name(f.slotsIn(weights.GGUF), func(name string) string { return name })
	pairs, err := r.pairs(func(name string) (string, bool, bool) {
		path, isB := strings.CutSuffix(name, ".weight.lora_b")
		if !isB {
			var isA bool
			if path, isA = strings.CutSuffix(name, ".weight.lora_a"); !isA {
				return "", false, false
			}
		}
		return path, isB, true
	})
	if err != nil {
		return err
	}
	for path, p := range sorted(pairs) {
		scale := 1.0
		if alpha != 0 && p.a.Name != "" {
			scale = alpha / float64(p.a.Shape[0])
		}
		if err := r.add(path, p, scale); err != nil {
			return err
		}
	}
	return nil
}
