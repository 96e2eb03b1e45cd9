package provider

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	api "github.com/kvasir-llm/kvasir/api/anthropic"
)

// Messages speaks OpenAI's API for chats with the next one, and Anthropic's Messages API with the caller. It changes
// the requests it gets.
type Messages struct {
	Next http.RoundTripper
	Work Work
}

// RoundTrip sends a request. What it cannot translate gets an answer with status 400 that says why.
func (m *Messages) RoundTrip(r *http.Request) (*http.Response, error) {
	model, stream, body, err := m.encode(r)
	if err != nil && r.Context().Err() != nil {
		return nil, context.Cause(r.Context())
	}
	if err != nil {
		return asMessage(refused(r, err), model)
	}
	base, _ := cutPath(r.URL.Path)
	u := *r.URL
	u.Path, u.RawPath = base+chatPath, ""
	r.URL = &u
	for _, name := range []string{"Anthropic-Version", "Anthropic-Beta"} {
		r.Header.Del(name)
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	r.ContentLength = int64(len(body))
	res, err := m.Next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK && stream && strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		res.Header.Del("Content-Length")
		res.ContentLength = -1
		res.Body = &messageStream{body: res.Body, in: bufio.NewReaderSize(res.Body, 32<<10), model: model}
		return res, nil
	}
	return asMessage(res, model)
}

// encode makes a request one for a chat.
func (m *Messages) encode(r *http.Request) (model string, stream bool, body []byte, err error) {
	done, err := m.Work.begin(r.Context())
	if err != nil {
		return "", false, nil, err
	}
	defer done()
	raw, err := readBody(r)
	if err != nil {
		return "", false, nil, err
	}
	q, body, err := toChat(raw)
	return q.Model, q.Stream, body, err
}

// asMessage makes an answer that is there as a whole, or an error, one of Anthropic's.
func asMessage(res *http.Response, model string) (*http.Response, error) {
	data, err := readAnswer(res.Body)
	res.Body.Close()
	if err != nil {
		return nil, err
	}
	var out []byte
	if res.StatusCode == http.StatusOK {
		out, err = messageOf(data, model)
	} else {
		out = MessageError(res.StatusCode, said(data))
	}
	if err != nil {
		return nil, fmt.Errorf("the endpoint's answer: %w", err)
	}
	res.Header.Set("Content-Type", "application/json")
	res.Header.Del("Content-Length")
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(out)), int64(len(out))
	return res, nil
}

// errorTypes are Anthropic's types of errors by status.
var errorTypes = map[int]string{
	http.StatusBadRequest: api.TypeInvalidRequest, http.StatusUnprocessableEntity: api.TypeInvalidRequest,
	http.StatusUnauthorized: api.TypeAuthentication, http.StatusForbidden: api.TypePermission,
	http.StatusNotFound: api.TypeNotFound, http.StatusRequestEntityTooLarge: api.TypeTooLarge,
	http.StatusTooManyRequests: api.TypeRateLimit, http.StatusServiceUnavailable: api.TypeOverloaded,
	http.StatusGatewayTimeout: api.TypeTimeout,
}

// MessageError is the body of an error in Anthropic's API.
func MessageError(status int, message string) []byte {
	data, _ := json.Marshal(api.ErrorResponse{Type: "error", Error: api.Error{ // of texts, which does not fail
		Type: cmp.Or(errorTypes[status], api.TypeAPI), Message: message,
	}})
	return data
}

