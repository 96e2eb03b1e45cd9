package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// nullEngine is a server that answers at once: as many words as are asked for. It keeps what it was sent.
func nullEngine(t testing.TB, keep func(path string, body map[string]any)) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"object":"list","data":[{"id":"null","object":"model"}]}`)
	})
	answer := func(format string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var body map[string]any
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			if keep != nil {
				body["authorization"] = r.Header.Get("Authorization")
				keep(r.URL.Path, body)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			n := int(body["max_tokens"].(float64))
			for range n {
				fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chunk\",\"created\":1,\"model\":\"null\",\"choices\":[{\"index\":0,%s,\"finish_reason\":null}],\"usage\":null}\n\n", format)
			}
			io.WriteString(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`+"\n\n")
			fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":%d,\"prompt_tokens_details\":{\"cached_tokens\":30}}}\n\ndata: [DONE]\n\n", n)
		}
	}
	mux.HandleFunc("POST /v1/chat/completions", answer(`"delta":{"content":" word"}`))
	mux.HandleFunc("POST /v1/completions", answer(`"text":" word"`))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestOpenAIAnswers(t *testing.T) {
	conversation := []Message{
		{"user", []Part{{Text: "a "}, {Text: "b"}}}, {"assistant", []Part{{Text: " c"}}}, {"user", []Part{{Seed: 1, Tokens: 2}}},
	}
	made := string((Part{Seed: 1, Tokens: 2}).appendText(nil))
	common := map[string]any{
		"model": "null", "max_tokens": 3.0, "temperature": 0.0, "stream": true, "stream_options": map[string]any{"include_usage": true},
	}
	for _, tt := range []struct {
		o    OpenAIOptions
		path string
		adds map[string]any
	}{
		{OpenAIOptions{IgnoreEOS: true, Key: "k"}, "/v1/chat/completions", map[string]any{
			"ignore_eos": true, "authorization": "Bearer k",
			"messages": []any{
				map[string]any{"role": "user", "content": "a b"}, map[string]any{"role": "assistant", "content": " c"},
				map[string]any{"role": "user", "content": made},
			},
		}},
		{OpenAIOptions{Completions: true, Model: "other", Temperature: 0.5}, "/v1/completions", map[string]any{
			"prompt": "a b c" + made, "model": "other", "authorization": "", "temperature": 0.5,
		}},
	} {
		var path string
		var body map[string]any
		s := nullEngine(t, func(p string, b map[string]any) { path, body = p, b })
		target, err := NewOpenAI(t.Context(), s.URL+"/v1/", tt.o)
		if err != nil {
			t.Fatal(err)
		}
		pieces := 0
		got, err := target.Answer(t.Context(), conversation, 3, func() { pieces++ })
		want := Answer{Said: Part{Text: " word word word"}, Prompt: 40, Generated: 3, Cached: 30}
		if diff := cmp.Diff(want, got); diff != "" || err != nil || pieces != 3 {
			t.Errorf("%d pieces, %v\n%s", pieces, err, diff)
		}
		sent := map[string]any{}
		for _, m := range []map[string]any{common, tt.adds} {
			for k, v := range m {
				sent[k] = v
			}
		}
		if diff := cmp.Diff(sent, body); diff != "" || path != tt.path {
			t.Errorf("%s: %s", path, diff)
		}
		target.Close()
	}
}

// TestPromptsOfNumbers sends synthetic tokens as the engine in this process would get them, and refuses text.
func TestPromptsOfNumbers(t *testing.T) {
	var body map[string]any
	s := nullEngine(t, func(_ string, b map[string]any) { body = b })
	target, err := NewOpenAI(t.Context(), s.URL+"/v1", OpenAIOptions{Completions: true, Vocab: 500})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	part := Part{Seed: 7, Tokens: 3}
	if _, err := target.Answer(t.Context(), []Message{{"user", []Part{part}}}, 3, func() {}); err != nil {
		t.Fatal(err)
	}
	var want []any
	for _, id := range part.appendIDs(nil, 500, nil) {
		want = append(want, float64(id))
	}
	if diff := cmp.Diff(want, body["prompt"]); diff != "" {
		t.Error(diff)
	}
	if _, err := target.Answer(t.Context(), []Message{{"user", []Part{{Text: "said"}}}}, 3, func() {}); err == nil || !strings.Contains(err.Error(), `"said" is text`) {
		t.Errorf("text: %v", err)
	}
}

