package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var uuid = regexp.MustCompile("^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")

// TestBodiesGoAsTheyCame compares what the client sends with what the engine gets, and the other way round.
func TestBodiesGoAsTheyCame(t *testing.T) {
	a := &engine{name: "a"}
	inWorld(t, `
models:
- name: m
  aliases: [short, "tä\"g"]
  endpoints: [http://a]
- name: n
  upstream: org/long-name
  endpoints: [http://a]
`, map[string]http.Handler{"a": a}, func(w *world) {
		for _, c := range []struct{ sent, want string }{
			{" {\"messages\" : [ ],\t\"model\":\"m\", \"x\": 1.50 }\n", " {\"messages\" : [ ],\t\"model\":\"m\", \"x\": 1.50 }\n"},
			{`{"model":"short","a":{"model":"short"}}`, `{"model":"m","a":{"model":"short"}}`},
			{`{"model": "t\u00e4\"g" , "prompt":"é"}`, `{"model": "m" , "prompt":"é"}`},
			{`{"prompt":"x","model":"n"}`, `{"prompt":"x","model":"org/long-name"}`},
		} {
			r := w.chat(c.sent, "Authorization", "Bearer mine", "X-Other", "kept", "Connection", "X-Hop", "X-Hop", "dropped")
			w.want(r, 200, `"content":"a"`)
			all := a.got()
			last := all[len(all)-1]
			if last.body != c.want {
				t.Errorf("the engine got %q; want %q", last.body, c.want)
			}
			if h := last.header; h.Get("Authorization") != "Bearer mine" || h.Get("X-Other") != "kept" || h.Get("X-Hop") != "" || h.Get("X-Request-Id") != r.header.Get("X-Request-Id") || !uuid.MatchString(h.Get("X-Request-Id")) {
				t.Errorf("the engine got the header %v", h)
			}
		}
		w.want(w.ask(w.t.Context(), "POST", "/v1/embeddings", `{"model":"m","input":"x"}`), 200, "a")
		if all := a.got(); all[len(all)-1].path != "/v1/embeddings" {
			t.Errorf("the engine got %s", all[len(all)-1].path)
		}
		w.want(w.chat(streamed), 200, "data: [DONE]\n\n")
	})
}

// TestRefusals are what the gateway says by itself.
func TestRefusals(t *testing.T) {
	inWorld(t, two+"max_body: 100\n", map[string]http.Handler{"a": &engine{}, "b": &engine{}}, func(w *world) {
		for _, c := range []struct {
			method, path, body string
			status             int
			text               string
		}{
			{"POST", "/v1/chat/completions", `{"model":"x"}`, 404, `the model \"x\" does not exist`},
			{"POST", "/v1/chat/completions", `{"messages":[]}`, 400, "model is missing"},
			{"POST", "/v1/chat/completions", `{"model":"m","model":"m"}`, 400, "model is there twice"},
			{"POST", "/v1/chat/completions", `{"model":"m","Model":"n"}`, 400, `\"Model\": expected model`},
			{"POST", "/v1/chat/completions", `{"model":7}`, 400, "expected a string, found 7"},
			{"POST", "/v1/chat/completions", `{"model":"m"`, 400, "the end of the body"},
			{"POST", "/v1/chat/completions", `{"model":"` + strings.Repeat("x", 100) + `"}`, 413, "more than 100 bytes"},
			{"GET", "/v1/chat/completions", "", 405, "want POST"},
			{"POST", "/v1/other", "{}", 404, "there is no POST /v1/other"},
			{"GET", "/v1/models", "", 200, `"id":"m"`},
			{"GET", "/v1/models/m", "", 200, `"id":"m"`},
			{"GET", "/v1/models/x", "", 404, "does not exist"},
			{"GET", "/health", "", 200, "ok"},
		} {
			w.want(w.ask(w.t.Context(), c.method, c.path, c.body), c.status, c.text)
		}
		w.g.Drain()
		w.want(w.ask(w.t.Context(), "GET", "/health", ""), 503, "draining")
	})
}

