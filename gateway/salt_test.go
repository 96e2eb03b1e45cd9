package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// saltOfBody returns the cache_salt of a JSON body, "" if it has none.
func saltOfBody(t *testing.T, body string) string {
	t.Helper()
	if n := strings.Count(body, saltKey); n > 1 {
		t.Errorf("%s has %d salts", body, n)
	}
	var got struct {
		Salt string `json:"cache_salt"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Errorf("%s: %v", body, err)
	}
	return got.Salt
}

// llama answers as an engine that does not know cache_salt: its metrics are others.
func llama(name string) *engine {
	return &engine{name: name, hook: func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			fmt.Fprintln(w, "llamacpp:requests_processing 0")
		}
		return r.Method == http.MethodGet
	}}
}

// asks sends bodies with a key, and returns the salts that the engine got.
func (w *world) asks(e *engine, key string, bodies ...string) (salts []string) {
	w.t.Helper()
	for _, body := range bodies {
		w.want(w.chat(body, "X-Api-Key", key), 200, e.name)
		all := e.got()
		salts = append(salts, saltOfBody(w.t, all[len(all)-1].body))
	}
	return salts
}

// TestTenantsAreApart holds that each key has salts of its own, which no client can choose, and that keys share them
// only if the configuration says so.
func TestTenantsAreApart(t *testing.T) {
	t.Setenv("GATEWAY_SECRET", "a secret of gateways")
	ann, annHash := NewKey()
	bob, bobHash := NewKey()
	cid, cidHash := NewKey()
	dan, danHash := NewKey()
	config := fmt.Sprintf(`
secret_env: GATEWAY_SECRET
models: [{name: m, upstream: inner, endpoints: [http://a]}]
keys: [{name: ann, hash: %q}, {name: bob, hash: %q}, {name: cid, hash: %q, group: g}, {name: dan, hash: %q, group: g}]
`, annHash, bobHash, cidHash, danHash)
	own := strings.Replace(plain, `{`, `{"cache_salt":"x",`, 1)
	again := map[string]string{} // of another gateway
	for _, round := range []string{"first", "second"} {
		a := &engine{name: "a"}
		inWorld(t, config, map[string]http.Handler{"a": a}, func(w *world) {
			seen := map[string]string{}
			for name, key := range map[string]string{"ann": ann, "bob": bob, "cid": cid} {
				for _, body := range []string{plain, own} {
					s := w.asks(a, key, body)[0]
					who := fmt.Sprint(name, body == own)
					if before := seen[s]; before != "" || len(s) < 43 || round == "second" && again[s] != who {
						t.Errorf("%s: %s has the salt %q, which is that of %q, and of %q at another gateway", round, who, s, before, again[s])
					}
					seen[s] = who
				}
			}
			again = seen
			if s := w.asks(a, dan, plain, own); seen[s[0]] != "cidfalse" || seen[s[1]] != "cidtrue" {
				t.Errorf("keys of a group have salts %q and %q, %q and %q", s[0], seen[s[0]], s[1], seen[s[1]])
			}
			s := w.asks(a, ann, plain, own, strings.Replace(own, `"x"`, "null", 1), strings.Replace(own, "salt", `s\u0061lt`, 1))
			if seen[s[0]] != "annfalse" || s[2] != s[0] || s[1] != s[3] {
				t.Errorf("salts of one key: %q", s)
			}
			got := a.got()[0].body
			if want := strings.Replace(plain, `"m"`, `"inner"`, 1); strings.Replace(got, `,"cache_salt":"`+saltOfBody(t, got)+`"`, "", 1) != want {
				t.Errorf("the engine got %s; want %s and a salt", got, want)
			}
			w.ask(w.t.Context(), "POST", "/tokenize", `{"model":"m","prompt":"x"}`, "X-Api-Key", ann)
			if all := a.got(); saltOfBody(t, all[len(all)-1].body) != "" {
				t.Error("a request that leaves no blocks has a salt")
			}
			w.apply("share_prefixes: true" + config)
			if s := w.asks(a, ann, plain, own); s[0] != "" || s[1] != "x" {
				t.Errorf("salts where prefixes are shared: %q", s)
			}
		})
	}
}

// TestSecrets holds that what salts are made with is the same for gateways whose engines have the same keys, and
// another for others.
func TestSecrets(t *testing.T) {
	t.Setenv("KEY_A", "an engine's key")
	t.Setenv("KEY_B", "another one's key")
	secret := func(config string) string {
		t.Helper()
		c, err := Parse("fleet.yaml", []byte(config))
		if err != nil {
			t.Fatal(err)
		}
		g, err := New(c, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		return string(g.setup.Load().secret)
	}
	const health = "health: {path: '', metrics: ''}\n"
	one := health + "models: [{name: m, endpoints: [{url: http://a, key_env: KEY_A}]}]"
	same := health + "models: [{name: m, endpoints: [{url: http://b, key_env: KEY_A}, {url: http://c, key_env: KEY_A}]}]"
	if a, b := secret(one), secret(same); a != b {
		t.Error("gateways of engines with one key differ")
	}
	if a, b := secret(one), secret(strings.Replace(one, "KEY_A", "KEY_B", 1)); a == b {
		t.Error("gateways of engines with different keys agree")
	}
	none := health + "models: [{name: m, endpoints: [http://a]}]"
	if a, b := secret(none), secret(none); a == b || len(a) < 32 {
		t.Error("gateways of engines without keys agree, though whoever knows the configuration could ask the engines")
	}
	t.Setenv("SHORT", "short")
	c, err := Parse("fleet.yaml", []byte(none+"\nsecret_env: SHORT"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(c, Options{}); err == nil || !strings.Contains(err.Error(), "SHORT has 5 characters") {
		t.Errorf("a short secret: %v", err)
	}
}

// TestOnlyWhoKnowsSaltsGetsThem holds that engines that do not know cache_salt do not get it, unless the configuration
// says so.
func TestOnlyWhoKnowsSaltsGetsThem(t *testing.T) {
	ann, hash := NewKey()
	keys := fmt.Sprintf("keys: [{name: ann, hash: %q}]\n", hash)
	for _, c := range []struct {
		endpoint string
		engine   *engine
		salted   bool
	}{
		{"http://a", &engine{name: "a"}, true},
		{"{url: http://a, cache_salt: never}", &engine{name: "a"}, false},
		{"http://a", llama("a"), false},
		{"{url: http://a, cache_salt: always}", llama("a"), true},
		{"http://a", &engine{name: "a", hook: func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet {
				http.NotFound(w, r) // as Ollama, which has no metrics
			}
			return r.Method == http.MethodGet
		}}, false},
	} {
		for _, metrics := range []string{"/metrics", ""} { // asked in the background, or when a request comes
			config := fmt.Sprintf("%smodels: [{name: m, endpoints: [%s]}]\nhealth: {metrics: %q}", keys, c.endpoint, metrics)
			inWorld(t, config, map[string]http.Handler{"a": c.engine}, func(w *world) {
				if got := w.asks(c.engine, ann, plain)[0] != ""; got != c.salted {
					t.Errorf("%s with metrics %q: salted is %v; want %v", c.endpoint, metrics, got, c.salted)
				}
			})
		}
	}
}

// TestPrefixesByTenant holds that what a key's requests left at an endpoint is not expected there for another key's.
func TestPrefixesByTenant(t *testing.T) {
	ann, annHash := NewKey()
	bob, bobHash := NewKey()
	config := fmt.Sprintf("keys: [{name: ann, hash: %q}, {name: bob, hash: %q}]\nprefix: {block_bytes: 16}\n", annHash, bobHash) +
		"models: [{name: m, endpoints: [http://a]}]"
	body := `{"model":"m","tools":["` + strings.Repeat("t", 30) + `"],"messages":"` + strings.Repeat("x", 100) + `"}`
	for _, e := range []*engine{{name: "a"}, llama("a")} {
		inWorld(t, config, map[string]http.Handler{"a": e}, func(w *world) {
			time.Sleep(time.Second) // until it is known what engine it is
			held := func(key string) string {
				why := w.chat(body, "X-Api-Key", key, "X-Kvasir-Explain", "1").header.Get("X-Kvasir-Explain")
				_, why, _ = strings.Cut(why, "in flight, ")
				return strings.TrimSuffix(why, " blocks)")
			}
			other := "0 of 8"
			if e.hook != nil { // a cache that all share
				other = "8 of 8"
			}
			if got, want := []string{held(ann), held(ann), held(bob), held(bob)}, []string{"0 of 8", "8 of 8", other, "8 of 8"}; fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("blocks held for ann, ann, bob, bob: %q; want %q", got, want)
			}
		})
	}
}

// TestReloadUnderLoad changes everything about the models while requests of all kinds are under way; the race detector
// looks on.
func TestReloadUnderLoad(t *testing.T) {
	ann, hash := NewKey()
	a, b := &engine{name: "a"}, &engine{name: "b"}
	config := func(i int) string {
		return fmt.Sprintf(`
models:
- {name: m, upstream: u%d, aliases: [x%d], endpoints: [{url: http://a, max_in_flight: %d}, http://b], fallbacks: [n], hedge: %ds, cache: %ds, resume: true, slo: {ttft: %ds}}
- {name: n, endpoints: [http://b], price: {input: %d}}
- {name: s, split: {m: %d, n: 1}}
- {name: p, transfer: sglang, endpoints: [{url: http://c, role: prefill, bootstrap_port: %d}, http://d]}
keys: [{name: ann, hash: %q, weight: %d}]
prefix: {block_bytes: 16}
`, i, i, 1+i%3, 1+i%2, i%2, 1+i%2, i, 1+i, 9000+i, hash, 1+i)
	}
	engines := map[string]http.Handler{"a": a, "b": b, "c": &engine{name: "c"}, "d": &engine{name: "d"}}
	inWorld(t, config(0), engines, func(w *world) {
		var all sync.WaitGroup
		stop := make(chan struct{})
		for _, model := range []string{"m", "n", "s", "p", "m"} {
			body := strings.Replace(plain, `"m"`, `"`+model+`"`, 1)
			all.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					w.want(w.chat(body, "X-Api-Key", ann), 200, "")
					w.want(w.ask(w.t.Context(), "GET", "/v1/models", "", "X-Api-Key", ann), 200, `"m"`)
				}
			})
		}
		for i := range 50 {
			w.apply(config(i))
		}
		close(stop)
		all.Wait()
	})
}

// TestSaltingIsOneEdit holds that a body with a salt is the body that came, with one member more or another value.
func TestSaltingIsOneEdit(t *testing.T) {
	for raw, want := range map[string]string{
		`{"model":"m"}`: `{"model":"m","cache_salt":"S"}`,
		` { "cache_salt" : "a\"b" , "model":"m" } `: ` { "cache_salt" : "S" , "model":"m" } `,
		`{"cache_salt":null,"model":"m"}`:           `{"cache_salt":"S","model":"m"}`,
	} {
		b, err := scan([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Join(b.edited([]edit{b.salting("S")}), nil); string(got) != want {
			t.Errorf("%s becomes %s; want %s", raw, got, want)
		}
	}
}
