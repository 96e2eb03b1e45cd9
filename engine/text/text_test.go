package text

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/hub/builtin"
)

// openMini opens the built-in model.
func openMini(t testing.TB, o Options) *Model {
	t.Helper()
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	o.Name = builtin.Name
	o.Compute.Threads = 2
	m, err := Open(ckpt, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// request is one whose fields are all off.
func request() Request { return Request{Params: engine.Params{Logprobs: -1, PromptLogprobs: -1}} }

// generate begins the only answer to a request.
func generate(ctx context.Context, m *Model, r Request) (*Generation, error) {
	p, err := m.Prepare(ctx, r)
	if err != nil {
		return nil, err
	}
	return m.Generate(ctx, p)
}

// answer collects a whole answer.
func answer(t testing.TB, m *Model, r Request) (text string, ids []int32, last Delta) {
	t.Helper()
	if r.Sampling.TopP == 0 {
		r.Sampling = m.Defaults
	}
	g, err := generate(context.Background(), m, r)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for {
		d, err := g.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return text, ids, last
		}
		if err != nil {
			t.Fatal(err)
		}
		text, ids, last = text+d.Text, append(ids, d.IDs...), d
	}
}

// miniGolden are conversations with what PyTorch answers in float32, in hub/builtin/golden.json.
type miniGolden struct {
	Messages []struct{ Role, Content string }
	Tools    []json.RawMessage
	Kwargs   map[string]any `json:"template_kwargs"`
	Rendered string
	Prompt   []int32 `json:"prompt_ids"`
	Output   []int32 `json:"output_ids"`
	Text     string  `json:"output_text"`
}

func readMiniGoldens(t testing.TB) []miniGolden {
	t.Helper()
	data, err := os.ReadFile("../../hub/builtin/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g struct{ Prompts []miniGolden }
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Prompts) < 20 {
		t.Fatalf("golden.json has %d prompts", len(g.Prompts))
	}
	return g.Prompts
}

// TestMiniAnswersLikeTheReference runs every golden prompt of the built-in model. Activations are in 8 bits where the
// reference had 32; the goldens' margins are wide enough for that not to show.
func TestMiniAnswersLikeTheReference(t *testing.T) {
	m := openMini(t, Options{})
	for _, g := range readMiniGoldens(t) {
		r := request()
		r.Prompt, r.NoSpecial, r.KeepSpecial = g.Rendered, true, true
		r.MaxTokens = 64
		ids, err := m.Encode(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(ids, g.Prompt) {
			t.Errorf("%q is tokens %v; want %v", g.Rendered, ids, g.Prompt)
		}
		text, out, _ := answer(t, m, r)
		if !slices.Equal(out, g.Output) {
			t.Errorf("%q:\ngot  %q %v\nwant %q %v", g.Rendered, text, out, g.Text, g.Output)
		}
		if text != g.Text {
			t.Errorf("text %q; want %q", text, g.Text)
		}
	}
}

func TestChatAnswers(t *testing.T) {
	m := openMini(t, Options{})
	r := request()
	r.Chat = &chat.Input{AddGenerationPrompt: true, Messages: []chat.Message{{Role: "user", Content: "What is a KV cache?"}}}
	text, _, last := answer(t, m, r)
	if !strings.Contains(text, "keys and values") || last.Finish != "stop" {
		t.Errorf("finish %q, answer %q", last.Finish, text)
	}
	if strings.Contains(text, "<|") {
		t.Errorf("special tokens show: %q", text)
	}
	if u := last.Usage; u.Prompt < 5 || u.Generated < 5 || u.Cached != 0 {
		t.Errorf("usage %+v", u)
	}
	again, _, last := answer(t, m, r)
	if again != text {
		t.Errorf("the second answer differs: %q, %q", again, text)
	}
	_ = last
}

func TestStopStrings(t *testing.T) {
	m := openMini(t, Options{})
	r := request()
	r.Prompt = readMiniGoldens(t)[0].Rendered
	whole, _, _ := answer(t, m, r)
	for _, stop := range []string{"small model", "built into k", "25", "."} {
		r.Stop, r.IncludeStop = []string{stop, "never said"}, false
		got, _, last := answer(t, m, r)
		want, _, found := strings.Cut(whole, stop)
		if !found || got != want || last.Finish != "stop" {
			t.Errorf("stop %q: got %q (%s); want %q", stop, got, last.Finish, want)
		}
		r.IncludeStop = true
		if got, _, _ := answer(t, m, r); got != want+stop {
			t.Errorf("stop %q included: got %q; want %q", stop, got, want+stop)
		}
	}
	r.Stop, r.IncludeStop = []string{"never said"}, false
	if got, _, _ := answer(t, m, r); got != whole {
		t.Errorf("a stop string that never comes changes the answer to %q", got)
	}
	if used := m.Engine.Stats().Sched.KV.Used; used != 0 {
		t.Errorf("%d blocks are still in use", used)
	}
}
