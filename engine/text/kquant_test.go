package text

import (
	"bytes"
	"testing"

	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// requantised writes the built-in model anew, its matrices in type t and its embeddings in Q6_K, as the field's mixed
// files have them.
func requantised(t *testing.T, to quant.Type) *weights.Checkpoint {
	t.Helper()
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	var meta []weights.KV
	for _, key := range ckpt.MetadataKeys() {
		meta = append(meta, weights.KV{Key: key, Value: ckpt.Metadata()[key]})
	}
	var tensors []weights.Source
	for _, info := range ckpt.Tensors() {
		tensor, _ := ckpt.Tensor(info.Name)
		s := weights.Source{Name: info.Name, Type: to, Shape: info.Shape}
		switch {
		case info.Type == quant.F32:
			s.Type, s.Write = info.Type, weights.Bytes(tensor.Data)
		case info.Name == "token_embd.weight":
			s.Type = quant.Q6_K
		}
		if s.Write == nil {
			s.Write = weights.Bytes(encoded(t, tensor, s.Type))
		}
		tensors = append(tensors, s)
	}
	var file bytes.Buffer
	if err := weights.WriteGGUF(&file, meta, tensors); err != nil {
		t.Fatal(err)
	}
	out, err := weights.OpenBytes("mini-"+to.String()+".gguf", file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// encoded returns a tensor's values in another type.
func encoded(t *testing.T, tensor weights.Tensor, to quant.Type) []byte {
	t.Helper()
	values := make([]float32, tensor.Values())
	if err := quant.Decode(values, tensor.Data, tensor.Type); err != nil {
		t.Fatal(err)
	}
	size, err := to.RowBytes(len(values))
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, size)
	if err := quant.Encode(data, values, to); err != nil {
		t.Fatal(err)
	}
	return data
}

// TestMixedQuantisations runs the golden prompts with the built-in model in the types of the files that most people
// fetch. Fewer bits answer a few of them in other words.
func TestMixedQuantisations(t *testing.T) {
	if testing.Short() {
		t.Skip("quantising the built-in model takes seconds; left out by -short")
	}
	for to, least := range map[quant.Type]int{quant.Q4_K: 14, quant.Q5_K: 17, quant.Q6_K: 18} {
		t.Run(to.String(), func(t *testing.T) {
			m, err := Open(requantised(t, to), Options{Name: "mini", Threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			same := 0
			for _, g := range readMiniGoldens(t) {
				r := request()
				r.IDs, r.KeepSpecial, r.MaxTokens = g.Prompt, true, 64
				if text, _, _ := answer(t, m, r); text == g.Text {
					same++
				}
			}
			t.Logf("%d of 20 answers are the reference's", same)
			if same < least {
				t.Errorf("%d of 20 answers are the reference's; want at least %d", same, least)
			}
		})
	}
}
