package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestBudgets spends the money of a key, of its team and of a model, and looks at what the gateway says of it.
func TestBudgets(t *testing.T) {
	root, rootHash := NewKey()
	ann, annHash := NewKey()
	bob, bobHash := NewKey()
	eve, eveHash := NewKey()
	a := &engine{name: "a"} // each answer has 10 and 3 tokens: 10 + 2*3 = 16 units of money
	config := fmt.Sprintf(`
health: {path: "", metrics: ""}
models:
- {name: m, endpoints: [http://a], price: {input: 1000000, output: 1000000}, limits: [{what: cost, per: ever, most: 1000}]}
- {name: free, endpoints: [http://a]}
teams: [{name: t, limits: [{what: cost, per: month, most: 70}]}]
keys:
- {name: root, hash: %q, admin: true}
- {name: ann, hash: %q, team: t}
- {name: bob, hash: %q, team: t, limits: [{what: cost, per: 24h, most: 20}, {what: requests, per: 1h, most: 1, model: free}]}
- {name: eve, hash: %q}
`, rootHash, annHash, bobHash, eveHash)
	inWorld(t, config, map[string]http.Handler{"a": a}, func(w *world) {
		ask := func(key, model string, status int, text string) {
			t.Helper()
			w.want(w.chat(fmt.Sprintf(`{"model":%q,"max_tokens":5,"messages":[]}`, model), "Authorization", "Bearer "+key), status, text)
		}
		ask(bob, "m", 200, "") // 13 of his 20
		ask(bob, "m", 200, "") // 13 and an estimate of 5 are fewer than 20; 26 is what he used
		ask(bob, "m", 429, "the API key bob has used up its limit of 20 cost in 24h")
		ask(bob, "free", 200, "")
		ask(bob, "free", 429, "limit of 1 requests in 1h")
		for range 3 {
			ask(ann, "m", 200, "") // 39, 52, 65
		}
		ask(ann, "m", 200, "") // an estimate of 5 is left of the team's 70
		ask(ann, "m", 429, "the team t has used up its limit of 70 cost a month")
		ask(ann, "free", 200, "")
		ask(eve, "m", 200, "")
		get := func(key, query string) reply {
			return w.ask(w.t.Context(), "GET", "/gateway/usage"+query, "", "Authorization", "Bearer "+key)
		}
		w.want(get(bob, "?format=csv"), 200, "hour,key,team,model,requests,input_tokens,cached_tokens,output_tokens,cost\n"+
			"2000-01-01T00:00:00Z,bob,t,free,1,10,0,3,0\n2000-01-01T00:00:00Z,bob,t,m,2,20,0,6,26\n")
		w.want(get(root, ""), 200, `"key":"ann","team":"t","model":"m","requests":4,"input_tokens":40,"cached_tokens":0,"output_tokens":12,"cost":52}`)
		w.want(get(bob, "?from=2000-01-02"), 200, `{"usage":[]}`)
		w.want(get(bob, "?form=2000-01-02"), 400, "unknown parameter form")
		w.want(get(bob, "?format=xml"), 400, "json or csv")
		w.want(get("", ""), 401, "API key")
		w.want(w.ask(w.t.Context(), "GET", "/metrics", ""), 200, "kvasir_gateway_cost_total{model=\"m\"} 91\n")
		if !strings.Contains(w.log.String(), `"cost":13`) {
			t.Error("the log has no costs")
		}
		time.Sleep(24 * time.Hour)
		ask(bob, "m", 429, "the team t") // his own day is new
	})
}

// TestKeysEnd replaces a key by a new one, and lets one expire.
func TestKeysEnd(t *testing.T) {
	old, oldHash := NewKey()
	now, nowHash := NewKey()
	config := fmt.Sprintf(`
health: {path: "", metrics: ""}
models: [{name: m, endpoints: [http://a]}]
keys:
- {name: k, hash: %q, old_hash: %q, old_until: "2000-01-01T01:00:00Z", expires: "2000-01-01T02:00:00Z", paths: [/v1/chat/completions]}
`, nowHash, oldHash)
	inWorld(t, config, map[string]http.Handler{"a": &engine{name: "a"}}, func(w *world) {
		for _, both := range [][2]int{{200, 200}, {401, 200}, {401, 401}} {
			w.want(w.chat(plain, "X-Api-Key", old), both[0], "")
			w.want(w.chat(plain, "X-Api-Key", now), both[1], "")
			time.Sleep(time.Hour)
		}
	})
	inWorld(t, strings.Replace(config, "2000-01-01T02", "2001-01-01T02", 1), map[string]http.Handler{"a": &engine{name: "a"}}, func(w *world) {
		w.want(w.ask(w.t.Context(), "POST", "/v1/embeddings", plain, "X-Api-Key", now), 403, "may not ask /v1/embeddings")
	})
}
