package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/store"
)

// responsesAPI is OpenAI's Responses API, whose errors are those of OpenAI's other paths.
func responsesAPI() *dialect {
	d := openaiAPI()
	d.failEvent = func(dst []byte, f *failure) []byte { // of a response that has not begun; else a responseAnswer is a breaker
		return openai.AppendResponseError(dst, openaiError(f))
	}
	maps.Copy(d.names, map[fault.Field]string{text.FieldMessages: "input", engine.FieldMaxTokens: "max_output_tokens",
		engine.FieldLogprobs: "top_logprobs"})
	const one = "/v1/responses/{id}"
	d.replies = map[string]reply{
		"/v1/responses": {openai.Response{}, openai.ResponseEvent{}}, one: {openai.Response{}, openai.ResponseEvent{}},
		"DELETE " + one: {whole: openai.Deleted{}}, one + "/cancel": {whole: openai.Response{}},
		one + "/input_items": {whole: openai.ItemList{}},
	}
	d.routes = func(s *Server) map[string]route {
		return map[string]route{
			"/v1/responses":      {"POST", s.respond, clients, "an answer, stored"},
			one:                  {"GET", s.response, clients, "a stored answer"},
			"DELETE " + one:      {"DELETE", s.deleteResponse, clients, "forget a stored answer"},
			one + "/cancel":      {"POST", s.cancelResponse, clients, "end an answer that is made in the background"},
			one + "/input_items": {"GET", s.inputItems, clients, "what was asked"},
		}
	}
	return d
}

// responseParams are the parameters that the Responses API has no other use for, which chats have too.
var responseParams = func() parameters {
	p := maps.Clone(openaiParams)
	delete(p, "user") // is part of the answer
	return p
}()

// decodeResponse reads a request for a response.
func decodeResponse(body []byte) (*responseAnswer, error) {
	a := &responseAnswer{params: given{known: responseParams}, spells: openaiAnswer{common: &openai.Common{}}}
	var err error
	a.request, err = openai.DecodeResponse(body, a.params.read)
	return a, err
}