// messagesRequest is a request of the Messages API, of which no field is unknown.
type messagesRequest struct {
	Model       string          `json:"model"`
	Messages    []messageTurn   `json:"messages"`
	System      messageBlocks   `json:"system"`
	MaxTokens   *int            `json:"max_tokens"`
	Temperature *float64        `json:"temperature"`
	TopP        *float64        `json:"top_p"`
	TopK        *int            `json:"top_k"`
	Stop        []string        `json:"stop_sequences"`
	Stream      bool            `json:"stream"`
	Tools       []messageTool   `json:"tools"`
	ToolChoice  *messageChoice  `json:"tool_choice"`
	Metadata    messageMetadata `json:"metadata"`
	Thinking    *struct {
		Type    string `json:"type"`
		Budget  int    `json:"budget_tokens"` // which a chat has no words for
		Display string `json:"display"`
	} `json:"thinking"`
	Output *struct {
		Effort string `json:"effort"`
		Format *struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
	ServiceTier  string          `json:"service_tier"`
	CacheControl json.RawMessage `json:"cache_control"` // engines and providers cache by themselves
	CacheSalt    string          `json:"cache_salt"`    // the gateway's, for engines that know it
	Priority     *int            `json:"priority"`
}

type messageMetadata struct {
	UserID string `json:"user_id"`
}

type messageTurn struct {
	Role    string        `json:"role"`
	Content messageBlocks `json:"content"`
}

type messageTool struct {
	Type         string          `json:"type"`
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	Schema       json.RawMessage `json:"input_schema"`
	Strict       *bool           `json:"strict"`
	CacheControl json.RawMessage `json:"cache_control"`
}

type messageChoice struct {
	Type   string `json:"type"`
	Name   string `json:"name"`
	Single bool   `json:"disable_parallel_tool_use"`
}

// messageBlock is a part of a content.
type messageBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"` // of thoughts that are not told
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   messageBlocks   `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    struct {
		Type  string `json:"type"`
		Media string `json:"media_type"`
		Data  string `json:"data"`
		URL   string `json:"url"`
	} `json:"source"`
	Citations    json.RawMessage `json:"citations"`
	CacheControl json.RawMessage `json:"cache_control"`
	Caller       json.RawMessage `json:"caller"`
}

// messageBlocks are a text or a list of blocks.
type messageBlocks []messageBlock

func (b *messageBlocks) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		if *b = nil; text != "" {
			*b = messageBlocks{{Type: "text", Text: text}}
		}
		return nil
	}
	return strict(data, (*[]messageBlock)(b))
}

// text joins the texts of blocks, which must be nothing else.
func (b messageBlocks) text(where string) (string, error) {
	var all []string
	for i, x := range b {
		if x.Type != "text" {
			return "", fmt.Errorf("%s[%d].type: %q cannot be translated for this endpoint", where, i, x.Type)
		}
		all = append(all, x.Text)
	}
	return strings.Join(all, "\n\n"), nil
}

// toChat returns a request of the Messages API, and the one for a chat in OpenAI's.
func toChat(raw []byte) (*messagesRequest, []byte, error) {
	q := &messagesRequest{}
	if err := strict(raw, q); err != nil {
		text := strings.TrimPrefix(err.Error(), "json: ")
		if field, ok := strings.CutPrefix(text, "unknown field "); ok {
			return q, nil, fmt.Errorf("%s cannot be translated for this endpoint", strings.Trim(field, `"`))
		}
		return q, nil, errors.New(text)
	}
	var messages []object
	system, err := q.System.text("system")
	if err != nil {
		return q, nil, err
	}
	if system != "" {
		messages = append(messages, object{"role": "system", "content": system})
	}
	for i, t := range q.Messages {
		some, err := t.chat(fmt.Sprintf("messages[%d]", i))
		if err != nil {
			return q, nil, err
		}
		messages = append(messages, some...)
	}
	o := object{"model": q.Model, "messages": messages}
	o.put("max_tokens", q.MaxTokens).put("temperature", q.Temperature).put("top_p", q.TopP).put("top_k", q.TopK).
		put("stop", texts(q.Stop)).put("user", q.Metadata.UserID).put("cache_salt", q.CacheSalt).put("priority", q.Priority)
	if q.Stream {
		o["stream"], o["stream_options"] = true, object{"include_usage": true}
	}
	if err := q.putTools(o); err != nil {
		return q, nil, err
	}
	if out := q.Output; out != nil {
		o.put("reasoning_effort", out.Effort)
		if f := out.Format; f != nil && f.Type == "json_schema" {
			o["response_format"] = object{"type": f.Type, "json_schema": object{"name": "answer", "schema": f.Schema, "strict": true}}
		} else if f != nil {
			return q, nil, fmt.Errorf("output_config.format.type: %q cannot be translated for this endpoint", f.Type)
		}
	}
	body, err := json.Marshal(o)
	return q, body, err
}