// TestStreamsAreNotHeldBack reads each event before the engine sends the next one.
func TestStreamsAreNotHeldBack(t *testing.T) {
	turn := make(chan bool)
	a := &engine{name: "a"}
	a.hook = posts(func(w http.ResponseWriter, _ *http.Request) {
		a.begin(w)
		for range turn {
			a.word(w)
		}
		a.end(w)
	})
	inWorld(t, "models: [{name: m, endpoints: [http://a]}]", map[string]http.Handler{"a": a}, func(w *world) {
		turn = make(chan bool)
		go func() { turn <- true }()
		next, done := w.stream(w.t.Context(), streamed)
		defer done()
		for i := range 5 {
			if got := next(); !strings.Contains(got, `"content":"a"`) {
				t.Fatalf("event %d: %q", i, got)
			}
			if i < 4 {
				turn <- true
			}
		}
		close(turn)
		if next(); next() != "data: [DONE]" || next() != "" {
			t.Error("the stream did not end with [DONE]")
		}
	})
}

// TestHangUpCancelsUpstream lets a client go while its answer is under way, and while it waits for its turn.
func TestHangUpCancelsUpstream(t *testing.T) {
	a := &engine{name: "a"}
	cancelled := 0
	a.hook = posts(func(w http.ResponseWriter, r *http.Request) {
		a.begin(w)
		a.word(w)
		<-r.Context().Done()
		cancelled++
	})
	inWorld(t, "models: [{name: m, endpoints: [{url: http://a, max_in_flight: 1}]}]", map[string]http.Handler{"a": a}, func(w *world) {
		ctx, hangUp := context.WithCancel(w.t.Context())
		next, done := w.stream(ctx, streamed)
		next()
		waiting, leave := context.WithCancel(w.t.Context())
		go w.ask(waiting, "POST", "/v1/chat/completions", plain)
		synctest.Wait()
		if w.g.setup.Load().models["m"].queue.Waiting() != 1 {
			t.Error("the second request does not wait")
		}
		leave()
		synctest.Wait()
		hangUp()
		done()
		synctest.Wait()
		if cancelled != 1 || len(a.got()) != 1 {
			t.Errorf("%d requests cancelled of %d that reached the engine; want 1 of 1", cancelled, len(a.got()))
		}
		w.g.mu.Lock()
		m := w.g.setup.Load().models["m"]
		if m.pool[0].requests != 0 || m.queue.Waiting() != 0 || len(m.jobs) != 0 || m.pool[0].failed != 0 {
			t.Errorf("%d in flight, %d wait, %d failures", m.pool[0].requests, m.queue.Waiting(), m.pool[0].failed)
		}
		w.g.mu.Unlock()
		if !strings.Contains(w.log.String(), `"status":499`) {
			t.Errorf("the log says %s", w.log.String())
		}
	})
}

// TestTurnsAreFair holds an engine with one place, and looks in which order the requests of two tenants come.
func TestTurnsAreFair(t *testing.T) {
	a := &engine{name: "a"}
	gate := make(chan bool)
	a.hook = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == "POST" {
			<-gate
		}
		return false
	}
	inWorld(t, "models: [{name: m, endpoints: [{url: http://a, max_in_flight: 1}]}]\nqueue: {max_waiting: 5}",
		map[string]http.Handler{"a": a}, func(w *world) {
			gate = make(chan bool)
			var all sync.WaitGroup
			send := func(user string) {
				all.Go(func() { w.chat(fmt.Sprintf(`{"model":"m","user":%q,"messages":[]}`, user)) })
				synctest.Wait()
			}
			for range 5 {
				send("greedy")
			}
			for range 2 {
				send("modest")
			}
			r := w.chat(`{"model":"m","user":"greedy","messages":[]}`)
			w.want(r, 429, "too many requests wait")
			if r.header.Get("Retry-After") == "" {
				t.Error("there is no Retry-After")
			}
			close(gate)
			all.Wait()
			order := ""
			for _, s := range a.got() {
				var asked struct{ User string }
				json.Unmarshal([]byte(s.body), &asked)
				order += asked.User[:1]
			}
			if order != "gmgmgg" && order != "gmmggg" {
				t.Errorf("the order is %s", order)
			}
		})
}

