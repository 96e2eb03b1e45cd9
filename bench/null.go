package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Null is an OpenAI-compatible server without a model: each answer has as many meaningless words as the request asks
// for, at the configured times. A load on it measures the load generator itself: its speed, its overhead, its accuracy.
type Null struct {
	TTFT time.Duration // until the first word
	TPOT time.Duration // between words; with 0, all come at once
}

const nullHead = `data: {"id":"null","object":"chat.completion.chunk","created":1,"model":"null","choices":[{"index":0,`

// ServeHTTP answers GET …/models and streamed POST …/completions and …/chat/completions.
func (n Null) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "GET /v1/models":
		fmt.Fprintln(w, `{"object":"list","data":[{"id":"null","object":"model"}]}`)
	case "POST /v1/chat/completions":
		n.answer(w, r, `"delta":{"content":" word"},"finish_reason":null}]}`)
	case "POST /v1/completions":
		n.answer(w, r, `"text":" word","finish_reason":null}]}`)
	default:
		http.NotFound(w, r)
	}
}

func (n Null) answer(w http.ResponseWriter, r *http.Request, tail string) {
	var body struct {
		Max    int             `json:"max_tokens"`
		Stream bool            `json:"stream"`
		Chat   json.RawMessage `json:"messages"`
		Prompt json.RawMessage `json:"prompt"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<26)).Decode(&body)
	if err != nil || !body.Stream || body.Max < 1 || body.Max > maxTokens {
		http.Error(w, fmt.Sprintf("want a streamed request of 1 to %d max_tokens (%v)", maxTokens, err), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	var buf []byte
	wait := n.TTFT
	for i := range body.Max {
		if wait > 0 {
			if w.Write(buf); control.Flush() != nil || !sleep(r.Context(), wait) {
				return
			}
			buf = buf[:0]
		}
		wait = n.TPOT
		buf = append(append(append(buf, nullHead...), tail...), "\n\n"...)
		if i == body.Max-1 {
			buf = append(append(buf, nullHead...), `"delta":{},"finish_reason":"length"}]}`+"\n\n"...)
		}
	}
	prompt := Part{Text: string(body.Chat) + string(body.Prompt)}.size()
	buf = append(buf, `data: {"choices":[],"usage":{"prompt_tokens":`...)
	buf = strconv.AppendInt(buf, int64(prompt), 10)
	buf = append(buf, `,"completion_tokens":`...)
	buf = strconv.AppendInt(buf, int64(body.Max), 10)
	buf = append(buf, "}}\n\ndata: [DONE]\n\n"...)
	w.Write(buf)
}

// sleep returns false if ctx is done first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
