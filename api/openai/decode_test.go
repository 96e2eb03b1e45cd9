package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kvasir-llm/kvasir/api/wire"
)

const hello = `"messages":[{"role":"user","content":"hi"}]`

// chatWith and completionWith are the smallest requests with members added.
func chatWith(members string) string       { return "{" + hello + "," + members + "}" }
func completionWith(members string) string { return `{"prompt":"x",` + members + "}" }

func ptr[T any](v T) *T { return &v }

func TestCommonFields(t *testing.T) {
	cases := []struct {
		member string
		want   Common
	}{
		{`"model":"m"`, Common{Model: "m"}},
		{`"stream":true`, Common{Stream: true}},
		{`"stream":false`, Common{}},
		{`"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false}`,
			Common{Stream: true, StreamOptions: &StreamOptions{IncludeUsage: true}}},
		{`"stream":true,"stream_options":{"continuous_usage_stats":true}`,
			Common{Stream: true, StreamOptions: &StreamOptions{ContinuousUsageStats: true}}},
		{`"n":128`, Common{N: ptr(128)}},
		{`"max_tokens":7`, Common{MaxTokens: ptr(7)}},
		{`"prompt_logprobs":3`, Common{PromptLogprobs: ptr(3)}},
		{`"return_token_ids":true`, Common{ReturnTokenIDs: true}},
		{`"use_beam_search":true,"length_penalty":-2,"early_stopping":"never"`, Common{UseBeamSearch: true, LengthPenalty: ptr(-2.0), EarlyStopping: "never"}},
		{`"length_penalty":1.0,"early_stopping":false`, Common{LengthPenalty: ptr(1.0), EarlyStopping: "false"}},
	}
	for _, c := range cases {
		chat, err := DecodeChat([]byte(chatWith(c.member)), nil)
		if err != nil {
			t.Errorf("chat %s: %v", c.member, err)
		} else if diff := cmp.Diff(c.want, chat.Common); diff != "" {
			t.Errorf("chat %s:\n%s", c.member, diff)
		}
		completion, err := DecodeCompletion([]byte(completionWith(c.member)), nil)
		if err != nil {
			t.Errorf("completion %s: %v", c.member, err)
		} else if diff := cmp.Diff(c.want, completion.Common); diff != "" {
			t.Errorf("completion %s:\n%s", c.member, diff)
		}
	}
}

func TestMembersThatAskForNothing(t *testing.T) {
	members := []string{
		`"safety_identifier":"x"`, `"prompt_cache_key":"x"`, `"metadata":{"a":"b"}`, `"store":false`,
		`"service_tier":"auto"`, `"parallel_tool_calls":true`, `"tools":[ ]`, `"tool_choice":"none"`, `"tool_choice":"auto"`,
		`"response_format":{ "type" : "text" }`, `"modalities":["text"]`, `"best_of":1`, `"suffix":""`, `"functions":[]`,
		`"function_call":"auto"`, `"use_beam_search":false`, `"n":1`, `"guided_json":null`, `"audio":null`,
	}
	for _, m := range members {
		if _, err := DecodeChat([]byte(chatWith(m)), nil); err != nil {
			t.Errorf("chat %s: %v", m, err)
		}
		if _, err := DecodeCompletion([]byte(completionWith(m)), nil); err != nil {
			t.Errorf("completion %s: %v", m, err)
		}
	}
}

// refusal is what the decoder says of a request.
type refusal struct{ body, param, code, message string }

func (r refusal) check(t *testing.T, err error) {
	t.Helper()
	var e *wire.Error
	if !errors.As(err, &e) {
		t.Errorf("%.80s: error %v is no *wire.Error", r.body, err)
		return
	}
	if e.Path != r.param || e.Code != r.code || !strings.Contains(e.Message, r.message) {
		t.Errorf("%.80s\n got %q %q %q\nwant %q %q %q", r.body, e.Path, e.Code, e.Message, r.param, r.code, r.message)
	}
}

