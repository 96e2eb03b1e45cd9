package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// notInGGUF are the goldens whose meaning the metadata of these architectures cannot hold.
var notInGGUF = map[string]string{
	"llama_gelu":   "the activation is always SiLU",
	"yarn_mscale":  "mscale and truncate are not kept",
	"qwen2_window": "a window in some layers only",
	"qwen2_layers": "a window in some layers only",
	"qwen3_window": "a window in some layers only",

	"gemma2_old":        "scores are scaled by the size of a head",
	"smollm3_interval":  "every fourth layer has no rope, and none a window",
	"gpt_oss_layers":    "which layers have a window",
	"qwen2_moe_steps":   "a window in some layers only",
	"starcoder2_window": "the activation is the approximate GELU",
}

// TestGoldenGGUF writes the goldens as GGUF, by the conventions of llama.cpp's converter, in every float type that holds
// their weights exactly, and compares the logits.
func TestGoldenGGUF(t *testing.T) {
	types := map[quant.Type][]quant.Type{
		quant.BF16: {quant.BF16, quant.F16, quant.F32},
		quant.F16:  {quant.F16, quant.F32},
		quant.F32:  {quant.F32},
	}
	for _, name := range goldens(t) {
		if notInGGUF[name] != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			g := openGolden(t, name)
			embed, _ := g.ckpt.Tensor(namesOf(t, g.ckpt)["embed"] + ".weight")
			for _, typ := range types[embed.Type] {
				t.Run(typ.String(), func(t *testing.T) {
					checkLogits(t, g, newRunner(t, asGGUF(t, name, g.ckpt, typ), ""))
				})
			}
		})
	}
}

