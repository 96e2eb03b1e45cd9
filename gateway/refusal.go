package gateway

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/gateway/provider"
)

// refusal is an answer of the gateway itself to a request that it does not serve.
type refusal struct {
	status  int
	kind    string // OpenAI's type of error
	code    string
	message string
	param   string
	retry   time.Duration // when to try again; 0 says nothing
	answer  *answer       // of an endpoint, which the client gets as it came

	messages bool // the client speaks Anthropic's API
}

func (f *refusal) Error() string { return f.message }

// asError is a refusal as an error, nil if it is nil.
func asError(f *refusal) error {
	if f == nil {
		return nil
	}
	return f
}

// wireError is OpenAI's error object.
type wireError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

func (f *refusal) json() []byte {
	if f.messages {
		return provider.MessageError(f.status, f.message)
	}
	e := wireError{Message: f.message, Type: f.kind, Code: f.code}
	if f.param != "" {
		e.Param = &f.param
	}
	data, _ := json.Marshal(map[string]wireError{"error": e}) // of texts, which does not fail
	return data
}

// to makes the refusal one for the clients of a path, in their API.
func (f *refusal) to(path string) *refusal {
	f.messages = strings.HasPrefix(path, messagesPath)
	return f
}

// write answers with the refusal.
func (f *refusal) write(w http.ResponseWriter) {
	data, h := f.json(), w.Header()
	if f.answer != nil {
		for _, name := range []string{"Content-Type", "Retry-After"} {
			if value := f.answer.header.Get(name); value != "" {
				h.Set(name, value)
			}
		}
		h.Set("Content-Length", strconv.Itoa(len(f.answer.body)))
		w.WriteHeader(f.status)
		w.Write(f.answer.body)
		return
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	if f.retry > 0 {
		h.Set("Retry-After", f.seconds())
	}
	w.WriteHeader(f.status)
	w.Write(data)
}

// seconds is the time to wait as Retry-After has it.
func (f *refusal) seconds() string { return strconv.Itoa(int(max(1, math.Ceil(f.retry.Seconds())))) }

// event is the refusal as the last event of a stream that began well.
func (f *refusal) event() []byte {
	if f.messages {
		return slices.Concat([]byte("event: error\ndata: "), f.json(), []byte("\n\n"))
	}
	return append(append([]byte("data: "), f.json()...), "\n\n"...)
}

func invalid(param, message string) *refusal {
	return &refusal{status: http.StatusBadRequest, kind: "invalid_request_error", code: "invalid_request", param: param, message: message}
}

func tooLarge(most int) *refusal {
	return &refusal{status: http.StatusRequestEntityTooLarge, kind: "invalid_request_error", code: "too_large",
		message: "the request body has more than " + strconv.Itoa(most) + " bytes"}
}

func noModel(name string) *refusal {
	return &refusal{status: http.StatusNotFound, kind: "invalid_request_error", code: "model_not_found", param: "model",
		message: "the model " + strconv.Quote(name) + " does not exist, or the API key may not use it"}
}

func unavailable(message string) *refusal {
	return &refusal{status: http.StatusServiceUnavailable, kind: "server_error", code: "no_endpoint", retry: time.Second, message: message}
}
