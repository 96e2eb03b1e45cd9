package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const hello = `"messages":[{"role":"user","content":"hi"}]`

// chatWith and completionWith are the smallest requests with members added.
func chatWith(members string) string       { return "{" + hello + "," + members + "}" }
func completionWith(members string) string { return `{"prompt":"x",` + members + "}" }

func ptr[T any](v T) *T { return &v }

func TestSamplingFields(t *testing.T) {
	cases := []struct {
		member string
		want   Sampling
	}{
		{`"model":"m"`, Sampling{Model: "m"}},
		{`"stream":true`, Sampling{Stream: true}},
		{`"stream":false`, Sampling{}},
		{`"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false}`,
			Sampling{Stream: true, StreamOptions: &StreamOptions{IncludeUsage: true}}},
		{`"stream":true,"stream_options":{"continuous_usage_stats":true}`,
			Sampling{Stream: true, StreamOptions: &StreamOptions{ContinuousUsageStats: true}}},
		{`"n":128`, Sampling{N: ptr(128)}},
		{`"max_tokens":7`, Sampling{MaxTokens: ptr(7)}},
		{`"min_tokens":0`, Sampling{MinTokens: ptr(0)}},
		{`"temperature":0`, Sampling{Temperature: ptr(0.0)}},
		{`"temperature":1.5e0`, Sampling{Temperature: ptr(1.5)}},
		{`"top_p":0.9`, Sampling{TopP: ptr(0.9)}},
		{`"top_k":-1`, Sampling{TopK: ptr(-1)}},
		{`"min_p":0.05`, Sampling{MinP: ptr(0.05)}},
		{`"repetition_penalty":1.1`, Sampling{RepetitionPenalty: ptr(1.1)}},
		{`"presence_penalty":-2`, Sampling{PresencePenalty: ptr(-2.0)}},
		{`"frequency_penalty":2`, Sampling{FrequencyPenalty: ptr(2.0)}},
		{`"logit_bias":{"7":-100,"0":1.5}`, Sampling{LogitBias: map[int32]float64{7: -100, 0: 1.5}}},
		{`"logit_bias":{}`, Sampling{}},
		{`"seed":-9223372036854775808`, Sampling{Seed: ptr(int64(-1 << 63))}},
		{`"stop":"a"`, Sampling{Stop: []string{"a"}}},
		{`"stop":["a","\u00e9\ud83d\ude00\n"]`, Sampling{Stop: []string{"a", "é😀\n"}}},
		{`"stop":[]`, Sampling{}},
		{`"stop_token_ids":[1,2]`, Sampling{StopTokenIDs: []int32{1, 2}}},
		{`"include_stop_str_in_output":true`, Sampling{IncludeStop: true}},
		{`"ignore_eos":true`, Sampling{IgnoreEOS: true}},
		{`"skip_special_tokens":false`, Sampling{SkipSpecialTokens: ptr(false)}},
		{`"prompt_logprobs":3`, Sampling{PromptLogprobs: ptr(3)}},
		{`"return_token_ids":true`, Sampling{ReturnTokenIDs: true}},
		{`"user":"u"`, Sampling{User: "u"}},
		{`"priority":-3`, Sampling{Priority: ptr(-3)}},
		{`"ttft_ms":500,"tpot_ms":50,"timeout_ms":86400000`,
			Sampling{TTFTMillis: ptr(500), TPOTMillis: ptr(50), TimeoutMillis: ptr(86400000)}},
		{`"cache_salt":"s"`, Sampling{CacheSalt: "s"}},
		{`"kv_priority":-1000,"kv_ttl_ms":1`, Sampling{KVPriority: ptr(-1000), KVTTLMillis: ptr(1)}},
		{`"use_beam_search":true,"length_penalty":-2,"early_stopping":"never"`, Sampling{UseBeamSearch: true, LengthPenalty: ptr(-2.0), EarlyStopping: "never"}},
		{`"length_penalty":1.0,"early_stopping":false`, Sampling{LengthPenalty: ptr(1.0), EarlyStopping: "false"}},
		{`"temperature":null,"stop":null,"tools":null,"n":null`, Sampling{}},
	}
	for _, c := range cases {
		chat, err := DecodeChat([]byte(chatWith(c.member)))
		if err != nil {
			t.Errorf("chat %s: %v", c.member, err)
		} else if diff := cmp.Diff(c.want, chat.Sampling); diff != "" {
			t.Errorf("chat %s:\n%s", c.member, diff)
		}
		completion, err := DecodeCompletion([]byte(completionWith(c.member)))
		if err != nil {
			t.Errorf("completion %s: %v", c.member, err)
		} else if diff := cmp.Diff(c.want, completion.Sampling); diff != "" {
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
		if _, err := DecodeChat([]byte(chatWith(m))); err != nil {
			t.Errorf("chat %s: %v", m, err)
		}
		if _, err := DecodeCompletion([]byte(completionWith(m))); err != nil {
			t.Errorf("completion %s: %v", m, err)
		}
	}
}

// refusal is what the decoder says of a request.
type refusal struct{ body, param, code, message string }

func (r refusal) check(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("%.80s: error %v is no *Error", r.body, err)
		return
	}
	param, code := "", ""
	if e.Param != nil {
		param = *e.Param
	}
	if e.Code != nil {
		code = *e.Code
	}
	got := refusal{r.body, param, code, e.Message}
	if e.Type != TypeInvalidRequest || param != r.param || code != r.code || !strings.Contains(e.Message, r.message) {
		t.Errorf("%.80s\n got %s %q %q %q\nwant %q %q %q", r.body, e.Type, got.param, got.code, got.message, r.param, r.code, r.message)
	}
}

