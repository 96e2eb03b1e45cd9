package openai

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kvasir-llm/kvasir/api/wire"
)

func TestChatFields(t *testing.T) {
	cases := map[string]ChatRequest{
		`"max_completion_tokens":5`:                     {MaxCompletionTokens: ptr(5)},
		`"logprobs":true,"top_logprobs":20`:             {Logprobs: true, TopLogprobs: ptr(20)},
		`"logprobs":true,"return_token_origins":true`:   {Logprobs: true, ReturnTokenOrigins: true},
		`"prediction":{"type":"content","content":"a"}`: {Prediction: &Content{Text: "a"}},
		`"prediction":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"type":"content"}`: {Prediction: &Content{Parts: []string{"a", "b"}}},
		`"top_logprobs":0`:                             {TopLogprobs: ptr(0)},
		`"add_generation_prompt":false`:                {AddGenerationPrompt: ptr(false)},
		`"chat_template_kwargs":{"enable_thinking":1}`: {ChatTemplateKwargs: json.RawMessage(`{"enable_thinking":1}`)},
		`"chat_template_kwargs":{ }`:                   {},
		`"echo":false,"add_special_tokens":false`:      {},
		`"echo":true,"add_special_tokens":true`:        {Echo: true, AddSpecialTokens: true},
		`"chat_template":"{{ 1 }}"`:                    {ChatTemplate: "{{ 1 }}"},
		`"truncate_prompt_tokens":-1,"truncation_side":"left","request_id":"r","return_tokens_as_token_ids":true`: {
			Common: Common{TruncatePromptTokens: ptr(-1), RequestID: "r", ReturnTokensAsTokenIDs: true}},
		`"continue_final_message":false`: {},
	}
	for member, want := range cases {
		want.Messages = []Message{{Role: "user", Content: &Content{Text: "hi"}}}
		got, err := DecodeChat([]byte(chatWith(member)), nil)
		if err != nil {
			t.Errorf("%s: %v", member, err)
		} else if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s:\n%s", member, diff)
		}
	}
}

func TestMessages(t *testing.T) {
	body := `{"messages": [
		{"role": "system", "content": "S", "name": "n"},
		{"role": "developer", "content": [{"type": "text", "text": "a"}, {"text": "b", "type": "text"}]},
		{"role": "user", "content": ""},
		{"role": "assistant", "content": null, "refusal": null, "annotations": [], "reasoning_content": "hm",
		 "tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
		{"role": "tool", "tool_call_id": "c1", "content": "42"},
		{"role": "assistant", "content": "\ud800!", "tool_calls": []}
	]}`
	want := []Message{
		{Role: "system", Content: &Content{Text: "S"}, Name: "n"},
		{Role: "developer", Content: &Content{Parts: []string{"a", "b"}}},
		{Role: "user", Content: &Content{}},
		{Role: "assistant", ReasoningContent: "hm", ToolCalls: []ToolCall{{"c1", "function", FunctionCall{"f", "{}"}}}},
		{Role: "tool", ToolCallID: "c1", Content: &Content{Text: "42"}},
		{Role: "assistant", Content: &Content{Text: "\ufffd!"}},
	}
	r, err := DecodeChat([]byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, r.Messages); diff != "" {
		t.Error(diff)
	}
}

// TestIgnoredMembers holds that members which clients add to messages are named, and change nothing else.
func TestIgnoredMembers(t *testing.T) {
	r, err := DecodeChat([]byte(`{"messages": [
		{"role": "assistant", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}], "id": null,
		 "provider_specific_fields": {"a": [1]}, "thinking_blocks": [], "prefix": true,
		 "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{}", "x": 1}, "y": 2}]},
		{"role": "pirate", "content": "b"}]}`), nil)
	want := []Message{
		{Role: "assistant", Content: &Content{Parts: []string{"a"}}, ToolCalls: []ToolCall{{"", "function", FunctionCall{"f", "{}"}}}},
		{Role: "pirate", Content: &Content{Text: "b"}}}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, r.Messages); diff != "" {
		t.Error(diff)
	}
	paths := []string{"messages[0].content[0].cache_control", "messages[0].provider_specific_fields", "messages[0].thinking_blocks",
		"messages[0].prefix", "messages[0].tool_calls[0].function.x", "messages[0].tool_calls[0].y"}
	if diff := cmp.Diff(paths, r.Ignored); diff != "" {
		t.Error(diff)
	}
}

