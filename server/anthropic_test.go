package server

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kvasir-llm/kvasir/api/anthropic"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/sampling"
)

// messagesRequest returns the request to a model that a body becomes.
func messagesRequest(t *testing.T, info text.Info, body string) text.Request {
	t.Helper()
	a, err := decodeMessages([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	all, err := a.prompts(info)
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %d prompts, %v", body, len(all), err)
	}
	return all[0]
}

// TestAnthropicTurns holds what chat templates get of conversations.
func TestAnthropicTurns(t *testing.T) {
	parts := func(texts ...string) (all []chat.Part) {
		for _, s := range texts {
			all = append(all, chat.Part{Type: "text", Text: s})
		}
		return all
	}
	for body, want := range map[string][]chat.Message{
		`"messages":[{"role":"user","content":"hi"}]`: {{Role: "user", Content: "hi"}},
		`"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`: {
			{Role: "system", Content: "s"}, {Role: "user", Parts: parts("a", "b")}},
		`"system":[{"type":"text","text":"s"},{"type":"text","text":"t"}],"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]`: {
			{Role: "system", Parts: parts("s", "t")}, {Role: "user", Parts: parts("a", "b")}},
		`"messages":[{"role":"user","content":"a"},{"role":"system","content":"s"},{"role":"user","content":"b"}]`: {
			{Role: "user", Content: "a"}, {Role: "system", Content: "s"}, {Role: "user", Content: "b"}},
		`"messages":[{"role":"user","content":"q"},
		  {"content":[{"type":"thinking","thinking":"x","signature":"y"},{"type":"text","text":"c"},
		    {"type":"tool_use","id":"1","name":"f","input":{"a": 1}},{"type":"tool_use","id":"2","name":"g","input":{}}],"role":"assistant"},
		  {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r"},
		    {"type":"tool_result","tool_use_id":"2","is_error":true,"content":[{"type":"text","text":"no"}]},{"type":"text","text":"d"}]}]`: {
			{Role: "user", Content: "q"},
			{Role: "assistant", Content: "c", Reasoning: "x", ToolCalls: []chat.ToolCall{{ID: "1", Name: "f", Arguments: `{"a": 1}`}, {ID: "2", Name: "g", Arguments: `{}`}}},
			{Role: "tool", Name: "f", ToolCallID: "1", Content: "r"},
			{Role: "tool", Name: "g", ToolCallID: "2", Parts: parts("Error:", "no")},
			{Role: "user", Content: "d"}},
	} {
		r := messagesRequest(t, text.Info{}, `{"max_tokens":5,`+body+`}`)
		if diff := cmp.Diff(want, r.Chat.Messages); diff != "" || !r.Chat.AddGenerationPrompt || r.Chat.Continue {
			t.Errorf("%s: %+v\n%s", body, r.Chat, diff)
		}
	}
	r := messagesRequest(t, text.Info{}, `{"max_tokens":5,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`)
	if r.Chat.AddGenerationPrompt || !r.Chat.Continue {
		t.Errorf("a last turn of the assistant is not continued: %+v", r.Chat)
	}
}

// TestAnthropicRequest holds where parameters go.
func TestAnthropicRequest(t *testing.T) {
	const plain = `"messages":[{"role":"user","content":"hi"}]`
	info := text.Info{Defaults: sampling.Params{Temperature: 0.5, TopP: 0.8, TopK: 7}, Retains: true}
	r := messagesRequest(t, info, `{"max_tokens":50,"temperature":1,"top_p":0.3,"top_k":9,"stop_sequences":["x"],"metadata":{"user_id":"me"},"cache_salt":"s",
		"cache_control":{"type":"ephemeral","ttl":"1h"},"thinking":{"type":"enabled","budget_tokens":20},"output_config":{"effort":"low"},
		"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"strict":true}],
		"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},`+plain+`}`)
	p := r.Sampling
	if p.Temperature != 1 || p.TopP != 0.3 || p.TopK != 9 || r.MaxTokens != 50 || !r.Fit || r.Tenant != "me" || r.Salt != "s" ||
		!cmp.Equal(r.Stop, []string{"x"}) || r.Keep.Priority != 1 || r.Keep.TTL != time.Hour.Milliseconds() {
		t.Errorf("%+v", r)
	}
	if a := r.Answer; !a.Parse || !a.Single || a.Choice.Name != "f" || len(a.Tools) != 1 || !a.Tools[0].Strict || *a.Thought != 20 {
		t.Errorf("%+v", r.Answer)
	}
	if got, want := string(r.Chat.Tools[0]), `{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}`; got != want {
		t.Errorf("the template gets the tool %s, want %s", got, want)
	}
	for key, want := range map[string]any{"enable_thinking": true, "thinking": true, "reasoning_effort": "low"} {
		if got, _ := r.Chat.Extra.Get(key); got != want {
			t.Errorf("the template's %s is %v, want %v", key, got, want)
		}
	}
	r = messagesRequest(t, text.Info{Defaults: info.Defaults}, `{"max_tokens":50,"cache_control":{"type":"ephemeral"},"thinking":{"type":"disabled"},
		"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"none"},`+plain+`}`)
	if on, _ := r.Chat.Extra.Get("enable_thinking"); on != false || r.Chat.Tools != nil || r.Answer.Tools != nil || r.Keep.TTL != 0 {
		t.Errorf("%+v", r)
	}
}

// FuzzAnthropic holds that whatever is accepted can be sampled with, and that all else is refused by its path.
func FuzzAnthropic(f *testing.F) {
	f.Add([]byte(`{"max_tokens":5,"temperature":1,"top_p":0,"top_k":0,"stop_sequences":["a"],"messages":[{"role":"user","content":"hi"}]}`))
	f.Add([]byte(`{"max_tokens":0,"system":[{"type":"text","text":"s"}],"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":[]}]}]}`))
	f.Add([]byte(`{"max_tokens":9,"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"any"},"thinking":{"type":"adaptive"},` +
		`"output_config":{"format":{"type":"json_schema","schema":{}}},"messages":[{"role":"assistant","content":[{"thinking":"x","type":"thinking"}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var bad *wire.Error
		if _, err := anthropic.DecodeCount(body); err != nil && !errors.As(err, &bad) {
			t.Errorf("%q: %v is no *wire.Error", body, err)
		}
		a, err := decodeMessages(body)
		if err != nil {
			if !errors.As(err, &bad) {
				t.Errorf("%q: %v is no *wire.Error", body, err)
			}
			return
		}
		prompts, err := a.prompts(text.Info{Defaults: sampling.Defaults()})
		if err != nil && !errors.As(err, &bad) {
			t.Errorf("%q: %v", body, err)
		}
		for _, p := range prompts {
			if err := p.Sampling.Check(math.MaxInt32); err != nil {
				t.Errorf("%q was accepted: %v", body, err)
			}
		}
	})
}
