package fleet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvasir-llm/kvasir/kv"
)

// ask sends a chat and returns the answer. An engine that breaks off has status 0.
func ask(e *Engine, body string) (w *httptest.ResponseRecorder) {
	w = httptest.NewRecorder()
	defer func() {
		if v := recover(); v != nil {
			if v != http.ErrAbortHandler {
				panic(v)
			}
			w.Code = 0
		}
	}()
	e.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body)))
	return w
}

func chat(text string, words int, more string) string {
	return fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"max_tokens":%d%s}`, text, words, more)
}

const streamed = `,"stream":true`

// TestTimes checks the words and the times of engines.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := func(e *Engine, body string) time.Duration {
			begin := time.Now()
			w := ask(e, body)
			words := strings.Count(w.Body.String(), " word")
			if w.Code != 200 || words != 5 || !strings.Contains(w.Body.String(), `"completion_tokens":5`) {
				t.Errorf("status %d, %s", w.Code, w.Body)
			}
			return time.Since(begin)
		}
		slow := New(Model{TTFT: time.Second, TPOT: time.Millisecond}, nil, 1)
		for _, more := range []string{"", streamed} {
			if got := took(slow, chat("hi", 5, more)); got != 1004*time.Millisecond {
				t.Errorf("it took %v", got)
			}
			if got := took(New(Model{}, nil, 1), chat("hi", 5, more)); got != 0 {
				t.Errorf("the zero engine took %v", got)
			}
		}
		long := strings.Repeat("What is a KV block? ", 200) // of 4037 bytes with the rest
		prefill := New(Model{Prefill: 1000, Blocks: 1000, BlockTokens: 10}, nil, 1)
		first := took(prefill, chat(long, 5, streamed))
		if first < time.Second || first > 1100*time.Millisecond {
			t.Errorf("a prompt of 1000 tokens took %v", first)
		}
		if again := took(prefill, chat(long, 5, streamed)); again > first/50 {
			t.Errorf("it took %v when it was cached, %v before", again, first)
		}
		if elsewhere := took(prefill, chat("x"+long, 5, streamed+`,"kv_transfer_params":{"do_remote_prefill":true}`)); elsewhere > first/50 {
			t.Errorf("it took %v when it was computed elsewhere", elsewhere)
		}
		var all sync.WaitGroup
		begin := time.Now()
		for i := range 3 { // one prompt after another
			all.Go(func() { took(prefill, chat(fmt.Sprint(i)+long, 5, streamed)) })
		}
		if all.Wait(); time.Since(begin) < 3*first*9/10 {
			t.Errorf("three prompts took %v", time.Since(begin))
		}
		narrow := New(Model{Slots: 1, TTFT: time.Second}, nil, 1)
		begin = time.Now()
		for range 3 {
			all.Go(func() { took(narrow, chat("hi", 5, "")) })
		}
		synctest.Wait()
		w := httptest.NewRecorder()
		narrow.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for _, want := range []string{`vllm:num_requests_waiting{model_name="null"} 2`, `vllm:num_requests_running{model_name="null"} 1`} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("no %s in %s", want, w.Body)
			}
		}
		if all.Wait(); time.Since(begin) != 3*time.Second {
			t.Errorf("three requests took %v in one slot", time.Since(begin))
		}
	})
}

// TestRefuses answers what is no request with status 400.
func TestRefuses(t *testing.T) {
	for _, body := range []string{`{"max_tokens":0}`, `{"max_tokens":-1}`, `{"stream":true,"max_tokens":5`, `[]`, `{"max_tokens":9999999}`} {
		if w := ask(New(Model{}, nil, 1), body); w.Code != 400 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	prefill := New(Model{Role: "prefill"}, nil, 1)
	if w := ask(prefill, chat("hi", 2, "")); w.Code != 400 {
		t.Errorf("a prefill engine generated: %d %s", w.Code, w.Body)
	}
	if w := ask(prefill, chat("hi", 1, `,"kv_transfer_params":{"do_remote_decode":true}`)); !strings.Contains(w.Body.String(), `"kv_transfer_params":{"do_remote_prefill":true`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(New(Model{}, nil, 1), `{"messages":[],"max_completion_tokens":3}`); strings.Count(w.Body.String(), " word") != 3 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, m := range []Model{{TTFT: -1}, {Blocks: 1}, {Role: "x"}, {Share: 2}, {Slots: -1}} {
		if m.Check() == nil {
			t.Errorf("%+v is allowed", m)
		}
	}
}

// TestCacheTellsTheTruth compares what a cache told with what it holds, while it is too small for all prompts. A liar's
// is another.
func TestCacheTellsTheTruth(t *testing.T) {
	for _, fault := range []Fault{NoFault, Contradicts} {
		known := map[kv.Hash]bool{}
		e := New(Model{Blocks: 40, BlockTokens: 4, Fault: fault, Share: 1}, func(told []kv.Event) {
			for _, x := range told {
				switch x.Kind {
				case kv.Stored:
					if len(x.Tokens) != 4 || fault == NoFault && x.Parent != (kv.Hash{}) && !known[x.Parent] {
						t.Errorf("a block of %d tokens behind %v", len(x.Tokens), x.Parent)
					}
					known[x.Name] = true
				case kv.Removed:
					delete(known, x.Name)
				case kv.Cleared:
					clear(known)
				}
			}
		}, 1)
		for i := range 200 {
			w := ask(e, chat(strings.Repeat("a prompt ", i%90)+fmt.Sprint(i%3), 1, ""))
			var said struct {
				Usage struct {
					Prompt  int `json:"prompt_tokens"`
					Details struct {
						Cached int `json:"cached_tokens"`
					} `json:"prompt_tokens_details"`
				}
			}
			if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || said.Usage.Prompt < 1 || said.Usage.Details.Cached >= said.Usage.Prompt {
				t.Fatalf("%v: %s", err, w.Body)
			}
			same := len(known) == e.cache.order.Len()
			for name := range known {
				same = same && e.cache.held[name] != nil
			}
			if fault == NoFault && !same || e.cache.order.Len() > 40 {
				t.Fatalf("it told of %d blocks, and has %d", len(known), e.cache.order.Len())
			}
		}
		if e.cached == 0 || fault == Contradicts && len(known) == 40 {
			t.Errorf("%v: %d tokens were cached, %d blocks are known", fault, e.cached, len(known))
		}
	}
}

// TestFaults checks that each fault does what its help says, and only to its share of requests.
func TestFaults(t *testing.T) {
	body := chat("hi", 6, streamed)
	for fault, wrong := range map[Fault]func(w *httptest.ResponseRecorder) bool{
		failing: func(w *httptest.ResponseRecorder) bool { return w.Code == 503 },
		busy:    func(w *httptest.ResponseRecorder) bool { return w.Code == 429 },
		garbage: func(w *httptest.ResponseRecorder) bool { return strings.Contains(w.Body.String(), "<html>") },
		short: func(w *httptest.ResponseRecorder) bool {
			return w.Header().Get("Content-Length") == "1000" && w.Body.Len() < 1000
		},
		BadEvents: func(w *httptest.ResponseRecorder) bool {
			return strings.Contains(w.Body.String(), "segmentation fault")
		},
		EndsEarly: func(w *httptest.ResponseRecorder) bool {
			return strings.Count(w.Body.String(), " word") == 3 && !strings.Contains(w.Body.String(), "[DONE]")
		},
		Dies: func(w *httptest.ResponseRecorder) bool { return w.Code == 0 },
	} {
		e := New(Model{Fault: fault, Share: 0.5}, nil, 1)
		bad := 0
		for range 40 {
			w := ask(e, body)
			if wrong(w) {
				bad++
			} else if w.Code != 200 || strings.Count(w.Body.String(), " word") != 6 {
				t.Errorf("%v: %d %s", fault, w.Code, w.Body)
			}
		}
		if bad < 10 || bad > 30 {
			t.Errorf("%v: %d of 40 are bad; want half", fault, bad)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		dead := New(Model{Fault: Dies, Share: 1, Down: time.Second, Blocks: 10, BlockTokens: 1}, nil, 1)
		ask(dead, body)
		look := func() (up bool) {
			defer func() { recover() }()
			dead.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/health", nil))
			return true
		}
		if look() || dead.cache.order.Len() != 0 {
			t.Error("a dead engine is well")
		}
		if time.Sleep(time.Second); !look() {
			t.Error("it is dead for longer than it should be")
		}
		begin := time.Now()
		w := ask(New(Model{Fault: Drips, Share: 1, TPOT: time.Millisecond}, nil, 1), body)
		if took := time.Since(begin); strings.Count(w.Body.String(), " word") != 6 {
			t.Errorf("%v: %s", took, w.Body)
		}
	})
	if fmt.Sprint(Drips, Fault(99)) != "drips Fault(99)" {
		t.Error(Drips, Fault(99))
	}
}

// BenchmarkEngine streams chats of 32 words from the zero engine.
func BenchmarkEngine(b *testing.B) {
	e := New(Model{}, nil, 1)
	for b.Loop() {
		if w := ask(e, chat("hi", 32, streamed)); w.Code != 200 {
			b.Fatal(w.Body)
		}
	}
}