func TestSharedRefusals(t *testing.T) {
	cases := []refusal{
		{`"foo":1`, "foo", CodeUnsupported, "foo: this parameter is not supported"},
		{`"tools":[{"type":"function"}]`, "tools", CodeUnsupported, `except as []; found [{"type":"function"}]`},
		{`"tool_choice":"required"`, "tool_choice", CodeUnsupported, `"none" or "auto"`},
		{`"response_format":{"type":"json_object"}`, "response_format", CodeUnsupported, "json_object"},
		{`"best_of":0`, "best_of", CodeInvalidValue, "1 to 128"},
		{`"best_of":2,"n":3`, "best_of", CodeInvalidValue, "at least n, which is 3; found 2"},
		{`"best_of":2,"stream":true`, "best_of", CodeInvalidValue, "when all have ended"},
		{`"length_penalty":2`, "length_penalty", CodeInvalidValue, "when use_beam_search is true"},
		{`"early_stopping":true`, "early_stopping", CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"stream":true`, "stream", CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"temperature":0.5`, "temperature", CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"top_p":0.5`, "top_p", CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"top_k":5`, "top_k", CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"min_p":0.1`, "min_p", CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"repetition_penalty":1.1`, "repetition_penalty", CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"presence_penalty":1`, "presence_penalty", CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"frequency_penalty":1`, "frequency_penalty", CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"logit_bias":{"1":1}`, "logit_bias", CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"min_tokens":1`, "min_tokens", CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"stop":"x"`, "stop", CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"prompt_logprobs":0`, "prompt_logprobs", CodeInvalidValue, "when use_beam_search is true"},
		{`"use_beam_search":true,"early_stopping":"later"`, "early_stopping", CodeInvalidValue, `"never"`},
		{`"suffix":"end"`, "suffix", CodeUnsupported, ""},
		{`"store":true`, "store", CodeUnsupported, ""},
		{`"service_tier":"flex"`, "service_tier", CodeUnsupported, ""},
		{`"modalities":["text","audio"]`, "modalities", CodeUnsupported, ""},
		{`"audio":{"voice":"x"}`, "audio", CodeUnsupported, ""},
		{`"prediction":{}`, "prediction", CodeUnsupported, ""},
		{`"web_search_options":{}`, "web_search_options", CodeUnsupported, ""},
		{`"reasoning_effort":"low"`, "reasoning_effort", CodeUnsupported, ""},
		{`"guided_json":{}`, "guided_json", CodeUnsupported, ""},
		{`"truncate_prompt_tokens":5`, "truncate_prompt_tokens", CodeUnsupported, ""},
		{`"model":5`, "model", CodeInvalidType, "model: expected a string, found 5"},
		{`"stream":"yes"`, "stream", CodeInvalidType, "expected true or false, found a string"},
		{`"stream_options":{"include_usage":true}`, "stream_options", CodeInvalidValue, "only allowed when stream is true"},
		{`"stream":true,"stream_options":{"x":1}`, "stream_options.x", CodeUnsupported, ""},
		{`"stream":true,"stream_options":{"include_obfuscation":true}`, "stream_options.include_obfuscation", CodeUnsupported, ""},
		{`"stream":true,"prompt_logprobs":1`, "prompt_logprobs", CodeInvalidValue, "stream"},
		{`"n":0`, "n", CodeInvalidValue, "expected an integer from 1 to 128, found 0"},
		{`"n":1.5`, "n", CodeInvalidType, "expected an integer of 64 bits, found 1.5"},
		{`"n":99999999999999999999`, "n", CodeInvalidType, "64 bits"},
		{`"max_tokens":-1`, "max_tokens", CodeInvalidValue, ""},
		{`"max_tokens":"7"`, "max_tokens", CodeInvalidType, "expected an integer, found a string"},
		{`"min_tokens":-1`, "min_tokens", CodeInvalidValue, ""},
		{`"temperature":"hot"`, "temperature", CodeInvalidType, "temperature: expected a number, found a string"},
		{`"temperature":-0.1`, "temperature", CodeInvalidValue, "from 0 to 2, found -0.1"},
		{`"temperature":1e999`, "temperature", CodeInvalidValue, "too large"},
		{`"top_p":1.1`, "top_p", CodeInvalidValue, "from 0 to 1"},
		{`"top_k":-2`, "top_k", CodeInvalidValue, ""},
		{`"top_k":true`, "top_k", CodeInvalidType, "found a boolean"},
		{`"min_p":2`, "min_p", CodeInvalidValue, ""},
		{`"repetition_penalty":0`, "repetition_penalty", CodeInvalidValue, "above 0"},
		{`"presence_penalty":2.1`, "presence_penalty", CodeInvalidValue, ""},
		{`"frequency_penalty":[]`, "frequency_penalty", CodeInvalidType, "found an array"},
		{`"logit_bias":{"x":1}`, "logit_bias.x", CodeInvalidValue, "id of a token"},
		{`"logit_bias":{"01":1}`, "logit_bias.01", CodeInvalidValue, "id of a token"},
		{`"logit_bias":{"1":101}`, "logit_bias.1", CodeInvalidValue, "from -100 to 100"},
		{`"logit_bias":[]`, "logit_bias", CodeInvalidType, "expected an object, found an array"},
		{`"seed":1e3`, "seed", CodeInvalidType, "found 1e3"},
		{`"stop":""`, "stop", CodeInvalidValue, "not empty"},
		{`"stop":["a",""]`, "stop[1]", CodeInvalidValue, "not empty"},
		{`"stop":["a",null]`, "stop[1]", CodeInvalidType, "expected a string, found null"},
		{`"stop":[` + strings.Repeat(`"x",`, 64) + `"x"]`, "stop[64]", CodeInvalidValue, "at most 64"},
		{`"stop_token_ids":[-1]`, "stop_token_ids[0]", CodeInvalidValue, ""},
		{`"prompt_logprobs":21`, "prompt_logprobs", CodeInvalidValue, ""},
		{`"user":5`, "user", CodeInvalidType, ""},
		{`"priority":0.5`, "priority", CodeInvalidType, ""},
		{`"ttft_ms":0`, "ttft_ms", CodeInvalidValue, "1 to 86400000"},
		{`"kv_priority":1001`, "kv_priority", CodeInvalidValue, "-1000 to 1000"},
		{`"kv_ttl_ms":0`, "kv_ttl_ms", CodeInvalidValue, "1 to 86400000"},
		{`"tpot_ms":-1`, "tpot_ms", CodeInvalidValue, "1 to 86400000"},
		{`"timeout_ms":86400001`, "timeout_ms", CodeInvalidValue, "1 to 86400000"},
		{`"metadata":{"a":1}`, "metadata.a", CodeInvalidType, ""},
		{`"seed":1,"seed":1`, "seed", CodeInvalidValue, "given twice"},
		{`"seed":1,"\u0073eed":1`, "seed", CodeInvalidValue, "given twice"},
		{`"seed":01`, "", CodeInvalidJSON, "',' or '}'"},
		{`"seed":-`, "seed", CodeInvalidJSON, "a digit"},
		{`"seed":nul`, "seed", CodeInvalidJSON, "expected null"},
		{`"model":"` + "\n" + `"`, "model", CodeInvalidJSON, "control character"},
		{`"model":"\x"`, "model", CodeInvalidJSON, "the string at byte"},
		{`"model":"open`, "model", CodeInvalidJSON, "end of a string"},
		{`"model":` + "\"\xff\"", "", CodeInvalidJSON, "UTF-8"},
		{`"foo":` + strings.Repeat("[", 100000), "", "", "64 levels"},
		{`"foo":` + strings.Repeat(`{"a":`, 100), "", "", "64 levels"},
		{`"logit_bias":` + manyMembers(5000), "logit_bias.1024", CodeInvalidValue, "at most 1024 entries"},
		{`"metadata":` + manyMembers(5000), "metadata.0", CodeInvalidType, ""},
		{`"foo":` + manyMembers(5000), "foo.4096", CodeInvalidValue, "at most 4096 members"},
	}
	for _, r := range cases {
		chat, completion := r, r
		chat.body, completion.body = chatWith(r.body), completionWith(r.body)
		_, err := DecodeChat([]byte(chat.body))
		if r.code == "" { // the path is as long as the nesting
			if err == nil || !strings.Contains(err.Error(), r.message) {
				t.Errorf("%.40s: %v", r.body, err)
			}
			continue
		}
		chat.check(t, err)
		_, err = DecodeCompletion([]byte(completion.body))
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
		{"", "", CodeInvalidJSON, "expected a JSON object, found nothing"},
		{"null", "", CodeInvalidJSON, "found null"},
		{"[]", "", CodeInvalidJSON, "found an array"},
		{"{", "", CodeInvalidJSON, "member's name"},
		{"{}", "messages", CodeMissing, "messages: required, and not given"},
		{"{} x", "", CodeInvalidJSON, "expected the end of the body, found 'x'"},
		{"{" + hello + "}{}", "", CodeInvalidJSON, "expected the end of the body, found an object"},
		{"{" + hello + ",}", "", CodeInvalidJSON, "member's name"},
		{"{" + hello + " \x00}", "", CodeInvalidJSON, `'\x00'`},
		{`{"messages" 1}`, "messages", CodeInvalidJSON, "':'"},
		{`{model:1}`, "", CodeInvalidJSON, "member's name in quotes, found 'm'"},
	}
	for _, r := range cases {
		_, err := DecodeChat([]byte(r.body))
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
		r, err := DecodeCompletion([]byte(`{"prompt":` + body + `,"echo":true,"logprobs":0,"max_tokens":0}`))
		if err != nil {
			t.Errorf("%s: %v", body, err)
		} else if diff := cmp.Diff(&CompletionRequest{Prompts: want, Echo: true, Logprobs: ptr(0),
			Sampling: Sampling{MaxTokens: ptr(0)}}, r); diff != "" {
			t.Errorf("%s:\n%s", body, diff)
		}
	}
	bad := []refusal{
		{`[]`, "prompt", CodeMissing, "not given"},
		{`[[]]`, "prompt[0]", CodeInvalidValue, "at least one token"},
		{`[1,"a"]`, "prompt[1]", CodeInvalidType, "found a string"},
		{`["a",1]`, "prompt[1]", CodeInvalidType, "found 1"},
		{`[[1],2]`, "prompt[1]", CodeInvalidType, "found 2"},
		{`[1.5]`, "prompt[0]", CodeInvalidType, "found 1.5"},
		{`[2147483648]`, "prompt[0]", CodeInvalidValue, "id of a token"},
		{`[[["a"]]]`, "prompt[0][0]", CodeInvalidType, "an integer, found an array"},
		{`[true]`, "prompt[0]", CodeInvalidType, "found a boolean"},
		{`{}`, "prompt", CodeInvalidType, "found an object"},
		{`5`, "prompt", CodeInvalidType, "found 5"},
		{`["x"` + strings.Repeat(`,"x"`, MaxPrompts) + `]`, "prompt[1024]", CodeInvalidValue, "at most 1024"},
		{`["x","y"` + strings.Repeat(`,"x"`, 7) + `],"n":128`, "n", CodeInvalidValue, "128 answers to 9 prompts"},
		{`"x","max_tokens":0`, "max_tokens", CodeInvalidValue, "echo"},
		{`"x","logprobs":true`, "logprobs", CodeInvalidType, "an integer, found a boolean"},
		{`"x","logprobs":21`, "logprobs", CodeInvalidValue, ""},
		{`"x","echo":1`, "echo", CodeInvalidType, ""},
		{`"x","echo":true,"prompt_logprobs":1`, "prompt_logprobs", CodeInvalidValue, "echo"},
		{`"x","echo":true,"use_beam_search":true`, "echo", CodeInvalidValue, "use_beam_search"},
	}
	for _, r := range bad {
		r.body = `{"prompt":` + r.body + "}"
		_, err := DecodeCompletion([]byte(r.body))
		r.check(t, err)
	}
}

