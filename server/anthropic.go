package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/kvasir-llm/kvasir/api/anthropic"
	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/fault"
)

// anthropicAPI is Anthropic's Messages API.
func anthropicAPI() *dialect {
	return &dialect{
		names: map[fault.Field]string{
			engine.FieldAdapter: "model", text.FieldStop: "stop_sequences", text.FieldThinking: "thinking.budget_tokens",
		},
		fail: func(f *failure) any { return anthropicError(f) },
		failEvent: func(dst []byte, f *failure) []byte {
			return anthropic.AppendErrorEvent(dst, anthropicError(f))
		},
		keyHeader: "X-Api-Key", idHeader: "Request-Id", mark: "Anthropic-Version",
		streamType: "text/event-stream; charset=utf-8", ping: anthropic.Ping,
		title: "Anthropic", replies: map[string]reply{
			"/v1/messages": {anthropic.Message{}, anthropic.Event{}}, "/v1/messages/count_tokens": {whole: anthropic.TokenCount{}}},
		routes: func(s *Server) map[string]route {
			return map[string]route{
				"/v1/messages":              {"POST", s.asks(decodeMessages), clients, "the next message of a conversation (Anthropic)"},
				"/v1/messages/count_tokens": {"POST", s.countTokens, clients, "how many tokens a message would be (Anthropic)"},
			}
		},
		twins: func(s *Server) map[string]route {
			return map[string]route{
				"/v1/models": {"GET", s.anthropicModels, clients, ""},
				modelPath:    {"GET", s.anthropicModel, clients, ""},
			}
		},
	}
}

// anthropicError puts a failure in the form of Anthropic's API.
func anthropicError(f *failure) *anthropic.ErrorResponse {
	kind := anthropic.TypeInvalidRequest
	switch f.status {
	case http.StatusUnauthorized:
		kind = anthropic.TypeAuthentication
	case http.StatusForbidden:
		kind = anthropic.TypePermission
	case http.StatusNotFound:
		kind = anthropic.TypeNotFound
	case http.StatusRequestEntityTooLarge:
		kind = anthropic.TypeTooLarge
	case http.StatusTooManyRequests:
		kind = anthropic.TypeRateLimit
	case http.StatusServiceUnavailable:
		kind = anthropic.TypeOverloaded
	case http.StatusGatewayTimeout:
		kind = anthropic.TypeTimeout
	case http.StatusInternalServerError:
		kind = anthropic.TypeAPI
	}
	message := f.message
	if long := new(text.LengthError); errors.As(f.cause, &long) { // in the words that clients look for
		message = fmt.Sprintf("prompt is too long: %d tokens > %d maximum", long.Prompt, long.Context-long.Answer)
	}
	return &anthropic.ErrorResponse{Type: "error", Error: anthropic.Error{Type: kind, Message: message}, RequestID: f.id}
}

// messagesParams are the parameters that only change how tokens are chosen, and when.
var messagesParams = parameters{
	"temperature":    param(number(0, 1), func(r *text.Request, x float32) { r.Sampling.Temperature = x }),
	"top_p":          param(topP, func(r *text.Request, x float32) { r.Sampling.TopP = x }),
	"top_k":          param(integer(0, 1<<31-1), func(r *text.Request, n int) { r.Sampling.TopK = n }),
	"stop_sequences": param(stops(maxStops), func(r *text.Request, list []string) { r.Stop = list }),
	"metadata":       param(userID, func(r *text.Request, s string) { r.Tenant = s }),
	"cache_salt":     openaiParams["cache_salt"],
}

// userID reads {"user_id": …}.
func userID(c *wire.Cursor) (id string, err error) {
	err = c.Object(func(key string) (err error) {
		if key != "user_id" {
			return c.Unsupported()
		}
		id, err = c.Label(anthropic.MaxLabel)
		return err
	})
	return id, err
}

// messagesAnswer answers /v1/messages.
type messagesAnswer struct {
	*job
	request *anthropic.Request
	params  given
	id      string
	encoder anthropic.Encoder
}

func decodeMessages(body []byte) (*ask, error) {
	a := &messagesAnswer{params: given{known: messagesParams}}
	var err error
	if a.request, err = anthropic.Decode(body, a.params.read); err != nil {
		return nil, err
	}
	return &ask{model: a.request.Model, stream: a.request.Stream, made: 1, given: 1, silent: *a.request.MaxTokens == 0,
		ignored: a.request.Ignored, prompts: a.prompts, answer: a}, nil
}

func (a *messagesAnswer) begin(j *job) { a.job, a.id = j, "msg_"+rand.Text() }

// piece writes what a piece says: thoughts, words, and calls.
func (a *messagesAnswer) piece(dst []byte, c *choice, d *text.Delta) []byte {
	if c.first {
		dst = a.encoder.AppendStart(dst, a.id, a.title(), a.tokens())
	}
	switch {
	case d.Reasoning == "":
	case a.hides():
		dst = a.encoder.AppendThinking(dst, "")
	default:
		dst = a.encoder.AppendThinking(dst, d.Reasoning)
	}
	if d.Text != "" {
		dst = a.encoder.AppendText(dst, d.Text)
	}
	for _, e := range d.Calls {
		if e.Kind == chat.Called {
			dst = a.encoder.AppendUse(dst, e.ID, e.Text)
		} else {
			dst = a.encoder.AppendInput(dst, e.Text)
		}
	}
	return dst
}

func (a *messagesAnswer) end(dst []byte) []byte {
	reason, stop := a.stopped()
	return a.encoder.AppendEnd(dst, reason, stop, a.tokens())
}

