package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestRoomOfAnswers holds that what is kept of answers is counted as about what it takes, that an answer that takes
// more than one may is refused, that streams and small answers are given meanwhile, and that nothing stays counted.
func TestRoomOfAnswers(t *testing.T) {
	fake := newFake("fake", slices.Repeat([]string{"word "}, 1000)...)
	fake.info.Context = 2048
	s := build(t, Config{Models: []Served{served(fake)}, MaxBodyBytes: 1 << 20, RequestMemory: 64 << 20})
	ask := func(s *Server, path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
		return w
	}
	const chat = `"messages":[{"role":"user","content":"a"}],"logprobs":true,"top_logprobs":20`
	for _, c := range []struct{ path, body string }{
		{"/v1/completions", `{"prompt":"a","logprobs":20,"n":2}`},
		{"/v1/chat/completions", `{` + chat + `,"n":2}`},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if w := ask(s, c.path, c.body); w.Code != http.StatusOK {
			t.Fatalf("%s: %d %.200s", c.path, w.Code, w.Body)
		}
		runtime.ReadMemStats(&after)
		got := float64(after.TotalAlloc-before.TotalAlloc) / (2 * 1000 * 21)
		if got > 5*candidateBytes { // most of it is garbage soon
			t.Errorf("%s: %.0f bytes are made for a log probability", c.path, got)
		}
	}
	large := `{"prompt":"a","logprobs":20,"n":64%s}`
	prompts := `{"prompt":[` + strings.TrimSuffix(strings.Repeat("["+strings.TrimSuffix(strings.Repeat("5,", 1000), ",")+"],", 64), ",") + `],"max_tokens":1,"prompt_logprobs":20}`
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"/v1/completions", fmt.Sprintf(large, ""), http.StatusBadRequest},
		{"/v1/chat/completions", `{` + chat + `,"n":64}`, http.StatusBadRequest},
		{"/v1/completions", prompts, http.StatusBadRequest},
		{"/v1/completions", fmt.Sprintf(large, `,"stream":true`), http.StatusOK},
		{"/v1/completions", `{"prompt":"a","n":64}`, http.StatusOK},
	} {
		w := ask(s, c.path, c.body)
		if w.Code != c.status || c.status != http.StatusOK && !strings.Contains(w.Body.String(), "answer_too_large") {
			t.Errorf("%s %.60s: %d %.300s", c.path, c.body, w.Code, w.Body)
		}
		if n := s.bodies.answers.Used(); n != 0 {
			t.Errorf("%.60s: %d bytes stay counted", c.body, n)
		}
	}
	for s.bodies.answers.Try(false, 1<<20) { // others' answers
	}
	if w := ask(s, "/v1/completions", `{"prompt":"a","logprobs":20}`); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
	if w := ask(s, "/v1/completions", `{"prompt":"a"}`); w.Code != http.StatusOK {
		t.Errorf("a small answer: %d %.200s", w.Code, w.Body)
	}
}

// TestRoomOfResponses holds that what streams of responses keep until they end is counted, that the events of those in
// the background are not kept where there is no room, and that nothing stays counted.
func TestRoomOfResponses(t *testing.T) {
	fake := newFake("fake", slices.Repeat([]string{"word "}, 1000)...)
	fake.info.Context = 2048
	s := build(t, Config{Models: []Served{served(fake)}, MaxBodyBytes: 1 << 20, RequestMemory: 16 << 20})
	defer s.Close()
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		return w
	}
	later := func() (id string) {
		id = ask("POST", "/v1/responses", `{"input":"a","background":true}`).Body.String()
		id = id[strings.Index(id, "resp_"):][:31]
		eventually(t, "the response is made", func() bool { return s.later.of("", id) == nil })
		return id
	}
	const logprobs = `"top_logprobs":20,"include":["message.output_text.logprobs"]`
	w := ask("POST", "/v1/responses", `{"input":"a","stream":true,`+logprobs+`}`)
	if n := strings.Count(w.Body.String(), "output_text.delta"); !strings.Contains(w.Body.String(), "response.failed") || n < 400 || n > 1800 {
		t.Errorf("a stream whose answer takes more than one may has %d pieces, and ends with %.300s", n, w.Body.String()[w.Body.Len()-300:])
	}
	if w := ask("POST", "/v1/responses", `{"input":"a","stream":true}`); !strings.Contains(w.Body.String(), "response.completed") {
		t.Errorf("a stream without log probabilities: %.300s", w.Body)
	}
	kept := "/v1/responses/" + later()
	if w := ask("GET", kept+"?stream=true", ""); w.Code != 200 || !strings.Contains(w.Body.String(), "response.completed") {
		t.Errorf("the events: %d %.300s", w.Code, w.Body)
	}
	for s.bodies.answers.Try(false, 16<<10) { // others' answers
	}
	kept = "/v1/responses/" + later()
	if w := ask("GET", kept, ""); !strings.Contains(w.Body.String(), `"status":"completed"`) {
		t.Errorf("without room for events: %.300s", w.Body)
	}
	if w := ask("GET", kept+"?stream=true", ""); w.Code != 400 || !strings.Contains(w.Body.String(), "too much memory") {
		t.Errorf("events without room: %d %.300s", w.Code, w.Body)
	}
	s.bodies.answers.Give(false, s.bodies.answers.Used()) // fails if anything is counted twice or not at all
	if !s.bodies.answers.Try(true, 1<<20) || s.bodies.answers.Try(true, 1) {
		t.Error("something stays counted")
	}
}
