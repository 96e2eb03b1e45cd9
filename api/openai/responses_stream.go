package openai

import (
	"strconv"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// ResponseEncoder writes the events of the stream of a response, numbered from 0. It appends to the caller's buffer.
type ResponseEncoder struct {
	next int // the number of the next event
}

// begin opens an event, whose members the caller appends.
func (e *ResponseEncoder) begin(dst []byte, kind string) []byte {
	dst = append(append(dst, "event: "...), kind...)
	dst = append(append(dst, "\ndata: {\"type\":\""...), kind...)
	dst = append(dst, `","sequence_number":`...)
	dst = strconv.AppendInt(dst, int64(e.next), 10)
	e.next++
	return dst
}

const endEvent = "}\n\n"

// AppendResponse appends an event about the whole response: "created", "queued", "in_progress", "completed",
// "incomplete" or "failed".
func (e *ResponseEncoder) AppendResponse(dst []byte, kind string, r *Response) []byte {
	dst = append(e.begin(dst, "response."+kind), `,"response":`...)
	body, err := wire.Encode(r)
	if err != nil { // all members are of the kinds that encoding/json takes
		panic(err)
	}
	return append(append(dst, body[:len(body)-1]...), endEvent...)
}

// where appends where in a response something is: the item, and the part unless it has none.
func where(dst []byte, output int, id string, parts bool) []byte {
	dst = append(dst, `,"output_index":`...)
	dst = strconv.AppendInt(dst, int64(output), 10)
	dst = append(dst, `,"item_id":`...)
	dst = wire.AppendString(dst, id)
	if parts {
		dst = append(dst, `,"content_index":0`...)
	}
	return dst
}

// AppendItem appends the events with which an item begins.
func (e *ResponseEncoder) AppendItem(dst []byte, output int, i *Item) []byte {
	dst = e.item(dst, "response.output_item.added", output, i)
	if i.Type == ItemCall {
		return dst
	}
	empty := Item{Type: i.Type}
	return e.part(dst, "response.content_part.added", output, i.ID, &empty)
}

func (e *ResponseEncoder) item(dst []byte, kind string, output int, i *Item) []byte {
	dst = append(e.begin(dst, kind), `,"output_index":`...)
	dst = strconv.AppendInt(dst, int64(output), 10)
	dst = i.append(append(dst, `,"item":`...))
	return append(dst, endEvent...)
}

func (e *ResponseEncoder) part(dst []byte, kind string, output int, id string, i *Item) []byte {
	dst = where(e.begin(dst, kind), output, id, true)
	dst = i.appendPart(append(dst, `,"part":`...))
	return append(dst, endEvent...)
}

// AppendDelta appends a piece of an item's text or arguments.
func (e *ResponseEncoder) AppendDelta(dst []byte, output int, i *Item, piece string, tokens []TokenLogprob) []byte {
	dst = where(e.begin(dst, deltaOf[i.Type]), output, i.ID, i.Type != ItemCall)
	dst = wire.AppendString(append(dst, `,"delta":`...), piece)
	if i.Type == ItemMessage {
		dst = appendTokens(append(dst, `,"logprobs":`...), tokens)
	}
	return append(dst, endEvent...)
}

// deltaOf and doneOf are the names of the events about the text of each type of item.
var (
	deltaOf = map[string]string{ItemMessage: "response.output_text.delta",
		ItemReasoning: "response.reasoning_text.delta", ItemCall: "response.function_call_arguments.delta"}
	doneOf = map[string]string{ItemMessage: "response.output_text.done",
		ItemReasoning: "response.reasoning_text.done", ItemCall: "response.function_call_arguments.done"}
)

// AppendDone appends the events with which an item ends.
func (e *ResponseEncoder) AppendDone(dst []byte, output int, i *Item) []byte {
	dst = where(e.begin(dst, doneOf[i.Type]), output, i.ID, i.Type != ItemCall)
	if i.Type == ItemCall {
		dst = wire.AppendString(append(dst, `,"name":`...), i.Name)
		dst = wire.AppendString(append(dst, `,"arguments":`...), i.Arguments)
		return e.item(append(dst, endEvent...), "response.output_item.done", output, i)
	}
	dst = wire.AppendString(append(dst, `,"text":`...), i.Text)
	if i.Type == ItemMessage {
		dst = appendTokens(append(dst, `,"logprobs":`...), i.Logprobs)
	}
	dst = e.part(append(dst, endEvent...), "response.content_part.done", output, i.ID, i)
	return e.item(dst, "response.output_item.done", output, i)
}

// AppendResponseError appends the only event of a stream that breaks before its response begins.
func AppendResponseError(dst []byte, e *Error) []byte {
	body, err := wire.Encode(ResponseEvent{Type: "error", Code: e.Code, Message: e.Message, Param: e.Param})
	if err != nil { // strings always marshal
		panic(err)
	}
	dst = append(append(dst, "event: error\ndata: "...), body...)
	return append(dst, '\n') // body ends with a line feed of its own
}
