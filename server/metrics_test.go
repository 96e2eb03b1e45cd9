package server

import (
	"bytes"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/openai/openai-go/v3"

	"github.com/kvasir-llm/kvasir/engine"
)

// scrape returns the lines of /metrics that pattern matches.
func scrape(t *testing.T, s *Server, pattern string) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("/metrics: %d %s", w.Code, w.Body)
	}
	keep := regexp.MustCompile(pattern)
	var out strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if keep.MatchString(line) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// TestMetrics scripts what an engine reports and shows the metrics that match a pattern.
func TestMetrics(t *testing.T) {
	observer := &Observer{}
	observer.RequestDone(engine.RequestDone{Prompt: 1000}) // before New: not counted, no panic
	observer.StepDone(engine.StepDone{Rows: 1000})
	fake := served(newFake("fake", "x"))
	fake.Observer = observer
	s := build(t, Config{Models: []Served{fake}})
	ms := func(n ...int) (out []time.Duration) {
		for _, v := range n {
			out = append(out, time.Duration(v)*time.Millisecond)
		}
		return out
	}
	datadriven.RunTest(t, "testdata/metrics", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "steps":
			observer.StepDone(engine.StepDone{Rows: 12, Seqs: 3, FirstTokens: ms(30, 70)})
			observer.StepDone(engine.StepDone{Rows: 3, Seqs: 3, Gaps: ms(5, 15, 600)})
		case "requests":
			r := engine.RequestDone{Prompt: 10, Cached: 4, Generated: 3, MaxTokens: 16, Queue: ms(100)[0], FirstToken: ms(350)[0],
				Decode: ms(300)[0], Total: ms(700)[0], Reason: engine.FinishStop}
			observer.RequestDone(r)
			r.Reason = engine.FinishLength
			observer.RequestDone(r)
			observer.RequestDone(engine.RequestDone{Prompt: 5, Total: ms(50)[0], Reason: engine.FinishCancelled})
			observer.RequestDone(engine.RequestDone{Prompt: 5, Total: ms(50)[0], Reason: engine.FinishError})
		case "post":
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest("POST", "/v1/completions", strings.NewReader(d.Input)))
		case "scrape":
			return scrape(t, s, d.Input)
		}
		return ""
	})
	if scrape(t, s, "^go_goroutines") == "" || scrape(t, s, "^process_") == "" {
		t.Error("the metrics of the process are missing")
	}
}

// TestMetricsOfAModel holds that the metrics of the built-in model move with its requests.
func TestMetricsOfAModel(t *testing.T) {
	m, web := serveMini(t)
	client := sdk(web, "key")
	if _, err := client.Chat.Completions.New(t.Context(), question()); err != nil {
		t.Fatal(err)
	}
	s := build(t, Config{Models: []Served{*m}})
	const stops = `^vllm:request_success_total{.*"(stop|abort)"`
	before := scrape(t, s, stops)
	params := question()
	params.Stop.OfString = openai.String(" ")
	w := httptest.NewRecorder()
	body, _ := params.MarshalJSON()
	s.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", bytes.NewReader(body)))
	eventually(t, "a stop string counts as a stop", func() bool {
		return scrape(t, s, stops) == strings.Replace(before, `"stop",model_name="kvasir-mini"} 0`, `"stop",model_name="kvasir-mini"} 1`, 1)
	})
	for _, name := range []string{"prompt_tokens_total", "generation_tokens_total", "prefix_cache_queries_total"} {
		if line := scrape(t, s, "^vllm:"+name+"{"); line == "" || strings.HasSuffix(line, " 0\n") {
			t.Errorf("%s: %q", name, line)
		}
	}
	if got := scrape(t, s, "cache_config_info{"); !strings.Contains(got, `block_size="16"`) {
		t.Error(got)
	}
}
