package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestMessagesForChats asks an engine without the Messages API for messages. It gets chats; the client gets messages,
// and errors of their kind.
func TestMessagesForChats(t *testing.T) {
	paths := map[string]int{}
	engine := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			io.WriteString(w, "ok")
			return
		}
		paths[r.URL.Path]++
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path != "/v1/chat/completions":
			http.NotFound(w, r)
		case strings.Contains(string(body), "too hot"):
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"error":{"message":"temperature is too hot"}}`)
		case !strings.Contains(string(body), `"stream":true`):
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":7}}`)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			events := []string{`{"choices":[{"delta":{"role":"assistant","content":""}}]}`, `{"choices":[{"delta":{"content":"hel"}}]}`, `{"choices":[{"delta":{"content":"lo"}}]}`}
			if !strings.Contains(string(body), "breaks") {
				events = append(events, `{"choices":[{"delta":{},"finish_reason":"length"}]}`, `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}}`, "[DONE]")
			}
			for _, e := range events {
				fmt.Fprintf(w, "data: %s\n\n", e)
			}
		}
	})
	ask := func(w *world, body string) reply { return w.ask(w.t.Context(), "POST", "/v1/messages", body) }
	const said = `"max_tokens":9,"messages":[{"role":"user","content":"hi"}]`
	inWorld(t, "models: [{name: m, price: {output: 1000000}, endpoints: [http://a]}]\n", map[string]http.Handler{"a": engine}, func(w *world) {
		w.want(ask(w, `{"model":"m",`+said+`}`), 200, `"content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn"`)
		streamed := ask(w, `{"model":"m","stream":true,`+said+`}`)
		w.want(streamed, 200, `"delta":{"type":"text_delta","text":"hel"}`)
		w.want(streamed, 200, `"stop_reason":"max_tokens"`)
		w.want(streamed, 200, "event: message_stop\n")
		w.want(ask(w, `{"model":"m","system":"too hot",`+said+`}`), 400, `{"type":"error","error":{"type":"invalid_request_error","message":"temperature is too hot"}`)
		w.want(ask(w, `{"model":"m","context_management":{},`+said+`}`), 400, "context_management cannot be translated")
		w.want(ask(w, `{"model":"none",`+said+`}`), 404, `{"type":"error","error":{"type":"not_found_error"`)
		w.want(ask(w, `{"model":"m","stream":true,"system":"breaks",`+said+`}`), 200, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"")
		w.want(w.ask(w.t.Context(), "GET", "/gateway/usage?format=csv", ""), 200, ",m,")
	})
	if n := paths["/v1/messages"]; n != 1 {
		t.Errorf("the engine was asked for messages %d times; want once", n)
	}
}
