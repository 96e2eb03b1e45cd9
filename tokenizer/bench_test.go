package tokenizer

import (
	"os"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/reference"
)

// vocabularies are what the benchmarks and the tests of linear time run over.
var vocabularies = map[string][]string{
	"gpt2":      {"gguf", "ggml-vocab-gpt-2.gguf"},
	"llama3":    {"llama-3", "tokenizer.model"},
	"qwen":      {"qwen", "qwen.tiktoken"},
	"deepseek":  {"gguf", "ggml-vocab-deepseek-llm.gguf"},
	"llama2":    {"llama-2", "tokenizer.model"},
	"tinyllama": {"tinyllama", "tokenizer.json"},
	"mistral":   {"mistral", "tokenizer.model.v1"},
	"bert":      {"bert-like", "tokenizer.json"},
}

func BenchmarkEncodeEnglish(b *testing.B) {
	data, err := os.ReadFile(reference.Path(b, "text", "wikitext-2-valid.txt"))
	if err != nil {
		b.Fatal(err)
	}
	text := string(data)
	for name, file := range vocabularies {
		b.Run(name, func(b *testing.B) {
			benchmarkEncode(b, loadReference(b, file...), text)
		})
	}
}

// BenchmarkEncodeLong runs over one megabyte of what is hard for one algorithm or another.
func BenchmarkEncodeLong(b *testing.B) {
	for name, file := range vocabularies {
		tok := loadReference(b, file...)
		for text, unit := range map[string]string{"letter": "a", "spaces": " ", "digits": "7", "newlines": "\n", "han": "字"} {
			b.Run(name+"/"+text, func(b *testing.B) { benchmarkEncode(b, tok, strings.Repeat(unit, 1<<20/len(unit))) })
		}
	}
}

func benchmarkEncode(b *testing.B, tok *Tokenizer, text string) {
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	var ids []int32
	for b.Loop() {
		ids, _ = tok.appendEncode(b.Context(), ids[:0], text, EncodeOptions{})
	}
	b.ReportMetric(float64(len(text))/float64(len(ids)), "bytes/token")
}

func BenchmarkDecode(b *testing.B) {
	data, err := os.ReadFile(reference.Path(b, "text", "wikitext-2-valid.txt"))
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"llama3", "llama2"} {
		b.Run(name, func(b *testing.B) {
			tok := loadReference(b, vocabularies[name]...)
			ids := tok.Encode(string(data), EncodeOptions{})
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				tok.Decode(ids, true)
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for name, file := range vocabularies {
		if path := reference.Path(b, append([]string{"tokenizers"}, file...)...); !strings.HasSuffix(path, ".gguf") {
			b.Run(name, func(b *testing.B) {
				for b.Loop() {
					if _, err := Load(path); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
