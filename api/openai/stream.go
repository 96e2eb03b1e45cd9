package openai

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// Done is the event that ends a stream.
const Done = "data: [DONE]\n\n"

// Encoder writes the events of one stream. It appends to the caller's buffer and allocates nothing of its own.
type Encoder struct {
	head []byte // of every event, up to the index of the choice
	tail []byte // of an event without usage: closes it
	base int    // length of head without the choices
	chat bool
}

// NewEncoder returns the encoder of a stream that answers a chat (object ObjectChatChunk) or a completion (object
// ObjectCompletion). If usageLast, events say "usage": null but for those that have one.
func NewEncoder(object, id, model string, created int64, usageLast bool) *Encoder {
	e := &Encoder{chat: object == ObjectChatChunk}
	e.head = append(e.head, `data: {"id":`...)
	e.head = wire.AppendString(e.head, id)
	e.head = append(e.head, `,"object":`...)
	e.head = wire.AppendString(e.head, object)
	e.head = append(e.head, `,"created":`...)
	e.head = strconv.AppendInt(e.head, created, 10)
	e.head = append(e.head, `,"model":`...)
	e.head = wire.AppendString(e.head, model)
	e.base = len(e.head)
	e.head = append(e.head, `,"choices":[{"index":`...)
	if usageLast {
		e.tail = append(e.tail, `,"usage":null`...)
	}
	e.tail = append(e.tail, "}\n\n"...)
	return e
}

// Piece is what one event adds to one choice.
type Piece struct {
	Index    int
	Role     bool // a chat's first event: it names the role
	Text     string
	Thought  string              // reasoning
	Calls    []CallPiece         // of tools
	Chat     []TokenLogprob      // log probabilities in a chat
	Logprobs *CompletionLogprobs // log probabilities in a completion
	Finish   string              // "" while the choice goes on

	StopReason any // with Finish: see ChatChoice

	TokenIDs []int32 // nil if not asked for
	Prompt   []int32 // the prompt's ids; nil if not asked for, or told before
	Usage    *Usage  // nil if not asked for
}

// CallPiece is what an event adds to one call of a tool: its beginning, or a piece of its arguments.
type CallPiece struct {
	Index     int    // of the call
	ID, Name  string // of its beginning
	Arguments string
}

// AppendPiece appends the event.
func (e *Encoder) AppendPiece(dst []byte, p *Piece) []byte {
	dst = append(dst, e.head...)
	dst = strconv.AppendInt(dst, int64(p.Index), 10)
	if e.chat {
		dst = e.appendDelta(dst, p)
	} else {
		dst = append(dst, `,"text":`...)
		dst = wire.AppendString(dst, p.Text)
	}
	switch {
	case p.Chat != nil:
		dst = append(dst, `,"logprobs":{"content":`...)
		dst = appendTokens(dst, p.Chat)
		dst = append(dst, `,"refusal":null}`...)
	case p.Logprobs != nil:
		dst = append(dst, `,"logprobs":`...)
		dst = p.Logprobs.append(dst)
	default:
		dst = append(dst, `,"logprobs":null`...)
	}
	dst = append(dst, `,"finish_reason":`...)
	if p.Finish == "" {
		dst = append(dst, "null"...)
	} else {
		dst = wire.AppendString(dst, p.Finish)
	}
	if p.TokenIDs != nil {
		dst = append(dst, `,"token_ids":`...)
		dst = appendIDs(dst, p.TokenIDs)
	}
	if p.Finish != "" {
		dst = appendStopReason(append(dst, `,"stop_reason":`...), p.StopReason)
	}
	if e.chat { // whose prompt is that of all choices
		dst = append(dst, "}]"...)
	}
	if p.Prompt != nil {
		dst = append(dst, `,"prompt_token_ids":`...)
		dst = appendIDs(dst, p.Prompt)
	}
	if !e.chat {
		dst = append(dst, "}]"...)
	}
	if p.Usage == nil {
		return append(dst, e.tail...)
	}
	return p.Usage.appendTo(dst)
}

// appendStopReason appends a string, an int32 or null.
func appendStopReason(dst []byte, reason any) []byte {
	switch v := reason.(type) {
	case string:
		return wire.AppendString(dst, v)
	case int32:
		return strconv.AppendInt(dst, int64(v), 10)
	}
	return append(dst, "null"...)
}

