package text

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/weights"
)

// TestPromptsThatCannotFit are refused before they are encoded.
func TestPromptsThatCannotFit(t *testing.T) {
	m := openMini(t, Options{})
	long := strings.Repeat("a", 8<<20)
	for field, r := range map[fault.Field]Request{
		engine.FieldPrompt: {Prompt: long},
		FieldMessages:      {Chat: &chat.Input{Messages: []chat.Message{{Role: "user", Content: long}}}},
	} {
		r.Logprobs, r.PromptLogprobs, r.Sampling = -1, -1, m.Defaults
		_, err := m.Prepare(context.Background(), r)
		var refused *fault.Error
		if !errors.As(err, &refused) || refused.Field != field || !strings.Contains(refused.Problem, "8388") {
			t.Errorf("%s: error %v", field, err)
		}
	}
}

// TestFit holds that a request may ask for as many tokens as there is room for without knowing how many that is.
func TestFit(t *testing.T) {
	m := openMini(t, Options{})
	r := request()
	r.Prompt, r.Fit, r.Sampling = "What is a KV cache?", true, m.Defaults
	for asked, want := range map[int]func(prompt int) int{
		1 << 20: func(prompt int) int { return m.Context - prompt },
		5:       func(int) int { return 5 },
		0:       func(int) int { return 0 },
	} {
		r.MaxTokens = asked
		p, err := m.Prepare(t.Context(), r)
		if err != nil {
			t.Fatalf("%d tokens asked for: %v", asked, err)
		}
		if got := p.Request.MaxTokens; got != want(p.Len()) {
			t.Errorf("%d tokens asked for after %d: %d", asked, p.Len(), got)
		}
	}
	r.MaxTokens, r.Prompt = 5, strings.Repeat("cache ", m.Context)
	if _, err := m.Prepare(t.Context(), r); !errors.As(err, new(*LengthError)) {
		t.Errorf("a prompt that fills the context: %v", err)
	}
}

// TestTruncate holds that a prompt keeps its last tokens.
func TestTruncate(t *testing.T) {
	m := openMini(t, Options{})
	r := request()
	r.Prompt, r.MaxTokens, r.Sampling = strings.Repeat("a cache ", m.Context), 5, m.Defaults
	all, err := m.Encode(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for truncate, want := range map[int]int{3: 3, -1: m.Context - 5} {
		r.Truncate = truncate
		p, err := m.Prepare(t.Context(), r)
		if err != nil || !slices.Equal(p.IDs, all[len(all)-want:]) {
			t.Errorf("%d: %v; want the last %d", truncate, err, want)
		}
	}
	r.Prompt, r.Truncate = "a cache", 100
	if p, err := m.Prepare(t.Context(), r); err != nil || p.Len() > 5 {
		t.Errorf("a short prompt: %v", err)
	}
}

func TestMinTokensHoldsBackStopStrings(t *testing.T) {
	m := openMini(t, Options{})
	r := request()
	r.Prompt, r.Stop, r.MinTokens = readMiniGoldens(t)[0].Rendered, []string{"I am", " the "}, 3
	got, ids, last := answer(t, m, r)
	if got != "I am kvasir-mini," || last.Finish != "stop" || len(ids) < 3 {
		t.Errorf("got %q after %d tokens, %s; want what comes before \" the \"", got, len(ids), last.Finish)
	}
}

// TestMisfits are settings and checkpoints that cannot be served; each error names what does not fit.
func TestMisfits(t *testing.T) {
	for want, o := range map[string]Options{
		"kv-bytes asks for":            {KVBytes: 1 << 50},
		"token-budget of 16777216":     {TokenBudget: 1 << 24},
		"context of 4096 tokens; mini": {Context: 4096},
	} {
		ckpt, err := builtin.Open()
		if err != nil {
			t.Fatal(err)
		}
		o.Name = "mini"
		if _, err := Open(ckpt, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want %q", err, want)
		}
	}
	golden := "../../model/testdata/goldens/llama"
	for file, want := range map[string]string{
		"tokenizer.json":         "tokens; the model's vocabulary has 256",
		"generation_config.json": "eos_token_id 999 is outside the model's vocabulary of 256",
	} {
		dir := t.TempDir()
		for _, name := range []string{"config.json", "model.safetensors"} {
			copyFile(t, filepath.Join(golden, name), filepath.Join(dir, name))
		}
		vocab := `{"<unk>": 0, "a": 1}`
		if file == "tokenizer.json" {
			vocab = bigVocab(300)
		}
		tokenizer := `{"model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": ` + vocab + `}}`
		write(t, filepath.Join(dir, "tokenizer.json"), tokenizer)
		write(t, filepath.Join(dir, "generation_config.json"), `{"eos_token_id": 999}`)
		ckpt, err := weights.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(ckpt, Options{Name: "misfit"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; want %q", file, err, want)
		}
		ckpt.Close()
	}
}

func bigVocab(n int) string {
	var b strings.Builder
	b.WriteString(`{"<unk>": 0`)
	for i := 1; i < n; i++ {
		b.WriteString(`, "` + strings.Repeat("a", i) + `": ` + strconv.Itoa(i))
	}
	return b.String() + "}"
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, string(data))
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}
