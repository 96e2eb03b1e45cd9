package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
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

// TestAdaptersMakeRoom asks for more adapters than the endpoint may have, for one in vain while all are in use, for one
// that was unloaded behind the gateway's back, and for none for a while.
func TestAdaptersMakeRoom(t *testing.T) {
	a := &engine{name: "a"}
	var mu sync.Mutex
	has, log := map[string]bool{}, ""
	a.hook = posts(func(w http.ResponseWriter, r *http.Request) {
		last := posted(r)
		mu.Lock()
		defer mu.Unlock()
		switch name := strings.Trim(strings.TrimPrefix(last.fields(t, "lora_name"), "lora_name="), "\""); r.URL.Path {
		case "/v1/load_lora_adapter":
			has[name], log = true, log+"+"+name
			return
		case "/v1/unload_lora_adapter":
			if log += "-" + name; !has[name] {
				http.Error(w, "it cannot be found", 404)
			}
			delete(has, name)
			return
		}
		name := strings.Trim(strings.TrimPrefix(last.fields(t, "model"), "model="), "\"")
		if !has[name] {
			http.Error(w, "no model "+name, 404)
			return
		}
		if strings.Contains(last.body, "slowly") {
			mu.Unlock()
			time.Sleep(5 * time.Second)
			mu.Lock()
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[],"model":%q}`, name)
	})
	const config = "models: [{name: m, endpoints: [{url: http://a, adapters: {most: 2, idle: 1h}}], adapters: [" +
		"{name: x, path: /x}, {name: y, path: /y}, {name: z, path: /z}, {name: w, path: /w}]}]"
	inWorld(t, config, map[string]http.Handler{"a": a}, func(w *world) {
		ask := func(model, how string, status int, text string) {
			t.Helper()
			w.want(w.chat(strings.NewReplacer(`"m"`, fmt.Sprintf("%q", model), "hi", how).Replace(plain)), status, text)
		}
		told := func(want string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if log != want {
				t.Errorf("the endpoint was told %s; want %s", log, want)
			}
			log = ""
		}
		for _, name := range []string{"x", "y", "x", "z", "x"} {
			ask(name, "hi", 200, name)
			time.Sleep(time.Second)
		}
		told("+x+y-y+z")
		var both sync.WaitGroup
		both.Go(func() { ask("x", "slowly", 200, "x") })
		both.Go(func() { ask("z", "slowly", 200, "z") })
		time.Sleep(time.Second)
		for range 5 {
			ask("w", "hi", 502, "all 2 adapters that the endpoint may have are in use")
		}
		both.Wait()
		told("")
		mu.Lock()
		delete(has, "x")
		mu.Unlock()
		ask("x", "hi", 200, "x")
		told("+x")
		mu.Lock()
		delete(has, "z")
		mu.Unlock()
		ask("y", "hi", 200, "y")
		told("-z+y")
		time.Sleep(30 * time.Minute)
		ask("x", "hi", 200, "x")
		time.Sleep(31 * time.Minute)
		told("-y")
		time.Sleep(30 * time.Minute)
		told("-x")
		w.g.mu.Lock()
		defer w.g.mu.Unlock()
		if e := w.g.ends["http://a"]; e.down != "" || e.failed > 0 || len(e.loans) > 0 {
			t.Errorf("%+v", e)
		}
	})
}
