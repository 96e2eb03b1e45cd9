package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// running is a server under Serve.
type running struct {
	url  string
	stop context.CancelFunc
	done chan error
}

func run(t *testing.T, cfg Config) *running {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{"http://" + ln.Addr().String(), stop, make(chan error, 1)}
	s := build(t, cfg)
	go func() { r.done <- s.Serve(ctx, ln) }()
	t.Cleanup(stop)
	return r
}

// open starts a stream and reads its first event.
func (r *running) open(t *testing.T, fake *fakeModel) (*http.Response, *bufio.Reader) {
	t.Helper()
	answer := make(chan *http.Response, 1)
	go func() {
		resp, err := http.Post(r.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x","stream":true}`))
		if err != nil {
			t.Error(err)
		}
		answer <- resp
	}()
	fake.hold <- struct{}{}
	resp := <-answer
	if resp == nil {
		t.FailNow()
	}
	t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewReader(resp.Body)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, `"text":"Hello"`) {
		t.Fatalf("%q, %v", line, err)
	}
	return resp, lines
}

// eventually waits until ok, which is asked each millisecond.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("it never came to pass that %s", what)
		}
	}
}

func held(name string) *fakeModel {
	m := newFake(name, "Hello", " world", "!")
	m.hold = make(chan struct{})
	return m
}

func TestDrainLetsAnswersEnd(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	defer http.DefaultClient.CloseIdleConnections()
	fake := held("fake")
	r := run(t, Config{Models: []Served{served(fake)}, DrainTimeout: time.Hour})
	_, lines := r.open(t, fake)
	r.stop()
	eventually(t, "new connections are refused", func() bool {
		resp, err := http.Get(r.url + "/health")
		if err == nil {
			resp.Body.Close()
		}
		return err != nil
	})
	close(fake.hold)
	rest, err := io.ReadAll(lines)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") || !strings.Contains(string(rest), `"finish_reason":"stop"`) {
		t.Errorf("the rest of the answer: %q, %v", rest, err)
	}
	if err := <-r.done; err != nil {
		t.Error(err)
	}
}

func TestDrainCutsOffAtTheTimeout(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	defer http.DefaultClient.CloseIdleConnections()
	fake := held("fake")
	r := run(t, Config{Models: []Served{served(fake)}, DrainTimeout: time.Millisecond})
	_, lines := r.open(t, fake)
	r.stop()
	rest, err := io.ReadAll(lines)
	if err != nil || !strings.Contains(string(rest), "shutting_down") || strings.Contains(string(rest), "[DONE]") {
		t.Errorf("the rest of the answer: %q, %v", rest, err)
	}
	if err := <-r.done; err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("Serve returned %v", err)
	}
	if n := fake.live.Load(); n != 0 {
		t.Errorf("%d generations are not closed", n)
	}
}

func TestHangUp(t *testing.T) {
	for _, body := range []string{`{"prompt":"x","stream":true}`, `{"prompt":"x"}`, `{"prompt":["x","y"],"n":3,"stream":true}`} {
		fake := held("fake")
		web := httptest.NewServer(build(t, Config{Models: []Served{served(fake)}}))
		ctx, hangUp := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, "POST", web.URL+"/v1/completions", strings.NewReader(body))
		done := make(chan struct{})
		go func() {
			defer close(done)
			if resp, err := web.Client().Do(req); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}()
		fake.hold <- struct{}{}
		hangUp()
		<-done
		eventually(t, "all generations are closed", func() bool { return fake.live.Load() == 0 })
		web.Close()
	}
}

