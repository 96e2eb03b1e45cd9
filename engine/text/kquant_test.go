package text

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// mixed writes the built-in model anew, its matrices in Q4_K, Q5_K and Q6_K by turns of layers and its embeddings in
// Q6_K, as the files that most people fetch mix them.
func mixed(t *testing.T) *weights.Checkpoint {
	t.Helper()
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	var meta []weights.KV
	for _, key := range ckpt.MetadataKeys() {
		meta = append(meta, weights.KV{Key: key, Value: ckpt.Metadata()[key]})
	}
	tensors := make([]weights.Source, len(ckpt.Tensors()))
	var all sync.WaitGroup
	for i, info := range ckpt.Tensors() {
		tensor, _ := ckpt.Tensor(info.Name)
		if info.Type == quant.F32 {
			tensors[i] = weights.Source{Name: info.Name, Type: info.Type, Shape: info.Shape, Write: weights.Bytes(tensor.Data)}
			continue
		}
		to := quant.Q6_K
		if rest, ok := strings.CutPrefix(info.Name, "blk."); ok {
			layer, _, _ := strings.Cut(rest, ".")
			n, err := strconv.Atoi(layer)
			if err != nil {
				t.Fatal(err)
			}
			to = []quant.Type{quant.Q4_K, quant.Q5_K, quant.Q6_K}[n%3]
		}
		all.Go(func() {
			tensors[i] = weights.Source{Name: info.Name, Type: to, Shape: info.Shape, Write: weights.Bytes(encoded(t, tensor, to))}
		})
	}
	all.Wait()
	var file bytes.Buffer
	if err := weights.WriteGGUF(&file, meta, tensors); err != nil {
		t.Fatal(err)
	}
	out, err := weights.OpenBytes("mixed.gguf", file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// encoded returns a tensor's values in another type.
func encoded(t *testing.T, tensor weights.Tensor, to quant.Type) []byte {
	values := make([]float32, tensor.Values())
	if err := quant.Decode(values, tensor.Data, tensor.Type); err != nil {
		t.Error(err)
	}
	size, err := to.RowBytes(len(values))
	if err != nil {
		t.Error(err)
	}
	data := make([]byte, size)
	if err := quant.Encode(data, values, to); err != nil {
		t.Error(err)
	}
	return data
}

// TestMixedQuantisations runs the golden prompts with the built-in model in a mixture of types. Fewer bits may answer a
// few of them in other words.
func TestMixedQuantisations(t *testing.T) {
	if testing.Short() {
		t.Skip("quantising the built-in model takes seconds; left out by -short")
	}
	m, err := Open(mixed(t), Options{Name: "mini", Compute: compute.Options{Threads: 2}})
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
	if same < 17 {
		t.Errorf("%d of 20 answers are the reference's; want at least 17", same)
	}
}
