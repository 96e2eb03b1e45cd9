package loader

import (
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/model/family"
)

// readGGUF reads an adapter as llama.cpp's converter writes it: general.type is adapter, adapter.type is lora, and each
// weight's matrices are <tensor>.lora_a and <tensor>.lora_b. They count adapter.lora.alpha / rank, or 1 if alpha is 0.
func (r *adapterReader) readGGUF() error {
	c := family.NewConfig("GGUF", r.ckpt.Metadata())
	for _, want := range [][2]string{{"general.type", "adapter"}, {"adapter.type", "lora"}} {
		if v := c.Text(want[0]); v != want[1] {
			c.Fail("%q is %q; want %q", want[0], v, want[1])
		}
	}
	if arch, archs := c.Text("general.architecture"), family.Architectures(r.m.Spec); !slices.Contains(archs, arch) {
		c.Fail("it is for the architecture %q; the model is a %s (%s)", arch, r.m.Spec.Family, strings.Join(archs, ", "))
	}
	alpha := c.Float("adapter.lora.alpha")
	for _, key := range c.Unread() {
		if strings.HasPrefix(key, "adapter.") && key != "adapter.lora.task_name" && key != "adapter.lora.prompt_prefix" {
			c.Refuse(key)
		}
	}
	if c.Err() != nil {
		return c.Err()
	}
	r.name(r.layout.Slots, func(name string) []string { return []string{name} })
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
