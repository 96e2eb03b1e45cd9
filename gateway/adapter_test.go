package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestAdapters holds that requests for an adapter go where it is, and that endpoints without it load it first, once.
func TestAdapters(t *testing.T) {
	engines, handlers := map[string]*engine{}, map[string]http.Handler{}
	for _, name := range []string{"a", "b"} {
		e := &engine{name: name}
		has := false
		e.hook = func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case r.URL.Path == "/metrics" && has:
				fmt.Fprintln(w, `vllm:lora_requests_info{max_lora="1",running_lora_adapters="pirate",waiting_lora_adapters=""} 1`)
			case r.URL.Path == "/v1/load_lora_adapter" && e.got()[len(e.got())-1].fields(t, "lora_name") == `lora_name="broken"`:
				http.Error(w, "no such file", 404)
			case r.URL.Path == "/v1/load_lora_adapter" && has:
				http.Error(w, "The lora adapter 'pirate' has already been loaded.", 400)
			case r.URL.Path == "/v1/load_lora_adapter":
				has = true
			default:
				return false
			}
			return true
		}
		engines[name], handlers[name] = e, e
	}
	const config = "models:\n- name: m\n  upstream: up\n  policy: {adapter: 1}\n  endpoints: [http://a, http://b]\n" +
		"  adapters: [{name: pirate, path: /l/pirate}, {name: broken, path: /l/x}, {name: given}]\n"
	inWorld(t, config, handlers, func(w *world) {
		time.Sleep(time.Second)
		ask := func(model string, status int, text string) {
			t.Helper()
			w.want(w.chat(strings.Replace(plain, `"m"`, fmt.Sprintf("%q", model), 1)), status, text)
		}
		for range 10 {
			ask("pirate", 200, "choices")
			time.Sleep(3 * time.Second)
		}
		one, other := engines["a"].got(), engines["b"].got()
		if len(one) == 0 {
			one, other = other, one
		}
		want := `lora_name="pirate" lora_path="/l/pirate"`
		if len(one) != 11 || len(other) != 0 || one[0].path != "/v1/load_lora_adapter" || one[0].fields(t, "lora_name", "lora_path") != want {
			t.Errorf("%d and %d requests, the first %+v", len(one), len(other), one[0])
		}
		if got := one[1].fields(t, "model"); got != `model="pirate"` {
			t.Errorf("the endpoint was asked for %s", got)
		}
		ask("given", 200, "choices")
		ask("broken", 502, "the adapter broken was not loaded: status 404: no such file")
		ask("m", 200, "choices")
		w.want(w.ask(w.t.Context(), "GET", "/v1/models", ""), 200, `"pirate"`)
	})
}
