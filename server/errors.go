package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/shelf"
)

// statusGone is what the log says of a request whose client went away before its answer.
const statusGone = 499

// failure is why a request gets no answer, ready for an API to put in its own form.
type failure struct {
	status  int
	param   string // the field at fault, as the API calls it; "" is none
	code    string // a word for programs
	message string
	cause   error         // nil if the server itself refused
	wait    time.Duration // after which to ask again; 0 is a moment
	id      string        // of the request
}

// retryAfter is in whole seconds, at least 1. A long time is spread by a fifth, so that those who are refused together
// do not come back together.
func (f *failure) retryAfter() int {
	return max(1, int(math.Ceil(f.wait.Seconds()*(1+rand.Float64()/5))))
}

func (f *failure) Error() string { return f.message }

// refuse returns a failure that the server finds itself.
func refuse(status int, param, code, format string, args ...any) *failure {
	return &failure{status: status, param: param, code: code, message: fmt.Sprintf(format, args...)}
}

func (s *Server) noModel(t *tenant, name string) error {
	return refuse(http.StatusNotFound, "model", "model_not_found",
		"The model `%s` does not exist or is not served here; there are %s.", quoted(name), strings.Join(s.names(t), ", "))
}

// quoted returns what a request calls something, shortened if no name is as long.
func quoted(name string) string {
	if len(name) > openai.MaxLabel {
		return wire.Clip([]byte(name))
	}
	return name
}

// classify decides how an error of the request that w answers is told in an API. What an unforeseen one says is for the
// log alone.
func classify(w http.ResponseWriter, api *dialect, err error) *failure {
	f := new(failure)
	if known := f; errors.As(err, &known) {
		*f = *known // which may be everybody's
	} else {
		f = describe(api, err)
		f.cause = err
	}
	f.id = w.Header().Get(requestID)
	return f
}

func describe(api *dialect, err error) *failure {
	var (
		body  *wire.Error
		bad   *fault.Error
		long  *text.LengthError
		large *http.MaxBytesError
		busy  *engine.BusyError
	)
	switch {
	case errors.As(err, &body):
		return refuse(http.StatusBadRequest, body.Path, body.Code, "%s", body.Message)
	case errors.As(err, &bad):
		name := api.name(bad.Field)
		return refuse(http.StatusBadRequest, name, wire.CodeInvalidValue, "%s: %s", name, bad.Problem)
	case errors.As(err, &long):
		return refuse(http.StatusBadRequest, api.name(long.Field), "context_length_exceeded", "%v", long)
	case errors.As(err, &large):
		return refuse(http.StatusRequestEntityTooLarge, "", "request_too_large", "The request body is larger than %s.",
			mebibytes(large.Limit))
	case errors.As(err, &busy):
		f := refuse(http.StatusTooManyRequests, "", "queue_full", "Too many requests are waiting. Please try again later.")
		f.wait = time.Duration(busy.Wait) * time.Millisecond
		return f
	case errors.Is(err, engine.ErrQueueFull):
		return refuse(http.StatusTooManyRequests, "", "queue_full",
			"Too many requests are waiting. Please try again shortly.")
	case errors.Is(err, engine.ErrTimeout):
		name := api.name(engine.FieldTimeout)
		return refuse(http.StatusGatewayTimeout, name, "timeout", "The answer took longer than %s.", name)
	case errors.Is(err, text.ErrGuides):
		return refuse(http.StatusServiceUnavailable, "", "too_many_grammars",
			"The grammars of other requests take all the memory there is for them. Please try again shortly.")
	case errors.Is(err, engine.ErrUnread):
		return refuse(http.StatusServiceUnavailable, "", "not_read",
			"The answer was not read, and such answers take all the memory there is for them.")
	case errors.Is(err, engine.ErrAsleep):
		return refuse(http.StatusServiceUnavailable, "", "asleep", "The model was put to sleep.")
	case errors.Is(err, engine.ErrDevice):
		return refuse(http.StatusServiceUnavailable, "", "device_lost", "The device that the model runs on is lost. Please try again later.")
	case errors.Is(err, engine.ErrSleepless), errors.Is(err, engine.ErrTurning):
		return refuse(http.StatusConflict, "", "cannot_sleep", "%v", err)
	case errors.Is(err, engine.ErrDraining), errors.Is(err, engine.ErrClosed), errors.Is(err, errShutdown),
		errors.Is(err, shelf.ErrClosed):
		return refuse(http.StatusServiceUnavailable, "", "shutting_down", "The server is shutting down.")
	case errors.Is(err, context.Canceled):
		return refuse(statusGone, "", "client_closed_request", "The client went away.")
	}
	if f := notLoaded(err); f != nil {
		return f
	}
	return refuse(http.StatusInternalServerError, "", "internal_error", "internal error; the server's log has the details")
}

// fail answers with an error, in the words of the API that the request's path belongs to.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	api := s.dialectOf(r)
	f := classify(w, api, err)
	failTrace(r.Context(), f)
	switch f.status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", strconv.Itoa(f.retryAfter()))
	case http.StatusGatewayTimeout:
		w.Header().Set("X-Should-Retry", "false") // clients generated by Stainless, such as OpenAI's, would
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusInternalServerError:
		s.cfg.Logger.Error("a request failed", "path", r.URL.Path, "id", w.Header().Get(requestID), "error", err)
	}
	if errors.Is(err, engine.ErrDevice) {
		w.Header().Set("Connection", "close") // another process may answer the next request
	}
	if rec, ok := w.(*recorder); ok && rec.status != 0 { // a stream that was kept alive
		rec.Write(api.failEvent(nil, f))
		return
	}
	s.write(w, f.status, api.fail(f))
}

// write answers with a JSON value.
func (s *Server) write(w http.ResponseWriter, status int, v any) {
	body, err := wire.Encode(v)
	if err != nil { // all values are of the kinds that encoding/json takes
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}

// goneError is a failure to write to a client.
type goneError struct{ err error }

func (g goneError) Error() string        { return "writing the answer: " + g.err.Error() }
func (g goneError) Unwrap() error        { return g.err }
func (g goneError) Is(target error) bool { return target == context.Canceled }

func gone(err error) error { return goneError{err} }

// unsupported reports that a ResponseWriter, such as one in a test, lacks a method that real connections have.
func unsupported(err error) bool { return errors.Is(err, http.ErrNotSupported) }

// mebibytes words a number of bytes, which is exact only below one MiB.
func mebibytes(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20))
}
