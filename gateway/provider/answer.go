package provider

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// answer is a provider's answer.
type answer struct {
	text, reasoning string
	calls           []toolCall
	finish          string // OpenAI's reason
	usage           usage
}

// usage is the tokens of an answer. in has those of cached.
type usage struct{ in, out, cached int }

type wireUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func (u usage) wire() *wireUsage {
	w := &wireUsage{Prompt: u.in, Completion: u.out, Total: u.in + u.out}
	w.Details.Cached = u.cached
	return w
}

func newID(prefix string) string {
	var random [12]byte
	rand.Read(random[:])
	return prefix + hex.EncodeToString(random[:])
}

// json is the answer in OpenAI's API.
func (a *answer) json(model string) []byte {
	m := object{"role": "assistant", "content": a.text}
	if a.text == "" && len(a.calls) > 0 {
		m["content"] = nil
	}
	m.put("reasoning_content", a.reasoning)
	if len(a.calls) > 0 {
		m["tool_calls"] = a.calls
	}
	data, _ := json.Marshal(object{ // of texts and numbers, which does not fail
		"id": newID("chatcmpl-"), "object": "chat.completion", "created": time.Now().Unix(), "model": model,
		"choices": []object{{"index": 0, "message": m, "logprobs": nil, "finish_reason": a.finish}}, "usage": a.usage.wire(),
	})
	return data
}

// emitter writes a stream in OpenAI's API.
type emitter struct {
	out     bytes.Buffer
	q       *request
	id      string
	created int64
	begun   bool
	finish  string // "" before the end
	usage   usage
	calls   int
	call    map[int]int // of a provider's blocks that are calls, the index of the call
}

// chunk writes an event.
func (e *emitter) chunk(choices []object, usage *wireUsage) {
	c := object{"id": e.id, "object": "chat.completion.chunk", "created": e.created, "model": e.q.Model, "choices": choices}
	if usage != nil {
		c["usage"] = usage
	}
	data, _ := json.Marshal(c) // of texts and numbers, which does not fail
	fmt.Fprintf(&e.out, "data: %s\n\n", data)
}

func (e *emitter) delta(d object, finish any) {
	if !e.begun {
		e.begun = true
		e.delta(object{"role": "assistant", "content": ""}, nil)
	}
	e.chunk([]object{{"index": 0, "delta": d, "logprobs": nil, "finish_reason": finish}}, nil)
}

func (e *emitter) text(s string) {
	if s != "" {
		e.delta(object{"content": s}, nil)
	}
}

func (e *emitter) reasoning(s string) {
	if s != "" {
		e.delta(object{"reasoning_content": s}, nil)
	}
}

// begin begins a call of a tool, which is in a block of the provider's.
func (e *emitter) begin(block int, id, name string) {
	e.call[block] = e.calls
	e.delta(object{"tool_calls": []object{{"index": e.calls, "id": id, "type": "function",
		"function": object{"name": name, "arguments": ""}}}}, nil)
	e.calls++
}

func (e *emitter) arguments(block int, s string) {
	if s != "" {
		e.delta(object{"tool_calls": []object{{"index": e.call[block], "function": object{"arguments": s}}}}, nil)
	}
}

// end writes what comes last.
func (e *emitter) end() {
	e.delta(object{}, e.finish)
	if e.q.StreamOptions.IncludeUsage {
		e.chunk([]object{}, e.usage.wire())
	}
	e.out.WriteString("data: [DONE]\n\n")
}

// stream reads a provider's stream in OpenAI's API.
type stream struct {
	body io.ReadCloser
	next func() (kind string, data []byte, err error)
	d    dialect
	e    emitter
	tail http.Header
	err  error
}

func newStream(body io.ReadCloser, d dialect, q *request, tail http.Header) *stream {
	s := &stream{body: body, d: d, tail: tail, e: emitter{q: q, id: newID("chatcmpl-"), created: time.Now().Unix(), call: map[int]int{}}}
	in := bufio.NewReaderSize(body, 32<<10)
	s.next = func() (string, []byte, error) { return nextEvent(in) }
	if _, ok := d.(*bedrock); ok {
		s.next = func() (string, []byte, error) { return nextFrame(in) }
	}
	return s
}

func (s *stream) Close() error { return s.body.Close() }

func (s *stream) Read(p []byte) (int, error) {
	for s.e.out.Len() == 0 && s.err == nil {
		var kind string
		var data []byte
		if kind, data, s.err = s.next(); s.err == nil {
			s.err = s.d.event(kind, data, &s.e)
		}
		if errors.Is(s.err, io.EOF) {
			if s.err = io.EOF; s.e.finish == "" {
				s.err = io.ErrUnexpectedEOF // it broke off
			} else {
				s.e.end()
				told, _ := json.Marshal(object{"usage": s.e.usage.wire()}) // of numbers, which does not fail
				s.tail.Set(UsageTrailer, string(told))
			}
		}
	}
	if s.e.out.Len() > 0 {
		return s.e.out.Read(p)
	}
	return 0, s.err
}

// longestEvent is the most bytes of an event.
const longestEvent = 8 << 20

// nextEvent reads a server-sent event with data.
func nextEvent(in *bufio.Reader) (kind string, data []byte, err error) {
	for {
		line, err := readLine(in)
		if err != nil {
			if errors.Is(err, io.EOF) && len(bytes.TrimSpace(line))+len(data) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return "", nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch name, value, _ := bytes.Cut(line, []byte(":")); {
		case len(line) == 0 && len(data) > 0:
			return kind, data, nil
		case len(line) == 0:
			kind = ""
		case string(name) == "event":
			kind = string(bytes.TrimSpace(value))
		case string(name) == "data":
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		}
		if len(data) > longestEvent {
			return "", nil, errLong
		}
	}
}

var errLong = fmt.Errorf("an event has more than %d bytes", longestEvent)

// readLine reads a line, or what there is of one before the end.
func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		line = append(line, piece...)
		if len(line) > longestEvent {
			return nil, errLong
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
