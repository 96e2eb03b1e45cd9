package gateway

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/bench/fleet"
	kvevents "github.com/kvasir-llm/kvasir/events"
	"github.com/kvasir-llm/kvasir/internal/freeport"
)

// TestFaultyFleet asks fleets of which one engine of three fails or lies now and then, whole answers and streams at
// once. What a client gets with status 200 and without an error is what the engine meant to say.
func TestFaultyFleet(t *testing.T) {
	const words = 6
	for _, fault := range fleet.Faults {
		t.Run(fault.Name, func(t *testing.T) {
			engines := map[string]http.Handler{}
			for i, host := range []string{"a", "b", "c"} {
				m := fleet.Model{TTFT: 20 * time.Millisecond, TPOT: 5 * time.Millisecond, Prefill: 10_000, Slots: 8, Blocks: 100, BlockTokens: 16}
				if i == 0 {
					m.Fault, m.Share, m.Down = fault.Is, 0.3, time.Second
				}
				engines[host] = fleet.New(m, nil, uint64(i))
			}
			config := "timeouts: {first_byte: 2s, idle: 2s}\nmodels: [{name: m, endpoints: [http://a, http://b, http://c]}]\n"
			inWorld(t, config, engines, func(w *world) {
				var mu sync.Mutex
				count := map[string]int{}
				var all sync.WaitGroup
				for client := range 12 {
					all.Go(func() {
						for i := range 20 {
							stream := (client+i)%2 == 0
							r := w.chat(fmt.Sprintf(`{"model":"m","max_tokens":%d,"stream":%v,"messages":[{"role":"user","content":"%d"}]}`, words, stream, client))
							said := strings.Count(r.body, " word")
							got := "whole"
							switch {
							case r.err != nil:
								got = "torn"
							case r.status == 200 && strings.Contains(r.body, `data: {"error"`) && !strings.Contains(r.body, "[DONE]"):
								got = "told"
							case r.status != 200:
								got = "refused"
							case said != words, stream != strings.HasSuffix(r.body, "data: [DONE]\n\n"):
								got = "lied to"
								t.Errorf("stream %v: %q", stream, r.body)
							}
							mu.Lock()
							count[got]++
							mu.Unlock()
						}
					})
				}
				all.Wait()
				early := map[fleet.Fault]bool{fleet.Dies: true, fleet.BadEvents: true, fleet.EndsEarly: true, fleet.Drips: true}[fault.Is]
				if count["refused"] > 0 || !early && count["whole"] != 240 || count["whole"] < 180 {
					t.Errorf("of 240 answers: %v", count)
				}
				if n := w.inFlight(); n != 0 {
					t.Errorf("%d are in flight", n)
				}
			})
		})
	}
}

// TestContradictingEvents follows an engine whose events say the contrary of what it holds, beside one that tells the
// truth: answers come all the same.
func TestContradictingEvents(t *testing.T) {
	config := "health: {interval: 20ms}\nmodels:\n- name: m\n  policy: prefix\n  endpoints:\n"
	for i, fault := range []fleet.Fault{fleet.Contradicts, fleet.NoFault} {
		at, again := "tcp://127.0.0.1:"+freeport.Port(t), "tcp://127.0.0.1:"+freeport.Port(t)
		p, err := kvevents.Open(kvevents.Config{Endpoint: "@" + at, Replay: "@" + again, Encoding: kvevents.Encoding{BlockTokens: 8}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		s := httptest.NewServer(fleet.New(fleet.Model{Blocks: 50, BlockTokens: 8, Fault: fault, Share: 1}, p.Publish, uint64(i)))
		defer s.Close()
		config += fmt.Sprintf("  - {url: %q, events: %q, events_replay: %q}\n", s.URL, at, again)
	}
	c, err := Parse("fleet.yaml", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(c, Options{Logger: slog.New(slog.DiscardHandler), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	held := func() (most int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, e := range g.ends {
			most = max(most, g.fleet.Held(e.id))
		}
		return most
	}
	for i := range 300 {
		w := httptest.NewRecorder()
		body := fmt.Sprintf(`{"model":"m","max_tokens":2,"messages":[{"role":"user","content":%q}]}`, strings.Repeat(fmt.Sprint("What is ", i%7, "? "), 20+i%5))
		g.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body)))
		if w.Code != 200 || strings.Count(w.Body.String(), " word") != 2 {
			t.Fatalf("request %d: status %d, %s", i, w.Code, w.Body)
		}
	}
	deadline := time.Now().Add(time.Minute)
	for ; held() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no engine told of its blocks")
		}
	}
}

// TestDeadConnections has an endpoint that answers one request on a connection and closes it as the next one comes. The
// gateway asks again on a new connection, and takes that for no attempt.
func TestDeadConnections(t *testing.T) {
	mortal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"choices\":[]}")
		c.Read(make([]byte, 1))
	}))
	defer mortal.Close()
	c, err := Parse("fleet.yaml", []byte("models: [{name: m, endpoints: ["+mortal.URL+"]}]\nretries: 0\nhealth: {path: \"\", metrics: \"\"}"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(c, Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for range 3 {
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(plain)))
		if w.Code != 200 {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	}
}

// TestEndpointThatLeaves turns requests away as it ends more often than requests are tried again, at first and in the
// middle of a stream. That tries nothing.
func TestEndpointThatLeaves(t *testing.T) {
	a, times := &engine{name: "a"}, 0
	a.hook = posts(func(w http.ResponseWriter, _ *http.Request) {
		switch times++; times {
		case 3, 6:
			a.begin(w)
			a.word(w)
			a.end(w)
		case 4:
			a.begin(w)
			a.word(w)
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, `{"error":{"code":"shutting_down"}}`)
		}
	})
	inWorld(t, "models: [{name: m, resume: true, endpoints: [http://a]}]\nretries: 1", map[string]http.Handler{"a": a}, func(w *world) {
		w.want(w.chat(streamed), 200, "[DONE]")
		w.want(w.chat(streamed), 200, "[DONE]")
	})
}
