package gateway

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestExplain asks where requests would go. None of them goes there, and only an admin may ask.
func TestExplain(t *testing.T) {
	a, b := &engine{name: "a"}, &engine{name: "b"}
	hash := func(key string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(key))) }
	config := "keys: [{name: root, hash: '" + hash("root") + "', admin: true}, {name: ann, hash: '" + hash("ann") + "'}]\n" +
		"models: [{name: m, policy: {prefix: 2, queue: 1}, endpoints: [http://a, http://b]}]\n"
	inWorld(t, config, map[string]http.Handler{"a": a, "b": b}, func(w *world) {
		ask := func(path, key, body string) reply { return w.ask(w.t.Context(), "POST", path, body, "X-Api-Key", key) }
		long := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("salt and ships ", 100) + `"}]}`
		w.want(ask("/v1/chat/completions", "root", long), 200, "")
		sent := len(a.got()) + len(b.got())
		r := ask("/gateway/explain", "root", long)
		w.want(r, 200, `"how":"best"`)
		var got explained
		if err := json.Unmarshal([]byte(r.body), &got); err != nil || got.Model != "m" || len(got.Endpoints) != 2 || got.Tokens < 300 {
			t.Fatalf("%s %v", r.body, err)
		}
		for _, e := range got.Endpoints {
			if held := e.HeldBlocks > 0; held != e.Chosen || e.PromptBlocks < 5 || held != (e.Scores["prefix"] > 0.9) || e.Scores["queue"] != 1 {
				t.Errorf("%+v", e)
			}
		}
		w.want(ask("/gateway/explain?path=/v1/completions", "root", `{"model":"m","prompt":"x"}`), 200, `"how":"drawn"`)
		w.want(ask("/gateway/explain", "ann", long), 403, "admin")
		w.want(ask("/gateway/explain", "eve", long), 401, "")
		w.want(ask("/gateway/explain", "root", `{"model":"n"}`), 404, "does not exist")
		w.want(ask("/gateway/explain", "root", `{`), 400, "invalid JSON")
		if n := len(a.got()) + len(b.got()); n != sent {
			t.Errorf("the engines got %d requests more", n-sent)
		}
	})
}
