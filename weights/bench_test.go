package weights

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/reference"
	"github.com/kvasir-llm/kvasir/quant"
)

// BenchmarkOpen opens a checkpoint of 2,000 tensors.
func BenchmarkOpen(b *testing.B) {
	var tensors []Source
	for i := range 2000 {
		tensors = append(tensors, source(b, fmt.Sprintf("model.layers.%d.mlp.experts.%d.up_proj.weight", i/64, i%64), quant.BF16, 4, 64))
	}
	dir := folder(b, map[string]string{
		"x.safetensors": string(safetensorsFile(b, nil, tensors...)),
		"x.gguf":        string(ggufFile(b, nil, tensors...)),
	})
	for _, name := range []string{"x.safetensors", "x.gguf"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c, err := Open(filepath.Join(dir, name))
				if err != nil {
					b.Fatal(err)
				}
				c.Close()
			}
			b.ReportMetric(float64(b.N*len(tensors))/b.Elapsed().Seconds(), "tensors/s")
		})
	}
}

// BenchmarkOpenVocabulary opens GGUF files that hold a tokenizer, whose metadata is arrays of some 100,000 strings.
func BenchmarkOpenVocabulary(b *testing.B) {
	for _, name := range []string{"ggml-vocab-deepseek-llm.gguf", "ggml-vocab-llama-spm.gguf"} {
		path := reference.Path(b, "tokenizers", "gguf", name)
		st, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(st.Size())
			for b.Loop() {
				c, err := Open(path)
				if err != nil {
					b.Fatal(err)
				}
				c.Close()
			}
		})
	}
}
