// Package wire reads and writes the JSON of HTTP APIs: a strict reader that names the path of whatever it refuses, and
// a writer of strings without reflection. It knows no API's fields. Read Decode and Cursor first.
package wire

import "fmt"

// Error is a request body that cannot be used.
type Error struct {
	Path    string // of the value at fault, such as "messages[2].content"; "" is the whole body
	Code    string // one of the constants below
	Message string // begins with the path
}

// Values of Error.Code.
const (
	CodeInvalidJSON  = "invalid_json"
	CodeInvalidType  = "invalid_type"
	CodeInvalidValue = "invalid_value"
	CodeMissing      = "missing_required_parameter"
	CodeUnsupported  = "unsupported_parameter"
)

func (e *Error) Error() string { return e.Message }

// Invalid returns the error of a value at a path.
func Invalid(path, code, format string, args ...any) *Error {
	message := fmt.Sprintf(format, args...)
	if path != "" {
		message = path + ": " + message
	}
	return &Error{Path: path, Code: code, Message: message}
}

// Missing returns the error of a member that a request must have.
func Missing(path, expected string) *Error {
	return Invalid(path, CodeMissing, "required, and not given; expected %s", expected)
}

// Optional turns a value that was read into what a field holds that may be absent: r.N, err = Optional(c.IntIn(1, 9)).
func Optional[T any](v T, err error) (*T, error) { return &v, err }
