package guard

import (
	"context"
	"net/http"
	"time"
)

const (
	lingerTimeout = time.Second // for the rest of a body that nobody reads
	writeBytes    = 256 << 10   // of an answer that a client has to accept within the time that it is given
)

// Answer gives the client a time to accept each piece of an answer.
type Answer struct {
	http.ResponseWriter
	timeout time.Duration
	stream  context.Context // of HTTP/2, which a deadline ends also while nothing is written; nil without
	conn    *conn           // of the stream
	begun   bool            // the stream was there when something was written
}

// NewAnswer returns the Answer to a request, written to w. Whoever calls it calls End when the answer is complete.
func NewAnswer(w http.ResponseWriter, r *http.Request, timeout time.Duration) *Answer {
	if r.ProtoMajor == 2 {
		return &Answer{ResponseWriter: w, timeout: timeout, stream: r.Context(), conn: connOf(r)}
	}
	a := &Answer{ResponseWriter: w, timeout: timeout}
	a.extend() // the deadline of the request before on this connection may be over
	return a
}

// End gives the client the time for what net/http sends after the handler has returned.
func (a *Answer) End() {
	a.extend()
	if a.conn != nil && a.stream.Err() != nil && !a.begun {
		a.conn.reset(time.Now())
	}
}

// WriteHeader does what that of the ResponseWriter does.
func (a *Answer) WriteHeader(status int) {
	a.extend()
	a.ResponseWriter.WriteHeader(status)
	a.lift()
}

// Write writes p in pieces, each of which has to be accepted in time.
func (a *Answer) Write(p []byte) (n int, err error) {
	defer a.lift()
	for {
		a.extend()
		m, err := a.ResponseWriter.Write(p[n:min(len(p), n+writeBytes)])
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

// FlushError sends what was written, for http.ResponseController.
func (a *Answer) FlushError() error {
	a.extend()
	defer a.lift()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// extend gives the client its time anew. A writer in a test has no deadlines. A stream that has ended gets none:
// nothing would take it off, and it would keep the stream in memory.
func (a *Answer) extend() {
	if a.stream != nil && a.stream.Err() != nil {
		return
	}
	a.begun = true
	http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(a.timeout))
}

// lift takes the deadline off an answer on HTTP/2, whose next piece may take any time to make.
func (a *Answer) lift() {
	if a.stream != nil && a.stream.Err() == nil {
		http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Time{})
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (a *Answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Dismiss makes the answer to a request not wait for a body that nobody will read. The connection is closed after it.
func Dismiss(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 || r.Context().Err() != nil {
		return
	}
	w.Header().Set("Connection", "close")
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(lingerTimeout))
}
