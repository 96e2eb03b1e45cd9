package tokenizer

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/reference"
	"github.com/kvasir-llm/kvasir/weights"
)

// TestToGGUF turns tokenizers into GGUF metadata and back into tokenizer.json, and compares the ids of a text at each
// step.
func TestToGGUF(t *testing.T) {
	for _, path := range []string{"tinyllama", "llama-2", "mistral/tokenizer.model.v1", "bert-like"} {
		t.Run(path, func(t *testing.T) {
			whole := reference.Path(t, "tokenizers", path)
			tok, err := Load(whole)
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(whole); err == nil && !info.IsDir() {
				data, err := os.ReadFile(whole)
				if err != nil {
					t.Fatal(err)
				}
				whole = t.TempDir()
				if err := os.WriteFile(filepath.Join(whole, "tokenizer.model"), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			meta, err := ToGGUF(whole, tok.VocabSize()+3)
			if err != nil {
				t.Fatal(err)
			}
			stored, err := FromGGUF(meta)
			if err != nil {
				t.Fatal(err)
			}
			if stored.VocabSize() != tok.VocabSize()+3 || !slices.Equal(stored.EOS(), tok.EOS()) {
				t.Errorf("%d tokens and EOS %v; want %d and %v", stored.VocabSize(), stored.EOS(), tok.VocabSize()+3, tok.EOS())
			}
			sameIDs(t, tok, stored)
			switch path {
			case "mistral/tokenizer.model.v1": // its runs of spaces have one score, and merges an order
			case "bert-like":
				if _, _, err := ToHF(meta); err == nil {
					t.Error("WordPiece has a form in tokenizer.json, which nothing has compared")
				}
			default:
				checkBack(t, meta)
			}
		})
	}
}

// TestToHF turns the vocabularies of GGUF files into tokenizer.json.
func TestToHF(t *testing.T) {
	for _, name := range []string{"gpt-2", "deepseek-coder", "deepseek-llm", "llama-spm", "phi-3"} {
		t.Run(name, func(t *testing.T) {
			ckpt, err := weights.Open(reference.Path(t, "tokenizers", "gguf", "ggml-vocab-"+name+".gguf"))
			if err != nil {
				t.Fatal(err)
			}
			defer ckpt.Close()
			checkBack(t, ckpt.Metadata())
		})
	}
}

func checkBack(t *testing.T, meta map[string]any) {
	t.Helper()
	tok, err := FromGGUF(meta)
	if err != nil {
		t.Fatal(err)
	}
	data, config, err := ToHF(meta)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tokenizer.json": data, "tokenizer_config.json": text} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	back, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	sameIDs(t, tok, back)
	again, err := ToGGUF(dir, tok.VocabSize())
	if err != nil {
		t.Fatal(err)
	}
	last, err := FromGGUF(again)
	if err != nil {
		t.Fatal(err)
	}
	sameIDs(t, tok, last)
}

// sameIDs compares two tokenizers on this package's sources and on the reference text.
func sameIDs(t *testing.T, a, b *Tokenizer) {
	t.Helper()
	files, err := filepath.Glob(reference.Path(t, "text") + "/*")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, sources...) {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // a folder
		}
		text := string(data[:min(len(data), 50_000)])
		if i := strings.LastIndexByte(text, '\n'); i > 0 {
			text = text[:i]
		}
		x, y := a.Encode(text, EncodeOptions{AddSpecial: true}), b.Encode(text, EncodeOptions{AddSpecial: true})
		if !slices.Equal(x, y) {
			i := 0
			for i < min(len(x), len(y)) && x[i] == y[i] {
				i++
			}
			t.Fatalf("%s: ids from %d on are %q; want %q", name, i, texts(b, y[i:min(i+6, len(y))]), texts(a, x[i:min(i+6, len(x))]))
		}
	}
}

func texts(t *Tokenizer, ids []int32) (out []string) {
	for _, id := range ids {
		out = append(out, t.Token(id))
	}
	return out
}

func TestToGGUFRefused(t *testing.T) {
	dir := t.TempDir()
	words := `{"model":{"type":"WordLevel","vocab":{"a":0,"b":1},"unk_token":"a"}}`
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(words), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ToGGUF(dir, 0); err == nil || !strings.Contains(err.Error(), "has no form in GGUF: its model is of type WordLevel") {
		t.Errorf("WordLevel: error %v", err)
	}
	ckpt, err := weights.Open(reference.Path(t, "tokenizers", "gguf", "ggml-vocab-gpt-2.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer ckpt.Close()
	meta := maps.Clone(ckpt.Metadata())
	meta["tokenizer.ggml.pre"] = "none-such"
	if _, _, err := ToHF(meta); err == nil || !strings.Contains(err.Error(), "none-such") {
		t.Errorf("an unknown pre-tokenizer: error %v", err)
	}
}