func (a *messagesAnswer) whole() any {
	c := a.choices[0]
	m := &anthropic.Message{ID: a.id, Type: "message", Role: "assistant", Model: a.title(), Content: []any{}, Usage: *a.tokens()}
	m.StopReason, m.StopSequence = a.stopped()
	if thoughts := c.reason.String(); thoughts != "" {
		if a.hides() {
			thoughts = ""
		}
		m.Content = append(m.Content, anthropic.ThinkingBlock{Type: "thinking", Thinking: thoughts})
	}
	if c.text.Len() > 0 {
		m.Content = append(m.Content, anthropic.TextBlock{Type: "text", Text: c.text.String()})
	}
	for _, call := range c.toolCalls() {
		m.Content = append(m.Content, anthropic.ToolUseBlock{Type: "tool_use", ID: call.ID, Name: call.Name,
			Input: toolInput(call.Arguments)})
	}
	return m
}

// toolInput returns the arguments of a call as an object. What the model did not complete is in one member, as text.
func toolInput(arguments string) json.RawMessage {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(arguments), &object); err == nil && object != nil {
		return json.RawMessage(arguments)
	}
	if arguments == "" {
		return json.RawMessage("{}")
	}
	return append(wire.AppendString([]byte(`{"INVALID_JSON":`), arguments), '}')
}

// hides reports whether thoughts are not told.
func (a *messagesAnswer) hides() bool { return a.request.Thinking != nil && a.request.Thinking.Hidden }

// stopped returns why the answer ended, and the stop sequence if that is why.
func (a *messagesAnswer) stopped() (reason string, stop *string) {
	c := a.choices[0]
	switch {
	case c.finish == text.FinishCalls:
		return anthropic.StopToolUse, nil
	case c.stop != "":
		return anthropic.StopSequence, &c.stop
	case c.finish != "length":
		return anthropic.StopEndTurn, nil
	case c.prompt.Request.MaxTokens < *a.request.MaxTokens:
		return anthropic.StopContext, nil
	}
	return anthropic.StopMaxTokens, nil
}

// tokens counts the tokens so far.
func (a *messagesAnswer) tokens() *anthropic.Usage {
	u := a.usage()
	return &anthropic.Usage{InputTokens: u.Prompt - u.Cached, CacheReadInputTokens: u.Cached, OutputTokens: u.Generated,
		OutputTokensDetails: anthropic.OutputDetails{ThinkingTokens: u.Reasoning}}
}

// countTokens answers with the number of a conversation's tokens.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) {
	req, err := read(w, r, anthropic.DecodeCount)
	var n int
	if err == nil {
		warn(w, req.Ignored)
		n, err = s.count(r.Context(), req)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, http.StatusOK, anthropic.TokenCount{InputTokens: n})
}

func (s *Server) count(ctx context.Context, req *anthropic.Request) (int, error) {
	m, _, err := s.lookup(ctx, req.Model)
	if err != nil {
		return 0, err
	}
	a := &messagesAnswer{request: req}
	prompts, err := a.prompts(m.Model.Info())
	if err != nil {
		return 0, err
	}
	ids, err := m.Model.Encode(ctx, prompts[0])
	return len(ids), err
}

// Limits of a page of models.
const (
	usualModels = 20
	mostModels  = 1000
)

// anthropicModels answers with a page of the models.
func (s *Server) anthropicModels(w http.ResponseWriter, r *http.Request) {
	out, err := s.modelPage(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, http.StatusOK, out)
}

func (s *Server) modelPage(r *http.Request) (*anthropic.ModelList, error) {
	q, err := query(r, "limit", "after_id", "before_id", "beta")
	if err != nil {
		return nil, err
	}
	limit := usualModels
	if q["limit"] != "" {
		if limit, err = strconv.Atoi(q["limit"]); err != nil || limit < 1 || limit > mostModels {
			return nil, refuse(http.StatusBadRequest, "limit", wire.CodeInvalidValue, "limit is %q; want 1 to %d", q["limit"],
				mostModels)
		}
	}
	all := s.catalogue(tenantOf(r.Context()))
	find := func(param string) (int, error) {
		i := slices.IndexFunc(all, func(m openai.Model) bool { return m.ID == q[param] })
		if i < 0 {
			return 0, refuse(http.StatusBadRequest, param, wire.CodeInvalidValue, "%s: there is no model %q", param, q[param])
		}
		return i, nil
	}
	out := &anthropic.ModelList{Data: []anthropic.Model{}}
	switch {
	case q["after_id"] != "" && q["before_id"] != "":
		return nil, refuse(http.StatusBadRequest, "after_id", wire.CodeInvalidValue, "after_id and before_id exclude each other")
	case q["after_id"] != "":
		i, err := find("after_id")
		if err != nil {
			return nil, err
		}
		all = all[i+1:]
	case q["before_id"] != "":
		i, err := find("before_id")
		if err != nil {
			return nil, err
		}
		out.HasMore = i > limit
		all = all[max(i-limit, 0):i]
	}
	if len(all) > limit {
		out.HasMore, all = true, all[:limit]
	}
	for _, m := range all {
		out.Data = append(out.Data, anthropicModel(&m))
	}
	if n := len(out.Data); n > 0 {
		out.FirstID, out.LastID = &out.Data[0].ID, &out.Data[n-1].ID
	}
	return out, nil
}

func (s *Server) anthropicModel(w http.ResponseWriter, r *http.Request) {
	m, err := s.findModel(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, http.StatusOK, anthropicModel(m))
}

func anthropicModel(m *openai.Model) anthropic.Model {
	return anthropic.Model{Type: "model", ID: m.ID, DisplayName: m.ID, Lifecycle: "active",
		CreatedAt: time.Unix(m.Created, 0).UTC().Format(time.RFC3339), MaxInputTokens: m.MaxModelLen, MaxTokens: m.MaxModelLen}
}
