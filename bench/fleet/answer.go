package fleet

import (
	"fmt"
	"net/http"
	"strconv"
)

// answered is a request with its answer.
type answered struct {
	engine         *Engine
	w              http.ResponseWriter
	r              *http.Request
	q              *request
	chat           bool
	fault          Fault
	prompt, cached int // tokens
}

const head = `data: {"id":"null","object":"chat.completion.chunk","created":1,"model":"null","choices":[{"index":0,`

// piece is a word as the API has it, in a stream or not.
func (a *answered) piece(word string, whole bool) string {
	switch {
	case !a.chat:
		return `"text":"` + word + `"`
	case whole:
		return `"message":{"role":"assistant","content":"` + word + `"}`
	}
	return `"delta":{"content":"` + word + `"}`
}

// usage appends the tokens of the prompt and the answer.
func (a *answered) usage(buf []byte, words int) []byte {
	a.engine.count(&a.engine.words, words)
	buf = append(buf, `"usage":{"prompt_tokens":`...)
	buf = strconv.AppendInt(buf, int64(a.prompt), 10)
	buf = append(buf, `,"completion_tokens":`...)
	buf = strconv.AppendInt(buf, int64(words), 10)
	if a.engine.cache != nil {
		buf = fmt.Appendf(buf, `,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}`, a.prompt+words, a.cached)
	}
	return append(buf, '}')
}

// stream sends an answer word by word. Without times between them, all words come in one piece.
func (a *answered) stream() {
	a.w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(a.w)
	word := a.piece(" word", false) + `,"finish_reason":null}]}` + "\n\n"
	var buf []byte
	for i := range a.q.Max {
		if i > 0 && a.engine.model.TPOT > 0 {
			if a.w.Write(buf); control.Flush() != nil || !sleep(a.r.Context(), a.engine.model.TPOT) {
				return
			}
			buf = buf[:0]
		}
		if i == a.q.Max/2 && a.fault.during(a, &buf) {
			return
		}
		buf = append(append(buf, head...), word...)
	}
	end := `"text":""`
	if a.chat {
		end = `"delta":{}`
	}
	buf = append(append(append(buf, head...), end...), `,"finish_reason":"length"}]}`+"\n\n"...)
	buf = a.usage(append(buf, `data: {"choices":[],`...), a.q.Max)
	a.w.Write(append(buf, "}\n\ndata: [DONE]\n\n"...))
}

// whole sends an answer in one piece.
func (a *answered) whole() {
	if wait := a.engine.model.TPOT * durationOf(a.q.Max-1); wait > 0 && !sleep(a.r.Context(), wait) {
		return
	}
	said := ""
	for range a.q.Max {
		said += " word"
	}
	buf := fmt.Appendf(nil, `{"id":"null","object":"chat.completion","created":1,"model":"null","choices":[{"index":0,%s,"finish_reason":"length"}],`, a.piece(said, true))
	if a.q.Transfer != nil && a.q.Transfer.RemoteDecode {
		buf = fmt.Appendf(buf, `"kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"remote_engine_id":"null","remote_block_ids":[1],`+
			`"remote_host":"127.0.0.1","remote_port":5600},`)
	}
	buf = append(a.usage(buf, a.q.Max), '}')
	a.w.Header().Set("Content-Type", "application/json")
	if a.fault.during(a, &buf) {
		return
	}
	a.w.Write(buf)
}
