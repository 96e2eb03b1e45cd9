package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestProviders asks a provider with an API of its own through the gateway, which counts what it says it used.
func TestProviders(t *testing.T) {
	t.Setenv("PROVIDER_KEY", "secret")
	const config = `
models:
- name: m
  upstream: big
  price: {output: 1000000}
  endpoints: [{url: http://provider, api: anthropic, key_env: PROVIDER_KEY}]
`
	provider := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			if r.Header.Get("Authorization") != "" || r.URL.Path == "/metrics" {
				t.Errorf("the provider was asked for %s with %v", r.URL, r.Header)
			}
			http.NotFound(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"model":"big"`) || r.Header.Get("X-Api-Key") != "secret" {
			t.Errorf("the provider got %s with %v", body, r.Header)
		}
		if !strings.Contains(string(body), `"stream":true`) {
			io.WriteString(w, `{"type":"message","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":7}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range []string{`{"type":"message_start","message":{"usage":{"input_tokens":5}}}`,
			`{"type":"content_block_delta","delta":{"type":"text_delta","text":"hello"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":70}}`} {
			fmt.Fprintf(w, "data: %s\n\n", e)
		}
	})
	inWorld(t, config, map[string]http.Handler{"provider": provider}, func(w *world) {
		w.want(w.chat(plain), 200, `"content":"hello"`)
		w.want(w.chat(streamed), 200, `"delta":{"content":"hello"}`)
		w.want(w.chat(streamed), 200, "data: [DONE]\n\n")
		w.want(w.ask(w.t.Context(), "GET", "/gateway/usage?format=csv", ""), 200, ",m,3,15,0,147,147\n")
		w.want(w.ask(w.t.Context(), "POST", "/v1/embeddings", plain), 400, "has no /v1/embeddings")
		w.want(w.chat(`{"model":"m","messages":`+many(`{}`, 1<<20)+`}`), 400, "more than 131072 values")
		if n := w.g.work.Used(); n != 0 {
			t.Errorf("%d bytes are taken after the requests", n)
		}
	})
	for text, want := range map[string]string{
		"api: cohere, key_env: X":            `api is "cohere"; want one of anthropic,`,
		"api: bedrock, key_env: X":           "needs a region",
		"api: gemini, region: x, key_env: X": "takes no region",
		"api: gemini":                        "a provider wants a key",
		"version: v1":                        "api is",
	} {
		if _, err := Parse("f", []byte("models: [{name: m, endpoints: [{url: http://a, "+text+"}]}]\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}