func TestChatRefusals(t *testing.T) {
	cases := []refusal{
		{`[]`, "messages", wire.CodeMissing, "at least one message"},
		{`{}`, "messages", wire.CodeInvalidType, "an array of messages, found an object"},
		{`["hi"]`, "messages[0]", wire.CodeInvalidType, "an object, found a string"},
		{`[null]`, "messages[0]", wire.CodeInvalidType, "found null"},
		{`[{"content":"x"}]`, "messages[0].role", wire.CodeMissing, "the role"},
		{`[{"role":"user"}]`, "messages[0].content", wire.CodeMissing, "a string or an array of parts"},
		{`[{"role":"assistant","content":null}]`, "messages[0].content", wire.CodeMissing, ""},
		{`[{"role":5,"content":"x"}]`, "messages[0].role", wire.CodeInvalidType, ""},
		{`[{"role":"user","content":5}]`, "messages[0].content", wire.CodeInvalidType, "a string or an array of parts, found 5"},
		{`[{"role":"user","content":[]}]`, "messages[0].content", wire.CodeInvalidValue, "at least one part"},
		{`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]`,
			"messages[0].content[0].type", wire.CodeUnsupported, `"image_url" is not supported`},
		{`[{"role":"user","content":[{"image_url":{"url":"x"},"type":"image_url"}]}]`,
			"messages[0].content[0].type", wire.CodeUnsupported, ""},
		{`[{"role":"user","content":[{"text":"x"}]}]`, "messages[0].content[0].type", wire.CodeMissing, ""},
		{`[{"role":"user","content":[{"type":"text"}]}]`, "messages[0].content[0].text", wire.CodeMissing, ""},
		{`[{"role":"user","content":["x"]}]`, "messages[0].content[0]", wire.CodeInvalidType, ""},
		{`[{"role":"user","content":"x","tool_calls":[{"type":"function","function":{"name":"f"}}]}]`,
			"messages[0].tool_calls", wire.CodeInvalidValue, "assistant"},
		{`[{"role":"user","content":"x","tool_call_id":"c"}]`, "messages[0].tool_call_id", wire.CodeInvalidValue, "tool"},
		{`[{"role":"user","content":"x","reasoning":"c"}]`, "messages[0].reasoning_content", wire.CodeInvalidValue, ""},
		{`[{"role":"assistant","tool_calls":[{"type":"custom"}]}]`, "messages[0].tool_calls[0].type", wire.CodeUnsupported, ""},
		{`[{"role":"assistant","tool_calls":[{"id":"x"}]}]`, "messages[0].tool_calls[0].type", wire.CodeMissing, ""},
		{`[{"role":"assistant","tool_calls":[{"type":"function"}]}]`,
			"messages[0].tool_calls[0].function.name", wire.CodeMissing, ""},
		{`[{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":{}}}]}]`,
			"messages[0].tool_calls[0].function.arguments", wire.CodeInvalidType, "a string, found an object"},
		{`[{"role":"user","content":"x"}],"top_logprobs":2`, "top_logprobs", wire.CodeInvalidValue, "logprobs is true"},
		{`[{"role":"user","content":"x"}],"prediction":{}`, "prediction.type", wire.CodeMissing, ""},
		{`[{"role":"user","content":"x"}],"prediction":{"type":"content"}`, "prediction.content", wire.CodeMissing, ""},
		{`[{"role":"user","content":"x"}],"prediction":{"type":"diff","content":"x"}`, "prediction.type", wire.CodeInvalidValue, "expected \"content\""},
		{`[{"role":"user","content":"x"}],"prediction":{"type":"content","content":"x","from":1}`, "prediction.from", wire.CodeUnsupported, ""},
		{`[{"role":"user","content":"x"}],"prediction":"x"`, "prediction", wire.CodeInvalidType, ""},
		{`[{"role":"user","content":"x"}],"return_token_origins":true`, "return_token_origins", wire.CodeInvalidValue, "logprobs is true"},
		{`[{"role":"user","content":"x"}],"logprobs":2`, "logprobs", wire.CodeInvalidType, "true or false, found 2"},
		{`[{"role":"user","content":"x"}],"logprobs":true,"top_logprobs":21`, "top_logprobs", wire.CodeInvalidValue, ""},
		{`[{"role":"user","content":"x"}],"max_tokens":0`, "max_tokens", wire.CodeInvalidValue, ""},
		{`[{"role":"user","content":"x"}],"max_completion_tokens":0`, "max_completion_tokens", wire.CodeInvalidValue, ""},
		{`[{"role":"user","content":"x"}],"chat_template_kwargs":[]`, "chat_template_kwargs", wire.CodeInvalidType, ""},
		{`[{"role":"user","content":"x"}],"chat_template_kwargs":{"a":tru}`, "chat_template_kwargs.a", wire.CodeInvalidJSON, ""},
		{`[{"role":"user","content":"x"}],"continue_final_message":true`, "continue_final_message", wire.CodeInvalidValue, "assistant"},
		{`[{"role":"user","content":"x"}],"truncate_prompt_tokens":0`, "truncate_prompt_tokens", wire.CodeInvalidValue, "above 0"},
		{`[{"role":"user","content":"x"}],"truncation_side":"right"`, "truncation_side", wire.CodeUnsupported, ""},
		{`[{"role":"user","content":"x"}],"prompt":"x"`, "prompt", wire.CodeUnsupported, ""},
	}
	for _, r := range cases {
		r.body = `{"messages":` + r.body + "}"
		_, err := DecodeChat([]byte(r.body), nil)
		r.check(t, err)
	}
}