// putTools puts the tools of a request into one for a chat.
func (q *messagesRequest) putTools(o object) error {
	var tools []object
	for i, t := range q.Tools {
		if t.Type != "" && t.Type != "custom" {
			return fmt.Errorf("tools[%d].type: %q cannot be translated for this endpoint", i, t.Type)
		}
		f := object{"name": t.Name}.put("description", t.Description).put("parameters", t.Schema)
		if t.Strict != nil {
			f["strict"] = *t.Strict
		}
		tools = append(tools, object{"type": "function", "function": f})
	}
	o.put("tools", tools)
	c := q.ToolChoice
	if c == nil {
		return nil
	}
	switch c.Type {
	case "auto", "none":
		o["tool_choice"] = c.Type
	case "any":
		o["tool_choice"] = "required"
	case "tool":
		o["tool_choice"] = object{"type": "function", "function": object{"name": c.Name}}
	default:
		return fmt.Errorf("tool_choice.type: %q; want auto, any, tool or none", c.Type)
	}
	if c.Single {
		o["parallel_tool_calls"] = false
	}
	return nil
}

// chat returns the messages of a chat that a turn becomes: results of tools are messages of their own, and come first.
// Earlier thoughts are left out, as chats have no place for them.
func (t *messageTurn) chat(where string) ([]object, error) {
	var all, parts, calls []object
	plain := ""
	for i, b := range t.Content {
		at := fmt.Sprintf("%s.content[%d]", where, i)
		switch {
		case b.Type == "text":
			parts = append(parts, object{"type": "text", "text": b.Text})
			plain += b.Text
		case b.Type == "image" && t.Role == "user":
			url := b.Source.URL
			if b.Source.Type == "base64" {
				url = "data:" + b.Source.Media + ";base64," + b.Source.Data
			}
			if url == "" {
				return nil, fmt.Errorf("%s.source.type: %q cannot be translated for this endpoint", at, b.Source.Type)
			}
			parts = append(parts, object{"type": "image_url", "image_url": object{"url": url}})
		case b.Type == "tool_result" && t.Role == "user":
			text, err := b.Content.text(at + ".content")
			if err != nil {
				return nil, err
			}
			if b.IsError {
				text = "Error: " + text
			}
			all = append(all, object{"role": "tool", "tool_call_id": b.ToolUseID, "content": text})
		case b.Type == "tool_use" && t.Role == "assistant":
			calls = append(calls, object{"id": b.ID, "type": "function",
				"function": object{"name": b.Name, "arguments": string(b.Input)}})
		case (b.Type == "thinking" || b.Type == "redacted_thinking") && t.Role == "assistant":
		default:
			return nil, fmt.Errorf("%s.type: %q of %q cannot be translated for this endpoint", at, b.Type, t.Role)
		}
	}
	m := object{"role": t.Role, "content": parts}
	switch {
	case !slices.Contains([]string{"user", "assistant"}, t.Role):
		return nil, fmt.Errorf("%s.role: %q; want user or assistant", where, t.Role)
	case len(calls) > 0:
		if m["content"] = nil; plain != "" {
			m["content"] = plain
		}
		m["tool_calls"] = calls
	case len(parts) == 0 && (len(all) > 0 || t.Role == "assistant"):
		return all, nil
	case len(parts) <= 1 && plain != "" || t.Role == "assistant":
		m["content"] = plain
	}
	return append(all, m), nil
}

// stopReasons are Anthropic's words for why an answer ended.
var stopReasons = map[string]string{
	"stop": api.StopEndTurn, "length": api.StopMaxTokens, "tool_calls": api.StopToolUse,
	"function_call": api.StopToolUse, "content_filter": "refusal",
}

// chatPiece is what a choice of a chat says, as a whole or as a piece of a stream.
type chatPiece struct {
	Content   string `json:"content"`
	Reasoning string `json:"reasoning_content"`
	Thought   string `json:"reasoning"` // as some engines call it
	Refusal   string `json:"refusal"`
	Calls     []struct {
		Index    int          `json:"index"`
		ID       string       `json:"id"`
		Function functionCall `json:"function"`
	} `json:"tool_calls"`
}