func TestSharedRefusals(t *testing.T) {
	cases := []refusal{
		{`"foo":1`, "foo", wire.CodeUnsupported, "foo: this parameter is not supported"},
		{`"response_format":{"type":"xml"}`, "response_format.type", wire.CodeUnsupported, "xml"},
		{`"guided_regex":"a","grammar":"b"`, "grammar", wire.CodeInvalidValue, "guided_regex"},
		{`"best_of":0`, "best_of", wire.CodeInvalidValue, "1 to 128"},
		{`"best_of":2,"n":3`, "best_of", wire.CodeInvalidValue, "at least n, which is 3; found 2"},
		{`"best_of":2,"stream":true`, "best_of", wire.CodeInvalidValue, "when all have ended"},
		{`"length_penalty":2`, "length_penalty", wire.CodeInvalidValue, "when use_beam_search is true"},
		{`"early_stopping":true`, "early_stopping", wire.CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"stream":true`, "stream", wire.CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"prompt_logprobs":0`, "prompt_logprobs", wire.CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"early_stopping":"later"`, "early_stopping", wire.CodeInvalidValue, `"never"`},
		{`"store":true`, "store", wire.CodeUnsupported, ""},
		{`"service_tier":"flex"`, "service_tier", wire.CodeUnsupported, ""},
		{`"modalities":["text","audio"]`, "modalities", wire.CodeUnsupported, ""},
		{`"audio":{"voice":"x"}`, "audio", wire.CodeUnsupported, ""},
		{`"web_search_options":{}`, "web_search_options", wire.CodeUnsupported, ""},
		{`"guided_json":[]`, "guided_json", wire.CodeInvalidType, ""},
		{`"guided_choice":[]`, "guided_choice", wire.CodeInvalidValue, ""},
		{`"structured_outputs":{"regex":"a","json":{}}`, "structured_outputs.json", wire.CodeInvalidValue, "structured_outputs.regex"},
		{`"truncate_prompt_tokens":-2`, "truncate_prompt_tokens", wire.CodeInvalidValue, ""},
		{`"model":5`, "model", wire.CodeInvalidType, "model: expected a string, found 5"},
		{`"stream":"yes"`, "stream", wire.CodeInvalidType, "expected true or false, found a string"},
		{`"stream_options":{"include_usage":true}`, "stream_options", wire.CodeInvalidValue, "only allowed when stream is true"},
		{`"stream":true,"stream_options":{"x":1}`, "stream_options.x", wire.CodeUnsupported, ""},
		{`"stream":true,"stream_options":{"include_obfuscation":true}`, "stream_options.include_obfuscation", wire.CodeUnsupported, ""},
		{`"stream":true,"prompt_logprobs":1`, "prompt_logprobs", wire.CodeInvalidValue, "stream"},
		{`"n":0`, "n", wire.CodeInvalidValue, "expected an integer from 1 to 128, found 0"},
		{`"n":1.5`, "n", wire.CodeInvalidType, "expected an integer of 64 bits, found 1.5"},
		{`"n":99999999999999999999`, "n", wire.CodeInvalidType, "64 bits"},
		{`"max_tokens":-1`, "max_tokens", wire.CodeInvalidValue, ""},
		{`"max_tokens":"7"`, "max_tokens", wire.CodeInvalidType, "expected an integer, found a string"},
		{`"n":1e3`, "n", wire.CodeInvalidType, "found 1e3"},
		{`"prompt_logprobs":21`, "prompt_logprobs", wire.CodeInvalidValue, ""},
		{`"metadata":{"a":1}`, "metadata.a", wire.CodeInvalidType, ""},
		{`"n":1,"n":1`, "n", wire.CodeInvalidValue, "given twice"},
		{`"n":1,"\u006e":1`, "n", wire.CodeInvalidValue, "given twice"},
		{`"prompt_logprobs":01`, "", wire.CodeInvalidJSON, "',' or '}'"},
		{`"n":-`, "n", wire.CodeInvalidJSON, "a digit"},
		{`"n":nul`, "n", wire.CodeInvalidJSON, "expected null"},
		{`"model":"` + "\n" + `"`, "model", wire.CodeInvalidJSON, "control character"},
		{`"model":"\x"`, "model", wire.CodeInvalidJSON, "the string at byte"},
		{`"model":"open`, "model", wire.CodeInvalidJSON, "end of a string"},
		{`"model":` + "\"\xff\"", "", wire.CodeInvalidJSON, "UTF-8"},
		{`"foo":` + strings.Repeat("[", 100000), "", "", "64 levels"},
		{`"foo":` + strings.Repeat(`{"a":`, 100), "", "", "64 levels"},
		{`"metadata":` + manyMembers(5000), "metadata.0", wire.CodeInvalidType, ""},
		{`"foo":` + manyMembers(5000), "foo.4096", wire.CodeInvalidValue, "at most 4096 members"},
	}
	for _, r := range cases {
		chat, completion := r, r
		chat.body, completion.body = chatWith(r.body), completionWith(r.body)
		_, err := DecodeChat([]byte(chat.body), nil)
		if r.code == "" { // the path is as long as the nesting
			if err == nil || !strings.Contains(err.Error(), r.message) {
				t.Errorf("%.40s: %v", r.body, err)
			}
			continue
		}
		chat.check(t, err)
		_, err = DecodeCompletion([]byte(completion.body), nil)
		completion.check(t, err)
	}
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%d":0`, i)
	}
	return "{" + b.String()[1:] + "}"
}

