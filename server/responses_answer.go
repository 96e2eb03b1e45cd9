package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	mathrand "math/rand/v2"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/store"
)

// responseAnswer answers /v1/responses: with items, each of which is a message, a reasoning or a call of a tool.
type responseAnswer struct {
	server  *Server
	owner   string // whom the response belongs to
	id      string // "resp_" and what the ids of its items have too
	request *openai.ResponseRequest
	params  given
	items   []openai.Item // what is asked, with what came before it
	used    text.Request  // for what the answer says of its parameters
	named   int           // items of the input that got an id

	body     *body                    // of the request, which holds memory for what is recalled
	pasts    map[string]*pastResponse // that were recalled, by id
	recalled int64                    // bytes of what is asked that was stored before

	job     *job
	spells  openaiAnswer // tokens
	out     openai.Response
	encoder openai.ResponseEncoder
	opened  bool            // the last item of out.Output is not complete
	text    strings.Builder // of that one
	events  *events         // of a response that is made in the background
}

func (a *responseAnswer) prompts(info text.Info) ([]text.Request, error) {
	info.Defaults.Seed = mathrand.Uint64()
	q, r := a.request, a.params.request(info)
	r.MaxTokens, r.Tenant = value(q.MaxOutputTokens, 0), q.User
	r.Answer.Form, r.Answer.Parse = form(q.Structure), true
	if q.Logprobs || q.TopLogprobs != nil {
		r.Logprobs = value(q.TopLogprobs, 0)
	}
	r.Chat = a.conversation()
	openai.Think(r.Chat, q.Effort, nil)
	offer(&r, &q.Tools)
	a.used = r
	return []text.Request{r}, nil
}

// open fills in what an answer says before anything is generated.
func (a *responseAnswer) open(j *job, status string) {
	q, filled := a.request, func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	a.job = j
	a.out = openai.Response{ID: a.id, Object: openai.ObjectResponse, CreatedAt: time.Now().Unix(), Status: status,
		Background: q.Background, Instructions: filled(q.Instructions), MaxOutputTokens: q.MaxOutputTokens,
		MaxToolCalls: q.MaxToolCalls, Model: j.title(), Output: []openai.Item{},
		ParallelToolCalls: value(q.Tools.ParallelToolCalls, true), PreviousResponseID: filled(q.PreviousResponseID),
		PromptCacheKey: filled(q.PromptCacheKey), Reasoning: openai.ResponseReasoning{Effort: filled(q.Effort)},
		SafetyIdentifier: filled(q.SafetyIdentifier), ServiceTier: "default", Store: q.Store,
		Temperature: a.used.Sampling.Temperature, Text: openai.ResponseText{Format: q.Format, Verbosity: "medium"},
		ToolChoice: q.ToolChoiceJSON, Tools: q.ToolsJSON, TopLogprobs: value(q.TopLogprobs, 0),
		TopP: a.used.Sampling.TopP, Truncation: "disabled", User: filled(q.User), Metadata: q.Metadata}
	if q.Format == nil {
		a.out.Text.Format = []byte(`{"type":"text"}`)
	}
	if q.ToolChoiceJSON == nil {
		a.out.ToolChoice = []byte(`"auto"`)
	}
	if a.out.Tools == nil {
		a.out.Tools = []json.RawMessage{}
	}
	if a.out.Metadata == nil {
		a.out.Metadata = map[string]string{}
	}
}

func (a *responseAnswer) begin(j *job) {
	if a.job == nil {
		a.open(j, openai.ResponseInProgress)
	}
	a.out.Status = openai.ResponseInProgress
}

// piece writes the events of a piece: the beginning of the response, of items, what is added to them, their ends.
func (a *responseAnswer) piece(dst []byte, c *choice, d *text.Delta) []byte {
	if c.first {
		dst = a.start(dst)
	}
	if d.Reasoning != "" {
		dst = a.write(dst, openai.ItemReasoning, d.Reasoning, nil)
	}
	if d.Text != "" {
		dst = a.write(dst, openai.ItemMessage, d.Text, d.Tokens)
	}
	for _, e := range d.Calls {
		if e.Kind == chat.Called {
			dst = a.add(a.close(dst), a.call(e))
			continue
		}
		a.text.WriteString(e.Text)
		dst = a.encoder.AppendDelta(dst, a.last(), a.item(), e.Text, nil)
	}
	return dst
}