func (e *Encoder) appendDelta(dst []byte, p *Piece) []byte {
	dst = append(dst, `,"delta":{`...)
	if p.Role {
		dst = append(dst, `"role":"assistant",`...) // each member ends with a comma, but the last one
	}
	if p.Role || p.Text != "" || p.Finish == "" && p.Thought == "" && p.Calls == nil {
		dst = append(dst, `"content":`...)
		dst = append(wire.AppendString(dst, p.Text), ',')
	}
	if p.Thought != "" {
		dst = append(dst, `"reasoning_content":`...)
		dst = append(wire.AppendString(dst, p.Thought), `,"reasoning":`...)
		dst = append(wire.AppendString(dst, p.Thought), ',')
	}
	if p.Calls != nil {
		dst = append(dst, `"tool_calls":[`...)
		for i := range p.Calls {
			dst = append(p.Calls[i].append(dst), ',')
		}
		dst = append(dst[:len(dst)-1], "],"...)
	}
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, '}')
}

func (c *CallPiece) append(dst []byte) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(c.Index), 10)
	if c.ID != "" {
		dst = append(dst, `,"id":`...)
		dst = append(wire.AppendString(dst, c.ID), `,"type":"function"`...)
	}
	dst = append(dst, `,"function":{`...)
	if c.Name != "" {
		dst = append(dst, `"name":`...)
		dst = append(wire.AppendString(dst, c.Name), ',')
	}
	dst = append(dst, `"arguments":`...)
	dst = wire.AppendString(dst, c.Arguments)
	return append(dst, "}}"...)
}

// AppendUsage appends the event that reports the usage of a whole request.
func (e *Encoder) AppendUsage(dst []byte, u *Usage) []byte {
	dst = append(dst, e.head[:e.base]...)
	dst = append(dst, `,"choices":[]`...)
	return u.appendTo(dst)
}

// appendTo appends the usage and closes the event.
func (u *Usage) appendTo(dst []byte) []byte {
	dst = append(dst, `,"usage":{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.PromptTokens), 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.CompletionTokens), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.TotalTokens), 10)
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.PromptTokensDetails.CachedTokens), 10)
	dst = append(dst, '}')
	if d := u.CompletionTokensDetails; d != nil {
		dst = append(dst, `,"completion_tokens_details":{"reasoning_tokens":`...)
		dst = strconv.AppendInt(dst, int64(d.ReasoningTokens), 10)
		if d.AcceptedPredictionTokens > 0 {
			dst = append(dst, `,"accepted_prediction_tokens":`...)
			dst = strconv.AppendInt(dst, int64(d.AcceptedPredictionTokens), 10)
		}
		if d.RejectedPredictionTokens > 0 {
			dst = append(dst, `,"rejected_prediction_tokens":`...)
			dst = strconv.AppendInt(dst, int64(d.RejectedPredictionTokens), 10)
		}
		dst = append(dst, '}')
	}
	return append(dst, "}}\n\n"...)
}

func appendTokens(dst []byte, tokens []TokenLogprob) []byte {
	dst = append(dst, '[')
	for i := range tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = tokens[i].append(dst)
		dst = append(dst, `,"top_logprobs":[`...)
		for j := range tokens[i].Top {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = tokens[i].Top[j].append(dst)
			dst = append(dst, '}')
		}
		dst = append(dst, ']')
		if origin := tokens[i].Origin; origin != "" {
			dst = append(dst, `,"origin":`...)
			dst = wire.AppendString(dst, origin)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// append leaves the object open.
func (t *TopLogprob) append(dst []byte) []byte {
	dst = append(dst, `{"token":`...)
	dst = wire.AppendString(dst, t.Token)
	dst = append(dst, `,"logprob":`...)
	dst = appendLogprob(dst, t.Logprob)
	dst = append(dst, `,"bytes":`...)
	return appendBytes(dst, t.Bytes)
}

func (l *CompletionLogprobs) append(dst []byte) []byte {
	body, err := wire.Encode(l) // maps are written in the order of their sorted keys
	if err != nil {             // strings and numbers always marshal
		panic(err)
	}
	return append(dst, body[:len(body)-1]...)
}

func appendIDs(dst []byte, ids []int32) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(id), 10)
	}
	return append(dst, ']')
}

// TokenText spells a token's bytes: as text, or as "bytes:\xe2\x82" if they are not whole characters.
func TokenText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	out := []byte("bytes:")
	for _, x := range b {
		out = fmt.Appendf(out, `\x%02x`, x)
	}
	return string(out)
}
