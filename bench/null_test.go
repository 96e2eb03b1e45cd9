package bench

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestNullKeepsTime checks the words and the times of a null engine against what a load reports of it.
func TestNullKeepsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		w := httptest.NewRecorder()
		body := `{"messages":[{"role":"user","content":"0123456789"}],"max_tokens":5,"stream":true}`
		Null{TTFT: time.Second, TPOT: time.Millisecond}.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body)))
		pieces := 0
		a, err := readStream(w.Body, func() { pieces++ })
		if err != nil || pieces != 5 || a.Generated != 5 || a.Prompt == 0 || a.Said.Text != " word word word word word" {
			t.Errorf("%d pieces, %+v, %v", pieces, a, err)
		}
		if got := time.Since(begin); got != 1004*time.Millisecond {
			t.Errorf("it took %v", got)
		}
	})
	for _, body := range []string{`{"max_tokens":5}`, `{"stream":true}`, `{"stream":true,"max_tokens":5`, `[]`} {
		w := httptest.NewRecorder()
		Null{}.ServeHTTP(w, httptest.NewRequest("POST", "/v1/completions", strings.NewReader(body)))
		if w.Code != 400 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}

// BenchmarkNull streams chats of 32 tokens from a null engine, client and server in one process: the load's own speed.
func BenchmarkNull(b *testing.B) {
	s := httptest.NewServer(Null{})
	defer s.Close()
	t, err := NewOpenAI(b.Context(), s.URL+"/v1", OpenAIOptions{IgnoreEOS: true})
	if err != nil {
		b.Fatal(err)
	}
	defer t.Close()
	cs, err := Fixed{Conversations: 4000, Turns: 1, Input: 64, Output: 32, Groups: 1}.Make(1)
	if err != nil {
		b.Fatal(err)
	}
	var rep Report
	for b.Loop() {
		if rep, err = Load(b.Context(), t, cs, LoadOptions{Clients: 32, Duration: time.Minute}); err != nil || rep.Failed > 0 {
			b.Fatal(err, rep.Errors)
		}
	}
	b.ReportMetric(float64(rep.Requests)/rep.Elapsed.Seconds(), "requests/s")
	b.ReportMetric(float64(rep.CPU.Microseconds())/float64(rep.Requests), "µs-cpu/request")
}