func TestBodies(t *testing.T) {
	cases := []refusal{
		{"", "", wire.CodeInvalidJSON, "expected a JSON object, found nothing"},
		{"null", "", wire.CodeInvalidJSON, "found null"},
		{"[]", "", wire.CodeInvalidJSON, "found an array"},
		{"{", "", wire.CodeInvalidJSON, "member's name"},
		{"{}", "messages", wire.CodeMissing, "messages: required, and not given"},
		{"{} x", "", wire.CodeInvalidJSON, "expected the end of the body, found 'x'"},
		{"{" + hello + "}{}", "", wire.CodeInvalidJSON, "expected the end of the body, found an object"},
		{"{" + hello + ",}", "", wire.CodeInvalidJSON, "member's name"},
		{"{" + hello + " \x00}", "", wire.CodeInvalidJSON, `'\x00'`},
		{`{"messages" 1}`, "messages", wire.CodeInvalidJSON, "':'"},
		{`{model:1}`, "", wire.CodeInvalidJSON, "member's name in quotes, found 'm'"},
	}
	for _, r := range cases {
		_, err := DecodeChat([]byte(r.body), nil)
		r.check(t, err)
	}
}

func TestPrompts(t *testing.T) {
	good := map[string]Prompts{
		`"a"`:           {{Text: "a"}},
		`""`:            {{}},
		`["a","b"]`:     {{Text: "a"}, {Text: "b"}},
		`[1,2]`:         {{IDs: []int32{1, 2}}},
		`[[1],[2,3]]`:   {{IDs: []int32{1}}, {IDs: []int32{2, 3}}},
		` [ "a" , "" ]`: {{Text: "a"}, {}},
	}
	for body, want := range good {
		r, err := DecodeCompletion([]byte(`{"prompt":`+body+`,"echo":true,"logprobs":0,"max_tokens":0}`), nil)
		if err != nil {
			t.Errorf("%s: %v", body, err)
		} else if diff := cmp.Diff(&CompletionRequest{Prompts: want, Echo: true, Logprobs: ptr(0),
			Common: Common{MaxTokens: ptr(0)}}, r); diff != "" {
			t.Errorf("%s:\n%s", body, diff)
		}
	}
	bad := []refusal{
		{`[]`, "prompt", wire.CodeMissing, "not given"},
		{`[[]]`, "prompt[0]", wire.CodeInvalidValue, "at least one token"},
		{`[1,"a"]`, "prompt[1]", wire.CodeInvalidType, "found a string"},
		{`["a",1]`, "prompt[1]", wire.CodeInvalidType, "found 1"},
		{`[[1],2]`, "prompt[1]", wire.CodeInvalidType, "found 2"},
		{`[1.5]`, "prompt[0]", wire.CodeInvalidType, "found 1.5"},
		{`[2147483648]`, "prompt[0]", wire.CodeInvalidValue, "id of a token"},
		{`[[["a"]]]`, "prompt[0][0]", wire.CodeInvalidType, "an integer, found an array"},
		{`[true]`, "prompt[0]", wire.CodeInvalidType, "found a boolean"},
		{`{}`, "prompt", wire.CodeInvalidType, "found an object"},
		{`5`, "prompt", wire.CodeInvalidType, "found 5"},
		{`["x"` + strings.Repeat(`,"x"`, MaxPrompts) + `]`, "prompt[1024]", wire.CodeInvalidValue, "at most 1024"},
		{`["x","y"` + strings.Repeat(`,"x"`, 7) + `],"n":128`, "n", wire.CodeInvalidValue, "128 answers to 9 prompts"},
		{`"x","max_tokens":0`, "max_tokens", wire.CodeInvalidValue, "echo"},
		{`"x","logprobs":true`, "logprobs", wire.CodeInvalidType, "an integer, found a boolean"},
		{`"x","logprobs":21`, "logprobs", wire.CodeInvalidValue, ""},
		{`"x","echo":1`, "echo", wire.CodeInvalidType, ""},
		{`"x","echo":true,"prompt_logprobs":1`, "prompt_logprobs", wire.CodeInvalidValue, "echo"},
		{`"x","echo":true,"use_beam_search":true`, "echo", wire.CodeInvalidValue, "use_beam_search"},
	}
	for _, r := range bad {
		r.body = `{"prompt":` + r.body + "}"
		_, err := DecodeCompletion([]byte(r.body), nil)
		r.check(t, err)
	}
}

