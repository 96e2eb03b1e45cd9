package gateway

import (
	_ "embed"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// enginePages are what engines answer, as far as it tells what they are: the beginnings of metrics, or other pages.
var enginePages = map[string]func(w http.ResponseWriter, r *http.Request){
	"kvasir": tells("kvasir:steps_total 3\nvllm:num_requests_running{model_name=\"m\",engine=\"0\"} 1\n"),
	"vLLM 0.32": tells("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"m\"} 1.0\n" +
		"vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.25\n"),
	"llama-server": tells("llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\n"),
	"llama-server without --metrics": func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			return
		}
		w.Header().Set("Server", "llama.cpp")
		w.WriteHeader(http.StatusNotImplemented)
		fmt.Fprint(w, `{"error":{"code":501,"message":"This server does not support metrics endpoint. Start it with `+"`--metrics`"+`","type":"not_supported_error"}}`)
	},
	"TGI": tells("tgi_queue_size 0\ntgi_batch_current_size 1\n"),
	"TensorRT-LLM": func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "[]")
		case "/prometheus/metrics":
			fmt.Fprint(w, "trtllm_kv_cache_utilization{model_name=\"m\",engine_type=\"trtllm\"} 0.5\n")
		}
	},
	"Ollama": func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			fmt.Fprint(w, "Ollama is running")
			return
		}
		http.Error(w, "404 page not found", http.StatusNotFound)
	},
	"another": http.NotFound,
}

func tells(text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			fmt.Fprint(w, text)
		}
	}
}

// saying makes an engine answer GET as one of enginePages.
func saying(e *engine, what string) *engine {
	hook := e.hook
	e.hook = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			enginePages[what](w, r)
			return true
		}
		return hook != nil && hook(w, r)
	}
	return e
}

// TestWhoGoesOn lets a stream break off, and holds who goes on with it: an engine that continues a last message, or a
// prompt. Ollama puts a prompt into the template of the model and would answer it anew.
func TestWhoGoesOn(t *testing.T) {
	words := []string{"one", "two", "three", "four"}
	for what, goes := range map[string]struct{ chat, text bool }{
		"kvasir": {true, true}, "vLLM 0.32": {true, true}, "llama-server": {true, true}, "llama-server without --metrics": {true, true},
		"TGI": {false, true}, "TensorRT-LLM": {false, true}, "Ollama": {false, false}, "another": {false, true},
	} {
		for _, c := range []struct {
			path, body string
			goes       bool
		}{
			{"/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"count"}]}`, goes.chat},
			{"/v1/completions", `{"model":"m","stream":true,"prompt":"count: "}`, goes.text},
		} {
			first, second := saying(counter("a", words, 2), "vLLM 0.32"), saying(counter("b", words, 0), what)
			config := "models: [{name: m, endpoints: [{url: http://a, cost: 0}, {url: http://b, cost: 1}], policy: {cost: 1}, resume: true}]\n"
			inWorld(t, config, map[string]http.Handler{"a": first, "b": second}, func(w *world) {
				r := w.ask(w.t.Context(), "POST", c.path, c.body)
				w.want(r, 200, "two")
				if got := strings.Contains(r.body, "[DONE]"); got != c.goes || got == strings.Contains(r.body, `data: {"error"`) {
					t.Errorf("%s, %s: the stream went on: %v; want %v: %s", what, c.path, got, c.goes, r.body)
				}
				if asked := len(second.got()); !c.goes && asked > 0 {
					t.Errorf("%s, %s: it was asked %d times to go on", what, c.path, asked)
				}
			})
		}
	}
}

// ofVLLM is a stream that vLLM 0.32 sent under load, without and with the event of its usage. It has 6 events with 8
// tokens: the first has none, and the others have one or more.
//
//go:embed testdata/vllm-0.32.sse
var ofVLLM string

// TestUsageOfStreams holds that engines are asked for the usage of streams, since an event may have several tokens, and
// that a client that did not ask for it does not see it. Of an engine that does not say what it is, events count.
func TestUsageOfStreams(t *testing.T) {
	before, rest, _ := strings.Cut(ofVLLM, "data: [DONE]")
	at := strings.LastIndex(strings.TrimSpace(before), "data: ")
	without, whole := before[:at]+"data: [DONE]"+rest, ofVLLM
	for what, counts := range map[string]bool{"kvasir": true, "vLLM 0.32": true, "llama-server": true, "TGI": true, "TensorRT-LLM": true, "Ollama": true, "another": false} {
		for _, c := range []struct {
			options    string // of the client
			path       string
			asks, sees bool
		}{
			{"", "/v1/chat/completions", counts, false},
			{"", "/v1/completions", counts, false},
			{"", "/v1/responses", false, false},
			{`,"stream_options":{"include_usage":true}`, "/v1/chat/completions", true, true},
			{`,"stream_options":{"include_usage":false}`, "/v1/chat/completions", false, false},
			{`,"stream_options":null`, "/v1/chat/completions", false, false},
		} {
			e := saying(&engine{name: "a"}, what)
			asked := ""
			posted := posts(func(w http.ResponseWriter, r *http.Request) {
				all := e.got()
				asked = all[len(all)-1].body
				text := without
				if strings.Contains(asked, `"stream_options":{"include_usage":true}`) {
					text = whole
				}
				e.begin(w)
				for piece := range slices.Chunk([]byte(text), 100) {
					w.Write(piece)
					http.NewResponseController(w).Flush()
				}
			})
			pages := e.hook
			e.hook = func(w http.ResponseWriter, r *http.Request) bool { return pages(w, r) || posted(w, r) }
			inWorld(t, "models: [{name: m, endpoints: [http://a]}]\n", map[string]http.Handler{"a": e}, func(w *world) {
				time.Sleep(3 * time.Second) // until it was asked what it is
				body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]` + c.options + `}`
				r := w.ask(w.t.Context(), "POST", c.path, body)
				want := without
				if c.sees {
					want = whole
				}
				if r.status != 200 || r.body != want {
					t.Errorf("%s, %s: the client got %s", what, c.options, r.body)
				}
				if got := strings.Count(asked, "include_usage\":true"); got > 1 || (got == 1) != c.asks || !c.asks && asked != body {
					t.Errorf("%s, %s: the engine got %s", what, c.path+c.options, asked)
				}
				tokens := `"input_tokens":0,"output_tokens":6`
				if c.asks {
					tokens = `"input_tokens":14,"output_tokens":8`
				}
				if log := w.log.String(); !strings.Contains(log, tokens) {
					t.Errorf("%s, %s: the log lacks %s: %s", what, c.options, tokens, log)
				}
			})
		}
	}
}
