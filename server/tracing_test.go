package server

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/kvasir-llm/kvasir/trace"
)

// spans collects what an exporter sends.
type spans struct {
	mu  sync.Mutex
	all []*tracepb.Span
}

// tracer returns an exporter, and what it has sent once it is closed.
func tracer(t *testing.T) (*trace.Exporter, *spans) {
	got := new(spans)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err := proto.Unmarshal(body, &data); err != nil {
			t.Error(err)
		}
		got.mu.Lock()
		defer got.mu.Unlock()
		got.all = append(got.all, data.ResourceSpans[0].ScopeSpans[0].Spans...)
	}))
	t.Cleanup(web.Close)
	cfg, _, err := trace.FromEnv(func(string) string { return "" }, web.URL, "v0")
	if err != nil {
		t.Fatal(err)
	}
	return trace.New(cfg, slog.New(slog.DiscardHandler)), got
}

// tree draws spans below one, with the attributes that are wanted.
func (s *spans) tree(above, indent string, keys ...string) string {
	var b strings.Builder
	for _, one := range s.all {
		if hex.EncodeToString(one.ParentSpanId) != above {
			continue
		}
		fmt.Fprintf(&b, "%s%s %v", indent, one.Name, one.Status.GetMessage())
		for _, key := range keys {
			for _, a := range one.Attributes {
				if a.Key == key {
					fmt.Fprintf(&b, " %s=%v", key[strings.LastIndex(key, ".")+1:], a.Value.ProtoReflect().Get(
						a.Value.ProtoReflect().WhichOneof(a.Value.ProtoReflect().Descriptor().Oneofs().Get(0))).Interface())
				}
			}
		}
		b.WriteString("\n")
		b.WriteString(s.tree(hex.EncodeToString(one.SpanId), indent+"  ", keys...))
	}
	return b.String()
}

// TestTraces holds that a request becomes a span of its trace, with one of each answer below it, and the phases of
// these. The fake waits for 1 s and has a token after 2 more.
func TestTraces(t *testing.T) {
	x, got := tracer(t)
	fake := newFake("fake", "a", "b")
	s := build(t, Config{Models: []Served{served(fake)}, Traces: x})
	ask := func(path, header, body string) {
		r := httptest.NewRequest("POST", path, strings.NewReader(body))
		r.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-"+header)
		r.Header.Set("X-Request-Id", "own")
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
	ask("/v1/chat/completions", "0000000000000001-01", `{"messages":[{"role":"user","content":"x"}],"n":2,"max_tokens":5,"temperature":0.25}`)
	ask("/v1/chat/completions", "0000000000000002-00", `{"messages":[{"role":"user","content":"x"}]}`) // not sampled
	ask("/v1/embeddings", "0000000000000003-01", `{"input":["four","five"]}`)
	ask("/v1/completions", "0000000000000004-01", `{"prompt":"x","temperature":3}`)
	ask("/v1/rerank", "0000000000000006-01", `{"query":"five","documents":["four"]}`)
	fake.fail = errors.New("broken")
	ask("/v1/completions", "0000000000000005-01", `{"prompt":"x","stream":true}`)
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/models", nil))
	x.Close(t.Context())
	keys := []string{"gen_ai.operation.name", "gen_ai.request.model", "gen_ai.request.max_tokens", "gen_ai.request.temperature",
		"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens",
		"gen_ai.latency.time_in_queue", "gen_ai.latency.time_in_model_prefill", "gen_ai.latency.time_to_first_token",
		"http.response.status_code", "error.type", "gen_ai.request.id"}
	answer := `  llm_request  model=fake max_tokens=5 temperature=0.25 prompt_tokens=3 completion_tokens=2 time_in_queue=1 time_in_model_prefill=2 time_to_first_token=3 id=own
    queue 
    prefill  prompt_tokens=3
    decode  completion_tokens=2
`
	text := `  llm_request  model=fake prompt_tokens=4 time_in_queue=1 time_in_model_prefill=2 id=own
    queue 
    prefill  prompt_tokens=4
`
	for above, want := range map[string]string{
		"0000000000000001": "POST /v1/chat/completions  name=chat model=fake max_tokens=5 temperature=0.25 input_tokens=3 output_tokens=4 status_code=200 id=own\n" + answer + answer,
		"0000000000000002": "",
		"0000000000000003": "POST /v1/embeddings  name=embeddings model=fake input_tokens=8 status_code=200 id=own\n" + text + text,
		"0000000000000006": "POST /v1/rerank  model=fake input_tokens=8 status_code=200 id=own\n" + text + text,
		"0000000000000004": "POST /v1/completions  name=text_completion status_code=400 type=invalid_value id=own\n",
		"0000000000000005": "POST /v1/completions internal error; the server's log has the details name=text_completion model=fake max_tokens=16 temperature=0.5 " +
			"input_tokens=2 output_tokens=1 status_code=200 type=internal_error id=own\n" +
			"  llm_request it did not come to its end model=fake max_tokens=16 temperature=0.5 prompt_tokens=2 completion_tokens=1 time_in_queue=1 time_in_model_prefill=2 time_to_first_token=3 id=own\n" +
			"    queue \n    prefill  prompt_tokens=2\n    decode  completion_tokens=1\n",
	} {
		if tree := got.tree(above, "", keys...); tree != want {
			t.Errorf("below %s:\n%swant\n%s", above, tree, want)
		}
	}
	for _, one := range got.all {
		if hex.EncodeToString(one.TraceId) != "4bf92f3577b34da6a3ce929d0e0e4736" {
			t.Errorf("%s is in trace %x", one.Name, one.TraceId)
		}
	}
	if i := slices.IndexFunc(got.all, func(s *tracepb.Span) bool { return s.Name == "POST /v1/models" }); i >= 0 {
		t.Error("a request that only looks has a span")
	}
	if lines := scrape(t, s, `^kvasir:otlp_spans_total`); !strings.Contains(lines, fmt.Sprintf("{outcome=\"sent\"} %d\n", len(got.all))) ||
		!strings.Contains(lines, `{outcome="dropped"} 0`) {
		t.Error(lines)
	}
}
