package anthropic

import (
	"strconv"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// Ping is the event that keeps a silent stream alive.
const Ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n"

// Encoder writes the events of one stream. It appends to the caller's buffer and allocates nothing of its own. Its
// content blocks follow each other: whatever is of another kind than what came before begins the next.
type Encoder struct {
	index int  // of the block that is open, or comes next
	open  kind // of the block that is open
}

type kind int

const (
	none kind = iota
	text
	thinks
	use
)

// AppendStart appends the event that begins a stream.
func (e *Encoder) AppendStart(dst []byte, id, model string, u *Usage) []byte {
	dst = append(dst, `event: message_start`+"\n"+`data: {"type":"message_start","message":{"id":`...)
	dst = wire.AppendString(dst, id)
	dst = append(dst, `,"type":"message","role":"assistant","model":`...)
	dst = wire.AppendString(dst, model)
	dst = append(dst, `,"content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"usage":`...)
	return append(u.append(dst), "}}\n\n"...)
}

// AppendText appends what the model says.
func (e *Encoder) AppendText(dst []byte, s string) []byte {
	if e.open != text {
		dst = append(e.begin(dst, text), `{"type":"text","text":""}}`+"\n\n"...)
	}
	return e.delta(dst, `"text_delta","text":`, s)
}

// AppendThinking appends what the model thinks. An empty string begins thoughts that are not told.
func (e *Encoder) AppendThinking(dst []byte, s string) []byte {
	if e.open != thinks {
		dst = append(e.begin(dst, thinks), `{"type":"thinking","thinking":"","signature":""}}`+"\n\n"...)
	}
	if s == "" {
		return dst
	}
	return e.delta(dst, `"thinking_delta","thinking":`, s)
}

// AppendUse appends the beginning of a call.
func (e *Encoder) AppendUse(dst []byte, id, name string) []byte {
	dst = append(e.begin(dst, use), `{"type":"tool_use","id":`...)
	dst = wire.AppendString(dst, id)
	dst = append(dst, `,"name":`...)
	dst = wire.AppendString(dst, name)
	return append(dst, `,"input":{}}}`+"\n\n"...)
}

// AppendInput appends a piece of the JSON text of a call's input.
func (e *Encoder) AppendInput(dst []byte, json string) []byte {
	return e.delta(dst, `"input_json_delta","partial_json":`, json)
}

// AppendEnd appends the events that end a stream. stop is the stop sequence that was written, if one was.
func (e *Encoder) AppendEnd(dst []byte, reason string, stop *string, u *Usage) []byte {
	dst = e.close(dst)
	dst = append(dst, `event: message_delta`+"\n"+`data: {"type":"message_delta","delta":{"stop_reason":`...)
	dst = wire.AppendString(dst, reason)
	dst = append(dst, `,"stop_sequence":`...)
	if stop != nil {
		dst = wire.AppendString(dst, *stop)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"stop_details":null},"usage":`...)
	dst = append(u.append(dst), "}\n\n"...)
	return append(dst, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}

// begin ends the block that is open and begins one of a kind, up to the block itself.
func (e *Encoder) begin(dst []byte, k kind) []byte {
	dst = e.close(dst)
	e.open = k
	dst = append(dst, `event: content_block_start`+"\n"+`data: {"type":"content_block_start","index":`...)
	dst = strconv.AppendInt(dst, int64(e.index), 10)
	return append(dst, `,"content_block":`...)
}

// delta appends what is added to the block that is open: the type and the name of the text, and the text.
func (e *Encoder) delta(dst []byte, head, s string) []byte {
	dst = append(dst, `event: content_block_delta`+"\n"+`data: {"type":"content_block_delta","index":`...)
	dst = strconv.AppendInt(dst, int64(e.index), 10)
	dst = append(dst, `,"delta":{"type":`...)
	dst = append(dst, head...)
	dst = wire.AppendString(dst, s)
	return append(dst, "}}\n\n"...)
}

// close ends the block that is open. That of thoughts gets its signature first, an empty one.
func (e *Encoder) close(dst []byte) []byte {
	if e.open == none {
		return dst
	}
	if e.open == thinks {
		dst = e.delta(dst, `"signature_delta","signature":`, "")
	}
	dst = append(dst, `event: content_block_stop`+"\n"+`data: {"type":"content_block_stop","index":`...)
	dst = strconv.AppendInt(dst, int64(e.index), 10)
	e.open = none
	e.index++
	return append(dst, "}\n\n"...)
}

func (u *Usage) append(dst []byte) []byte {
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.InputTokens), 10)
	dst = append(dst, `,"cache_creation_input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.CacheCreationInputTokens), 10)
	dst = append(dst, `,"cache_read_input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.CacheReadInputTokens), 10)
	dst = append(dst, `,"output_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.OutputTokens), 10)
	dst = append(dst, `,"output_tokens_details":{"thinking_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.OutputTokensDetails.ThinkingTokens), 10)
	return append(dst, "}}"...)
}
