package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/trace"
)

// told is a span as a collector gets it.
type told struct {
	TraceID, SpanID, ParentSpanID, Name string
	Status                              struct{ Code int }
}

// collector takes spans.
type collector struct {
	mu    sync.Mutex
	spans []told
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var body struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []told }
		}
	}
	json.NewDecoder(r.Body).Decode(&body)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range body.ResourceSpans {
		for _, s := range r.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
}

// TestSpans sends a request of a trace, which the second endpoint answers, and follows its spans from the caller's to
// the one that the endpoint is told of. A trace that nobody records comes to the endpoint as it is.
func TestSpans(t *testing.T) {
	var c collector
	takes := httptest.NewServer(&c)
	defer takes.Close()
	e := &engine{name: "a"}
	fails := true
	e.hook = posts(func(w http.ResponseWriter, r *http.Request) {
		if fails {
			fails = false
			http.Error(w, "not now", 500)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`)
	})
	a, b := httptest.NewServer(e), httptest.NewServer(e)
	defer a.Close()
	defer b.Close()
	env := map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}
	cfg, on, err := trace.FromEnv(func(name string) string { return env[name] }, takes.URL, "1")
	if err != nil || !on {
		t.Fatal(on, err)
	}
	x := trace.New(cfg, slog.New(slog.DiscardHandler))
	config, err := Parse("fleet.yaml", fmt.Appendf(nil, "models: [{name: m, endpoints: [%q, %q]}]", a.URL, b.URL))
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(config, Options{Logger: slog.New(slog.DiscardHandler), Traces: x, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ask := func(parent string) {
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(plain))
		r.Header.Set("Traceparent", parent)
		r.Header.Set("Tracestate", "x=1")
		w := httptest.NewRecorder()
		if g.ServeHTTP(w, r); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	const id, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	ask("00-" + id + "-" + caller + "-01")
	ask("00-" + id + "-" + caller + "-00") // not sampled
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	x.Close(ctx)
	got := e.got()
	if len(got) != 3 || got[2].header.Get("Traceparent") != "00-"+id+"-"+caller+"-00" {
		t.Fatalf("the endpoint got %+v", got)
	}
	var root told
	names := ""
	for _, s := range c.spans {
		if names += s.Name + "; "; s.ParentSpanID == caller {
			root = s
		}
		if s.TraceID != id {
			t.Errorf("%+v is of another trace", s)
		}
	}
	if names != "queue; chat m; queue; chat m; POST /v1/chat/completions; " || root.Name != "POST /v1/chat/completions" {
		t.Errorf("the spans are %s", names)
	}
	for i, seen := range got[:2] {
		span := c.spans[1+2*i]
		if span.ParentSpanID != root.SpanID || seen.header.Get("Traceparent") != "00-"+id+"-"+span.SpanID+"-01" || seen.header.Get("Tracestate") != "x=1" {
			t.Errorf("the endpoint got %v of %+v", seen.header, span)
		}
		if failed := span.Status.Code == 2; failed != (i == 0) {
			t.Errorf("%+v", span)
		}
	}
	page := httptest.NewRecorder()
	g.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if !strings.Contains(page.Body.String(), `kvasir_gateway_spans_total{outcome="sent"} 5`) {
		t.Error("the spans are not counted")
	}
}