// TestWaitEnds lets a request wait for an engine that never has time, and for one that is not there.
func TestWaitEnds(t *testing.T) {
	a := &engine{name: "a"}
	a.hook = posts(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	inWorld(t, `
models:
- {name: m, endpoints: [{url: http://a, max_in_flight: 1}]}
- {name: n, endpoints: [http://nobody]}
- {name: o, endpoints: [{url: http://b, context: 10}]}
queue: {max_wait: 30s, down_wait: 5s}
`, map[string]http.Handler{"a": a, "b": &engine{}}, func(w *world) {
		ctx, stop := context.WithCancel(w.t.Context())
		var all sync.WaitGroup
		all.Go(func() { w.ask(ctx, "POST", "/v1/chat/completions", plain) })
		synctest.Wait()
		for _, c := range []struct {
			model  string
			status int
			text   string
			after  time.Duration
		}{
			{"m", 429, "became free in time", 30 * time.Second},
			{"n", 503, "http://nobody down (unhealthy", 5 * time.Second},
			{"o", 503, "http://b context", 0},
		} {
			begin := time.Now()
			w.want(w.chat(`{"model":"`+c.model+`","messages":["`+strings.Repeat("x", 100)+`"]}`), c.status, c.text)
			if took := time.Since(begin); took != c.after {
				t.Errorf("model %s: it took %v; want %v", c.model, took, c.after)
			}
		}
		stop()
		all.Wait()
	})
}

// TestBusyEndpointsAreAskedAgain: a request that all endpoints turn away as they have too much to do waits here, and
// goes to another model at once if there is one.
func TestBusyEndpointsAreAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		refuse int // requests that both endpoints turn away together
		want   int
		took   time.Duration
	}{
		"a while":  {"models: [{name: m, endpoints: [http://a, http://b]}]\n", 7, 200, 3 * time.Second},
		"for long": {"queue: {max_wait: 10s}\nmodels: [{name: m, endpoints: [http://a, http://b]}]\n", 1000, 429, 10 * time.Second},
		"fallback": {"models: [{name: m, endpoints: [http://a, http://b], fallbacks: [n]}, {name: n, endpoints: [http://c]}]\n", 1000, 200, 0},
	} {
		t.Run(name, func(t *testing.T) {
			left := c.refuse
			hook := posts(func(w http.ResponseWriter, _ *http.Request) {
				if left--; left >= 0 {
					w.Header().Set("Retry-After", "7")
					http.Error(w, "busy", http.StatusTooManyRequests)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"choices":[]}`)
			})
			engines := map[string]http.Handler{"a": &engine{hook: hook}, "b": &engine{hook: hook}, "c": &engine{name: "c"}}
			inWorld(t, c.config, engines, func(w *world) {
				began := time.Now()
				w.want(w.chat(plain), c.want, "")
				if took := time.Since(began); took < c.took-time.Second || took > c.took+time.Second/2 {
					t.Errorf("it took %v; want about %v", took, c.took)
				}
			})
		})
	}
}

// TestRequestsAreTheGateways holds that how a client addresses the gateway, and uses its connection, reaches no
// endpoint.
func TestRequestsAreTheGateways(t *testing.T) {
	var got chan *http.Request
	a := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			got <- r
		}
		io.WriteString(w, `{"choices":[]}`)
	})
	inWorld(t, "models: [{name: m, endpoints: [http://a]}]", map[string]http.Handler{"a": a}, func(w *world) {
		got = make(chan *http.Request, 1)
		in, done := w.raw(fmt.Sprintf("POST http://user:secret@elsewhere/v1/%%63hat/completions HTTP/1.1\r\nHost: gateway\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\n"+
			"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n%s", len(plain), plain))
		defer done()
		go io.Copy(io.Discard, in)
		r := <-got
		if r.Host != "a" || r.RequestURI != "/v1/chat/completions" || r.Close {
			t.Errorf("the endpoint was asked for %s at %s, close %v", r.RequestURI, r.Host, r.Close)
		}
		for _, name := range []string{"Authorization", "Expect", "X-Mine", "Connection"} {
			if value := r.Header.Get(name); value != "" {
				t.Errorf("the endpoint got %s: %s", name, value)
			}
		}
	})
}
