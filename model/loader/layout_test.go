package loader_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/weights"
)

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
		{"base model of GPT-2", "gpt2", func(s string) string { return strings.TrimPrefix(s, "transformer.") }, nil},
		{"base model of Qwen3", "qwen3_small", func(s string) string { return strings.TrimPrefix(s, "model.") }, nil},
		{"base model of Llama with a head", "llama", func(s string) string { return strings.TrimPrefix(s, "model.") }, nil},
		{"base model that is a part", "gemma3", func(s string) string { return strings.Replace(s, "model.", "language_model.", 1) }, part},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := golden.Open(t, test.golden)
			golden.CheckLogits(t, g, golden.NewRunner(t, golden.Rewritten(t, g, test.tensor, test.config), ""))
		})
	}
}

// TestNoHead loads a decoder as AutoModel.save_pretrained writes it, without its head: its hidden states are those of
// the whole model, and it has no logits.
func TestNoHead(t *testing.T) {
	g := golden.Open(t, "llama")
	if golden.Spec(t, g.Ckpt).TiedHead {
		t.Fatal("the head is the embedding table")
	}
	base := golden.Rewritten(t, g, func(name string) string {
		if name == "lm_head.weight" {
			return ""
		}
		return strings.TrimPrefix(name, "model.")
	}, nil)
	ids := g.Ints(t, "ids_1")
	var hidden [2][][]float32
	for i, ckpt := range []*weights.Checkpoint{g.Ckpt, base} {
		r := golden.NewRunner(t, ckpt, "")
		var b compute.Batch
		b.Append(ids, 0, false, r.Tables(golden.OneSequence)...)
		for row := range ids {
			b.Hidden = append(b.Hidden, int32(row))
		}
		if err := r.Forward(&b); err != nil {
			t.Fatal(err)
		}
		for row := range ids {
			hidden[i] = append(hidden[i], slices.Clone(r.Hidden(row)))
		}
		if i == 1 {
			b.Logits = []int32{0}
			if err := r.Forward(&b); err == nil || !strings.Contains(err.Error(), "logits are wanted of llama, whose checkpoint has no head") {
				t.Errorf("error %v", err)
			}
		}
	}
	golden.SameBits(t, "without a head", hidden[1], hidden[0])
	if spec := golden.Spec(t, base); spec.Generates() || spec.Outputs() != 0 {
		t.Errorf("a Spec that generates, with %d outputs", spec.Outputs())
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
			err := load(t, golden.Rewritten(t, golden.Open(t, test.golden), rename, change))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v\nwant  %q", err, test.want)
			}
		})
	}
}

// TestOwnHeadCounts loads a checkpoint that is said to be tied but has a head of its own, which then counts.
func TestOwnHeadCounts(t *testing.T) {
	const name = "llama_3heads"
	dir := t.TempDir()
	for _, file := range []string{"model.safetensors", "config.json"} {
		data, err := os.ReadFile(golden.Path(t, "goldens", name, file))
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
	golden.CheckLogits(t, golden.Open(t, name), golden.NewRunner(t, golden.Checkpoint(t, dir), ""))
}

// inExperts reports whether a tensor belongs to the experts of a mixture.
func inExperts(name string) bool { return strings.Contains(name, ".experts.") }

// TestExpertsStacked loads experts from the one tensor that newer files keep them in: gates and ups joined, all
// experts stacked.
func TestExpertsStacked(t *testing.T) {
	const name = "qwen3_moe"
	g := golden.Open(t, name)
	names := family.LayoutOf(golden.Spec(t, g.Ckpt), g.Ckpt).Slots
	var joined []weights.Source
	for i := range 2 {
		var parts [2][]byte
		var down []byte
		kind, _ := g.Ckpt.Tensor(fmt.Sprintf(names["experts.gate"], i, 0) + ".weight")
		for e := range 8 {
			for _, slot := range []string{"experts.gate", "experts.up"} {
				w, _ := g.Ckpt.Tensor(names.Expert(slot, i, e) + ".weight")
				parts[0] = append(parts[0], w.Data...)
			}
			w, _ := g.Ckpt.Tensor(names.Expert("experts.down", i, e) + ".weight")
			down = append(down, w.Data...)
		}
		width, hidden := kind.Shape[0], kind.Shape[1]
		joined = append(joined,
			weights.Source{Name: names.Name("experts.gate_up", i), Type: kind.Type, Shape: []int{8, 2 * width, hidden}, Write: weights.Bytes(parts[0])},
			weights.Source{Name: fmt.Sprintf("model.layers.%d.mlp.experts.down_proj", i), Type: kind.Type, Shape: []int{8, hidden, width}, Write: weights.Bytes(down)})
	}
	rename := func(name string) string {
		if inExperts(name) {
			return ""
		}
		return name
	}
	golden.CheckLogits(t, g, golden.NewRunner(t, golden.Rewritten(t, g, rename, nil, joined...), ""))
}
