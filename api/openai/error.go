package openai

import "encoding/json"

// Error is what a request gets instead of an answer, as OpenAI's API words it.
type Error struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"` // the field at fault, such as "messages[2].content"
	Code    *string `json:"code"`
}

// Values of Error.Type.
const (
	TypeInvalidRequest = "invalid_request_error"
	TypeServer         = "server_error"
	TypeRateLimit      = "rate_limit_error"
	TypeUnavailable    = "service_unavailable_error"
)

// NewError returns an error; an empty param or code is null on the wire.
func NewError(kind, param, code, message string) *Error {
	e := &Error{Message: message, Type: kind}
	if param != "" {
		e.Param = &param
	}
	if code != "" {
		e.Code = &code
	}
	return e
}

// ErrorResponse is the body of an answer that is an error, and the last event of a stream that breaks.
type ErrorResponse struct {
	Error *Error `json:"error"`
}

// AppendErrorEvent appends the event that ends a broken stream.
func AppendErrorEvent(dst []byte, e *Error) []byte {
	body, err := json.Marshal(ErrorResponse{e})
	if err != nil { // strings always marshal
		panic(err)
	}
	dst = append(dst, "data: "...)
	dst = append(dst, body...)
	return append(dst, "\n\n"...)
}
