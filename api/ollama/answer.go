package ollama

import (
	"strconv"
	"time"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// Encoder writes the lines of one answer.
type Encoder struct {
	Model string
	Chat  bool // else a continuation
}

// Piece is what a line says.
type Piece struct {
	Created  time.Time
	Text     string
	Thinking string
	Calls    []Call
	Logprobs []Logprob
	Done     *Done // of the last line
}

// Done ends an answer. Times are in nanoseconds.
type Done struct {
	Reason                        string // "stop", "length", "load" or "unload"
	Total, Load, PromptEval, Eval time.Duration
	Prompt, Generated             int // tokens
}

// Logprob is a token with its log probability.
type Logprob struct {
	Token   []byte
	Logprob float32
	Top     []Logprob
}

// Append appends a line. A whole answer is one.
func (e *Encoder) Append(dst []byte, p *Piece) []byte {
	dst = append(dst, `{"model":`...)
	dst = wire.AppendString(dst, e.Model)
	dst = append(dst, `,"created_at":"`...)
	dst = p.Created.UTC().AppendFormat(dst, time.RFC3339Nano)
	if e.Chat {
		dst = append(dst, `","message":{"role":"assistant","content":`...)
		dst = wire.AppendString(dst, p.Text)
		dst = appendThinking(dst, p.Thinking)
		dst = append(appendCalls(dst, p.Calls), '}')
	} else {
		dst = append(dst, `","response":`...)
		dst = wire.AppendString(dst, p.Text)
		dst = appendThinking(dst, p.Thinking)
	}
	if p.Logprobs != nil {
		dst = append(dst, `,"logprobs":`...)
		dst = appendLogprobs(dst, p.Logprobs, true)
	}
	if p.Done == nil {
		return append(dst, `,"done":false}`+"\n"...)
	}
	dst = append(dst, `,"done":true,"done_reason":`...)
	dst = wire.AppendString(dst, p.Done.Reason)
	if p.Done.Reason != "load" && p.Done.Reason != "unload" {
		for _, m := range [...]struct {
			name string
			n    int64
		}{
			{`,"total_duration":`, int64(p.Done.Total)}, {`,"load_duration":`, int64(p.Done.Load)},
			{`,"prompt_eval_count":`, int64(p.Done.Prompt)}, {`,"prompt_eval_duration":`, int64(p.Done.PromptEval)},
			{`,"eval_count":`, int64(p.Done.Generated)}, {`,"eval_duration":`, int64(p.Done.Eval)},
		} {
			dst = append(dst, m.name...)
			dst = strconv.AppendInt(dst, m.n, 10)
		}
	}
	return append(dst, "}\n"...)
}

func appendThinking(dst []byte, thinking string) []byte {
	if thinking == "" {
		return dst
	}
	return wire.AppendString(append(dst, `,"thinking":`...), thinking)
}

func appendCalls(dst []byte, calls []Call) []byte {
	for i, c := range calls {
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"id":`...)
		dst = wire.AppendString(dst, c.ID)
		dst = append(dst, `,"function":{"name":`...)
		dst = wire.AppendString(dst, c.Name)
		dst = append(dst, `,"arguments":`...)
		dst = append(append(dst, c.Arguments...), "}}"...)
	}
	if len(calls) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

func appendLogprobs(dst []byte, list []Logprob, top bool) []byte {
	dst = append(dst, '[')
	for i, l := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"token":`...)
		dst = wire.AppendString(dst, string(l.Token))
		dst = append(dst, `,"logprob":`...)
		// JSON has no infinity.
		dst = strconv.AppendFloat(dst, max(float64(l.Logprob), -9999), 'g', -1, 32)
		dst = append(dst, `,"bytes":[`...)
		for k, b := range l.Token {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendUint(dst, uint64(b), 10)
		}
		dst = append(dst, ']')
		if top && len(l.Top) > 0 {
			dst = append(dst, `,"top_logprobs":`...)
			dst = appendLogprobs(dst, l.Top, false)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// AppendError appends the line that ends a stream that breaks.
func AppendError(dst []byte, message string) []byte {
	dst = wire.AppendString(append(dst, `{"error":`...), message)
	return append(dst, "}\n"...)
}
