package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// lies are ways in which an endpoint can fail before its answer has begun.
var lies = map[string]func(w http.ResponseWriter, r *http.Request){
	"500": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oh no", http.StatusInternalServerError) },
	"503": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusServiceUnavailable) },
	"429": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusTooManyRequests) },
	"redirect": func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere/", http.StatusFound)
	},
	"hangs up":    func(w http.ResponseWriter, _ *http.Request) { hijack(w, "") },
	"no HTTP":     func(w http.ResponseWriter, _ *http.Request) { hijack(w, "SSH-2.0-OpenSSH\r\n\r\n") },
	"half header": func(w http.ResponseWriter, _ *http.Request) { hijack(w, "HTTP/1.1 200 OK\r\nContent-") },
	"says nothing": func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	},
	"header only": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	},
	"empty stream": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/event-stream") },
	"page in a stream": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "<html><body>Bad gateway</body></html>")
	},
	"bad event": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"choices\": [}\n\n")
	},
	"half event": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"choices\":")
	},
	"garbage": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"choices": [{"mess`)
	},
	"too short": func(w http.ResponseWriter, _ *http.Request) {
		hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"choices\":[]}")
	},
	"broken chunks": func(w http.ResponseWriter, _ *http.Request) {
		hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
	},
}

// TestLiesBeforeTheAnswer lets one of two endpoints lie: no client notices, whatever it asked for.
func TestLiesBeforeTheAnswer(t *testing.T) {
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			liar := &engine{name: "liar", hook: posts(lie)}
			inWorld(t, two, map[string]http.Handler{"a": liar, "b": &engine{name: "honest"}}, func(w *world) {
				for range 10 {
					w.want(w.chat(plain), 200, "honest")
					w.want(w.chat(streamed), 200, "data: [DONE]")
				}
				if n := len(liar.got()); n == 0 {
					t.Error("the liar was never asked")
				} else if name != "429" && n > 6 {
					t.Errorf("the liar was asked %d times, although it never told the truth", n)
				}
			})
		})
	}
}

// TestLiesOfAll says to the client what the endpoints said, if they did, and else that they failed.
func TestLiesOfAll(t *testing.T) {
	for name, want := range map[string]struct {
		status int
		text   string
	}{
		"500": {500, "oh no"}, "429": {429, "busy"}, "hangs up": {502, "the endpoint failed"}, "garbage": {502, "no JSON"},
		"says nothing": {504, "took too long"}, "page in a stream": {502, "is no event"}, "too short": {502, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			engines := map[string]http.Handler{"a": &engine{hook: posts(lies[name])}, "b": &engine{hook: posts(lies[name])}}
			inWorld(t, two, engines, func(w *world) { w.want(w.chat(plain), want.status, want.text) })
		})
	}
}

// TestLiesInMidStream breaks streams off in several ways after their first word. The client gets that word, an event
// that says what happened, and no [DONE].
func TestLiesInMidStream(t *testing.T) {
	for name, end := range map[string]func(w http.ResponseWriter, r *http.Request){
		"hangs up":   func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
		"ends early": func(http.ResponseWriter, *http.Request) {},
		"garbage":    func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "segmentation fault\n\n") },
		"no object":  func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "data: 7\n\n") },
		"half event": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "data: {\"choi") },
		"stops":      func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"drips": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				fmt.Fprint(w, ": still here\n\n")
				http.NewResponseController(w).Flush()
				time.Sleep(10 * time.Second)
			}
		},
		"endless event": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "data: {")
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &engine{name: "word"}
			a.hook = posts(func(w http.ResponseWriter, r *http.Request) {
				a.begin(w)
				a.word(w)
				end(w, r)
			})
			inWorld(t, "models: [{name: m, endpoints: [http://a]}]", map[string]http.Handler{"a": a}, func(w *world) {
				r := w.chat(streamed)
				w.want(r, 200, `"content":"word"`)
				events := strings.Split(strings.TrimSpace(r.body), "\n\n")
				last := events[len(events)-1]
				if !strings.HasPrefix(last, `data: {"error":{"message":"the endpoint `) || strings.Contains(r.body, "DONE") {
					t.Errorf("the client got %q", r.body)
				}
				if len(a.got()) != 1 {
					t.Errorf("the request was sent %d times", len(a.got()))
				}
			})
		})
	}
}

