package model

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/weights"
)

// rewritten copies a golden checkpoint with its tensors named and its configuration changed by the given functions. A
// tensor without a name is left out; more are added.
func rewritten(t *testing.T, g golden, name func(string) string, change func(config map[string]any) map[string]any, more ...weights.Source) *weights.Checkpoint {
	t.Helper()
	tensors := more
	for _, info := range g.ckpt.Tensors() {
		tensor, _ := g.ckpt.Tensor(info.Name)
		if to := name(info.Name); to != "" {
			tensors = append(tensors, weights.Source{Name: to, Type: info.Type, Shape: info.Shape, Write: weights.Bytes(tensor.Data)})
		}
	}
	var out bytes.Buffer
	if err := weights.WriteSafetensors(&out, tensors, nil); err != nil {
		t.Fatal(err)
	}
	data, err := g.ckpt.Config("config.json")
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	if data, err = json.Marshal(change(config)); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for file, data := range map[string][]byte{"model.safetensors": out.Bytes(), "config.json": data} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return openCheckpoint(t, dir)
}

func same(config map[string]any) map[string]any { return config }

// TestLayouts loads decoders that are a part of a larger model, and one without the prefix of its class.
func TestLayouts(t *testing.T) {
	part := func(config map[string]any) map[string]any {
		return map[string]any{"model_type": "gemma3", "text_config": config, "vision_config": map[string]any{"model_type": "siglip"}}
	}
	for _, test := range []struct {
		name, golden string
		tensor       func(string) string
		config       func(map[string]any) map[string]any
	}{
		{"older part", "gemma3", func(s string) string { return "language_model." + s }, part},
		{"newer part", "gemma3", func(s string) string { return strings.Replace(s, "model.", "model.language_model.", 1) }, part},
		{"no prefix", "gpt2", func(s string) string { return strings.TrimPrefix(s, "transformer.") }, same},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := openGolden(t, test.golden)
			checkLogits(t, g, newRunner(t, rewritten(t, g, test.tensor, test.config), ""))
		})
	}
}

// TestUselessTensorsRefused loads checkpoints with a tensor that their configuration has no use for, or without one of
// several that stand in one.
func TestUselessTensorsRefused(t *testing.T) {
	for _, test := range []struct {
		name, golden, from, to string
		change                 func(map[string]any)
		want                   string
	}{
		{"biases", "qwen3_biases", "", "", func(c map[string]any) { c["attention_bias"] = false }, "has no use for tensor \"model.layers."},
		{"joined and apart", "phi3", "model.layers.1.self_attn.qkv_proj.weight", "model.layers.1.self_attn.q_proj.weight", nil,
			`tensor "model.layers.1.self_attn.q_proj.weight" has shape [128 64]; the configuration asks for [64 64]`},
		{"joined with other heads", "phi3", "", "", func(c map[string]any) { c["num_key_value_heads"] = 4 },
			`tensor "model.layers.0.self_attn.qkv_proj.weight" has shape [128 64]; the configuration asks for [192 64]`},
		{"transposed", "gpt2", "", "", func(c map[string]any) { c["n_inner"] = 100 },
			`tensor "transformer.h.0.mlp.c_fc.weight" has shape [64 256]; the configuration asks for [64 100]`},
		{"joined bias missing", "gpt2", "transformer.h.1.attn.c_attn.bias", "", nil, `tensor "transformer.h.1.attn.c_attn.bias" of shape [192] is missing`},
		{"positions missing", "gpt2", "transformer.wpe.weight", "", nil, `tensor "transformer.wpe.weight" of shape [512 64] is missing`},
		{"fewer positions", "gpt2", "", "", func(c map[string]any) { c["n_positions"] = 500 },
			`tensor "transformer.wpe.weight" has shape [512 64]; the configuration asks for [500 64]`},
		{"fewer experts", "qwen3_moe", "", "", func(c map[string]any) { c["num_local_experts"] = 6 },
			`tensor "model.layers.0.mlp.gate.weight" has shape [8 64]; the configuration asks for [6 64]`},
		{"narrower experts", "gpt_oss", "", "", func(c map[string]any) { c["intermediate_size"] = 32 },
			`tensor "model.layers.0.mlp.experts.gate_up_proj" has shape [4 64 128]; the configuration asks for [4 64 64]`},
		{"expert missing", "olmoe", "model.layers.1.mlp.experts.7.up_proj.weight", "", nil,
			`tensor "model.layers.1.mlp.experts.7.up_proj.weight" of shape [96 64] is missing`},
		{"dense layer with experts", "qwen2_moe", "model.layers.1.mlp.experts.0.up_proj.weight", "model.layers.1.mlp.up_proj.weight",
			func(c map[string]any) { c["mlp_only_layers"] = []int{1} }, `tensor "model.layers.1.mlp.gate_proj.weight" of shape [128 64] is missing`},
	} {
		t.Run(test.name, func(t *testing.T) {
			rename := func(name string) string {
				if test.from != "" && name == test.from {
					return test.to
				}
				return name
			}
			change := func(config map[string]any) map[string]any {
				if test.change != nil {
					test.change(config)
				}
				return config
			}
			err := load(t, rewritten(t, openGolden(t, test.golden), rename, change))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v\nwant  %q", err, test.want)
			}
		})
	}
}

// TestNoPositionsLeft runs a batch beyond the learned positions.
func TestNoPositionsLeft(t *testing.T) {
	r := newRunner(t, openGolden(t, "gpt2_wide").ckpt, "")
	b := compute.Batch{IDs: []int32{1}, Pos: []int32{160}, Seqs: []compute.Seq{{Rows: 1, Start: 160, Tables: [][]int32{oneSequence}}}}
	if err := r.Forward(&b); err == nil || !strings.Contains(err.Error(), "position 160; gpt2 has 160 learned positions") {
		t.Errorf("error %v", err)
	}
}
