package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/sampling"
	"github.com/kvasir-llm/kvasir/sched"
)

// statusGone is what the log says of a request whose client went away before its answer.
const statusGone = 499

// failure is an error with the HTTP status that it is answered with.
type failure struct {
	status int
	body   *openai.Error
}

func (f *failure) Error() string { return f.body.Message }

func fail(status int, kind, param, code, format string, args ...any) *failure {
	return &failure{status, openai.NewError(kind, param, code, fmt.Sprintf(format, args...))}
}

func (s *Server) noModel(name string) error {
	return fail(http.StatusNotFound, openai.TypeInvalidRequest, "model", "model_not_found",
		"The model `%s` does not exist or is not served here; there are %s.", name, strings.Join(s.names(), ", "))
}

func tooLong(context, prompt, wanted int, param string) error {
	return fail(http.StatusBadRequest, openai.TypeInvalidRequest, param, "context_length_exceeded",
		"This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the prompt, %d for the "+
			"completion). Please reduce the length of the prompt or of the completion.", context, prompt+wanted, prompt, wanted)
}

// classify decides how an error is answered. What an unforeseen one says is for the log alone.
func classify(err error) *failure {
	var (
		f     *failure
		wire  *openai.Error
		bad   *text.RequestError
		param *sampling.ParamError
		large *http.MaxBytesError
	)
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &wire):
		return &failure{http.StatusBadRequest, wire}
	case errors.As(err, &bad):
		return fail(http.StatusBadRequest, openai.TypeInvalidRequest, bad.Field, openai.CodeInvalidValue, "%v", bad)
	case errors.As(err, &param):
		return fail(http.StatusBadRequest, openai.TypeInvalidRequest, param.Field, openai.CodeInvalidValue, "%v", param)
	case errors.As(err, &large):
		return fail(http.StatusRequestEntityTooLarge, openai.TypeInvalidRequest, "", "request_too_large",
			"The request body is larger than %d bytes.", large.Limit)
	case errors.Is(err, sched.ErrQueueFull):
		return fail(http.StatusTooManyRequests, openai.TypeRateLimit, "", "queue_full",
			"Too many requests are waiting. Please try again shortly.")
	case errors.Is(err, engine.ErrTimeout):
		return fail(http.StatusGatewayTimeout, openai.TypeServer, "timeout_ms", "timeout", "The answer took longer than timeout_ms.")
	case errors.Is(err, engine.ErrDraining), errors.Is(err, engine.ErrClosed), errors.Is(err, errShutdown):
		return fail(http.StatusServiceUnavailable, openai.TypeUnavailable, "", "shutting_down", "The server is shutting down.")
	case errors.Is(err, context.Canceled):
		return fail(statusGone, openai.TypeInvalidRequest, "", "client_closed_request", "The client went away.")
	}
	return fail(http.StatusInternalServerError, openai.TypeServer, "", "internal_error",
		"internal error; the server's log has the details")
}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	f := classify(err)
	switch f.status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	case http.StatusGatewayTimeout:
		w.Header().Set("X-Should-Retry", "false") // OpenAI's clients would
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusInternalServerError:
		s.cfg.Logger.Error("a request failed", "path", r.URL.Path, "id", w.Header().Get(requestID), "error", err)
	}
	s.write(w, f.status, openai.ErrorResponse{Error: f.body})
}

// write answers with a JSON value.
func (s *Server) write(w http.ResponseWriter, status int, v any) {
	body, err := openai.Encode(v)
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