func TestTokenizeRequests(t *testing.T) {
	r, err := DecodeTokenize([]byte(`{"prompt":"a","model":"m","add_special_tokens":false,"return_token_strs":true}`))
	want := &TokenizeRequest{Source: Source{Model: "m", Prompt: ptr("a"), AddSpecialTokens: ptr(false)}, ReturnTokenStrs: true}
	if diff := cmp.Diff(want, r); err != nil || diff != "" {
		t.Error(err, diff)
	}
	r, err = DecodeTokenize([]byte("{" + hello + `,"add_generation_prompt":false,"chat_template_kwargs":{"a":[1]}}`))
	want = &TokenizeRequest{Source: Source{Messages: []Message{{Role: "user", Content: &Content{Text: "hi"}}},
		AddGenerationPrompt: ptr(false), ChatTemplateKwargs: json.RawMessage(`{"a":[1]}`)}}
	if diff := cmp.Diff(want, r); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, c := range []refusal{
		{`{}`, "prompt", wire.CodeMissing, "either"},
		{`{"prompt":"a",` + hello + `}`, "prompt", wire.CodeInvalidValue, "exclude each other"},
		{`{"prompt":["a"]}`, "prompt", wire.CodeInvalidType, ""},
		{`{"prompt":"a","add_generation_prompt":true}`, "add_generation_prompt", wire.CodeInvalidValue, ""},
		{`{` + hello + `,"continue_final_message":true}`, "continue_final_message", wire.CodeInvalidValue, "assistant"},
		{`{"prompt":"a","continue_final_message":true}`, "continue_final_message", wire.CodeInvalidValue, "assistant"},
		{`{"prompt":"a","chat_template":"x"}`, "chat_template", wire.CodeInvalidValue, "messages"},
		{`{"prompt":"a","tools":[{"type":"function","function":{"name":"f"}}]}`, "tools", wire.CodeInvalidValue, "messages"},
	} {
		_, err := DecodeTokenize([]byte(c.body))
		c.check(t, err)
	}
	d, err := DecodeDetokenize([]byte(`{"tokens":[5,6],"model":"m"}`))
	if diff := cmp.Diff(&DetokenizeRequest{"m", []int32{5, 6}}, d); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, c := range []refusal{
		{`{}`, "tokens", wire.CodeMissing, ""},
		{`{"tokens":"a"}`, "tokens", wire.CodeInvalidType, ""},
		{`{"tokens":[],"x":1}`, "x", wire.CodeUnsupported, ""},
	} {
		_, err := DecodeDetokenize([]byte(c.body))
		c.check(t, err)
	}
}