// chatAnswer is a chat completion, or an event of its stream.
type chatAnswer struct {
	Choices []struct {
		Message chatPiece       `json:"message"`
		Delta   chatPiece       `json:"delta"`
		Finish  string          `json:"finish_reason"`
		Stop    json.RawMessage `json:"stop_reason"` // of some engines: the stop string, or a token
	} `json:"choices"`
	Usage *wireUsage      `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// end returns how an answer ended.
func (a *chatAnswer) end() (reason string, stop *string) {
	c := a.Choices[0]
	if json.Unmarshal(c.Stop, &stop) == nil && stop != nil && c.Finish == "stop" {
		return api.StopSequence, stop
	}
	return cmp.Or(stopReasons[c.Finish], api.StopEndTurn), nil
}

func (u *wireUsage) message() (out api.Usage) {
	if u != nil {
		out.CacheReadInputTokens = min(u.Details.Cached, u.Prompt)
		out.InputTokens, out.OutputTokens = u.Prompt-out.CacheReadInputTokens, u.Completion
	}
	return out
}

// messageOf makes a message of a chat completion.
func messageOf(data []byte, model string) ([]byte, error) {
	var a chatAnswer
	if err := json.Unmarshal(data, &a); err != nil || len(a.Choices) == 0 {
		return nil, fmt.Errorf("%.80q is no chat completion", data)
	}
	m := api.Message{ID: newID("msg_"), Type: "message", Role: "assistant", Model: model, Content: []any{}, Usage: a.Usage.message()}
	said := a.Choices[0].Message
	if thought := cmp.Or(said.Reasoning, said.Thought); thought != "" {
		m.Content = append(m.Content, api.ThinkingBlock{Type: "thinking", Thinking: thought})
	}
	if text := said.Content + said.Refusal; text != "" {
		m.Content = append(m.Content, api.TextBlock{Type: "text", Text: text})
	}
	for _, c := range said.Calls {
		input := json.RawMessage(cmp.Or(c.Function.Arguments, "{}"))
		if !json.Valid(input) {
			return nil, fmt.Errorf("the arguments of a call are %.80q, which is no JSON", input)
		}
		m.Content = append(m.Content, api.ToolUseBlock{Type: "tool_use", ID: c.ID, Name: c.Function.Name, Input: input})
	}
	m.StopReason, m.StopSequence = a.end()
	return json.Marshal(m)
}

// messageStream reads the stream of a chat as one of the Messages API.
type messageStream struct {
	body   io.ReadCloser
	in     *bufio.Reader
	model  string
	enc    api.Encoder
	out    bytes.Buffer
	begun  bool
	call   int // the index of the call that is open, and one more; 0 is none
	usage  api.Usage
	pieces int        // events with something in them, which stand for tokens where the endpoint does not count
	last   chatAnswer // with the finish
	ended  bool       // it came
	err    error
}

func (s *messageStream) Close() error { return s.body.Close() }

func (s *messageStream) Read(p []byte) (int, error) {
	for s.out.Len() == 0 && s.err == nil {
		var data []byte
		if _, data, s.err = nextEvent(s.in); s.err == nil {
			s.err = s.event(data)
		}
		if errors.Is(s.err, io.EOF) && !s.ended {
			s.err = io.ErrUnexpectedEOF // it broke off
		}
	}
	if s.out.Len() > 0 {
		return s.out.Read(p)
	}
	return 0, s.err
}

// event writes what an event of a chat says.
func (s *messageStream) event(data []byte) error {
	if string(data) == "[DONE]" {
		if !s.ended {
			return io.ErrUnexpectedEOF
		}
		if s.usage.OutputTokens == 0 {
			s.usage.OutputTokens = s.pieces
		}
		reason, stop := s.last.end()
		s.out.Write(s.enc.AppendEnd(nil, reason, stop, &s.usage))
		return io.EOF
	}
	var a chatAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return fmt.Errorf("%.80q is no event", data)
	}
	if len(a.Error) > 0 && string(a.Error) != "null" {
		return fmt.Errorf("the endpoint says: %s", said(data))
	}
	var b []byte
	if !s.begun {
		s.begun = true
		b = s.enc.AppendStart(b, newID("msg_"), s.model, &api.Usage{})
	}
	if a.Usage != nil {
		s.usage = a.Usage.message()
	}
	if len(a.Choices) > 0 {
		n := len(b)
		if b = s.piece(b, &a.Choices[0].Delta); len(b) > n {
			s.pieces++
		}
		if a.Choices[0].Finish != "" {
			s.last, s.ended = a, true
		}
	}
	s.out.Write(b)
	return nil
}

func (s *messageStream) piece(b []byte, p *chatPiece) []byte {
	if thought := cmp.Or(p.Reasoning, p.Thought); thought != "" {
		b = s.enc.AppendThinking(b, thought)
	}
	if text := p.Content + p.Refusal; text != "" {
		b, s.call = s.enc.AppendText(b, text), 0
	}
	for _, c := range p.Calls {
		if s.call != c.Index+1 {
			b, s.call = s.enc.AppendUse(b, c.ID, c.Function.Name), c.Index+1
		}
		if c.Function.Arguments != "" {
			b = s.enc.AppendInput(b, c.Function.Arguments)
		}
	}
	return b
}
