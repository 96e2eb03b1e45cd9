package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// apply puts another configuration in place.
func (w *world) apply(config string) {
	w.t.Helper()
	c, err := Parse("fleet.yaml", []byte(config))
	if err == nil {
		err = w.g.Apply(c)
	}
	if err != nil {
		w.t.Error(err)
	}
}

// TestReloadWithoutKeys holds that half a file does not open a gateway that wants keys.
func TestReloadWithoutKeys(t *testing.T) {
	const models = "models: [{name: m, endpoints: [http://a]}]\n"
	_, hash := NewKey()
	inWorld(t, models+"keys: [{name: k, hash: '"+hash+"'}]", map[string]http.Handler{"a": &engine{name: "a"}}, func(w *world) {
		c, err := Parse("fleet.yaml", []byte(models))
		if err == nil {
			err = w.g.Apply(c)
		}
		if err == nil || !strings.Contains(err.Error(), "keys: there is none") {
			t.Errorf("%v; want that there are no keys", err)
		}
		if res, err := w.client.Get("http://gateway/v1/models"); err != nil || res.StatusCode != http.StatusUnauthorized {
			t.Errorf("afterwards without a key: %v, %v", res, err)
		} else {
			res.Body.Close()
		}
	})
}

// TestReloadDropsNothing changes models and endpoints while a stream runs and requests wait.
func TestReloadDropsNothing(t *testing.T) {
	a, b := &engine{name: "a"}, &engine{name: "b"}
	turn := make(chan bool)
	a.hook = posts(func(w http.ResponseWriter, _ *http.Request) {
		a.begin(w)
		a.word(w)
		<-turn
		a.word(w)
		a.end(w)
	})
	old := "models:\n- {name: m, endpoints: [{url: http://a, max_in_flight: 1}]}\n- {name: n, endpoints: [{url: http://a, max_in_flight: 1}]}\n"
	inWorld(t, old, map[string]http.Handler{"a": a, "b": b}, func(w *world) {
		turn = make(chan bool)
		next, done := w.stream(w.t.Context(), streamed)
		defer done()
		next()
		var all sync.WaitGroup
		all.Go(func() { w.want(w.chat(plain), 200, `"b"`) })
		all.Go(func() { w.want(w.chat(strings.Replace(plain, `"m"`, `"n"`, 1)), 404, "does not exist") })
		synctest.Wait()
		w.apply("models: [{name: m, aliases: [o], endpoints: [http://b]}]")
		all.Wait()
		close(turn)
		if !strings.Contains(next(), `"a"`) || !strings.Contains(next(), "usage") || next() != "data: [DONE]" {
			t.Error("the stream from an endpoint that has left the configuration did not end well")
		}
		w.want(w.chat(strings.Replace(plain, `"m"`, `"o"`, 1)), 200, `"b"`)
		w.want(w.chat(strings.Replace(plain, `"m"`, `"n"`, 1)), 404, "")
		w.apply(old)
		turn = make(chan bool)
		close(turn)
		w.want(w.chat(streamed), 200, `"a"`)
	})
}

// TestSplitsAndFallbacks divides a model, and lets another answer when one cannot.
func TestSplitsAndFallbacks(t *testing.T) {
	big, small, tiny := &engine{name: "big"}, &engine{name: "small"}, &engine{name: "tiny"}
	inWorld(t, `
models:
- {name: big, endpoints: [http://big], fallbacks: [small, tiny]}
- {name: small, endpoints: [{url: http://small, context: 500}]}
- {name: tiny, endpoints: [http://tiny]}
- {name: m, split: {big: 9, small: 1}, fallbacks: [tiny]}
queue: {down_wait: 1s}
`, map[string]http.Handler{"big": big, "small": small, "tiny": tiny}, func(w *world) {
		for range 200 {
			w.want(w.chat(plain), 200, "")
		}
		if n := len(small.got()); n < 8 || n > 40 || n+len(big.got()) != 200 {
			t.Errorf("of 200 requests %d went to small, %d to big; want about 20 and 180", n, len(big.got()))
		}
		before := len(small.got())
		for range 20 {
			w.chat(`{"model":"m","user":"one","messages":[]}`)
		}
		if n := len(small.got()) - before; n != 0 && n != 20 {
			t.Errorf("%d of a user's 20 requests went to another part", n)
		}
		if body := big.got()[0].body; !strings.Contains(body, `"model":"big"`) {
			t.Errorf("big was asked %s", body)
		}
		w.kill("big")
		w.want(w.chat(`{"model":"big","max_tokens":10,"messages":[]}`), 200, "small")
		w.want(w.chat(`{"model":"big","max_tokens":1000,"messages":[]}`), 200, "tiny") // more than small's context
		w.kill("tiny")
		w.want(w.chat(`{"model":"big","max_tokens":1000,"messages":[]}`), 503, "no endpoint of the model is up")
	})
}