func TestPing(t *testing.T) {
	fake := held("fake")
	web := httptest.NewServer(build(t, Config{Models: []Served{served(fake)}, Ping: time.Millisecond}))
	defer web.Close()
	resp, err := web.Client().Post(web.URL+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != ": ping\n" {
		t.Fatalf("%q, %v", line, err)
	}
	close(fake.hold)
	rest, err := io.ReadAll(lines)
	if err != nil || !strings.Contains(string(rest), `"text":"!"`) || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestClientThatDoesNotRead(t *testing.T) {
	pieces := make([]string, 1<<12)
	for i := range pieces {
		pieces[i] = strings.Repeat("x", 1<<14)
	}
	fake := newFake("fake", pieces...)
	web := httptest.NewServer(build(t, Config{Models: []Served{served(fake)}, WriteTimeout: 10 * time.Millisecond}))
	defer web.Close()
	resp, err := web.Client().Post(web.URL+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x","stream":true}`))
	if err == nil { // on a busy machine it may be ended already
		defer resp.Body.Close()
	}
	eventually(t, "the generation is closed", func() bool { return fake.live.Load() == 0 })
}

// A handler that panics is answered for, and the next request is served.
func TestPanic(t *testing.T) {
	fake := newFake("fake")
	s := build(t, Config{Models: []Served{served(fake)}})
	s.routes["/boom"] = route{"GET", func(http.ResponseWriter, *http.Request) { panic("boom") }, anyone, ""}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/boom", nil))
	if w.Code != 500 || !json.Valid(w.Body.Bytes()) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A page whose name was made to resolve to this machine does not get in.
func TestHosts(t *testing.T) {
	for _, c := range []struct {
		local, host, path, origins string
		want                       int
	}{
		{"127.0.0.1", "localhost:8000", "/version", "", 200},
		{"127.0.0.1", "LocalHost", "/version", "", 200},
		{"127.0.0.1", "127.0.0.1:8000", "/version", "", 200},
		{"::1", "[::1]:8000", "/version", "", 200},
		{"::1", "[::1]", "/version", "", 200},
		{"127.0.0.1", "evil.example:8000", "/version", "", 403},
		{"::1", "evil.example", "/v1/models", "", 403},
		{"127.0.0.1", "127.0.0.1.evil.example", "/version", "", 403},
		{"127.0.0.1", "10.0.0.1:8000", "/version", "", 403},
		{"127.0.0.1", "", "/version", "", 403},
		{"127.0.0.1", "evil.example", "/health", "", 200},
		{"127.0.0.1", "evil.example", "/metrics", "", 200},
		{"127.0.0.1", "page.example:8000", "/version", "https://page.example", 200},
		{"127.0.0.1", "evil.example", "/version", "https://page.example", 403},
		{"127.0.0.1", "evil.example", "/version", "*", 200},
		{"10.0.0.1", "llm.example", "/version", "", 200},
	} {
		cfg := Config{Models: []Served{served(newFake("fake"))}}
		if c.origins != "" {
			cfg.AllowedOrigins = []string{c.origins}
		}
		local := &net.TCPAddr{IP: net.ParseIP(c.local), Port: 8000}
		r := httptest.NewRequest("GET", c.path, nil).WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local))
		r.Host = c.host
		w := httptest.NewRecorder()
		build(t, cfg).ServeHTTP(w, r)
		if w.Code != c.want || c.want == 403 && !strings.Contains(w.Body.String(), c.host) {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
	}
}

// A template variable that the request sets itself is refused under the name of the parameter that holds it.
func TestReservedTemplateVariables(t *testing.T) {
	s := build(t, Config{Models: []Served{served(newFake("fake", "a"))}})
	for _, path := range []string{"/v1/chat/completions", "/tokenize"} {
		for _, key := range []string{"messages", "tools", "add_generation_prompt"} {
			body := `{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"` + key + `":1}}`
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
			if w.Code != 400 || !strings.Contains(w.Body.String(), `"param":"chat_template_kwargs"`) || !strings.Contains(w.Body.String(), key) {
				t.Errorf("%s %s: %d %s", path, key, w.Code, w.Body)
			}
		}
	}
}

// What the engine says of its own mistakes is for the log.
func TestInternalErrors(t *testing.T) {
	fake := newFake("fake", "a")
	fake.refuse = errors.New("panic: goroutine 7 [running]")
	var log strings.Builder
	s := build(t, Config{Models: []Served{served(fake)}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("POST", "/v1/completions", strings.NewReader(`{"prompt":"x"}`)))
	if w.Code != 500 || strings.Contains(w.Body.String(), "goroutine") || !strings.Contains(w.Body.String(), "the server's log") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "goroutine 7") {
		t.Errorf("the log: %s", log.String())
	}
}

func TestRequestIDs(t *testing.T) {
	s := build(t, Config{Models: []Served{served(newFake("fake"))}})
	for given, same := range map[string]bool{"abc-1": true, "": false, "with space": false, strings.Repeat("x", 129): false} {
		r, w := httptest.NewRequest("GET", "/version", nil), httptest.NewRecorder()
		r.Header.Set(requestID, given)
		s.ServeHTTP(w, r)
		if got := w.Header().Get(requestID); got == "" || (got == given) != same {
			t.Errorf("request %q was answered as %q", given, got)
		}
	}
}

func TestConfigRefused(t *testing.T) {
	fake := served(newFake("fake"))
	for want, cfg := range map[string]Config{
		"no model":       {},
		"no engine":      {Models: []Served{{Model: fake.Model}}},
		"given twice":    {Models: []Served{fake, fake}},
		"empty or given": {Models: []Served{{Model: fake.Model, Engine: fake.Engine, Vocabulary: fake.Vocabulary, Aliases: []string{""}}}},
		"API key":        {Models: []Served{fake}, Keys: []Key{{Secret: "a"}, {}}},
		"allowed origin": {Models: []Served{fake}, AllowedOrigins: []string{"page.example/path"}},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error about %q", err, want)
		}
	}
}
