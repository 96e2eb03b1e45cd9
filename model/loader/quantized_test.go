package loader_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// expanding is a device that takes over the float32 values of every weight and remembers their sums.
type expanding struct {
	compute.Device
	sums map[string]string // by the name of the first tensor
}

func (d *expanding) Matrix(src compute.Source) (compute.Matrix, error) {
	v, err := loader.Expanded(src)
	if err != nil {
		return nil, err
	}
	data := make([]byte, 4*len(v))
	if err := quant.Encode(data, v, quant.F32); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	d.sums[src.Name] = hex.EncodeToString(sum[:])
	return d.Device.Matrix(compute.Source{Name: src.Name, Type: quant.F32, Out: src.Out, In: src.In, Data: data})
}

// TestQuantizedValues loads checkpoints of every method and layout. The values of each weight must be those that the
// layout says, bit for bit, and the logits computed with them in float32 those of transformers.
func TestQuantizedValues(t *testing.T) {
	for _, name := range golden.Quantized(t) {
		t.Run(name, func(t *testing.T) {
			g := golden.OpenQuantized(t, name)
			data, err := os.ReadFile(golden.Path(t, "quantized", name, "weights.json"))
			if err != nil {
				t.Fatal(err)
			}
			var want map[string]string
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			inner, err := cpu.New(cpu.Options{Threads: 2, Wide: true})
			if err != nil {
				t.Fatal(err)
			}
			defer inner.Close()
			dev := &expanding{inner, map[string]string{}}
			m, err := loader.Model(g.Ckpt, dev, nil)
			if err != nil {
				t.Fatal(err)
			}
			for module, sum := range want {
				if parts := []string{"qkv_proj", "gate_up_proj", "kv_b_proj"}; slices.ContainsFunc(parts, func(s string) bool { return strings.HasSuffix(module, s) }) {
					continue // taken over in parts
				}
				i := slices.IndexFunc([]string{".weight", ".qweight", ".weight_packed"}, func(s string) bool { return dev.sums[module+s] == sum })
				if i < 0 {
					t.Errorf("the values of %s are others", module)
				}
			}
			golden.CheckLogits(t, g, golden.RunnerOf(t, m, dev))
		})
	}
}

// TestQuantizedLogits computes with the quantised weights: as exactly as in float32 for FP8, and within what int8
// activations cost for integers. All kernels must agree to the last bit.
func TestQuantizedLogits(t *testing.T) {
	for _, name := range golden.Quantized(t) {
		t.Run(name, func(t *testing.T) {
			g := golden.OpenQuantized(t, name)
			var first [][]float32
			for _, kernels := range cpu.Kernels() {
				r := golden.NewRunner(t, g.Ckpt, kernels)
				if strings.Contains(name, "fp8") {
					golden.CheckLogits(t, g, r)
				}
				got := r.Run(t, g.Ints(t, "ids_1"), 0)
				if first == nil {
					first = got
				}
				for p := range got {
					for j, v := range got[p] {
						if math.Float32bits(v) != math.Float32bits(first[p][j]) {
							t.Fatalf("%s: position %d: logit %d is %g; %s has %g", kernels, p, j, v, cpu.Kernels()[0], first[p][j])
						}
					}
				}
			}
			flat := g.Floats(t, "logits_1")
			want := slices.Collect(slices.Chunk(flat, len(first[0])))
			e := golden.Relative(first, want)
			t.Logf("relative error %.4f", e)
			bound := 0.04
			if strings.Contains(name, "mixtral") || strings.Contains(name, "deepseek") { // a token may go to another expert
				bound = 0.3
			}
			if !(e > 0 && e < bound) {
				t.Errorf("relative error of the logits is %g; want a little, below %g", e, bound)
			}
		})
	}
}

// TestQuantizedRefused changes what a configuration says of a checkpoint.
func TestQuantizedRefused(t *testing.T) {
	for _, test := range []struct {
		ckpt, from, to, want string
	}{
		{"gptq4_act", `"bits": 4`, `"bits": 8`, "qweight\" has shape [8 64]; the configuration asks for [16 64]"},
		{"gptq4_act", `"group_size": 32`, `"group_size": 64`, "has shape [2 8]; the configuration asks for [1 8]"},
		{"gptq4_act", `"bits": 4`, `"bits": 5`, `"quantization_config.bits" is 5, which is not supported; known are 2, 3, 4, 8`},
		{"gptq4_act", `"group_size": 32`, `"group_size": 0`, `"quantization_config.group_size" is 0; want 1 or more, or -1 for all inputs`},
		{"gptq4_act", `"group_size": 32`, `"checkpoint_format": "marlin"`, `is "marlin", which is not supported; known are gptq, gptq_v2`},
		{"gptq4_act", `"quant_method": "gptq"`, `"quant_method": "hqq"`, `is "hqq", which is not supported; known are awq, compressed-tensors, fp8, gptq, mxfp4`},
		{"gptq4_act", `"quant_method": "gptq"`, `"quant_method": "mxfp4"`, "is packed, but config.json has no quantization_config that says how"},
		{"gptq4_act", `"sym": false`, `"dynamic": {"-:x": {}}`, `"quantization_config.dynamic" is map[-:x:map[]], which is not supported`},
		{"awq", `"version": "gemm"`, `"version": "gemv"`, `"quantization_config.version" is "gemv", which is not supported; known are gemm`},
		{"awq", `"group_size": 32`, `"group_size": -1`, "has shape [2 8]; the configuration asks for [1 8]"},
		{"awq", `"group_size": 32`, `"group_size": 48`, "want groups of whole 32"},
		{"fp8_blocks", "      32,\n", "      16,\n", "has shape [3 2]; the configuration asks for [5 2]"},
		{"ct_w4a16", `"num_bits": 4`, `"num_bits": 8`, "weight_packed\" has shape [64 8] and scales [64 2]; the configuration asks for [[64 16] with scales [64 2] (int8 in groups of 32)]"},
		{"ct_w4a16", `"format": "pack-quantized"`, `"format": "nvfp4-pack-quantized"`, `is "nvfp4-pack-quantized", which is not supported`},
	} {
		dir := t.TempDir()
		for _, file := range []string{"config.json", "model.safetensors"} {
			data, err := os.ReadFile(golden.Path(t, "quantized", test.ckpt, file))
			if err != nil {
				t.Fatal(err)
			}
			if file == "config.json" {
				if !strings.Contains(string(data), test.from) {
					t.Fatalf("%s has no %s", test.ckpt, test.from)
				}
				data = []byte(strings.ReplaceAll(string(data), test.from, test.to))
			}
			if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ckpt, err := weights.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		dev, err := cpu.New(cpu.Options{Threads: 1, Wide: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := loader.Model(ckpt, dev, nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s with %s: error %v\nwant %q", test.ckpt, test.to, err, test.want)
		}
		dev.Close()
		ckpt.Close()
	}
}
