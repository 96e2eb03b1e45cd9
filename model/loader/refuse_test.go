package loader_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// tinyTensors are the tensors of tinyConfig's model by their names in GGUF.
func tinyTensors() map[string][]int {
	return map[string][]int{
		"token_embd.weight": {5, 8}, "output_norm.weight": {8}, "blk.0.attn_norm.weight": {8}, "blk.0.ffn_norm.weight": {8},
		"blk.0.attn_q.weight": {8, 8}, "blk.0.attn_k.weight": {4, 8}, "blk.0.attn_v.weight": {4, 8}, "blk.0.attn_output.weight": {8, 8},
		"blk.0.ffn_gate.weight": {12, 8}, "blk.0.ffn_up.weight": {12, 8}, "blk.0.ffn_down.weight": {8, 12},
	}
}

// load loads a checkpoint and returns the error.
func load(t *testing.T, ckpt *weights.Checkpoint) error {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	_, err = loader.Model(ckpt, dev, nil)
	return err
}

func TestGGUFRefused(t *testing.T) {
	for _, test := range []struct {
		name   string
		meta   map[string]any
		shapes map[string][]int
		typ    quant.Type // of the matrices, if not F32
		want   string
	}{
		{"none", nil, nil, 0, ""},
		{"head of its own", nil, map[string][]int{"output.weight": {5, 8}}, 0, ""},
		{"no rope type, a factor", map[string]any{"llama.rope.scaling.factor": float32(2)}, nil, 0, ""},
		{"one expert is none", map[string]any{"llama.expert_count": uint32(0)}, nil, 0, ""},
		{"biases", nil, map[string][]int{"blk.0.attn_output.bias": {8}}, 0, ""},
		{"architecture", map[string]any{"general.architecture": "mpt"}, nil, 0, `GGUF architecture "mpt" is not supported; known are llama, qwen2, qwen3`},
		{"no architecture", map[string]any{"general.architecture": nil}, nil, 0, `"general.architecture" is missing: this file holds no model`},
		{"missing key", map[string]any{"llama.embedding_length": nil}, nil, 0, `"llama.embedding_length" is missing`},
		{"epsilon missing", map[string]any{"llama.attention.layer_norm_rms_epsilon": nil}, nil, 0, `"llama.attention.layer_norm_rms_epsilon" is missing`},
		{"epsilon twice", map[string]any{"llama.attention.layer_norm_epsilon": float32(1e-5)}, nil, 0, ""},
		{"two epsilons", map[string]any{"llama.attention.layer_norm_epsilon": float32(1e-6)}, nil, 0,
			`"llama.attention.layer_norm_rms_epsilon" is 1e-05, but another key with the same meaning is 1e-06`},
		{"epsilon is no number", map[string]any{"llama.attention.layer_norm_rms_epsilon": float32(math.NaN())}, nil, 0, "norm epsilon is NaN"},
		{"heads are no number", map[string]any{"llama.attention.head_count": math.NaN()}, nil, 0, `"llama.attention.head_count" is NaN; want a whole number`},
		{"heads by layer", map[string]any{"llama.attention.head_count_kv": []uint32{1, 2}}, nil, 0, `"llama.attention.head_count_kv" is [1 2]; want a number`},
		{"wrong type", map[string]any{"llama.block_count": "1"}, nil, 0, `"llama.block_count" is "1"; want a number`},
		{"experts", map[string]any{"llama.expert_count": uint32(8)}, nil, 0, `"llama.expert_used_count" is missing`},
		{"experts without tensors", map[string]any{"llama.expert_count": uint32(8), "llama.expert_used_count": uint32(2)}, nil, 0,
			`tensor "blk.0.ffn_gate_inp.weight" of shape [8 `},
		{"encoder", map[string]any{"llama.attention.causal": false}, nil, 0, `"llama.attention.causal" is false`},
		{"rope type", map[string]any{"llama.rope.scaling.type": "spiral"}, nil, 0, `rope type "spiral" is not supported`},
		{"rope base", map[string]any{"llama.rope.freq_base": float32(math.Inf(1))}, nil, 0, ""},
		{"rope factor", map[string]any{"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": math.Inf(1)}, nil, 0, `"llama.rope.scaling.factor" is +Inf; want a number above 0`},
		{"rope wider than a head", map[string]any{"llama.rope.dimension_count": uint32(6)}, nil, 0, "rope rotates 6 values of a head of 4"},
		{"rope factors", nil, map[string][]int{"rope_freqs.weight": {3}}, 0, `tensor "rope_freqs.weight" has 3 factors; the rope has 2 frequencies`},
		{"rope factors of zero", nil, map[string][]int{"rope_freqs.weight": {2}}, 0, `tensor "rope_freqs.weight": factor 0 is 0`},
		{"heads and their size", map[string]any{"llama.attention.key_length": uint32(2)}, nil, 0, `tensor "blk.0.attn_q.weight" has shape [8 8]; the configuration asks for [4 8]`},
		{"missing tensor", nil, map[string][]int{"blk.0.ffn_up.weight": nil}, 0, `tensor "blk.0.ffn_up.weight" of shape [12 8] is missing`},
		{"missing layer", map[string]any{"llama.block_count": uint32(2)}, nil, 0, `tensor "blk.1.attn_norm.weight" of shape [8] is missing`},
		{"layer too many", nil, map[string][]int{"blk.1.attn_norm.weight": {8}}, 0,
			`tensor "blk.1.attn_norm.weight" is of a layer after the last; the configuration asks for 1 layers`},
		{"layer that predicts further tokens", nil, map[string][]int{"blk.1.attn_norm.weight": {8}, "blk.1.nextn.eh_proj.weight": {8, 16}}, 0, ""},
		{"missing embedding", nil, map[string][]int{"token_embd.weight": nil}, 0, `"vocab_size" is missing`},
		{"one bias of three", nil, map[string][]int{"blk.0.attn_k.bias": {4}}, 0, `tensor "blk.0.attn_q.bias" of shape [8] is missing`},
		{"head of another size", nil, map[string][]int{"output.weight": {6, 8}}, 0, `tensor "output.weight" has shape [6 8]; the configuration asks for [5 8]`},
		{"transposed", nil, map[string][]int{"blk.0.ffn_down.weight": {12, 8}}, 0, `tensor "blk.0.ffn_down.weight" has shape [12 8]; the configuration asks for [8 12]`},
		{"no kernels", nil, nil, quant.I64, `weight "token_embd.weight" is of type I64, which cannot be computed with; use a checkpoint in one of F32, F16, BF16, F8_E4M3, Q4_0, Q4_1`},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := load(t, tinyGGUF(t, test.meta, test.shapes, test.typ))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v\nwant  %q", err, test.want)
			}
		})
	}
}