// TestLongAnswers copies an answer that is too long to be kept, and tears the client's connection if it breaks off.
func TestLongAnswers(t *testing.T) {
	long := `{"data":"` + strings.Repeat("x", 3*keptWhole) + `"}`
	a := &engine{}
	var torn atomic.Bool
	a.hook = posts(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, long[:2*keptWhole])
		if torn.Load() {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, long[2*keptWhole:])
	})
	inWorld(t, "models: [{name: m, endpoints: [http://a]}]", map[string]http.Handler{"a": a}, func(w *world) {
		if r := w.chat(plain); r.err != nil || r.body != long {
			t.Errorf("%d bytes, %v", len(r.body), r.err)
		}
		torn.Store(true)
		if r := w.chat(plain); r.err == nil || r.status != 200 {
			t.Errorf("status %d, %d bytes, %v; want an error", r.status, len(r.body), r.err)
		}
	})
}

// TestEngineDiesUnderLoad kills one of two engines while clients stream. Whoever had no word yet gets a whole answer
// from the other; the others are told.
func TestEngineDiesUnderLoad(t *testing.T) {
	slow := func(name string) *engine {
		e := &engine{name: name}
		e.hook = posts(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(50 * time.Millisecond)
			e.begin(w)
			for range 10 {
				if r.Context().Err() != nil {
					return
				}
				e.word(w)
				time.Sleep(10 * time.Millisecond)
			}
			e.end(w)
		})
		return e
	}
	inWorld(t, two, map[string]http.Handler{"a": slow("a"), "b": slow("b")}, func(w *world) {
		var all sync.WaitGroup
		var mu sync.Mutex
		whole, told := 0, 0
		for i := range 40 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 3 * time.Millisecond)
				for range 5 {
					r := w.chat(streamed)
					mu.Lock()
					switch words := strings.Count(r.body, "content"); {
					case r.status == 200 && r.err == nil && words == 10 && strings.HasSuffix(r.body, "data: [DONE]\n\n"):
						whole++
					case r.status == 200 && r.err == nil && words > 0 && strings.Contains(r.body, `data: {"error"`):
						told++
					default:
						t.Errorf("status %d, error %v, body %q", r.status, r.err, r.body)
					}
					mu.Unlock()
				}
			})
		}
		time.Sleep(300 * time.Millisecond)
		w.kill("a")
		time.Sleep(300 * time.Millisecond)
		w.start("a", slow("a"))
		all.Wait()
		if told == 0 || whole < 200-40 {
			t.Errorf("%d whole answers and %d that broke off; want 200 together, and few of the latter", whole, told)
		}
		t.Logf("%d whole answers, %d that broke off", whole, told)
	})
}

// TestRestartIsWaitedFor restarts the only engine, in 3 seconds, while requests come.
func TestRestartIsWaitedFor(t *testing.T) {
	a := &engine{name: "a"}
	inWorld(t, "models: [{name: m, endpoints: [http://a]}]", map[string]http.Handler{"a": a}, func(w *world) {
		w.kill("a")
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { w.want(w.chat(streamed), 200, "[DONE]") })
		}
		time.Sleep(3 * time.Second)
		w.start("a", a)
		all.Wait()
	})
}

// TestEngineThatDiesOftenIsBackSoon kills the only engine while it answers, again and again: it is back as soon as its
// health page is, and is not ejected.
func TestEngineThatDiesOftenIsBackSoon(t *testing.T) {
	a := &engine{name: "a"}
	a.hook = posts(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Second)
		if r.Context().Err() == nil {
			a.begin(w)
			a.word(w)
			a.end(w)
		}
	})
	inWorld(t, "models: [{name: m, endpoints: [http://a]}]", map[string]http.Handler{"a": a}, func(w *world) {
		for range 5 {
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { w.want(w.chat(streamed), 200, "[DONE]") })
			}
			time.Sleep(500 * time.Millisecond)
			w.kill("a")
			time.Sleep(2 * time.Second)
			w.start("a", a)
			all.Wait()
		}
	})
}

// TestHealthPage keeps requests from an engine that says it is not well, such as one that drains.
func TestHealthPage(t *testing.T) {
	var ill atomic.Bool
	a, b := &engine{name: "a"}, &engine{name: "b"}
	a.hook = func(w http.ResponseWriter, r *http.Request) bool {
		if ill.Load() && r.URL.Path == "/health" {
			http.Error(w, "draining", http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	inWorld(t, two, map[string]http.Handler{"a": a, "b": b}, func(w *world) {
		count := func(want bool) {
			t.Helper()
			before := len(a.got())
			for range 20 {
				w.want(w.chat(plain), 200, "")
			}
			if got := len(a.got()) > before; got != want {
				t.Errorf("ill is %v: a is asked %v", ill.Load(), got)
			}
		}
		count(true)
		ill.Store(true)
		time.Sleep(5 * time.Second)
		count(false)
		ill.Store(false)
		time.Sleep(5 * time.Second)
		count(true)
	})
}
