package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnswersAreKept asks again: the same, in other words, as somebody else, past the cache, and too late.
func TestAnswersAreKept(t *testing.T) {
	ann, annHash := NewKey()
	bob, bobHash := NewKey()
	a := &engine{name: "a"}
	a.hook = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1/completions" {
			return false
		}
		w.WriteHeader(http.StatusUnprocessableEntity)
		return true
	}
	config := fmt.Sprintf(`
health: {path: "", metrics: ""}
models: [{name: m, aliases: [n], endpoints: [http://a], cache: 10m}, {name: never, endpoints: [http://a]}]
keys: [{name: ann, hash: %q, limits: [{what: requests, per: ever, most: 9}]}, {name: bob, hash: %q}]
`, annHash, bobHash)
	inWorld(t, config, map[string]http.Handler{"a": a}, func(w *world) {
		asked := 0
		ask := func(path, key, body, want string, more ...string) reply {
			t.Helper()
			r := w.ask(w.t.Context(), "POST", path, body, append([]string{"X-Api-Key", key}, more...)...)
			if r.header.Get("X-Kvasir-Cache") != want {
				t.Errorf("%s: the cache says %q; want %q", body, r.header.Get("X-Kvasir-Cache"), want)
			}
			if want != "hit" {
				asked++
			}
			if len(a.got()) != asked {
				t.Errorf("%s: the engine was asked %d times; want %d", body, len(a.got()), asked)
			}
			return r
		}
		const chat = "/v1/chat/completions"
		first := ask(chat, ann, plain, "miss")
		time.Sleep(7 * time.Second)
		again := ask(chat, ann, ` {"messages":[{"content":"hi","role":"user"}], "model":"m"}`, "hit")
		if again.body != first.body || again.status != 200 || again.header.Get("Age") != "7" || again.header.Get("Content-Type") != "application/json" {
			t.Errorf("%+v; want %+v", again, first)
		}
		stream := ask(chat, ann, streamed, "miss")
		if again := ask(chat, ann, streamed, "hit"); again.body != stream.body || again.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%+v; want %+v", again, stream)
		}
		ask(chat, bob, plain, "miss")
		ask(chat, ann, strings.Replace(plain, "hi", "ho", 1), "miss")
		ask(chat, ann, plain, "", "Cache-Control", "no-store")
		ask(chat, ann, plain, "miss", "Cache-Control", "no-cache")
		ask(chat, ann, plain, "hit")
		ask("/v1/completions", ann, plain, "miss") // which fails
		ask("/v1/completions", ann, plain, "miss")
		ask("/tokenize", ann, plain, "")
		ask(chat, bob, strings.Replace(plain, `"m"`, `"never"`, 1), "")
		ask(chat, bob, strings.Replace(plain, `"m"`, `"never"`, 1), "")
		time.Sleep(10 * time.Minute)
		ask(chat, ann, plain, "miss")
		for range 20 {
			ask(chat, ann, plain, "hit") // which no limit counts
		}
		w.want(w.ask(w.t.Context(), "GET", "/metrics", ""), 200, `kvasir_gateway_cache_total{model="m",result="hit"} 23`)
	})
}

// TestOneAsksForAll sends the same at once, while the engine takes its time, and once more where it fails.
func TestOneAsksForAll(t *testing.T) {
	a := &engine{name: "a"}
	fails := false
	a.hook = posts(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Second)
		a.begin(w)
		a.word(w)
		if fails {
			panic(http.ErrAbortHandler)
		}
		a.end(w)
	})
	inWorld(t, "models: [{name: m, endpoints: [http://a], cache: 1m}]\nhealth: {eject_after: 1000}", map[string]http.Handler{"a": a}, func(w *world) {
		all := func(want map[string]int) {
			t.Helper()
			var group sync.WaitGroup
			var mu sync.Mutex
			got := map[string]int{}
			for range 5 {
				group.Go(func() {
					r := w.chat(streamed)
					mu.Lock()
					defer mu.Unlock()
					got[r.header.Get("X-Kvasir-Cache")]++
					if strings.Contains(r.body, "[DONE]") == fails {
						t.Errorf("%+v", r)
					}
				})
			}
			group.Wait()
			for how, n := range want {
				if got[how] != n {
					t.Errorf("%v; want %v", got, want)
				}
			}
		}
		all(map[string]int{"miss": 1, "shared": 4})
		if n := len(a.got()); n != 1 {
			t.Errorf("the engine was asked %d times", n)
		}
		time.Sleep(2 * time.Minute)
		fails = true
		all(map[string]int{"miss": 5}) // each gets the error of its own stream
		synctest.Wait()
		if len(w.g.asked) != 0 {
			t.Errorf("%d requests are said to be under way", len(w.g.asked))
		}
	})
}
