package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/hub/builtin"
)

// TestMain makes the test binary the program itself where it is run under the name kvasir.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"kvasir": main})
}

// endlessModel writes the built-in model with the embeddings of its end tokens set to zero, so that no answer ends by
// itself, and returns the file.
func endlessModel(dir string) (string, error) {
	data, err := os.ReadFile("../../hub/builtin/kvasir-mini-q8_0.gguf")
	if err != nil {
		return "", err
	}
	ckpt, err := builtin.Open()
	if err != nil {
		return "", err
	}
	tokens, err := text.OpenTokenizer(ckpt)
	if err != nil {
		return "", err
	}
	for _, t := range ckpt.Tensors() {
		if t.Name != "token_embd.weight" {
			continue
		}
		row := t.Size / int64(t.Shape[0])
		for _, id := range tokens.EOS() {
			clear(data[t.Offset+int64(id)*row:][:row])
		}
	}
	path := filepath.Join(dir, "endless.gguf")
	return path, os.WriteFile(path, data, 0o600)
}