// respond answers a request for a response: whole, as a stream, or later.
func (s *Server) respond(w http.ResponseWriter, r *http.Request) {
	a, err := read(w, r, decodeResponse)
	var j *job
	if err == nil {
		warn(w, a.request.Ignored)
		a.server, a.body, a.owner, a.id = s, bodyOf(r), tenantOf(r.Context()).owner, "resp_"+rand.Text()
		if err = a.recall(r.Context()); err == nil {
			j, err = s.await(w, r, &ask{model: a.request.Model, stream: a.request.Stream, made: 1, given: 1, keeps: true,
				prompts: a.prompts, answer: a})
		}
	}
	if err == nil && a.request.Background {
		err = s.respondLater(w, r, j, a)
		if err == nil {
			return
		}
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.answer(w, r, j)
}

// respondLater makes a response in the background. Its client gets it as it is now, or a stream of its events, which it
// may leave.
func (s *Server) respondLater(w http.ResponseWriter, r *http.Request, j *job, a *responseAnswer) error {
	t := tenantOf(r.Context())
	if err := t.enter(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(from(s.later.life, t))
	one, err := s.later.begin(a.id, a.owner, cancel)
	if err != nil {
		cancel(nil)
		t.running.Add(-1)
		return err
	}
	ctx, letGo := s.holding(ctx)
	release := bodyOf(r).keep()
	j.room.body = &body{of: s.bodies, tenant: t}
	one.events.room = &room{body: j.room.body}
	over := func() {
		j.room.leave()
		one.events.leave()
		letGo()
		s.later.over(a.id)
		cancel(nil)
		release()
		t.running.Add(-1)
	}
	if _, _, err := s.lookup(ctx, a.request.Model); err != nil { // which the request holds only until it is answered
		over()
		return err
	}
	a.open(j, openai.ResponseQueued)
	a.events = one.events
	if err = a.keep(); err != nil {
		over()
		return refuse(http.StatusServiceUnavailable, "background", "not_stored", "The response cannot be stored now.")
	}
	body := a.out
	s.later.run(func(context.Context) error { return s.work(ctx, j, a) }, func(err error) {
		if err != nil {
			a.fail(ctx, err)
		}
		one.events.finish()
		over()
	})
	if j.stream {
		s.follow(w, r, one.events, 0)
	} else {
		s.write(w, http.StatusOK, body)
	}
	return nil
}

// busyWait is how long a response in the background waits before it asks a full queue again.
const busyWait = time.Second

// work makes a response in the background.
func (s *Server) work(ctx context.Context, j *job, a *responseAnswer) error {
	s.metrics.request(j)
	for {
		err := j.start(ctx)
		if err == nil {
			break
		}
		if !errors.Is(err, engine.ErrQueueFull) {
			return err
		}
		select {
		case <-time.After(busyWait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer j.close()
	a.begin(j)
	if err := a.keep(); err != nil {
		return err
	}
	out := &stream{job: j, api: responsesAPI(), w: a.events, flush: http.NewResponseController(a.events)}
	if err := out.run(ctx, 0); err != nil {
		return err
	}
	return out.send(a.end)
}

// settle says of the responses that the process before left unfinished that they failed.
func (l *later) settle() error {
	for _, status := range []string{openai.ResponseQueued, openai.ResponseInProgress} {
		left, err := l.kept.ResponsesWith(l.life, status)
		if err != nil {
			return err
		}
		for _, r := range left {
			var out map[string]any
			if err := json.Unmarshal(r.Body, &out); err != nil {
				return err
			}
			out["status"] = openai.ResponseFailed
			out["error"] = openai.ResponseError{Code: "server_error", Message: "The server was stopped."}
			r.Status = openai.ResponseFailed
			if r.Body, err = wire.Encode(out); err == nil {
				err = l.kept.PutResponse(l.life, &r)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// stored returns the response that a request names.
func (s *Server) stored(r *http.Request) (*store.Response, error) {
	kept, err := s.later.store()
	if err != nil {
		return nil, err
	}
	id := pathID(r)
	out, err := kept.Response(r.Context(), tenantOf(r.Context()).owner, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, refuse(http.StatusNotFound, "", "not_found", "Response with id '%s' not found.", wire.Clip([]byte(id)))
	}
	if err == nil {
		err = bodyOf(r).hold(int64(len(out.Body) + len(out.Input) + len(out.Events)))
	}
	return out, err
}

// beingMade returns the response that a request names if it is being made, nil if not. Who asks before reading what is
// stored misses no end.
func (s *Server) beingMade(r *http.Request) *laterOne {
	return s.later.of(tenantOf(r.Context()).owner, pathID(r))
}

// response answers with a stored response or, if asked for, with its events.
func (s *Server) response(w http.ResponseWriter, r *http.Request) {
	one := s.beingMade(r)
	out, err := s.stored(r)
	q := getQuery{values: r.URL.Query()}
	stream, after := q.bool("stream"), q.int("starting_after", -1, -1, 1<<31)
	q.inert("include_obfuscation", "false")
	q.list("include", "include[]")
	if err == nil {
		err = q.err()
	}
	if err == nil && after >= 0 && !stream {
		err = wire.Invalid("starting_after", wire.CodeInvalidValue, "only allowed when stream is true")
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	switch {
	case !stream:
		w.Header().Set("Content-Type", "application/json")
		w.Write(out.Body)
	case one != nil && one.events.kept():
		s.follow(w, r, one.events, after+1)
	case len(out.Events) > 0:
		s.follow(w, r, pastEvents(out.Events), after+1)
	default:
		s.fail(w, r, wire.Invalid("stream", wire.CodeInvalidValue,
			"the events of this response were not kept, since it was not made in the background, or they take too much memory"))
	}
}

func (s *Server) deleteResponse(w http.ResponseWriter, r *http.Request) {
	out, err := s.stored(r)
	if err == nil {
		if one := s.later.of(out.Owner, out.ID); one != nil {
			one.cancel(errCancelled)
			<-one.done
		}
		var kept *store.Store
		if kept, err = s.later.store(); err == nil {
			err = kept.DeleteResponse(r.Context(), out.Owner, out.ID)
		}
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, http.StatusOK, openai.Deleted{ID: out.ID, Object: openai.ObjectResponse, Deleted: true})
}

// cancelResponse ends a response that is made in the background. One that has ended stays as it is.
func (s *Server) cancelResponse(w http.ResponseWriter, r *http.Request) {
	one := s.beingMade(r)
	out, err := s.stored(r)
	var made struct {
		Background bool `json:"background"`
	}
	if err == nil {
		err = json.Unmarshal(out.Body, &made)
	}
	if err == nil && !made.Background {
		err = refuse(http.StatusBadRequest, "", wire.CodeInvalidValue, "Only responses made in the background can be cancelled.")
	}
	if err == nil && one != nil {
		one.cancel(errCancelled)
		<-one.done
		out, err = s.stored(r)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(out.Body)
}

// inputItems lists what a response was asked, without what came from the responses before it.
func (s *Server) inputItems(w http.ResponseWriter, r *http.Request) {
	out, err := s.stored(r)
	q := getQuery{values: r.URL.Query()}
	page := q.page(20, "desc")
	q.list("include", "include[]")
	var items []openai.Item
	if err == nil {
		err = q.err()
	}
	if err == nil {
		var done func()
		if done, err = bodyOf(r).recall(r.Context(), int64(len(out.Input))); err == nil {
			defer done()
			items, err = openai.DecodeItems(out.Input)
		}
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if page.Desc {
		slices.Reverse(items)
	}
	if i := slices.IndexFunc(items, func(i openai.Item) bool { return i.ID == page.After }); page.After != "" {
		items = items[i+1:]
	}
	list := openai.ItemList{Object: openai.ObjectList, Data: items[:min(len(items), page.Limit)]}
	list.HasMore = len(list.Data) < len(items)
	if n := len(list.Data); n > 0 {
		list.FirstID, list.LastID = list.Data[0].ID, list.Data[n-1].ID
	}
	s.write(w, http.StatusOK, list)
}