// TestQuantisedGGUF writes goldens in block types. What quantising the activations does to the logits, against the same
// weights in float32, must stay small, and all kernels must agree to the last bit. An int8 of 32 values with one scale is
// off by about 0.5%, which some fifteen products in a row bring to 2 or 3%.
func TestQuantisedGGUF(t *testing.T) {
	mixes := [][]quant.Type{{quant.Q8_0}, {quant.Q4_0}, {quant.Q8_0, quant.BF16, quant.Q4_0, quant.F32, quant.F16}}
	for _, name := range []string{"llama", "llama3_rope", "llama3_old", "yarn_old", "mistral_swa", "mistral_wide", "qwen2", "qwen3", "phi3", "gemma3", "olmo2",
		"glm4", "gpt2", "cohere"} {
		for _, types := range mixes {
			t.Run(fmt.Sprint(name, types), func(t *testing.T) {
				g := openGolden(t, name)
				ckpt := asGGUF(t, name, g.ckpt, types...)
				ids := g.ints(t, "ids_2")
				exact := run(t, newRunner(t, widened(t, ckpt), ""), ids, 0)
				var first [][]float32
				for _, kernels := range cpu.Kernels() {
					got := run(t, newRunner(t, ckpt, kernels), ids, 0)
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
				e := relative(first, exact)
				t.Logf("relative error %.4f", e)
				if !(e > 0 && e < 0.04) {
					t.Errorf("relative error of the logits is %g; want a little, below 0.04", e)
				}
			})
		}
	}
}

// relative returns |got - want| / |want| in the Euclidean norm.
func relative(got, want [][]float32) float64 {
	var diff, all float64
	for p := range want {
		for j, w := range want[p] {
			d := float64(got[p][j]) - float64(w)
			diff, all = diff+d*d, all+float64(w)*float64(w)
		}
	}
	return math.Sqrt(diff / all)
}

// asGGUF writes a golden checkpoint as GGUF with its matrices in the given types, by turns, or in F16 where a row is not
// whole blocks.
func asGGUF(t *testing.T, name string, ckpt *weights.Checkpoint, types ...quant.Type) *weights.Checkpoint {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(goldenDir(t, name), "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	meta, names := ggufMeta(config), namesOf(t, ckpt)
	arch := meta[0].Value.(string)
	ggufNames := maps.Clone(ggufSlots)
	maps.Copy(ggufNames, familyNamed(t, config["model_type"].(string)).ggufSlots)
	var tensors []weights.Source
	put := func(name string, shape []int, v []float32) {
		kind := quant.F32
		if len(shape) > 1 && !strings.HasSuffix(name, ".bias") {
			if kind = types[len(tensors)%len(types)]; shape[len(shape)-1]%kind.BlockValues() != 0 {
				kind = quant.F16
			}
		}
		tensors = append(tensors, source(t, name, kind, shape, v))
	}
	expertTensors(t, ckpt, names, put)
	for _, info := range ckpt.Tensors() {
		if inExperts(info.Name) {
			continue
		}
		v, shape := values(t, ckpt, info.Name), info.Shape
		slot, layer, suffix := names.find(t, info.Name)
		if slices.Contains([]string{"llama", "granite", "smollm3"}, arch) && (slot == "q" || slot == "k") {
			v = permuted(v, shape[0], int(config["head_dim"].(float64)))
		}
		if strings.HasPrefix(arch, "gemma") && strings.HasSuffix(info.Name, "norm.weight") {
			for j := range v {
				v[j]++
			}
		}
		if arch == "gpt2" && len(shape) == 2 && strings.Contains(info.Name, ".h.") {
			v, shape = columns(v, shape[1]), []int{shape[1], shape[0]}
		}
		if slot == "shared.factor" {
			shape = shape[1:]
		}
		put(ggufNames.name(slot, layer)+suffix, shape, v)
	}
	if factors := llama3Factors(config); factors != nil {
		tensors = append(tensors, source(t, "rope_freqs.weight", quant.F32, []int{len(factors)}, factors))
	}
	return written(t, meta, tensors)
}

func written(t *testing.T, meta []weights.KV, tensors []weights.Source) *weights.Checkpoint {
	t.Helper()
	var out bytes.Buffer
	if err := weights.WriteGGUF(&out, meta, tensors); err != nil {
		t.Fatal(err)
	}
	ckpt, err := weights.OpenBytes("test.gguf", out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return ckpt
}

// widened returns a GGUF checkpoint with all its tensors in F32.
func widened(t *testing.T, ckpt *weights.Checkpoint) *weights.Checkpoint {
	t.Helper()
	var meta []weights.KV
	for _, k := range ckpt.MetadataKeys() {
		meta = append(meta, weights.KV{Key: k, Value: ckpt.Metadata()[k]})
	}
	var tensors []weights.Source
	for _, info := range ckpt.Tensors() {
		tensors = append(tensors, source(t, info.Name, quant.F32, info.Shape, values(t, ckpt, info.Name)))
	}
	return written(t, meta, tensors)
}

func values(t *testing.T, ckpt *weights.Checkpoint, name string) []float32 {
	t.Helper()
	tensor, _ := ckpt.Tensor(name)
	v, err := decode(tensor)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func source(t *testing.T, name string, typ quant.Type, shape []int, v []float32) weights.Source {
	t.Helper()
	n, err := typ.RowBytes(len(v))
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, n)
	if err := quant.Encode(data, v, typ); err != nil {
		t.Fatal(err)
	}
	return weights.Source{Name: name, Type: typ, Shape: shape, Write: weights.Bytes(data)}
}

// namesOf returns the names of a checkpoint's tensors.
func namesOf(t *testing.T, ckpt *weights.Checkpoint) slots {
	t.Helper()
	spec, err := ReadSpec(ckpt)
	if err != nil {
		t.Fatal(err)
	}
	return slotsOf(familyOf(spec), ckpt)
}

func familyNamed(t *testing.T, kind string) *family {
	t.Helper()
	i := slices.IndexFunc(families, func(f *family) bool { return slices.Contains(f.types, kind) })
	if i < 0 {
		t.Fatalf("no family %q", kind)
	}
	return families[i]
}

// find returns the slot, layer and suffix of a tensor.
func (s slots) find(t *testing.T, name string) (slot string, layer int, suffix string) {
	t.Helper()
	for slot := range s {
		for i := range 10 {
			if s.name(slot, i) == name {
				return slot, i, ""
			}
		}
	}
	stem, suffix := name[:strings.LastIndexByte(name, '.')], name[strings.LastIndexByte(name, '.'):]
	for slot := range s {
		for i := range 10 {
			if s.name(slot, i) == stem {
				return slot, i, suffix
			}
		}
	}
	t.Fatalf("no slot for tensor %q", name)
	return "", 0, ""
}

// columns returns the values of a matrix of rows of width values column by column.
func columns(v []float32, width int) []float32 {
	var out []float32
	for c := range width {
		for r := c; r < len(v); r += width {
			out = append(out, v[r])
		}
	}
	return out
}

// permuted reorders the rows of queries or keys so that the two halves of a head alternate.
func permuted(v []float32, rows, headDim int) []float32 {
	out, width := make([]float32, 0, len(v)), len(v)/rows
	for head := 0; head < rows; head += headDim {
		for i := range headDim / 2 {
			for _, row := range []int{head + i, head + headDim/2 + i} {
				out = append(out, v[row*width:][:width]...)
			}
		}
	}
	return out
}

// llama3Factors returns what a GGUF divides the frequencies of a Llama 3.1 rope by, nil for other ropes.
func llama3Factors(config map[string]any) []float32 {
	p := ropeParameters(config)
	if p["rope_type"] != "llama3" {
		return nil
	}
	get := func(key string) float64 { return p[key].(float64) }
	dim, original := config["head_dim"].(float64), get("original_max_position_embeddings")
	factors := make([]float32, int(dim)/2)
	for i := range factors {
		wave := 2 * math.Pi * math.Pow(get("rope_theta"), float64(2*i)/dim)
		smooth := (original/wave - get("low_freq_factor")) / (get("high_freq_factor") - get("low_freq_factor"))
		smooth = min(max(smooth, 0), 1)
		factors[i] = float32(1 / ((1-smooth)/get("factor") + smooth))
	}
	return factors
}
