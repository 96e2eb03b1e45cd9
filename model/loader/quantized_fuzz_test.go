package loader_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/weights"
)

// FuzzQuantized loads the tensors of quantised checkpoints by any config.json: a weight whose values can be read, or
// an error.
func FuzzQuantized(f *testing.F) {
	dir := f.TempDir()
	var ckpts []*weights.Checkpoint
	for i, name := range golden.Quantized(f) {
		data, err := os.ReadFile(golden.Path(f, "quantized", name, "config.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), data)
		f.Add(uint8(i+1), data)
		link := filepath.Join(dir, name+".safetensors")
		if err := os.Symlink(golden.Path(f, "quantized", name, "model.safetensors"), link); err != nil {
			f.Fatal(err)
		}
		ckpts = append(ckpts, golden.Checkpoint(f, link))
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		ckpt := ckpts[int(which)%len(ckpts)]
		s, err := family.Read(ckpt)
		if err != nil {
			return
		}
		a, ok := s.Layers[0].Mixer.(model.GQA)
		if !ok {
			return
		}
		for slot, shape := range map[string][2]int{
			"q": {a.Heads * a.HeadDim, s.Hidden}, "o": {s.Hidden, a.Heads * a.ValueDim}, "down": {s.Hidden, s.Layers[0].FFN.Width},
		} {
			r := loader.NewReader(ckpt, s, family.LayoutOf(s, ckpt))
			if src := r.Stored(slot, 0, shape[0], shape[1]); r.Err() == nil {
				if v, err := loader.Expanded(src); err != nil || len(v) != shape[0]*shape[1] {
					t.Fatalf("%s: %d values, %v", slot, len(v), err)
				}
			}
		}
	})
}