func TestOpenAIRefusals(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"error":{"message":"come back later"}}`)
	}))
	defer s.Close()
	if _, err := NewOpenAI(t.Context(), s.URL, OpenAIOptions{}); err == nil || !strings.Contains(err.Error(), "429") || !strings.Contains(err.Error(), "come back later") {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"", "127.0.0.1:8000", "ftp://x/v1", "http://", ":"} {
		if _, err := NewOpenAI(t.Context(), bad, OpenAIOptions{Model: "m"}); err == nil {
			t.Errorf("%q is taken for a base URL", bad)
		}
	}
}

func TestReadStream(t *testing.T) {
	const done = "data: [DONE]\n\n"
	for _, tt := range []struct{ name, in, text, says string }{
		{"spaces, comments, carriage returns", ": ping\r\nevent: x\r\ndata:{\"choices\": [{\"text\": \"a\"}]}\r\n\r\n" + done, "a", ""},
		{"thinking is a piece but is not said again", `data: {"choices":[{"delta":{"content":null,"reasoning_content":"hm"}}]}` + "\n" + done, "", ""},
		{"finished without [DONE]", `data: {"choices":[{"text":"a","finish_reason":"stop"}]}` + "\n\n", "a", ""},
		{"cut off", `data: {"choices":[{"text":"a"}]}` + "\n\n", "", "before the answer does"},
		{"nothing", "", "", "before the answer does"},
		{"error event", `data: {"error":{"message":"out of memory"}}` + "\n\n" + done, "", "out of memory"},
		{"no JSON", "data: {\n\n", "", "event of the stream"},
		{"endless line", "data: " + strings.Repeat("x", maxEvent), "", "too long"},
	} {
		a, err := readStream(strings.NewReader(tt.in), func() {})
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) || err == nil && a.Said.Text != tt.text {
			t.Errorf("%s: %+v, %v", tt.name, a, err)
		}
	}
}

func FuzzReadStream(f *testing.F) {
	f.Add("data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":-1}}\n\ndata: [DONE]\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		pieces := 0
		a, err := readStream(strings.NewReader(in), func() { pieces++ })
		if a.Prompt < 0 || a.Generated < 0 || a.Cached < 0 || pieces > len(in) || err == nil && !strings.Contains(in, "data:") {
			t.Fatalf("%+v, %d pieces, %v", a, pieces, err)
		}
	})
}

func TestLoadOverHTTP(t *testing.T) {
	s := nullEngine(t, nil)
	target, err := NewOpenAI(t.Context(), s.URL+"/v1", OpenAIOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	cs, err := Fixed{Conversations: 40, Turns: 2, Input: 10, Output: 6, Groups: 1}.Make(1)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := Load(t.Context(), target, cs, LoadOptions{Clients: 8, Duration: time.Minute})
	if err != nil || rep.Requests != 80 || rep.Failed != 0 || rep.Generated != 480 || rep.Prompt != 3200 || rep.HitRate != 0.75 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// BenchmarkClient loads an engine that computes nothing, in the same process: the rate at which a load can be put.
func BenchmarkClient(b *testing.B) {
	for _, output := range []int{1, 32} {
		b.Run(fmt.Sprintf("output=%d", output), func(b *testing.B) {
			s := nullEngine(b, nil)
			target, err := NewOpenAI(b.Context(), s.URL+"/v1", OpenAIOptions{})
			if err != nil {
				b.Fatal(err)
			}
			defer target.Close()
			cs, err := Fixed{Conversations: 500, Turns: 1, Input: 128, Output: output, Groups: 1}.Make(1)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if rep, err := Load(b.Context(), target, cs, LoadOptions{Clients: 16, Duration: time.Minute}); err != nil || rep.Failed > 0 {
					b.Fatal(rep, err)
				}
			}
			b.ReportMetric(float64(len(cs)*b.N)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
