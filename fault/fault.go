// Package fault says which part of a request cannot be used, in no API's words: a constant of the room that defines a
// parameter names it, and the API that answers renders the name. It knows no parameters. Read Error.
package fault

import "fmt"

// Field names a part of a request, such as sampling.FieldTopP or engine.FieldMaxTokens.
type Field string

// Error is a field that cannot be used as it stands: the sender's fault.
type Error struct {
	Field   Field
	Problem string // what was found and what was expected: "is 3; want from 0 to 2"
}

// New returns the *Error of a field.
func New(field Field, format string, args ...any) error {
	return &Error{field, fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string { return string(e.Field) + " " + e.Problem }