// call returns the item of a call that begins.
func (a *responseAnswer) call(e chat.Event) openai.Item {
	one := openai.Item{Type: openai.ItemCall, CallID: e.ID, Name: e.Text}
	for _, t := range a.request.Tools.Tools {
		if t.Name == e.Text && t.Namespace != "" {
			one.Namespace, one.Name = t.Namespace, e.Text[len(t.Namespace)+1:]
		}
	}
	return one
}

// start writes what every stream begins with.
func (a *responseAnswer) start(dst []byte) []byte {
	if a.events != nil {
		a.out.Status = openai.ResponseQueued
		dst = a.encoder.AppendResponse(dst, "created", &a.out)
		dst = a.encoder.AppendResponse(dst, "queued", &a.out)
		a.out.Status = openai.ResponseInProgress
	} else {
		dst = a.encoder.AppendResponse(dst, "created", &a.out)
	}
	return a.encoder.AppendResponse(dst, "in_progress", &a.out)
}

// last is the position of the last item, and item is that one.
func (a *responseAnswer) last() int          { return len(a.out.Output) - 1 }
func (a *responseAnswer) item() *openai.Item { return &a.out.Output[a.last()] }

// write adds text to the last item, or to a new one if that has another type.
func (a *responseAnswer) write(dst []byte, kind, piece string, tokens []text.TokenInfo) []byte {
	if !a.opened || a.item().Type != kind {
		one := openai.Item{Type: kind}
		if kind == openai.ItemMessage {
			one.Role = "assistant"
		}
		dst = a.add(a.close(dst), one)
	}
	logprobs := a.spells.chatLogprobs(tokens)
	a.item().Logprobs = append(a.item().Logprobs, logprobs...)
	a.text.WriteString(piece)
	return a.encoder.AppendDelta(dst, a.last(), a.item(), piece, logprobs)
}

// add begins an item.
func (a *responseAnswer) add(dst []byte, one openai.Item) []byte {
	one.Status, one.ID = openai.ItemInProgress, a.itemID(one.Type, "", len(a.out.Output))
	a.out.Output, a.opened = append(a.out.Output, one), true
	return a.encoder.AppendItem(dst, a.last(), a.item())
}

// itemPrefixes are what the ids of items begin with, by their types.
var itemPrefixes = map[string]string{openai.ItemMessage: "msg_", openai.ItemReasoning: "rs_", openai.ItemCall: "fc_",
	openai.ItemOutput: "fco_"}

// itemID returns the id of an item of the response, from which responseOf finds the response. part is "" for the
// output, or "i" for the input.
func (a *responseAnswer) itemID(kind, part string, n int) string {
	return itemPrefixes[kind] + strings.TrimPrefix(a.id, "resp_") + "_" + part + strconv.Itoa(n)
}

// responseOf returns the id of the response that has an item.
func responseOf(item string) string {
	_, rest, _ := strings.Cut(item, "_")
	id, _, _ := strings.Cut(rest, "_")
	return "resp_" + id
}

// close ends the last item, if it is not complete.
func (a *responseAnswer) close(dst []byte) []byte {
	if !a.opened {
		return dst
	}
	one := a.item()
	one.Status, a.opened = openai.ItemCompleted, false
	if one.Type == openai.ItemCall {
		one.Arguments = a.text.String()
	} else {
		one.Text = a.text.String()
	}
	a.text.Reset()
	if one.Type == openai.ItemReasoning && a.request.Sealed {
		one.Sealed = a.server.seal(a.owner, one.Text)
	}
	if a.job.choices[0].finish == "length" {
		one.Status = openai.ItemIncomplete
	}
	return a.encoder.AppendDone(dst, a.last(), one)
}

