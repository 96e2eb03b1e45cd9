package server

import (
	"net/http"

	"github.com/kvasir-llm/kvasir/guard"
)

// recorder remembers the status of an answer.
type recorder struct {
	*guard.Answer
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.Answer.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (n int, err error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.Answer.Write(p)
}