func TestTokenizeRequests(t *testing.T) {
	r, err := DecodeTokenize([]byte(`{"prompt":"a","model":"m","add_special_tokens":false,"return_token_strs":true}`))
	want := &TokenizeRequest{Model: "m", Prompt: ptr("a"), AddSpecialTokens: ptr(false), ReturnTokenStrs: true}
	if diff := cmp.Diff(want, r); err != nil || diff != "" {
		t.Error(err, diff)
	}
	r, err = DecodeTokenize([]byte("{" + hello + `,"add_generation_prompt":false,"chat_template_kwargs":{"a":[1]}}`))
	want = &TokenizeRequest{Messages: []Message{{Role: "user", Content: &Content{Text: "hi"}}},
		AddGenerationPrompt: ptr(false), ChatTemplateKwargs: json.RawMessage(`{"a":[1]}`)}
	if diff := cmp.Diff(want, r); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, c := range []refusal{
		{`{}`, "prompt", CodeMissing, "either"},
		{`{"prompt":"a",` + hello + `}`, "prompt", CodeInvalidValue, "exclude each other"},
		{`{"prompt":["a"]}`, "prompt", CodeInvalidType, ""},
		{`{"prompt":"a","add_generation_prompt":true}`, "add_generation_prompt", CodeInvalidValue, ""},
		{`{` + hello + `,"add_special_tokens":true}`, "add_special_tokens", CodeUnsupported, ""},
		{`{"prompt":"a","tools":[]}`, "tools", CodeUnsupported, ""},
	} {
		_, err := DecodeTokenize([]byte(c.body))
		c.check(t, err)
	}
	d, err := DecodeDetokenize([]byte(`{"tokens":[5,6],"model":"m"}`))
	if diff := cmp.Diff(&DetokenizeRequest{"m", []int32{5, 6}}, d); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, c := range []refusal{
		{`{}`, "tokens", CodeMissing, ""},
		{`{"tokens":"a"}`, "tokens", CodeInvalidType, ""},
		{`{"tokens":[],"x":1}`, "x", CodeUnsupported, ""},
	} {
		_, err := DecodeDetokenize([]byte(c.body))
		c.check(t, err)
	}
}
