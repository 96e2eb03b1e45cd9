package model_test

import (
	"os"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/internal/reference"
)

// TestStories continues an empty prompt greedily for 200 tokens with a trained model, and compares the text with what
// the llama2.c program wrote.
func TestStories(t *testing.T) {
	dir := reference.Path(t, "weights", "stories260K")
	want, err := os.ReadFile(reference.Path(t, "weights", "stories260K", "greedy200_expected.txt"))
	if err != nil {
		t.Fatal(err)
	}
	ckpt := golden.Checkpoint(t, dir, "stories260K.gguf")
	pieces, ok := ckpt.Metadata()["tokenizer.ggml.tokens"].([]string)
	if !ok {
		t.Fatal("the GGUF has no vocabulary")
	}
	r := golden.NewRunner(t, ckpt, "")
	const bos = 1
	var text strings.Builder
	token := int32(bos)
	for pos := range 200 {
		logits := r.Run(t, []int32{token}, pos)[0]
		token = 0
		for j, v := range logits {
			if v > logits[token] {
				token = int32(j)
			}
		}
		if token == bos {
			break
		}
		text.WriteString(strings.NewReplacer("▁", " ", "<0x0A>", "\n").Replace(pieces[token]))
	}
	if got, want := strings.TrimSpace(text.String()), strings.TrimSpace(string(want)); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
