package model

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// released are the configurations of models in the field: what matters of their config.json, in the style they came in,
// and of the metadata of their GGUF files, by key after the architecture's name.
var released = []struct {
	name, config string
	arch         string
	meta         map[string]any
	bytes        int64 // of a token's keys and values
	differ       func(s *Spec)
}{
	{
		"TinyLlama 1.1B", `{"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "max_position_embeddings": 2048,
			"num_attention_heads": 32, "num_hidden_layers": 22, "num_key_value_heads": 4, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
			"rope_scaling": null, "rope_theta": 10000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 32000,
			"attention_bias": false, "hidden_act": "silu"}`,
		"llama", map[string]any{"context_length": uint32(2048), "embedding_length": uint32(2048), "block_count": uint32(22),
			"feed_forward_length": uint32(5632), "rope.dimension_count": uint32(64), "attention.head_count": uint32(32),
			"attention.head_count_kv": uint32(4), "attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(10000)},
		22 * 4 * 64 * 2 * 4, nil,
	},
	{
		"Llama 3.2 1B", `{"model_type": "llama", "attention_bias": false, "head_dim": 64, "hidden_size": 2048, "intermediate_size": 8192,
			"max_position_embeddings": 131072, "mlp_bias": false, "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
			"pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
			"original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": true,
			"vocab_size": 128256}`,
		"llama", map[string]any{"block_count": uint32(16), "context_length": uint32(131072), "embedding_length": uint32(2048),
			"feed_forward_length": uint32(8192), "attention.head_count": uint32(32), "attention.head_count_kv": uint32(8),
			"rope.freq_base": float32(500000), "attention.layer_norm_rms_epsilon": float32(1e-5), "attention.key_length": uint32(64),
			"attention.value_length": uint32(64), "vocab_size": uint32(128256), "rope.dimension_count": uint32(64)},
		16 * 8 * 64 * 2 * 4, func(s *Spec) { s.Ropes[0].Freqs = nil }, // the GGUF has the stretch in a tensor
	},
	{
		"Mistral 7B v0.1", `{"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
			"num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
			"sliding_window": 4096, "tie_word_embeddings": false, "vocab_size": 32000}`,
		"llama", map[string]any{"context_length": uint32(32768), "embedding_length": uint32(4096), "block_count": uint32(32),
			"feed_forward_length": uint32(14336), "rope.dimension_count": uint32(128), "attention.head_count": uint32(32),
			"attention.head_count_kv": uint32(8), "attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(10000)},
		32 * 8 * 128 * 2 * 4, func(s *Spec) { s.each(func(_ int, l *Layer) { l.Attn.Window = 0 }) }, // the GGUF has no window
	},
	{
		"Mistral 7B v0.3", `{"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
			"num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
			"sliding_window": null, "tie_word_embeddings": false, "vocab_size": 32768}`,
		"llama", map[string]any{"context_length": uint32(32768), "embedding_length": uint32(4096), "block_count": uint32(32),
			"feed_forward_length": uint32(14336), "rope.dimension_count": uint32(128), "attention.head_count": uint32(32), "vocab_size": uint32(32768),
			"attention.head_count_kv": uint32(8), "attention.layer_norm_rms_epsilon": float32(1e-5), "rope.freq_base": float32(1000000)},
		32 * 8 * 128 * 2 * 4, nil,
	},
	{
		"Qwen2.5 0.5B", `{"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "max_position_embeddings": 32768,
			"max_window_layers": 21, "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
			"rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936}`,
		"qwen2", map[string]any{"block_count": uint32(24), "context_length": uint32(32768), "embedding_length": uint32(896),
			"feed_forward_length": uint32(4864), "attention.head_count": uint32(14), "attention.head_count_kv": uint32(2),
			"rope.freq_base": float32(1000000), "attention.layer_norm_rms_epsilon": float32(1e-6)},
		24 * 2 * 64 * 2 * 4, nil,
	},
	{
		"Qwen3 0.6B", `{"model_type": "qwen3", "attention_bias": false, "head_dim": 128, "hidden_size": 1024, "intermediate_size": 3072,
			"max_position_embeddings": 40960, "max_window_layers": 28, "num_attention_heads": 16, "num_hidden_layers": 28,
			"num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
			"tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936}`,
		"qwen3", map[string]any{"block_count": uint32(28), "context_length": uint32(40960), "embedding_length": uint32(1024),
			"feed_forward_length": uint32(3072), "attention.head_count": uint32(16), "attention.head_count_kv": uint32(8),
			"rope.freq_base": float32(1000000), "attention.layer_norm_rms_epsilon": float32(1e-6), "attention.key_length": uint32(128),
			"attention.value_length": uint32(128)},
		28 * 8 * 128 * 2 * 4, nil,
	},
}

// TestReleased reads both files of each model: they must say the same, but for what is noted, and for the order of the
// values in a rotated pair, the family's name, and tying and vocabulary, which a GGUF says by its tensors.
func TestReleased(t *testing.T) {
	for _, m := range released {
		t.Run(m.name, func(t *testing.T) {
			want, err := jsonSpec([]byte(m.config))
			if err != nil {
				t.Fatal(err)
			}
			if got := want.KVTokenBytes(); got != m.bytes {
				t.Errorf("a token takes %d bytes of cache; want %d", got, m.bytes)
			}
			meta := map[string]any{"general.architecture": m.arch}
			for key, v := range m.meta {
				meta[m.arch+"."+key] = v
			}
			c, _, err := GGUFConfig(meta)
			if err != nil {
				t.Fatal(err)
			}
			c.values["vocab_size"] = uint64(want.Vocab)
			var got *Spec
			for _, f := range families {
				if len(f.archs) > 0 && f.archs[0] == m.arch {
					got, err = f.read(c)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if paired := m.arch == "llama"; got.Ropes[0].Interleaved != paired {
				t.Errorf("pairs are neighbours: %v; want %v", got.Ropes[0].Interleaved, paired)
			}
			got.Ropes[0].Interleaved, got.TiedHead, got.Family = false, want.TiedHead, want.Family
			if m.differ != nil {
				m.differ(got)
				m.differ(want)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("config.json and GGUF differ (-config +GGUF):\n%s", diff)
			}
		})
	}
}

// TestOwnHeadCounts loads a checkpoint that is said to be tied but has a head of its own, which then counts.
func TestOwnHeadCounts(t *testing.T) {
	const name = "llama_3heads"
	dir := t.TempDir()
	for _, file := range []string{"model.safetensors", "config.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", "goldens", name, file))
		if err != nil {
			t.Fatal(err)
		}
		if file == "config.json" {
			var config map[string]any
			if err := json.Unmarshal(data, &config); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(config["tie_word_embeddings"]) != "false" {
				t.Fatalf("%s is tied", name)
			}
			config["tie_word_embeddings"] = true
			if data, err = json.Marshal(config); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	checkLogits(t, openGolden(t, name), newRunner(t, openCheckpoint(t, dir), ""))
}
