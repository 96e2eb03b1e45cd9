package gateway

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
	"page": func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "<html><body>Please log in</body></html>")
	},
	"nothing": func(http.ResponseWriter, *http.Request) {},
	"trailing garbage": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"choices": []} and so on`)
	},
	"invalid UTF-8": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{\"choices\": [{\"text\": \"\xff\"}]}")
	},
	"event in invalid UTF-8": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"choices\": [{\"text\": \"\xff\"}]}\n\ndata: [DONE]\n\n")
	},
	"gzip": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, `{"choices": []}`)
		z.Close()
	},
	"gzip in a stream": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, "data: [DONE]\n\n")
		z.Close()
	},
	"gzip without a word": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		z := gzip.NewWriter(w)
		io.WriteString(z, `{"choices": []}`)
		z.Close()
	},
	"only comments": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, ": any moment now\n\n")
	},
	"endless comments": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		drip(w, r, ": any moment now\n\n")
	},
	"drips": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		drip(w, r, " ")
	},
	"drips its header": func(w http.ResponseWriter, r *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		for n := 0; err == nil; n++ {
			time.Sleep(10 * time.Second)
			_, err = fmt.Fprintf(c, "%c", "HTTP/1.1 200 OK\r\nX: xxxxxxxxxx"[min(n, 20)])
		}
		c.Close()
	},
	"endless header": func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		io.WriteString(c, "HTTP/1.1 200 OK\r\n")
		for err == nil {
			_, err = io.WriteString(c, "X: "+strings.Repeat("x", 1000)+"\r\n")
		}
		c.Close()
	},
	"endless 103s": func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		for err == nil {
			_, err = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n")
		}
		c.Close()
	},
	"two lengths": func(w http.ResponseWriter, _ *http.Request) {
		hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 14\r\nContent-Length: 9\r\n\r\n{\"choices\":[]}")
	},
	"a length that is none": func(w http.ResponseWriter, _ *http.Request) {
		hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: many\r\n\r\n{\"choices\":[]}")
	},
	"longer than it says": func(w http.ResponseWriter, _ *http.Request) {
		hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{\"choices\":[]}")
	},
	"HTTP/1.0, cut off": func(w http.ResponseWriter, _ *http.Request) {
		hijack(w, "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"choices\":[")
	},
	"broken chunks": func(w http.ResponseWriter, _ *http.Request) {
		hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
	},
}

// drip writes a piece every ten seconds, until the gateway has gone.
func drip(w http.ResponseWriter, r *http.Request, piece string) {
	for r.Context().Err() == nil {
		io.WriteString(w, piece)
		http.NewResponseController(w).Flush()
		time.Sleep(10 * time.Second)
	}
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
				// Three attempts until it is asked how it is, and three until it is ejected. net/http may send one
				// again, where the connection of a probe is closed as it is used again.
				if n := len(liar.got()); n == 0 {
					t.Error("the liar was never asked")
				} else if name != "429" && n > 8 {
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
		"gzip": {502, "which nobody asked for"}, "trailing garbage": {502, "no JSON"}, "invalid UTF-8": {502, "no JSON"},
		"drips": {504, "took too long"}, "drips its header": {504, "took too long"}, "endless header": {502, "headers exceeded"},
		"endless 103s": {502, "headers exceeded"}, "two lengths": {502, "Content-Length"}, "HTTP/1.0, cut off": {502, "no JSON"},
		"page": {502, "Please log in"}, "nothing": {502, "no JSON"},
		"says nothing": {504, "took too long"}, "page in a stream": {502, "which nobody asked for"}, "too short": {502, "unexpected EOF"},
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
		"bad event":  func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "data: {\"choices\": [}\n\n") },
		"trailing garbage": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "data: {\"choices\": []} {}\n\ndata: [DONE]\n\n")
		},
		"invalid UTF-8": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "data: {\"choices\": [{\"text\": \"\xff\"}]}\n\ndata: [DONE]\n\n")
		},
		"two events in one": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "data: {\"choices\":\ndata: []}\n\ndata: [DONE]\n\n")
		},
		"stops": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"drips": func(w http.ResponseWriter, r *http.Request) { drip(w, r, ": still here\n\n") },
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

// TestBehindDone sends more behind the end of a stream, or does not hang up. The client gets the answer alone, soon.
func TestBehindDone(t *testing.T) {
	for name, more := range map[string]func(w http.ResponseWriter, r *http.Request){
		"an event": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"more\"}}]}\n\n")
		},
		"another end":   func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "data: [DONE]\n\n") },
		"garbage":       func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "\x00more") },
		"much of it":    func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 1<<20)) },
		"a hang-up":     func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"nothing":       func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"a slow stream": func(w http.ResponseWriter, r *http.Request) { drip(w, r, ": more\n\n") },
	} {
		t.Run(name, func(t *testing.T) {
			for _, apart := range []bool{false, true} {
				a := &engine{name: "word"}
				a.hook = posts(func(w http.ResponseWriter, r *http.Request) {
					a.begin(w)
					a.word(w)
					a.end(w)
					if apart || name == "a hang-up" || name == "nothing" {
						http.NewResponseController(w).Flush()
						time.Sleep(time.Millisecond)
					}
					more(w, r)
				})
				inWorld(t, "models: [{name: m, endpoints: [http://a]}]", map[string]http.Handler{"a": a}, func(w *world) {
					for range 3 {
						began := time.Now()
						r := w.chat(streamed)
						if took := time.Since(began); took > 2*time.Second {
							t.Errorf("that took %v", took)
						}
						if w.want(r, 200, `"content":"word"`); !strings.HasSuffix(r.body, "data: [DONE]\n\n") || strings.Count(r.body, "[DONE]") != 1 {
							t.Errorf("the client got %q", r.body)
						}
					}
				})
			}
		})
	}
}

// TestAnswersOfHTTP10 end with the connection.
func TestAnswersOfHTTP10(t *testing.T) {
	a := &engine{}
	a.hook = posts(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(posted(r).body, `"stream":true`) {
			hijack(w, "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"choices\":[]}\n\ndata: [DONE]\n\n")
			return
		}
		hijack(w, "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"choices\":[]}")
	})
	inWorld(t, "models: [{name: m, endpoints: [http://a]}]", map[string]http.Handler{"a": a}, func(w *world) {
		for range 3 {
			w.want(w.chat(streamed), 200, "data: [DONE]")
			w.want(w.chat(plain), 200, `{"choices":[]}`)
		}
	})
}

// TestNamesThatAreWrong passes on answers as they came whose ids are those of others, and whose model is another.
func TestNamesThatAreWrong(t *testing.T) {
	const answer = `{"id":"1","model":"another","choices":[{"delta":{"content":"%s"},"message":{"content":"%s"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`
	a := &engine{}
	a.hook = posts(func(w http.ResponseWriter, r *http.Request) {
		q := posted(r).body
		text := "second"
		if strings.Contains(q, "one") {
			text = "first"
			time.Sleep(time.Second)
		}
		if !strings.Contains(q, `"stream":true`) {
			fmt.Fprintf(w, answer, text, text)
			return
		}
		a.begin(w)
		for range 2 {
			fmt.Fprintf(w, "id: 1\ndata: "+answer+"\n\n", text, text)
			http.NewResponseController(w).Flush()
			time.Sleep(time.Second)
		}
		a.end(w)
	})
	inWorld(t, "models: [{name: m, endpoints: [http://a]}]", map[string]http.Handler{"a": a}, func(w *world) {
		var all sync.WaitGroup
		for _, stream := range []string{"true", "false"} {
			for question, text := range map[string]string{"one": "first", "two": "second"} {
				all.Go(func() {
					r := w.chat(`{"model":"m","stream":` + stream + `,"messages":[{"role":"user","content":"` + question + `"}]}`)
					if w.want(r, 200, text); strings.Contains(r.body, "first") == strings.Contains(r.body, "second") || !strings.Contains(r.body, `"model":"another"`) {
						t.Errorf("%s got %q", question, r.body)
					}
				})
			}
		}
		all.Wait()
		if page := w.ask(context.Background(), "GET", "/metrics", "").body; strings.Contains(page, "another") || !strings.Contains(page, `model="m"`) {
			t.Error("the metrics believe an endpoint's name of the model")
		}
	})
}

// TestUsageThatCannotBe charges nobody less than nothing for what an endpoint says to have used.
func TestUsageThatCannotBe(t *testing.T) {
	for _, n := range []string{"-5", "9223372036854775807", "1e300", `"many"`, "{}", "null", "1.5"} {
		var u tokenUsage
		u.read([]byte(`{"usage":{"prompt_tokens":` + n + `,"completion_tokens":` + n + `,"cache_read_input_tokens":` + n +
			`,"prompt_tokens_details":{"cached_tokens":` + n + `}}}`))
		if in, out, cached := u.in(), u.out(), u.cached(); in < 0 || out < 0 || cached < 0 || cached > in || in+outputWeight*out < 0 {
			t.Errorf("%s: %d tokens in, %d of them cached, and %d out", n, in, cached, out)
		}
	}
}

// TestAnswerBehindAnAnswer sends two answers to each request, over TCP. No client gets the second one of another.
func TestAnswerBehindAnAnswer(t *testing.T) {
	answer := func(text string) string {
		body := `{"choices":[{"message":{"content":"` + text + `"}}]}`
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		in := bufio.NewReader(c)
		for { // the connection's other requests are answered alike
			if _, err := io.WriteString(c, answer("honest")+answer("somebody else's")); err != nil {
				return
			}
			if r, err = http.ReadRequest(in); err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
		}
	}))
	defer liar.Close()
	c, err := Parse("fleet.yaml", []byte("models: [{name: m, endpoints: ["+liar.URL+"]}]\nhealth: {path: \"\"}"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(c, Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for range 100 {
				if t.Failed() {
					return
				}
				w := httptest.NewRecorder()
				g.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(plain)))
				if strings.Contains(w.Body.String(), "else") {
					t.Errorf("a client got %q", w.Body)
				}
			}
		})
	}
	all.Wait()
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