// TestKeys lets requests in by their keys, as far as those may go.
func TestKeys(t *testing.T) {
	root, rootHash := NewKey()
	bob, bobHash := NewKey()
	a := &engine{name: "a"}
	config := fmt.Sprintf(`
models:
- {name: m, aliases: [alias], endpoints: [http://a]}
- {name: n, endpoints: [http://a]}
keys:
- {name: root, hash: %q, admin: true}
- {name: bob, hash: %q, models: [m], limits: [{what: requests, per: 1m, most: 3}]}
`, rootHash, bobHash)
	inWorld(t, config, map[string]http.Handler{"a": a}, func(w *world) {
		for _, c := range []struct {
			key, path string
			status    int
			text      string
		}{
			{"", "/v1/models", 401, "API key"}, {"kv-wrong", "/v1/models", 401, "API key"}, {root, "/v1/models", 200, `"id":"n"`},
			{bob, "/v1/models/n", 404, ""}, {bob, "/v1/models/alias", 200, "alias"}, {bob, "/gateway/fleet", 403, "admin"},
			{root, "/gateway/fleet", 200, `"url":"http://a"`}, {"", "/health", 200, "ok"},
		} {
			w.want(w.ask(w.t.Context(), "GET", c.path, "", "Authorization", "Bearer "+c.key), c.status, c.text)
		}
		w.want(w.chat(plain), 401, "invalid_api_key")
		w.want(w.chat(strings.Replace(plain, `"m"`, `"n"`, 1), "Authorization", "Bearer "+bob), 404, "may not use it")
		for range 3 {
			w.want(w.chat(plain, "X-Api-Key", bob), 200, "a")
		}
		if h := a.got()[0].header; h.Get("Authorization")+h.Get("X-Api-Key") != "" {
			t.Errorf("the engine got the client's key: %v", h)
		}
		r := w.chat(plain, "X-Api-Key", bob)
		w.want(r, 429, "used up its limit of 3 requests in 1m")
		if r.header.Get("Retry-After") != "60" {
			t.Errorf("Retry-After is %q; want 60", r.header.Get("Retry-After"))
		}
		time.Sleep(time.Minute)
		for range 2 {
			w.want(w.chat(plain, "X-Api-Key", bob), 200, "a")
		}
		w.apply(strings.Replace(config, "limits: [{what: requests, per: 1m, most: 3}]", "limits: [{what: requests, per: 1m, most: 2}]", 1))
		w.want(w.chat(plain, "X-Api-Key", bob), 429, "limit of 2 requests") // a reload gives nothing back
	})
}

// TestTokensAreReserved sends requests at once that together would use more than a key may: not one too many goes, and
// what they did not use is given back.
func TestTokensAreReserved(t *testing.T) {
	key, hash := NewKey()
	a := &engine{name: "a"}
	gate := make(chan bool)
	a.hook = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == "POST" {
			<-gate
		}
		return false
	}
	config := fmt.Sprintf("models: [{name: m, endpoints: [http://a]}]\nkeys: [{name: k, hash: %q, limits: [{what: total_tokens, per: 1m, most: 1000}]}]", hash)
	inWorld(t, config, map[string]http.Handler{"a": a}, func(w *world) {
		gate = make(chan bool)
		var all sync.WaitGroup
		var mu sync.Mutex
		got := map[int]int{}
		ask := func() {
			r := w.chat(`{"model":"m","max_tokens":300,"messages":[]}`, "Authorization", "Bearer "+key)
			mu.Lock()
			got[r.status]++
			mu.Unlock()
		}
		for range 10 {
			all.Go(ask)
		}
		synctest.Wait()
		if got[429] != 7 {
			t.Errorf("%v; want 7 refused and 3 under way", got)
		}
		close(gate)
		all.Wait()
		for range 3 { // each used 13 of its 300
			ask()
		}
		if got[200] != 6 || got[429] != 7 {
			t.Errorf("%v; want 6 and 7", got)
		}
	})
}

