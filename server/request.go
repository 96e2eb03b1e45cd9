package server

import (
	"net/http"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// read decodes the body of a request. The deadline of the body is lifted afterwards: net/http goes on reading, to
// notice when the client goes away, and would take a deadline for that.
func read[T any](w http.ResponseWriter, r *http.Request, decode func([]byte) (*T, error)) (*T, error) {
	whole := false
	v, err := take(r, decode, func() {
		whole = true
		http.NewResponseController(w).SetReadDeadline(time.Time{}) // not of a writer in a test, which has none
	})
	if !whole {
		guard.Dismiss(w, r)
	}
	return v, err
}

func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
