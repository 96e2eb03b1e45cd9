package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// fields reads some members of a request that an engine got.
func (s seen) fields(t *testing.T, names ...string) string {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s.body), &all); err != nil {
		t.Fatalf("%s: %v", s.body, err)
	}
	var out []string
	for _, n := range names {
		out = append(out, fmt.Sprintf("%s=%s", n, all[n]))
	}
	return strings.Join(out, " ")
}

const long = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":9,"messages":[{"role":"user","content":"a prompt that is long enough"}]}`

// TestSplitNIXL lets one endpoint compute prompts, and another go on, in vLLM's words.
func TestSplitNIXL(t *testing.T) {
	p, d := &engine{name: "p"}, &engine{name: "d"}
	fails := false
	p.hook = posts(func(w http.ResponseWriter, _ *http.Request) {
		if fails {
			http.Error(w, "no", 500)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[{"message":{"content":"x"}}],"kv_transfer_params":{"do_remote_prefill":true,"remote_engine_id":"e1"}}`)
	})
	const config = "models:\n- name: m\n  upstream: up\n  transfer: nixl\n  transfer_tokens: 10\n" +
		"  endpoints: [{url: http://p, role: prefill}, {url: http://d, role: decode}]\n"
	inWorld(t, config, map[string]http.Handler{"p": p, "d": d}, func(w *world) {
		r := w.chat(long, "X-Kvasir-Explain", "1", "X-Request-Id", "one")
		w.want(r, 200, "[DONE]")
		if why := r.header.Get("X-Kvasir-Explain"); !strings.Contains(why, "http://d*") || !strings.Contains(why, "prefill: http://p*") {
			t.Errorf("explained by %s", why)
		}
		w.want(w.chat(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`), 200, "d") // too short to be worth it
		w.want(w.chat(strings.Replace(long, `{`, `{"kv_transfer_params":{},`, 1)), 200, "d")  // the client's own
		if len(p.got()) != 1 || len(d.got()) != 3 {
			t.Fatalf("%d prefills and %d decodes", len(p.got()), len(d.got()))
		}
		got := p.got()[0]
		want := `model="up" stream=false stream_options= max_tokens=1 kv_transfer_params={"do_remote_decode":true,"do_remote_prefill":false,` +
			`"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`
		if f := got.fields(t, "model", "stream", "stream_options", "max_tokens", "kv_transfer_params"); f != want || got.header.Get("X-Request-Id") != "one" {
			t.Errorf("the prefill got %s, id %s", f, got.header.Get("X-Request-Id"))
		}
		want = `stream=true max_tokens=9 kv_transfer_params={"do_remote_prefill":true,"remote_engine_id":"e1"}`
		if f := d.got()[0].fields(t, "stream", "max_tokens", "kv_transfer_params"); f != want {
			t.Errorf("the decode got %s", f)
		}
		fails = true // then the other computes the prompt itself
		w.want(w.chat(long), 200, "[DONE]")
		w.kill("p")
		w.want(w.chat(long), 200, "[DONE]")
		if f := d.got()[3].fields(t, "kv_transfer_params") + d.got()[4].fields(t, "kv_transfer_params"); f != "kv_transfer_params=kv_transfer_params=" {
			t.Errorf("the decode without a prefill got %s", f)
		}
		w.g.mu.Lock()
		defer w.g.mu.Unlock()
		for _, e := range w.g.ends {
			if e.requests != 0 {
				t.Errorf("%s has %d requests in flight", e.url, e.requests)
			}
		}
	})
}

// TestSplitSGLang lets both endpoints meet in a room.
func TestSplitSGLang(t *testing.T) {
	p, d := &engine{name: "p"}, &engine{name: "d"}
	rooms, fails := make(chan string), false
	p.hook = posts(func(w http.ResponseWriter, r *http.Request) {
		if fails {
			http.Error(w, "no", 500)
			return
		}
		rooms <- p.got()[len(p.got())-1].fields(t, "bootstrap_room")
		p.begin(w)
		p.word(w)
		p.end(w)
	})
	d.hook = posts(func(w http.ResponseWriter, r *http.Request) {
		select {
		case room := <-rooms:
			if own := d.got()[len(d.got())-1].fields(t, "bootstrap_room"); own != room {
				t.Errorf("rooms %s and %s", own, room)
			}
			d.begin(w)
			d.word(w)
			d.end(w)
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
	})
	const config = "retries: 1\nmodels:\n- name: m\n  transfer: sglang\n" +
		"  endpoints: [{url: http://p, role: prefill, bootstrap_port: 7000}, {url: http://d, role: decode}]\n"
	inWorld(t, config, map[string]http.Handler{"p": p, "d": d}, func(w *world) {
		r := w.chat(long)
		w.want(r, 200, `"d"`)
		if strings.Contains(r.body, `"p"`) {
			t.Errorf("the prefill's answer is in %s", r.body)
		}
		want := `stream=true max_tokens=9 bootstrap_host="p" bootstrap_port=7000`
		for _, e := range []*engine{p, d} {
			if f := e.got()[0].fields(t, "stream", "max_tokens", "bootstrap_host", "bootstrap_port"); f != want {
				t.Errorf("%s got %s", e.name, f)
			}
		}
		fails = true
		began := time.Now()
		w.want(w.chat(long), 502, "the prefill at http://p failed: status 500")
		if time.Since(began) > 5*time.Second {
			t.Errorf("the client heard of it after %v", time.Since(began))
		}
	})
}
