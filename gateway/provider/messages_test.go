package provider

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// tripper answers requests, and keeps the last one.
type tripper struct {
	kind, answer string
	path, body   string
}

func (f *tripper) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	f.path, f.body = r.URL.Path, string(body)
	rec := httptest.NewRecorder()
	rec.Header().Set("Content-Type", f.kind)
	rec.WriteString(f.answer)
	return rec.Result(), err
}

func (f *tripper) ask(t *testing.T, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://engine/base/v1/messages", strings.NewReader(body))
	res, err := (&Messages{Next: f}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(said)
}

// TestMessagesAsked compares what becomes of a request, with its system prompt, an image, a call and its result.
func TestMessagesAsked(t *testing.T) {
	f := &tripper{kind: "application/json", answer: `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`}
	f.ask(t, `{"model":"m","max_tokens":5,"temperature":0.5,"top_k":3,"stop_sequences":["a"],"stream":true,"metadata":{"user_id":"u"},
		"system":[{"type":"text","text":"be kind","cache_control":{"type":"ephemeral"}}],"thinking":{"type":"enabled","budget_tokens":1024},
		"tools":[{"name":"add","description":"adds","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"add","disable_parallel_tool_use":true},
		"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}},
		"messages":[{"role":"user","content":[{"type":"text","text":"what"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}]},
			{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"so"},{"type":"tool_use","id":"c1","name":"add","input":{"a":1}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"2"}]},{"type":"text","text":"and?"}]}]}`)
	want := `{"max_tokens":5,"messages":[{"content":"be kind","role":"system"},` +
		`{"content":[{"text":"what","type":"text"},{"image_url":{"url":"data:image/png;base64,QUJD"},"type":"image_url"}],"role":"user"},` +
		`{"content":"so","role":"assistant","tool_calls":[{"function":{"arguments":"{\"a\":1}","name":"add"},"id":"c1","type":"function"}]},` +
		`{"content":"2","role":"tool","tool_call_id":"c1"},{"content":"and?","role":"user"}],"model":"m","parallel_tool_calls":false,"reasoning_effort":"low",` +
		`"response_format":{"json_schema":{"name":"answer","schema":{"type":"object"},"strict":true},"type":"json_schema"},"stop":["a"],"stream":true,` +
		`"stream_options":{"include_usage":true},"temperature":0.5,"tool_choice":{"function":{"name":"add"},"type":"function"},` +
		`"tools":[{"function":{"description":"adds","name":"add","parameters":{"type":"object"}},"type":"function"}],"top_k":3,"user":"u"}`
	if f.path != "/base/v1/chat/completions" || f.body != want {
		t.Errorf("%s got\n%s\nwant\n%s", f.path, f.body, want)
	}
	for body, want := range map[string]string{
		`{"model":"m","messages":[{"role":"user","content":[{"type":"document"}]}]}`:                             `messages[0].content[0].type: \"document\"`,
		`{"model":"m","messages":[{"role":"system","content":"x"}]}`:                                             "messages[0].role",
		`{"model":"m","container":"x","messages":[]}`:                                                            "container cannot be translated",
		`{"model":"m","tools":[{"type":"web_search_20250305","name":"web_search"}],"messages":[]}`:               "tools[0].type",
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x","citations_too":1}]}]}`:    "citations_too",
		`{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"x"}]}]}]}`: "messages[0].content[0].content[0].type",
	} {
		if status, said := f.ask(t, body); status != 400 || !strings.Contains(said, want) || !strings.HasPrefix(said, `{"type":"error","error":{"type":"invalid_request_error"`) {
			t.Errorf("%s: %d %s; want %s", body, status, said, want)
		}
	}
}

// TestMessagesAnswered reads answers with thoughts, texts and calls, whole and as streams.
func TestMessagesAnswered(t *testing.T) {
	f := &tripper{kind: "application/json", answer: `{"choices":[{"message":{"reasoning_content":"hm","content":"so","tool_calls":[{"id":"c","function":{"name":"add","arguments":"{\"a\": 1}"}}]},
		"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":6}}}`}
	_, said := f.ask(t, `{"model":"m","messages":[]}`)
	var whole struct {
		ID         string
		Content    json.RawMessage
		StopReason string `json:"stop_reason"`
		Usage      json.RawMessage
	}
	if err := json.Unmarshal([]byte(said), &whole); err != nil || !strings.HasPrefix(whole.ID, "msg_") || whole.StopReason != "tool_use" ||
		string(whole.Content) != `[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"so"},{"type":"tool_use","id":"c","name":"add","input":{"a":1}}]` ||
		!strings.HasPrefix(string(whole.Usage), `{"input_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":6,"output_tokens":4`) {
		t.Errorf("%s %v", said, err)
	}
	f = &tripper{kind: "text/event-stream", answer: strings.Join([]string{
		`data: {"choices":[{"delta":{"role":"assistant","reasoning":"hm"}}]}`, `: a comment`, `data: {"choices":[{"delta":{"content":"so"}}]}`,
		`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"add","arguments":""}}]}}]}`,
		`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}`,
		`data: {"choices":[{"delta":{"tool_calls":[{"index":1,"id":"d","function":{"name":"sub","arguments":"{}"}}]}}]}`,
		`data: {"choices":[{"delta":{},"finish_reason":"stop","stop_reason":"a"}]}`,
		`data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}`, `data: [DONE]`, ""}, "\n\n")}
	_, said = f.ask(t, `{"model":"m","stream":true,"messages":[]}`)
	var kinds []string
	for line := range strings.Lines(said) {
		if kind, ok := strings.CutPrefix(line, "event: "); ok {
			kinds = append(kinds, strings.TrimSpace(kind))
		}
	}
	const start, delta, stop = "content_block_start", "content_block_delta", "content_block_stop"
	want := []string{"message_start", start, delta, delta, stop, start, delta, stop, start, delta, stop, start, delta, stop, "message_delta", "message_stop"}
	if strings.Join(kinds, " ") != strings.Join(want, " ") || !strings.Contains(said, `"stop_reason":"stop_sequence","stop_sequence":"a"`) ||
		!strings.Contains(said, `"id":"d","name":"sub"`) || !strings.Contains(said, `"output_tokens":4`) {
		t.Errorf("%s\n%v", said, kinds)
	}
}
