package server

import (
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/sampling"
)

// ask1 sends a request and returns what the model was asked.
func ask1(t *testing.T, path, body string) []*text.Prompt {
	t.Helper()
	fake := newFake("fake", "x")
	w := httptest.NewRecorder()
	build(t, Config{Models: []Served{served(fake)}}).ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
	if w.Code != 200 {
		t.Fatalf("%s: %s", body, w.Body)
	}
	return fake.asked
}

func TestEveryFieldReachesTheModel(t *testing.T) {
	got := ask1(t, "/v1/completions", `{"prompt":[1,2],"temperature":0.25,"top_p":0.5,"top_k":3,"min_p":0.125,"n":2,
		"repetition_penalty":1.5,"presence_penalty":-1,"frequency_penalty":2,"logit_bias":{"7":-100},"seed":-1,"stop":["a","b"],
		"stop_token_ids":[9],"include_stop_str_in_output":true,"ignore_eos":true,"skip_special_tokens":false,"max_tokens":5,
		"min_tokens":2,"logprobs":4,"prompt_logprobs":6,"cache_salt":"salt","kv_priority":-7,"kv_ttl_ms":800,"user":"u","priority":-2,"ttft_ms":300,"tpot_ms":40,"timeout_ms":7000,"add_special_tokens":false}`)
	want := text.Request{IDs: []int32{1, 2}, Stop: []string{"a", "b"}, IncludeStop: true, KeepSpecial: true, NoSpecial: true}
	want.Params = engine.Params{MaxTokens: 5, MinTokens: 2, StopTokens: []int32{9}, IgnoreEOS: true, Logprobs: 4, PromptLogprobs: 6,
		Salt: "salt", Keep: kv.Retention{Priority: -7, TTL: 800},
		Tenant: "u", Priority: -2, FirstToken: 300 * time.Millisecond, PerToken: 40 * time.Millisecond, Timeout: 7 * time.Second,
		Sampling: sampling.Params{Temperature: 0.25, TopP: 0.5, TopK: 3, MinP: 0.125, RepetitionPenalty: 1.5, PresencePenalty: -1,
			FrequencyPenalty: 2, LogitBias: map[int32]float32{7: -100}, Seed: math.MaxUint64}}
	if len(got) != 2 || got[0] != got[1] {
		t.Fatalf("two answers are made of %v; want one prompt for both", got)
	}
	if diff := cmp.Diff(want, got[0].Request); diff != "" {
		t.Error(diff)
	}
}

func TestDefaults(t *testing.T) {
	recommended := newFake("fake").info.Defaults
	for path, body := range map[string]string{"/v1/completions": `{"prompt":"x"}`,
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"x"}]}`} {
		got := ask1(t, path, body)[0].Request
		if got.Sampling.Seed == ask1(t, path, body)[0].Request.Sampling.Seed {
			t.Errorf("%s: two requests without a seed have the same", path)
		}
		got.Sampling.Seed = 0
		want := text.Request{Prompt: got.Prompt, Chat: got.Chat, Answer: got.Answer}
		want.Params = engine.Params{Sampling: recommended, Logprobs: -1, PromptLogprobs: -1}
		if path == "/v1/completions" {
			want.MaxTokens = 16
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", path, diff)
		}
	}
	if got := ask1(t, "/v1/completions", `{"prompt":"x","top_p":0}`)[0].Request.Sampling.TopP; got <= 0 || got > 1e-30 {
		t.Errorf("top_p 0 became %v", got)
	}
	got := ask1(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":9,"max_completion_tokens":3}`)
	if got[0].Request.MaxTokens != 3 {
		t.Errorf("max_tokens is %d; max_completion_tokens, its new name, should win", got[0].Request.MaxTokens)
	}
}

func TestConversation(t *testing.T) {
	fake := newFake("fake", "x")
	w := httptest.NewRecorder()
	build(t, Config{Models: []Served{served(fake)}}).ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(`{
		"add_generation_prompt": false, "chat_template_kwargs": {"thinking": true}, "messages": [
		{"role": "developer", "content": "S", "name": "n"},
		{"role": "assistant", "reasoning_content": "hm", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
		{"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "42"}]}]}`)))
	if w.Code != 200 {
		t.Fatal(w.Body)
	}
	asked := fake.asked[0].Request.Chat
	want := []chat.Message{
		{Role: "system", Content: "S", Name: "n"},
		{Role: "assistant", Reasoning: "hm", ToolCalls: []chat.ToolCall{{ID: "c", Name: "f", Arguments: "{}"}}},
		{Role: "tool", ToolCallID: "c", Parts: []chat.Part{{Type: "text", Text: "42"}}},
	}
	if diff := cmp.Diff(want, asked.Messages); diff != "" {
		t.Error(diff)
	}
	if thinking, _ := asked.Extra.Get("thinking"); thinking != true || asked.AddGenerationPrompt {
		t.Errorf("%+v", asked)
	}
}