// tinyGGUF writes tinyConfig's model with all values 0. A nil value or shape takes out a key or a tensor.
func tinyGGUF(t *testing.T, changes map[string]any, tensors map[string][]int, typ quant.Type) *weights.Checkpoint {
	t.Helper()
	meta := map[string]any{
		"general.architecture": "llama", "llama.embedding_length": uint32(8), "llama.block_count": uint32(1),
		"llama.attention.head_count": uint32(2), "llama.attention.head_count_kv": uint32(1), "llama.feed_forward_length": uint32(12),
		"llama.context_length": uint32(64), "llama.attention.layer_norm_rms_epsilon": float32(1e-5),
	}
	shapes := tinyTensors()
	for name, shape := range tensors {
		shapes[name] = shape
	}
	var pairs []weights.KV
	for key, v := range changes {
		meta[key] = v
	}
	for key, v := range meta {
		if v != nil {
			pairs = append(pairs, weights.KV{Key: key, Value: v})
		}
	}
	var sources []weights.Source
	for name, shape := range shapes {
		size, kind := 1, quant.F32
		for _, n := range shape {
			size *= n
		}
		if len(shape) == 2 && typ != 0 {
			kind = typ
		}
		if shape != nil {
			n, err := kind.RowBytes(size)
			if err != nil {
				t.Fatal(err)
			}
			data := weights.Bytes(make([]byte, n))
			sources = append(sources, weights.Source{Name: name, Type: kind, Shape: shape, Write: data})
		}
	}
	return golden.GGUF(t, pairs, sources)
}

func TestSafetensorsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		config []byte // nil is none
		drop   string
		want   string
	}{
		"whole":            {tinyConfig(t), "", ""},
		"no config":        {nil, "", "has no config.json beside its weights"},
		"not JSON":         {[]byte("{"), "", "model: config.json: unexpected end of JSON input"},
		"not an object":    {[]byte("[1]"), "", "model: config.json: json: cannot unmarshal array"},
		"no head":          {tinyConfig(t, "tie_word_embeddings", false), "", `tensor "lm_head.weight" of shape [5 8] is missing`},
		"no biases":        {tinyConfig(t, "attention_bias", true), "", `tensor "model.layers.0.self_attn.q_proj.bias" of shape [8] is missing`},
		"no gate":          {tinyConfig(t), "model.layers.0.mlp.gate_proj.weight", `tensor "model.layers.0.mlp.gate_proj.weight" of shape [12 8] is missing`},
		"other width":      {tinyConfig(t, "intermediate_size", 13), "", `has shape [12 8]; the configuration asks for [13 8]`},
		"other vocabulary": {tinyConfig(t, "vocab_size", 6), "", `tensor "model.embed_tokens.weight" has shape [5 8]; the configuration asks for [6 8]`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var sources []weights.Source
			for name, shape := range tinyTensors() {
				size := 4
				for _, n := range shape {
					size *= n
				}
				if name = hfName(t, name); name != test.drop {
					sources = append(sources, weights.Source{Name: name, Type: quant.F32, Shape: shape, Write: weights.Bytes(make([]byte, size))})
				}
			}
			var out bytes.Buffer
			if err := weights.WriteSafetensors(&out, sources, nil); err != nil {
				t.Fatal(err)
			}
			files := map[string][]byte{"model.safetensors": out.Bytes(), "config.json": test.config}
			for file, data := range files {
				if data != nil {
					if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			err := load(t, golden.Checkpoint(t, dir))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v\nwant  %q", err, test.want)
			}
		})
	}
}

// hfName maps the name of one of tinyTensors to safetensors.
func hfName(t *testing.T, name string) string {
	t.Helper()
	for slot := range llamaNames(weights.Safetensors) {
		if llamaNames(weights.GGUF).Name(slot, 0)+".weight" == name && slot != "gate_up" {
			return llamaNames(weights.Safetensors).Name(slot, 0) + ".weight"
		}
	}
	t.Fatalf("no slot for tensor %q", name)
	return ""
}

// llamaNames returns the names of a Llama's tensors in files of a format.
func llamaNames(format weights.Format) family.Slots {
	return family.LayoutIn(&model.Spec{Family: "llama"}, format).Slots
}

// tinyConfig is the configuration of a Llama with one layer. Each pair of changes sets a key.
func tinyConfig(t testing.TB, changes ...any) []byte {
	t.Helper()
	config := map[string]any{
		"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1,
		"intermediate_size": 12, "vocab_size": 5, "rms_norm_eps": 1e-5, "tie_word_embeddings": true,
	}
	for i := 0; i < len(changes); i += 2 {
		config[changes[i].(string)] = changes[i+1]
	}
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
