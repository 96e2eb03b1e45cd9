package model

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/weights"
)

// FuzzConfig reads any config.json: never a panic, never more layers or frequencies than the bounds allow.
func FuzzConfig(f *testing.F) {
	for _, name := range committed(f) {
		data, err := os.ReadFile(filepath.Join("testdata", "goldens", name, "config.json"))
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
			checkBounds(t, s)
		}
	})
}

// FuzzQuantized loads the tensors of quantised checkpoints by any config.json: a weight whose values can be read, or an error.
func FuzzQuantized(f *testing.F) {
	names := quantizedGoldens(f)
	var ckpts []*weights.Checkpoint
	for i, name := range names {
		data, err := os.ReadFile(filepath.Join("testdata", "quantized", name, "config.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), data)
		f.Add(uint8(i+1), data)
		ckpts = append(ckpts, openQuantized(f, name).ckpt)
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		_, s, err := jsonSpec(data)
		if err != nil {
			return
		}
		ckpt := ckpts[int(which)%len(ckpts)]
		a, fam := s.Layers[0].Attn, familyOf(s)
		for slot, shape := range map[string][2]int{
			"q": {a.Heads * a.HeadDim, s.Hidden}, "o": {s.Hidden, a.Heads * a.ValueDim}, "down": {s.Hidden, s.Layers[0].FFN.Width},
		} {
			l := &loader{ckpt: ckpt, dev: &keeper{}, family: fam, slots: slotsOf(fam, ckpt), used: map[string]bool{}, quantized: s.Quantization}
			if src := l.stored(l.slots.name(slot, 0), shape[0], shape[1]); l.err == nil {
				if v, err := expanded(src); err != nil || len(v) != shape[0]*shape[1] {
					t.Fatalf("%s: %d values, %v", slot, len(v), err)
				}
			}
		}
	})
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
		c, _, err := GGUFConfig(meta)
		if err != nil {
			t.Fatal(err)
		}
		c.values["vocab_size"] = uint64(5)
		if s, err := families[int(which)%len(families)].read(c); err == nil {
			checkBounds(t, s)
		}
	})
}

func checkBounds(t *testing.T, s *Spec) {
	t.Helper()
	if len(s.Layers) < 1 || len(s.Layers) > maxLayers || len(s.Ropes) > 2 {
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
