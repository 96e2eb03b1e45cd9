package model

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// TestGoldenGGUF writes the goldens as GGUF, in every float type that holds their weights exactly, and back as safetensors,
// and compares the logits.
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
		g := openGolden(t, name)
		embed, _ := g.ckpt.Tensor(namesOf(t, g.ckpt)["embed"] + ".weight")
		for _, typ := range types[embed.Type] {
			t.Run(name+"/"+typ.String(), func(t *testing.T) {
				ckpt := asGGUF(t, g.ckpt, typ)
				checkSame(t, g.ckpt, ckpt)
				checkLogits(t, g, newRunner(t, ckpt, ""))
				if typ == quant.F32 {
					back := asSafetensors(t, ckpt)
					checkSame(t, g.ckpt, back)
					checkLogits(t, g, newRunner(t, back, ""))
				}
			})
		}
	}
}

// checkSame holds that two checkpoints describe one model.
func checkSame(t *testing.T, a, b *weights.Checkpoint) {
	t.Helper()
	before, err := ReadSpec(a)
	if err != nil {
		t.Fatal(err)
	}
	after, err := ReadSpec(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := Differ(before, after); d != "" {
		t.Errorf("another model: %s", d)
	}
}

// TestQuantisedGGUF writes goldens in block types. What quantising the activations does to the logits, against the same
// weights in float32, must stay small, and all kernels must agree to the last bit. An int8 of 256 values with one scale is
// off by about 0.7%, which some fifteen products in a row bring to 3%, and to more where other experts are chosen.
func TestQuantisedGGUF(t *testing.T) {
	mixes := [][]quant.Type{{quant.Q8_0}, {quant.Q4_0}, {quant.Q8_0, quant.BF16, quant.Q4_0, quant.F32, quant.F16}}
	for _, name := range []string{"llama", "llama3_rope", "llama3_old", "yarn_old", "mistral_swa", "mistral_wide", "qwen2", "qwen3", "phi3", "gemma3", "olmo2",
		"glm4", "gpt2", "cohere", "mixtral", "qwen2_moe", "glm4_moe"} {
		for _, types := range mixes {
			t.Run(fmt.Sprint(name, types), func(t *testing.T) {
				g := openGolden(t, name)
				ckpt := asGGUF(t, g.ckpt, types...)
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
				var errors []float64 // of positions: one whose token goes to another expert is off by much
				for p := range first {
					errors = append(errors, relative(first[p:p+1], exact[p:p+1]))
				}
				slices.Sort(errors)
				e := relative(first, exact)
				if strings.Contains(name, "moe") || name == "mixtral" {
					e = errors[len(errors)/2]
				}
				t.Logf("relative error %.4f", e)
				if !(e > 0 && e < 0.05) {
					t.Errorf("relative error of the logits is %g; want a little, below 0.05", e)
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

// asGGUF writes a checkpoint as GGUF with its matrices in the given types, by turns, or in F16 where a row is not whole
// blocks.
func asGGUF(t *testing.T, ckpt *weights.Checkpoint, types ...quant.Type) *weights.Checkpoint {
	t.Helper()
	out, err := Translate(ckpt, weights.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	var tensors []weights.Source
	for i, info := range out.Tensors {
		kind := quant.F32
		if len(info.Shape) > 1 && !strings.Contains(info.Name, "ffn_gate_inp") {
			if kind = types[i%len(types)]; info.Shape[len(info.Shape)-1]%kind.BlockValues() != 0 {
				kind = quant.F16
			}
		}
		tensors = append(tensors, source(t, info.Name, kind, info.Shape, read(t, info)))
	}
	return written(t, out.Meta, tensors)
}

// asSafetensors writes a checkpoint as safetensors in float32.
func asSafetensors(t *testing.T, ckpt *weights.Checkpoint) *weights.Checkpoint {
	t.Helper()
	out, err := Translate(ckpt, weights.Safetensors)
	if err != nil {
		t.Fatal(err)
	}
	var tensors []weights.Source
	for _, info := range out.Tensors {
		tensors = append(tensors, source(t, info.Name, quant.F32, info.Shape, read(t, info)))
	}
	config, err := json.Marshal(out.Config)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var file bytes.Buffer
	if err := weights.WriteSafetensors(&file, tensors, nil); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"config.json": config, "model.safetensors": file.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return openCheckpoint(t, dir)
}

// read returns a translated tensor's values.
func read(t *testing.T, info Translated) []float32 {
	t.Helper()
	data, err := info.Read()
	if err != nil {
		t.Fatal(err)
	}
	v := make([]float32, 1)
	for _, n := range info.Shape {
		v = make([]float32, len(v)*n)
	}
	if err := quant.Decode(v, data, info.Type); err != nil {
		t.Fatal(err)
	}
	return v
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
	return retyped(t, ckpt, quant.F32)
}

// retyped writes a GGUF again, with its matrices in another type.
func retyped(t *testing.T, ckpt *weights.Checkpoint, typ quant.Type) *weights.Checkpoint {
	t.Helper()
	var meta []weights.KV
	for _, k := range ckpt.MetadataKeys() {
		meta = append(meta, weights.KV{Key: k, Value: ckpt.Metadata()[k]})
	}
	var tensors []weights.Source
	for _, info := range ckpt.Tensors() {
		kind := quant.F32
		if len(info.Shape) > 1 {
			kind = typ
		}
		tensors = append(tensors, source(t, info.Name, kind, info.Shape, values(t, ckpt, info.Name)))
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
