package forge

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/tokenizer"
)

// TestConvertEncoder converts an encoder with its tokenizer to GGUF, which must embed texts alike.
func TestConvertEncoder(t *testing.T) {
	dir := filepath.Join("..", "model", "testdata", "encoders", "bert")
	var examples []struct {
		Text   string
		IDs    []int32
		Vector []float32
	}
	data, err := os.ReadFile(filepath.Join(dir, "texts.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &examples); err != nil || len(examples) < 4 {
		t.Fatalf("%d examples, %v", len(examples), err)
	}
	ckpt := converted(t, opened(t, dir), "bert.gguf", ConvertOptions{Type: quant.F32})
	m, err := text.Open(ckpt, text.Options{Name: "bert", Compute: compute.Options{Threads: 1}, KVBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.Pooling != engine.PoolMean {
		t.Errorf("the pooling is %q; want that of 1_Pooling, the mean", m.Pooling)
	}
	raw := false
	for _, e := range examples {
		v, n, err := m.Embed(t.Context(), text.EmbedRequest{Text: e.Text, Normalise: &raw})
		if err != nil || n != len(e.IDs) {
			ids := m.Tokenizer.Encode(e.Text, tokenizer.EncodeOptions{AddSpecial: true})
			t.Fatalf("%q: tokens %v (%v); want %v", e.Text, ids, err, e.IDs)
		}
		for i, w := range e.Vector {
			if !(math.Abs(float64(v[i]-w)) < 1e-5) {
				t.Fatalf("%q: value %d is %g; want %g", e.Text, i, v[i], w)
			}
		}
	}
}
