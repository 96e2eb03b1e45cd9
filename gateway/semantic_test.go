package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// meaning is an engine whose vectors count the letters of a text, so that the order of words means nothing to it.
func meaning() *engine {
	e := &engine{name: "e"}
	e.hook = posts(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Input string }
		json.Unmarshal([]byte(posted(r).body), &asked)
		if strings.Contains(asked.Input, "slow") {
			time.Sleep(time.Second)
		}
		var vector [26]float32
		for _, c := range strings.ToLower(asked.Input) {
			if c >= 'a' && c <= 'z' {
				vector[c-'a']++
			}
		}
		said, _ := json.Marshal(vector)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"data":[{"index":0,"embedding":%s}],"usage":{"prompt_tokens":7,"total_tokens":7}}`, said)
	})
	return e
}

// TestSimilarQuestions asks in other words, and changes each of the things that must be equal.
func TestSimilarQuestions(t *testing.T) {
	a, e := &engine{name: "a"}, meaning()
	ann, annHash := NewKey()
	bob, bobHash := NewKey()
	config := fmt.Sprintf(`
health: {path: "", metrics: ""}
models:
- {name: m, aliases: [n], endpoints: [http://a], cache: 10m, semantic: {model: embed, threshold: 0.99}}
- {name: embed, endpoints: [http://e]}
keys: [{name: ann, hash: %q, users: true, admin: true}, {name: bob, hash: %q}]
`, annHash, bobHash)
	inWorld(t, config, map[string]http.Handler{"a": a, "e": e}, func(w *world) {
		const (
			chat  = "/v1/chat/completions"
			first = `{"model":"m","temperature":0,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"What is the capital of Peru?"}]}`
		)
		ask := func(path, key, body, want string, more ...string) reply {
			t.Helper()
			before := len(a.got())
			r := w.ask(w.t.Context(), "POST", path, body, append([]string{"X-Api-Key", key}, more...)...)
			if got := r.header.Get("X-Kvasir-Cache"); got != want || r.status != 200 || (len(a.got()) == before) != (want == "similar" || want == "hit") {
				t.Errorf("%s: status %d, the cache says %q; want %q", body, r.status, got, want)
			}
			return r
		}
		change := func(old, new string) string {
			t.Helper()
			if !strings.Contains(first, old) {
				t.Fatal(old)
			}
			return strings.Replace(first, old, new, 1)
		}
		answer := ask(chat, ann, first, "miss")
		other := change("What is the capital of Peru?", "Of Peru, what is the capital?")
		r := ask(chat, ann, other, "similar")
		if r.body != answer.body || r.header.Get("X-Kvasir-Similarity") != "1.000" || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("%+v; want %s", r, answer.body)
		}
		ask(chat, ann, change(`"What is the capital of Peru?"`, `[{"type":"text","text":"The capital of Peru is what?"}]`), "similar")
		ask(chat, ann, first, "hit")
		if n := len(e.got()); n != 3 {
			t.Errorf("%d texts were embedded; want 3", n)
		}
		ask(chat, ann, other, "miss", "X-Kvasir-Cache", "exact")
		if got := a.got(); got[len(got)-1].header.Get("X-Kvasir-Cache") != "" {
			t.Error("the endpoint sees a header for the gateway")
		}
		for _, body := range []string{
			change("capital of Peru", "largest lake of Bolivia"), change("brief", "polite"), change(`"temperature":0`, `"temperature":1`),
			change(`"temperature":0`, `"temperature":0,"tools":[]`), change(`"temperature":0`, `"user":"x"`),
			change("Peru?", "Peru 2?"), change(`"user","content"`, `"assistant","content"`),
			change(`"What is the capital of Peru?"`, `[{"type":"text","text":"What is the capital of Peru?"},{"type":"image_url","image_url":{"url":"x"}}]`),
			change(`{"role":"user"`, `{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user"`),
		} {
			ask(chat, ann, body, "miss")
		}
		ask(chat, bob, other, "miss")
		ask(chat, ann, other, "miss", tenantHeader, "eve")
		ask(chat, ann, change("What is the capital", "What the capital is"), "", "Cache-Control", "no-store")
		ask(chat, ann, change("What is the capital", "The capital is what"), "miss", "Cache-Control", "no-cache")

		stream := strings.Replace(first, `"temperature":0`, `"stream":true`, 1)
		whole := ask(chat, ann, stream, "miss")
		r = ask(chat, ann, strings.Replace(stream, "What is the", "The what is", 1), "similar")
		if r.body != whole.body || r.header.Get("Content-Type") != "text/event-stream" || !strings.Contains(r.body, "[DONE]") {
			t.Errorf("%+v; want %s", r, whole.body)
		}
		ask("/v1/completions", ann, `{"model":"m","prompt":"one two"}`, "miss")
		ask("/v1/completions", ann, `{"model":"m","prompt":"two one"}`, "similar")

		before := time.Now()
		ask(chat, ann, change("What", "slow"), "miss")
		if d := time.Since(before); d != 500*time.Millisecond {
			t.Errorf("a question that was not embedded took %v", d)
		}
		w.kill("e")
		ask(chat, ann, change("What", "Is it so that what"), "miss")
		time.Sleep(10 * time.Minute)
		w.start("e", e)
		time.Sleep(10 * time.Second)
		ask(chat, ann, other, "miss") // all answers are too old

		page := w.ask(w.t.Context(), "GET", "/metrics", "").body
		for _, want := range []string{`kvasir_gateway_cache_total{model="m",result="similar"} 4`, `tokens_total{direction="input",model="embed"}`} {
			if !strings.Contains(page, want) {
				t.Errorf("no %s in %s", want, page)
			}
		}
		w.want(w.ask(w.t.Context(), "GET", "/gateway/usage?format=csv", "", "X-Api-Key", ann), 200, "(cache),,embed,")
	})
}
