package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/reference"
)

// TestTokenizerFiles gives debug tokenize tokenizers of every format. The ids are those of the libraries they come
// from.
func TestTokenizerFiles(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	kvasir := func(stdin string, args ...string) string {
		c := exec.Command(exe)
		c.Args, c.Stdin = append([]string{"kvasir"}, args...), strings.NewReader(stdin)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("kvasir %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for file, want := range map[string]string{
		"tiktoken/cl100k_base.tiktoken":                      "[9906,1917]",
		"tiktoken/r50k_base.tiktoken":                        "[15496,995]",
		"qwen/qwen.tiktoken":                                 "[9707,1879]",
		"llama-3/tokenizer.model":                            "[9906,1917]",
		"llama-2/tokenizer.model":                            "[15043,3186]",
		"llama-2":                                            "[15043,3186]",
		"tinyllama/tokenizer.json":                           "[15043,3186]",
		"mistral/tokenizer.model.v1":                         "[22557,1526]",
		"mistral/mistral_instruct_tokenizer_240323.model.v3": "[23325,2294]",
		"bert-like/tokenizer.json":                           "[7592,2088]",
		"gguf/ggml-vocab-gpt-2.gguf":                         "[15496,995]",
		"gguf/ggml-vocab-llama-spm.gguf":                     "[15043,3186]",
		"gguf/ggml-vocab-bert-bge.gguf":                      "[7592,2088]",
	} {
		path := reference.Path(t, append([]string{"tokenizers"}, strings.Split(file, "/")...)...)
		out := kvasir("Hello world", "debug", "tokenize", "--model", path, "--json")
		if out != `{"ids":`+want+"}\n" {
			t.Errorf("%s: %s, want the ids %s", file, strings.TrimSpace(out), want)
		}
		back := kvasir(out, "debug", "detokenize", "--model", path, "--json")
		if !strings.EqualFold(back, `{"text":"Hello world"}`+"\n") {
			t.Errorf("%s: back comes %s", file, strings.TrimSpace(back))
		}
	}
}
