package forge

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/internal/reference"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/tokenizer"
	"github.com/kvasir-llm/kvasir/weights"
)

// converted converts a checkpoint into a new folder and opens the result.
func converted(t *testing.T, ckpt *weights.Checkpoint, name string, o ConvertOptions) *weights.Checkpoint {
	t.Helper()
	out := filepath.Join(t.TempDir(), name)
	if _, err := Convert(context.Background(), ckpt, out, o); err != nil {
		t.Fatal(err)
	}
	if o.ShardSize > 0 && strings.HasSuffix(name, ".gguf") {
		out = filepath.Dir(out)
	}
	return opened(t, out)
}

// worst returns the greatest error of the logits of a checkpoint against a golden's.
func worst(t *testing.T, ckpt *weights.Checkpoint, name string) float64 {
	t.Helper()
	ids, want := expected(t, name, 1)
	s, err := newSequence(loaded(t, ckpt), len(ids), len(ids))
	if err != nil {
		t.Fatal(err)
	}
	most := 0.0
	err = s.run(context.Background(), ids, len(ids)-len(want), func(_ int, logits [][]float32) {
		for i := range logits {
			for j, v := range logits[i] {
				most = max(most, math.Abs(float64(v-want[i][j])))
			}
		}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return most
}

// TestConvertReferences converts checkpoints of all families to GGUF and back, whole and in pieces.
func TestConvertReferences(t *testing.T) {
	root := reference.Path(t, "goldens")
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		t.Run(e.Name(), func(t *testing.T) {
			dir := filepath.Join(root, e.Name())
			ckpt := opened(t, dir)
			if _, err := family.Read(ckpt); err != nil {
				t.Skip(err)
			}
			gguf := converted(t, ckpt, "model.gguf", ConvertOptions{Type: quant.F32, ShardSize: 100_000})
			back := converted(t, gguf, "model", ConvertOptions{ShardSize: 100_000})
			for _, c := range []*weights.Checkpoint{gguf, back} {
				if len(c.Files()) < 2 {
					t.Errorf("%d files; want several", len(c.Files()))
				}
				if e := worst(t, c, dir); !(e <= 2e-3) {
					t.Errorf("%s: max abs logit error %g", c.Format(), e)
				}
			}
		})
	}
}

// TestConvertPacked converts experts in MXFP4, as they are and to float32.
func TestConvertPacked(t *testing.T) {
	const name = "gpt_oss_mxfp4"
	ckpt := opened(t, goldens, name)
	before := worst(t, ckpt, name)
	if kept := worst(t, converted(t, ckpt, "kept.gguf", ConvertOptions{}), name); kept != before {
		t.Errorf("max abs logit error is %g and then %g", before, kept)
	}
	if e := worst(t, converted(t, ckpt, "f32.gguf", ConvertOptions{Type: quant.F32}), name); !(e <= 2e-3) {
		t.Errorf("float32: max abs logit error %g", e)
	}
}

// TestConvertBuiltin holds that the tokens of a model with all its files stay the same through both formats.
func TestConvertBuiltin(t *testing.T) {
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ckpt.Close()
	folder := converted(t, ckpt, "mini", ConvertOptions{})
	again := converted(t, folder, "mini.gguf", ConvertOptions{Name: "mini"})
	for _, key := range []string{"tokenizer.chat_template", "tokenizer.ggml.model", "general.sampling.temp", "tokenizer.ggml.eos_token_id", "llama.block_count"} {
		if a, b := ckpt.Metadata()[key], again.Metadata()[key]; a != b {
			t.Errorf("%s is %v and then %v", key, a, b)
		}
	}
	text := "<|im_start|>user\nWhat is a KV cache? 12345 naïve 猫<|im_end|>\n"
	var first []int32
	for i, load := range []func() (*tokenizer.Tokenizer, error){
		func() (*tokenizer.Tokenizer, error) { return tokenizer.FromGGUF(ckpt.Metadata()) },
		func() (*tokenizer.Tokenizer, error) { return tokenizer.Load(folder.Dir()) },
		func() (*tokenizer.Tokenizer, error) { return tokenizer.FromGGUF(again.Metadata()) },
	} {
		tok, err := load()
		if err != nil {
			t.Fatal(err)
		}
		ids := tok.Encode(text, tokenizer.EncodeOptions{ParseSpecial: true})
		if i == 0 {
			first = ids
		}
		if string(idBytes(ids)) != string(idBytes(first)) {
			t.Errorf("tokenizer %d gives %v; want %v", i, ids, first)
		}
	}
	var generation struct {
		EOS []int32 `json:"eos_token_id"`
	}
	data, err := folder.Config("generation_config.json")
	if err == nil {
		err = json.Unmarshal(data, &generation)
	}
	if err != nil || len(generation.EOS) == 0 {
		t.Errorf("generation_config.json: %v, EOS %v", err, generation.EOS)
	}
}

func idBytes(ids []int32) (out []byte) {
	for _, id := range ids {
		out = binary.LittleEndian.AppendUint32(out, uint32(id))
	}
	return out
}

// TestConvertLeavesNothing holds that neither a refused conversion nor an interrupted one leaves a file behind.
func TestConvertLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Convert(context.Background(), opened(t, goldens, "llama_gelu"), filepath.Join(dir, "gelu.gguf"), ConvertOptions{})
	if err == nil || !strings.Contains(err.Error(), "gguf has no way to say what this model is: Layers[0].FFN.Act") {
		t.Errorf("another activation: error %v", err)
	}
	_, err = Convert(ctx, opened(t, goldens, "llama"), filepath.Join(dir, "llama"), ConvertOptions{Progress: func(int64, int64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: error %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestConvertReplaces holds that a file is replaced only by a whole one, and only if that is asked for.
func TestConvertReplaces(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there.gguf")
	if err := os.WriteFile(there, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken, stop := context.WithCancel(context.Background())
	for _, c := range []struct {
		ctx  context.Context
		o    ConvertOptions
		kept bool
	}{
		{context.Background(), ConvertOptions{}, true},
		{broken, ConvertOptions{Replace: true, Progress: func(int64, int64) { stop() }}, true},
		{context.Background(), ConvertOptions{Replace: true}, false},
	} {
		_, err := Convert(c.ctx, opened(t, goldens, "llama"), there, c.o)
		if data, _ := os.ReadFile(there); (err != nil) != c.kept || (string(data) == "old") != c.kept {
			t.Errorf("%v: error %v, %d bytes are there", c.kept, err, len(data))
		}
	}
}
