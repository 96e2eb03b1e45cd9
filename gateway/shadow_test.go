package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestShadow copies requests to a model that answers slowly, badly or not at all. Clients notice nothing.
func TestShadow(t *testing.T) {
	a, b := &engine{name: "a"}, &engine{name: "b"}
	var fails atomic.Bool
	b.hook = posts(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(10 * time.Second):
		case <-r.Context().Done():
			return
		}
		if fails.Load() {
			http.Error(w, "oh no", 500)
			return
		}
		b.begin(w)
		b.word(w)
		b.end(w)
	})
	key, hash := NewKey()
	config := fmt.Sprintf(`
models:
- {name: m, endpoints: [http://a], shadow: {model: n, max_in_flight: 2}}
- {name: n, upstream: other, endpoints: [http://b], price: {input: 100000, output: 100000}}
keys: [{name: k, hash: %q, admin: true, limits: [{what: requests, per: ever, most: 100}]}]
`, hash)
	inWorld(t, config, map[string]http.Handler{"a": a, "b": b}, func(w *world) {
		began := time.Now()
		for range 3 {
			r := w.chat(streamed, "X-Api-Key", key, "X-Session-Id", "s")
			if w.want(r, 200, `"a"`); strings.Contains(r.body, `"b"`) {
				t.Errorf("the client got %s", r.body)
			}
			synctest.Wait()
		}
		if d := time.Since(began); d > 0 {
			t.Errorf("the clients waited %v", d)
		}
		time.Sleep(11500 * time.Millisecond)
		fails.Store(true)
		w.want(w.chat(plain, "X-Api-Key", key), 200, `"a"`)
		time.Sleep(11500 * time.Millisecond)
		w.kill("b")
		w.want(w.chat(plain, "X-Api-Key", key), 200, `"a"`)
		synctest.Wait()
		w.want(w.chat(plain, "X-Api-Key", key), 200, `"a"`) // when b is known to be down
		synctest.Wait()
		page := w.ask(w.t.Context(), "GET", "/metrics", "").body
		for _, want := range []string{
			`kvasir_gateway_requests_total{code="200",model="m"} 6`, `kvasir_gateway_shadow_requests_total{model="n",result="200"} 2`,
			`kvasir_gateway_shadow_requests_total{model="n",result="dropped"} 2`,
			`kvasir_gateway_shadow_requests_total{model="n",result="500"} 1`,
			`kvasir_gateway_shadow_requests_total{model="n",result="unreachable"} 1`,
			`kvasir_gateway_shadow_tokens_total{direction="output",model="n"} 4`, `kvasir_gateway_shadow_cost_total{model="n"} 2.4`,
			`kvasir_gateway_shadow_request_seconds_count{model="n"} 2`,
		} {
			if !strings.Contains(page, want) {
				t.Errorf("no %s", want)
			}
		}
		if strings.Contains(page, `requests_total{code="200",model="n"}`) || t.Failed() {
			t.Errorf("%s", page)
		}
		for _, s := range b.got() {
			if s.fields(t, "model") != `model="other"` || s.header.Get("X-Api-Key")+s.header.Get("Authorization") != "" {
				t.Errorf("the copy has %v and %s", s.header, s.body)
			}
		}
		w.want(w.ask(w.t.Context(), "GET", "/gateway/usage?format=csv", "", "X-Api-Key", key), 200, "(shadow),,n,4,")
	})
}

// TestShadowEndsWithTheGateway closes a gateway while a copy is under way.
func TestShadowEndsWithTheGateway(t *testing.T) {
	a, b := &engine{name: "a"}, &engine{name: "b"}
	b.hook = posts(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	config := "models: [{name: m, endpoints: [http://a], shadow: {model: n}}, {name: n, endpoints: [http://b]}]"
	inWorld(t, config, map[string]http.Handler{"a": a, "b": b}, func(w *world) {
		w.want(w.chat(plain), 200, `"a"`)
		synctest.Wait()
	})
}

// TestLengths sends prompts of all lengths to a model that is divided by them, also a prompt that its endpoint finds
// longer than the gateway did.
func TestLengths(t *testing.T) {
	engines, handlers := map[string]*engine{}, map[string]http.Handler{}
	for _, name := range []string{"a", "b", "c"} {
		engines[name] = &engine{name: name}
		handlers[name] = engines[name]
	}
	said := `{"error":{"message":"This model's maximum context length is 100 tokens.","code":"context_length_exceeded"}}`
	engines["a"].hook = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != "POST" {
			return false
		}
		body := posted(r).body
		if !strings.Contains(body, "dense") && !strings.Contains(body, "wrong") {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(400)
		if strings.Contains(body, "wrong") {
			fmt.Fprint(w, `{"error":{"message":"temperature is wrong"}}`)
		} else {
			fmt.Fprint(w, said)
		}
		return true
	}
	config := `
models:
- name: m
  lengths: [{up_to: 100, model: short}, {up_to: 1000, model: long}, {model: longest}]
- {name: short, endpoints: [http://a]}
- {name: long, endpoints: [http://b]}
- {name: longest, endpoints: [http://c]}
`
	inWorld(t, config, handlers, func(w *world) {
		ask := func(n int, status int, want string) {
			t.Helper()
			w.want(w.chat(strings.Replace(plain, "hi", strings.Repeat("x", n), 1)), status, want)
		}
		ask(4, 200, `"a"`)
		ask(360, 200, `"a"`)
		ask(400, 200, `"b"`)
		ask(3900, 200, `"b"`)
		ask(4000, 200, `"c"`)
		tokens := strings.TrimSuffix(strings.Repeat("5,", 101), ",")
		w.want(w.ask(w.t.Context(), "POST", "/v1/completions", `{"model":"m","prompt":[`+tokens+`]}`), 200, `"b"`)
		w.want(w.ask(w.t.Context(), "POST", "/v1/completions", `{"model":"m","prompt":[`+tokens[2:]+`]}`), 200, `"a"`)
		w.want(w.chat(strings.Replace(plain, "hi", "dense", 1)), 200, `"b"`)
		w.want(w.chat(strings.Replace(plain, "hi", "wrong", 1)), 400, "temperature is wrong")
		w.want(w.chat(strings.NewReplacer("hi", "dense", `"m"`, `"short"`).Replace(plain)), 400, said)
		page := w.ask(w.t.Context(), "GET", "/metrics", "").body
		if strings.Contains(page, "endpoint_failures_total{") {
			t.Errorf("a prompt that is too long counts as an endpoint's failure")
		}
	})
}
