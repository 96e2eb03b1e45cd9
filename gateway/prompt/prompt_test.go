package prompt_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/gateway/prompt"
	"github.com/kvasir-llm/kvasir/hub/builtin"
)

func open(t *testing.T) *prompt.Model {
	t.Helper()
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	m := &prompt.Model{}
	if m.Tokenizer, err = text.OpenTokenizer(ckpt); err != nil {
		t.Fatal(err)
	}
	if m.Template, err = text.OpenTemplate(ckpt); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTokens compares the tokens of conversations, some with tools, with those of transformers, which are in the
// built-in model's goldens.
func TestTokens(t *testing.T) {
	m := open(t)
	data, err := os.ReadFile("../../hub/builtin/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		Prompts []struct {
			Messages []map[string]any
			Tools    json.RawMessage
			Thinking *bool   `json:"enable_thinking"`
			Prompt   []int32 `json:"prompt_ids"`
			Rendered string
		}
	}
	if err := json.Unmarshal(data, &g); err != nil || len(g.Prompts) < 20 {
		t.Fatalf("%d prompts: %v", len(g.Prompts), err)
	}
	for _, p := range g.Prompts {
		if p.Messages == nil { // a text
			continue
		}
		for _, m := range p.Messages {
			calls, _ := m["tool_calls"].([]any)
			for i := range calls { // whose arguments are a text in the API
				c := calls[i].(map[string]any)
				f := c["function"].(map[string]any)
				arguments, err := json.Marshal(f["arguments"])
				if err != nil {
					t.Fatal(err)
				}
				f["arguments"], c["id"] = string(arguments), "call-1"
			}
			if m["role"] == "tool" {
				m["tool_call_id"] = "call-1"
			}
		}
		asked := map[string]any{"model": "m", "messages": p.Messages, "temperature": 0.5, "guided_unknown": []int{1}}
		if len(p.Tools) > 0 && string(p.Tools) != "null" {
			asked["tools"] = p.Tools
		}
		if p.Thinking != nil {
			asked["enable_thinking"] = *p.Thinking
		}
		body, err := json.Marshal(asked)
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Tokens(t.Context(), "/v1/chat/completions", body)
		if err != nil || !slices.Equal(got, p.Prompt) {
			t.Errorf("%s: %v %v; want %v", body, got, err, p.Prompt)
		}
		body, err = json.Marshal(map[string]any{"model": "m", "prompt": p.Rendered, "add_special_tokens": false})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.Tokens(t.Context(), "/v1/completions", body); err != nil || !slices.Equal(got, p.Prompt) {
			t.Errorf("%q: %v %v; want %v", p.Rendered, got, err, p.Prompt)
		}
	}
	if got, err := m.Tokens(t.Context(), "/v1/completions", []byte(`{"prompt":[[4,5]],"continue_token_ids":[7]}`)); err != nil || !slices.Equal(got, []int32{4, 5, 7}) {
		t.Errorf("tokens stay as they are: %v %v", got, err)
	}
}

// TestWhatIsNotRendered has prompts that an endpoint must render.
func TestWhatIsNotRendered(t *testing.T) {
	m := open(t)
	for name, c := range map[string]struct{ path, body, want string }{
		"images":    {"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`, "messages[0]"},
		"template":  {"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"chat_template":"{{ 1 }}"}`, "brings its own"},
		"no prompt": {"/v1/completions", `{}`, "prompt"},
		"suffix":    {"/v1/completions", `{"prompt":"x","suffix":"y"}`, "surrounds"},
		"path":      {"/v1/embeddings", `{"input":"x"}`, "/v1/embeddings"},
		"no JSON":   {"/v1/completions", `{`, ""},
	} {
		if _, err := m.Tokens(t.Context(), c.path, []byte(c.body)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}