// TestPrefixesAndExplanations sends conversations of several turns: each goes where it went before, and says why.
func TestPrefixesAndExplanations(t *testing.T) {
	a, b := &engine{name: "a"}, &engine{name: "b"}
	inWorld(t, two, map[string]http.Handler{"a": a, "b": b}, func(w *world) {
		where := map[int]string{}
		for turn := range 4 {
			for c := range 8 {
				text := strings.Repeat(fmt.Sprintf("conversation %d goes on and on. ", c), 20*(turn+1))
				r := w.chat(fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, text), "X-Kvasir-Explain", "1")
				w.want(r, 200, "")
				if turn > 0 && !strings.Contains(r.body, where[c]) {
					t.Errorf("turn %d of conversation %d went elsewhere: %s", turn, c, r.header.Get("X-Kvasir-Explain"))
				}
				var said struct {
					Choices []struct{ Message struct{ Content string } }
				}
				json.Unmarshal([]byte(r.body), &said)
				where[c] = said.Choices[0].Message.Content
				if why := r.header.Get("X-Kvasir-Explain"); !strings.Contains(why, "http://"+where[c]+"*") || !strings.Contains(why, "prefix=") {
					t.Errorf("the decision is explained by %q", why)
				}
			}
		}
		if len(a.got()) == 0 || len(b.got()) == 0 {
			t.Errorf("%d requests on a, %d on b", len(a.got()), len(b.got()))
		}
	})
}

// TestWhatCanBeSeen reads the metrics, the page of the fleet and the access log after a few requests.
func TestWhatCanBeSeen(t *testing.T) {
	a := &engine{name: "a"}
	a.hook = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/metrics" {
			fmt.Fprint(w, "# HELP x\nvllm:num_requests_waiting{model=\"m\"} 3\nvllm:num_requests_running 4\nvllm:kv_cache_usage_perc 0.25\n"+
				"vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"x, y\",waiting_lora_adapters=\"\"} 1.7e9\n")
			return true
		}
		return false
	}
	inWorld(t, "models: [{name: m, endpoints: [http://a, http://nobody]}]", map[string]http.Handler{"a": a}, func(w *world) {
		time.Sleep(time.Second)
		w.want(w.chat(plain), 200, "")
		w.want(w.chat(streamed), 200, "")
		w.want(w.chat(`{"model":"made up"}`), 404, "")
		page := w.ask(w.t.Context(), "GET", "/metrics", "").body
		for _, line := range []string{
			`kvasir_gateway_requests_total{code="200",model="m"} 2`, `kvasir_gateway_requests_total{code="404",model=""} 1`,
			`kvasir_gateway_tokens_total{direction="input",model="m"} 20`, `kvasir_gateway_tokens_total{direction="output",model="m"} 5`,
			`kvasir_gateway_time_to_first_token_seconds_count{model="m"} 1`, `kvasir_gateway_endpoint_up{endpoint="http://nobody"} 0`,
			`kvasir_gateway_in_flight{endpoint="http://a"} 0`,
		} {
			if !strings.Contains(page, line+"\n") {
				t.Errorf("the metrics lack %s", line)
			}
		}
		w.want(w.ask(w.t.Context(), "GET", "/gateway/", ""), 200, "<title>kvasir gateway</title>")
		w.want(w.ask(w.t.Context(), "GET", "/", ""), 200, "<title>kvasir gateway</title>") // by a redirect
		fleet := w.ask(w.t.Context(), "GET", "/gateway/fleet", "").body
		for _, part := range []string{
			`"url":"http://a","up":true,"in_flight":0,"limit":256,"tokens_in_flight":0,"engine_waiting":3,"engine_running":4,"kv_use":0.25,"adapters":["x","y"]`,
			`"url":"http://nobody","up":false,"why":"unhealthy: `,
		} {
			if !strings.Contains(fleet, part) {
				t.Errorf("the fleet lacks %s: %s", part, fleet)
			}
		}
		var last map[string]any
		for line := range strings.Lines(w.log.String()) {
			last = nil
			if err := json.Unmarshal([]byte(line), &last); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			if last["status"] == 200.0 && (last["endpoint"] != "http://a" || last["input_tokens"] != 10.0 || last["attempts"] != 1.0) {
				t.Errorf("the log says %s", line)
			}
		}
		if last["status"] != 404.0 || last["model"] != "made up" {
			t.Errorf("the last line of the log is %v", last)
		}
	})
}
