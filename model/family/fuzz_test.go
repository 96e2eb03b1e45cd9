package family

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/reference"
	"github.com/kvasir-llm/kvasir/model"
)

// FuzzConfig reads any config.json: never a panic, never more layers or frequencies than the bounds allow.
func FuzzConfig(f *testing.F) {
	for _, name := range goldens(f) {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(tinyConfig(f, "num_hidden_layers", 1000000000))
	f.Add(tinyConfig(f, "head_dim", 1e18, "num_attention_heads", 1<<31))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, s, err := jsonSpec(data)
		if err == nil {
			checkBounds(t, &s.Spec)
		}
	})
}

// goldens returns the config.json of each decoder in model/testdata.
func goldens(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(reference.Repository(t), "model", "testdata", "goldens", "*", "config.json"))
	if err != nil || len(files) < 6 {
		t.Fatalf("found %v (%v)", files, err)
	}
	return files
}

// FuzzGGUFMetadata changes two keys of a GGUF's metadata.
func FuzzGGUFMetadata(f *testing.F) {
	keys := []string{"sliding_window"}
	for key := range ggufNames {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	f.Add(uint8(0), uint8(0), 4.0, "", uint8(1), 2.0, "yarn")
	f.Add(uint8(6), uint8(20), math.NaN(), "", uint8(21), math.Inf(-1), "linear")
	f.Fuzz(func(t *testing.T, which uint8, a uint8, av float64, at string, b uint8, bv float64, bt string) {
		meta := map[string]any{
			"general.architecture": "llama", "llama.embedding_length": uint32(8), "llama.block_count": uint32(1),
			"llama.attention.head_count": uint32(2), "llama.feed_forward_length": uint32(12), "llama.context_length": uint32(64),
			"llama.attention.layer_norm_rms_epsilon": float32(1e-5), "llama.attention.layer_norm_epsilon": float32(1e-5),
		}
		put := func(key uint8, v float64, text string) {
			if name := "llama." + keys[int(key)%len(keys)]; text != "" {
				meta[name] = text
			} else {
				meta[name] = v
			}
		}
		put(a, av, at)
		put(b, bv, bt)
		c, _, err := ggufConfig(meta)
		if err != nil {
			t.Fatal(err)
		}
		c.values["vocab_size"] = uint64(5)
		if s, err := families[int(which)%len(families)].read(c); err == nil {
			checkBounds(t, &s.Spec)
		}
	})
}

func checkBounds(t *testing.T, s *model.Spec) {
	t.Helper()
	if len(s.Layers) < 1 || len(s.Layers) > model.MaxLayers || len(s.Ropes) > 2 {
		t.Errorf("%d layers, %d ropes", len(s.Layers), len(s.Ropes))
	}
	for _, r := range s.Ropes {
		if len(r.Freqs) > 1<<15 {
			t.Errorf("a rope of %d frequencies", len(r.Freqs))
		}
		for i, f := range r.Freqs {
			if !(f >= 0 && !math.IsInf(float64(f), 0)) {
				t.Errorf("frequency %d is %v", i, f)
			}
		}
		if scale := float64(r.Scale); !(scale > 0) || math.IsInf(scale, 0) {
			t.Errorf("rope scale is %v", scale)
		}
	}
}