// again holds that what was accepted is accepted again when written, with the same meaning.
func again[T any](t *testing.T, body []byte, decode func([]byte) (*T, error)) {
	first, err := decode(body)
	if err != nil {
		return
	}
	written, err := json.Marshal(first)
	if err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	second, err := decode(written)
	if err != nil {
		t.Fatalf("%q is accepted, but not as it is written again, %s: %v", body, written, err)
	}
	twice, err := json.Marshal(second)
	if err != nil || !bytes.Equal(written, twice) {
		t.Fatalf("%q: written first as %s, then as %s (%v)", body, written, twice, err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		chatWith(`"n":2,"best_of":3,"max_tokens":5,"chat_template_kwargs":{"a":[1.5,{"<b>":null}]}`),
		chatWith(`"stream":true,"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":3`),
		`{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"\ud83d\ude00\u0000"}]}]}`,
		completionWith(`"echo":true,"logprobs":2,"max_tokens":0,"metadata":{"a":"b"}`),
		`{"prompt":[[1,2],[3]],"n":3,"length_penalty":1e0}`,
		`{"prompt":"x","add_special_tokens":false,"return_token_strs":true}`,
		`{"tokens":[1,2,3]}`,
		`{"tokens":[]}`,
		`{"lora_name":"a","lora_path":"b","load_inplace":true}`,
		`{"input":["a","b"],"dimensions":3,"normalize":false,"truncate_prompt_tokens":-1}`,
		`{"query":"q","documents":["a",{"text":"b"}],"top_n":1}`,
		`{"text_1":"a","text_2":["b","c"],"priority":-3}`,
		`{"a":[[[[{"b":[`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		again(t, body, func(b []byte) (*ChatRequest, error) { return DecodeChat(b, nil) })
		again(t, body, func(b []byte) (*CompletionRequest, error) { return DecodeCompletion(b, nil) })
		again(t, body, DecodeTokenize)
		again(t, body, DecodePin)
		again(t, body, DecodeDetokenize)
		again(t, body, DecodeLoadAdapter)
		again(t, body, DecodeUnloadAdapter)
		again(t, body, DecodeEmbedding)
		again(t, body, DecodeRerank)
		again(t, body, DecodeScore)
	})
}

// skip takes any member.
func skip(c *wire.Cursor, _ string) (bool, error) { return true, c.Skip() }

func BenchmarkDecodeChat(b *testing.B) {
	body := []byte(chatWith(`"model":"m","stream":true,"temperature":0.7,"max_tokens":256,"stop":["\n\n"],"user":"u"`))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeChat(body, skip); err != nil {
			b.Fatal(err)
		}
	}
}

// TestExtra holds that members without a field go to the caller, before they are refused.
func TestExtra(t *testing.T) {
	var seen []string
	extra := func(c *wire.Cursor, key string) (bool, error) {
		seen = append(seen, key)
		if key == "mine" {
			return true, c.Skip()
		}
		return false, nil
	}
	if _, err := DecodeChat([]byte(chatWith(`"n":1,"mine":{"a":1},"store":false`)), extra); err != nil {
		t.Error(err)
	}
	if _, err := DecodeCompletion([]byte(completionWith(`"mine":[],"echo":false`)), extra); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"mine", "store", "mine"}, seen); diff != "" {
		t.Error(diff)
	}
	_, err := DecodeChat([]byte(chatWith(`"yours":1`)), extra)
	refusal{"yours", "yours", wire.CodeUnsupported, "not supported"}.check(t, err)
}
