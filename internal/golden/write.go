package golden

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/forge"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// Source encodes values as a tensor to be written.
func Source(t testing.TB, name string, typ quant.Type, shape []int, v []float32) weights.Source {
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

// GGUF writes a GGUF and opens it.
func GGUF(t testing.TB, meta []weights.KV, tensors []weights.Source) *weights.Checkpoint {
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

// Folder writes tensors to a safetensors file and another file beside it, and opens the first.
func Folder(t testing.TB, file string, tensors []weights.Source, beside string, data []byte) *weights.Checkpoint {
	t.Helper()
	var out bytes.Buffer
	if err := weights.WriteSafetensors(&out, tensors, nil); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{file: out.Bytes(), beside: data} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Checkpoint(t, dir, file)
}

// Rewritten copies a golden's checkpoint with its tensors named and its configuration changed by the given functions,
// either of which may be nil. A tensor without a name is left out; more are added.
func Rewritten(t testing.TB, g Golden, name func(string) string, change func(config map[string]any) map[string]any, more ...weights.Source) *weights.Checkpoint {
	t.Helper()
	tensors := more
	for _, info := range g.Ckpt.Tensors() {
		tensor, _ := g.Ckpt.Tensor(info.Name)
		to := info.Name
		if name != nil {
			to = name(to)
		}
		if to != "" {
			tensors = append(tensors, weights.Source{Name: to, Type: info.Type, Shape: info.Shape, Write: weights.Bytes(tensor.Data)})
		}
	}
	data, err := g.Ckpt.Config("config.json")
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		config = change(config)
	}
	if data, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	return Folder(t, "model.safetensors", tensors, "config.json", data)
}

// AsGGUF writes a checkpoint as GGUF with its matrices in the given types, one after the other, or in F16 where a row
// is not whole blocks.
func AsGGUF(t testing.TB, ckpt *weights.Checkpoint, types ...quant.Type) *weights.Checkpoint {
	t.Helper()
	out, err := forge.Translate(ckpt, weights.GGUF)
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
		tensors = append(tensors, Source(t, info.Name, kind, info.Shape, translated(t, info)))
	}
	return GGUF(t, out.Meta, tensors)
}

// AsSafetensors writes a checkpoint as safetensors in float32.
func AsSafetensors(t testing.TB, ckpt *weights.Checkpoint) *weights.Checkpoint {
	t.Helper()
	out, err := forge.Translate(ckpt, weights.Safetensors)
	if err != nil {
		t.Fatal(err)
	}
	var tensors []weights.Source
	for _, info := range out.Tensors {
		tensors = append(tensors, Source(t, info.Name, quant.F32, info.Shape, translated(t, info)))
	}
	config, err := json.Marshal(out.Config)
	if err != nil {
		t.Fatal(err)
	}
	return Folder(t, "model.safetensors", tensors, "config.json", config)
}

// translated returns a translated tensor's values.
func translated(t testing.TB, info forge.Translated) []float32 {
	t.Helper()
	data, err := info.Read()
	if err != nil {
		t.Fatal(err)
	}
	tensor := weights.Tensor{Info: weights.Info{Name: info.Name, Type: info.Type, Shape: info.Shape}, Data: data}
	v, err := tensor.Floats()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Retyped writes a GGUF again, with its matrices in another type.
func Retyped(t testing.TB, ckpt *weights.Checkpoint, typ quant.Type) *weights.Checkpoint {
	t.Helper()
	var tensors []weights.Source
	for _, info := range ckpt.Tensors() {
		kind := quant.F32
		if len(info.Shape) > 1 {
			kind = typ
		}
		tensors = append(tensors, Source(t, info.Name, kind, info.Shape, Values(t, ckpt, info.Name)))
	}
	return GGUF(t, Metadata(ckpt), tensors)
}

// Metadata returns the metadata of a GGUF in its order.
func Metadata(ckpt *weights.Checkpoint) []weights.KV {
	var meta []weights.KV
	for _, k := range ckpt.MetadataKeys() {
		meta = append(meta, weights.KV{Key: k, Value: ckpt.Metadata()[k]})
	}
	return meta
}

// CheckSame holds that two checkpoints describe one model.
func CheckSame(t testing.TB, a, b *weights.Checkpoint) {
	t.Helper()
	if d := model.Differ(Spec(t, a), Spec(t, b)); d != "" {
		t.Errorf("another model: %s", d)
	}
}

// Spec returns a checkpoint's Spec.
func Spec(t testing.TB, ckpt *weights.Checkpoint) *model.Spec {
	t.Helper()
	spec, err := family.Read(ckpt)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}
