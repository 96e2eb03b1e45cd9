// Package golden opens the small random-weight checkpoints in model/testdata with what transformers computed of them,
// runs them, and compares. It is imported by tests only. Start with Open and CheckLogits.
package golden

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/internal/reference"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// Golden is a checkpoint and what transformers computed of it in float32: sequences ids_0, ids_1, … and their
// logits_0, ….
type Golden struct {
	Ckpt, Data *weights.Checkpoint
}

// borrowed are the goldens that are part of the reference data.
var borrowed = []string{"mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "glm4_moe", "gpt_oss", "deepseek_v2", "deepseek_v3", "qwen3_next"}

// Packed is a golden whose experts are in MXFP4. Names leaves it out, since its logits differ by what int8
// activations cost.
const Packed = "gpt_oss_mxfp4"

// Path returns a path inside model/testdata.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	return filepath.Join(append([]string{reference.Repository(t), "model", "testdata"}, elem...)...)
}

// Names returns the decoders in model/testdata/goldens and those of the reference data.
func Names(t testing.TB) []string { return append(Committed(t), borrowed...) }

// Committed returns the decoders in model/testdata/goldens.
func Committed(t testing.TB) []string {
	return slices.DeleteFunc(folders(t, "goldens", 6), func(name string) bool { return name == Packed })
}

// Quantized returns the checkpoints in model/testdata/quantized (make_quantized.py).
func Quantized(t testing.TB) []string { return folders(t, "quantized", 15) }

// Encoders returns the checkpoints in model/testdata/encoders.
func Encoders(t testing.TB) []string { return folders(t, "encoders", 4) }

// folders lists a folder of model/testdata, which has at least so many.
func folders(t testing.TB, folder string, least int) []string {
	t.Helper()
	entries, err := os.ReadDir(Path(t, folder))
	if err != nil || len(entries) < least {
		t.Fatalf("testdata/%s has %v (%v); want at least %d", folder, entries, err, least)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Dir returns the folder of a decoder. It skips the test where that is part of the reference data, and there is none.
func Dir(t testing.TB, name string) string {
	t.Helper()
	if slices.Contains(borrowed, name) {
		return reference.Path(t, "goldens", name)
	}
	return Path(t, "goldens", name)
}

// Open opens one of Names, or Packed.
func Open(t testing.TB, name string) Golden {
	t.Helper()
	return openIn(t, Dir(t, name))
}

// OpenQuantized opens one of Quantized.
func OpenQuantized(t testing.TB, name string) Golden {
	t.Helper()
	return openIn(t, Path(t, "quantized", name))
}

// OpenEncoder opens one of Encoders.
func OpenEncoder(t testing.TB, name string) Golden {
	t.Helper()
	dir := Path(t, "encoders", name) // which has more folders in it
	return Golden{Checkpoint(t, dir, "model.safetensors"), Checkpoint(t, dir, "golden.safetensors")}
}

func openIn(t testing.TB, dir string) Golden {
	t.Helper()
	return Golden{Checkpoint(t, dir), Checkpoint(t, dir, "golden.safetensors")}
}

// OpenMini opens the built-in model.
func OpenMini(t testing.TB) *weights.Checkpoint {
	t.Helper()
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	return ckpt
}

// Checkpoint opens a checkpoint until the test ends.
func Checkpoint(t testing.TB, path ...string) *weights.Checkpoint {
	t.Helper()
	c, err := weights.Open(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Has reports whether the golden has a tensor.
func (g Golden) Has(name string) bool {
	_, ok := g.Data.Tensor(name)
	return ok
}

// Ints returns an int32 tensor.
func (g Golden) Ints(t testing.TB, name string) []int32 {
	t.Helper()
	tensor, ok := g.Data.Tensor(name)
	if !ok || tensor.Type != quant.I32 {
		t.Fatalf("golden has no int32 tensor %q", name)
	}
	out := make([]int32, len(tensor.Data)/4)
	for i := range out {
		out[i] = int32(binary.LittleEndian.Uint32(tensor.Data[i*4:]))
	}
	return out
}

// Floats returns a tensor's values.
func (g Golden) Floats(t testing.TB, name string) []float32 {
	t.Helper()
	return Values(t, g.Data, name)
}

// Values returns the values of a checkpoint's tensor.
func Values(t testing.TB, ckpt *weights.Checkpoint, name string) []float32 {
	t.Helper()
	tensor, ok := ckpt.Tensor(name)
	if !ok {
		t.Fatalf("there is no tensor %q", name)
	}
	v, err := tensor.Floats()
	if err != nil {
		t.Fatal(err)
	}
	return v
}