func (a *responseAnswer) end(dst []byte) []byte {
	kind := a.finish(&dst)
	dst = a.encoder.AppendResponse(dst, kind, &a.out)
	if a.events != nil { // they are stored with the response
		a.events.Write(dst)
		dst = dst[:0]
	}
	a.keepOrLog()
	return dst
}

func (a *responseAnswer) whole() any {
	c, dst := a.job.choices[0], []byte(nil)
	for _, d := range []text.Delta{{Reasoning: c.reason.String()}, {Text: c.text.String(), Tokens: c.tokens},
		{Calls: c.events}} {
		dst = a.piece(dst[:0], c, &d)
		c.first = false
	}
	a.finish(&dst)
	a.keepOrLog()
	return &a.out
}

// finish completes the answer and returns its status. It appends the events that come before that of the answer.
func (a *responseAnswer) finish(dst *[]byte) string {
	c := a.job.choices[0]
	if len(a.out.Output) == 0 { // an answer without a word
		*dst = a.add(*dst, openai.Item{Type: openai.ItemMessage, Role: "assistant"})
	}
	*dst = a.close(*dst)
	a.out.Status = openai.ResponseCompleted
	if c.finish == "length" {
		a.out.Status, a.out.IncompleteDetails = openai.ResponseIncomplete, &openai.Incomplete{Reason: "max_output_tokens"}
	} else {
		now := time.Now().Unix()
		a.out.CompletedAt = &now
	}
	u := a.job.usage()
	a.out.Usage = &openai.ResponseUsage{InputTokens: u.Prompt, OutputTokens: u.Generated, TotalTokens: u.Prompt + u.Generated,
		InputTokensDetails:  openai.InputDetails{CachedTokens: u.Cached},
		OutputTokensDetails: openai.CompletionDetails{ReasoningTokens: u.Reasoning}}
	return a.out.Status
}

// cut ends the last item, if it is not complete, without an event.
func (a *responseAnswer) cut() {
	if a.opened {
		a.close(nil)
		a.item().Status = openai.ItemIncomplete
	}
}

// broken ends a stream with the news that the response failed.
func (a *responseAnswer) broken(dst []byte, f *failure) []byte {
	before := a.encoder
	a.cut()
	a.encoder = before
	a.out.Status = openai.ResponseFailed
	a.out.Error = &openai.ResponseError{Code: "server_error", Message: f.message}
	switch {
	case f.status == http.StatusTooManyRequests:
		a.out.Error.Code = "rate_limit_exceeded"
	case f.status < http.StatusInternalServerError:
		a.out.Error.Code = "invalid_prompt"
	}
	dst = a.encoder.AppendResponse(dst, "failed", &a.out)
	a.keepOrLog()
	return dst
}

// fail ends a response in the background that is not complete.
func (a *responseAnswer) fail(ctx context.Context, err error) {
	if errors.Is(context.Cause(ctx), errCancelled) {
		a.cut()
		a.out.Status = openai.ResponseCancelled
		a.keepOrLog()
		return
	}
	f := classify(a.events, responsesAPI(), err)
	if f.status >= http.StatusInternalServerError {
		a.server.cfg.Logger.Error("a response failed", "id", a.id, "error", err)
	}
	a.events.Write(a.broken(nil, f))
	a.keepOrLog()
}

// keep stores the answer as it is, if it is to be stored.
func (a *responseAnswer) keep() error {
	if !a.request.Store {
		return nil
	}
	kept, err := a.server.later.store()
	if err != nil {
		return err
	}
	r := &store.Response{ID: a.id, Owner: a.owner, Created: a.out.CreatedAt, Previous: a.request.PreviousResponseID,
		Status: a.out.Status}
	if r.Body, err = wire.Encode(&a.out); err != nil {
		return err
	}
	if r.Input, err = openai.EncodeItems(a.request.Input); err != nil {
		return err
	}
	if a.events != nil {
		r.Events = a.events.bytes()
	}
	return kept.PutResponse(context.Background(), r)
}

// keepOrLog is keep for an answer that was given: an error can only be logged.
func (a *responseAnswer) keepOrLog() {
	if err := a.keep(); err != nil {
		a.server.cfg.Logger.Error("a response was not stored", "id", a.id, "error", err)
	}
}
