package engine

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/internal/devicetest"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/weights"
)

// TestSameTokensOnDevices is the same for every device of this machine, with its own type of keys and values. The
// processor plays few scenarios with one model, since the test above has them all.
func TestSameTokensOnDevices(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, dev compute.Device) {
		processor := strings.HasPrefix(dev.Name(), "cpu")
		for _, name := range []string{
			"llama", "mistral_swa", "qwen3", "gemma3", "gpt_oss_mxfp4", "deepseek_v2_groups", "qwen3_next_heads",
			"../quantized/ct_fp8",
		} {
			if processor && name != "mistral_swa" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				m, err := openGolden(t, name, dev)
				if err == nil {
					m.KVType = dev.KVTypes()[0]
					m.MakeSlots(2)
					var r *model.Runner
					if r, err = m.NewRunner(512, 16, 16, 16); err == nil {
						err = r.Close()
					}
				}
				if errors.Is(err, compute.ErrUnsupported) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				tp := newTape()
				want := reference.play(t, m, tp)
				for _, sc := range scenarios {
					if m.Spec.Recurrent() && len(sc.tiers(1, "")) > 0 || processor && !sc.anyKernels {
						continue
					}
					sc.fast = !processor
					t.Run(sc.name, func(t *testing.T) {
						for n, got := range sc.play(t, m, tp) {
							if !slices.Equal(got, want[n]) {
								t.Errorf("request %d: got %v; want %v", n, got, want[n])
							}
						}
					})
				}
			})
		}
	})
}

// openGolden loads one of the model package's checkpoints on a device.
func openGolden(t *testing.T, name string, dev compute.Device) (*model.Model, error) {
	t.Helper()
	ckpt, err := weights.Open(filepath.Join("..", "model", "testdata", "goldens", name, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer ckpt.Close()
	return loader.Model(ckpt, dev, nil)
}

// loadGolden loads one on a processor of its own.
func loadGolden(t *testing.T, name string, o cpu.Options) *model.Model {
	t.Helper()
	dev, err := cpu.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	m, err := openGolden(t, name, dev)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
