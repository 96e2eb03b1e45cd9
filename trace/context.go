package trace

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// Context is a span's place in a trace, as W3C's trace context carries it between processes. The zero value is none.
type Context struct {
	Trace   [16]byte
	Span    [8]byte
	Sampled bool
	State   string // tracestate, which is passed on unread
}

// traceparent is a version, the trace, the caller's span, and flags.
var traceparent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$`)

// maxState bounds tracestate; a longer one is dropped, as W3C allows.
const maxState = 512

// FromHeader returns the context that a request's header carries. ok is false if there is none, or one that W3C's
// rules call invalid.
func FromHeader(h http.Header) (c Context, ok bool) {
	m := traceparent.FindStringSubmatch(h.Get("Traceparent"))
	if m == nil || m[1] == "ff" || m[1] == "00" && m[5] != "" {
		return c, false
	}
	var flags [1]byte
	hex.Decode(c.Trace[:], []byte(m[2])) // the expression lets nothing else pass
	hex.Decode(c.Span[:], []byte(m[3]))
	hex.Decode(flags[:], []byte(m[4]))
	if c.Trace == [16]byte{} || c.Span == [8]byte{} {
		return Context{}, false
	}
	c.Sampled = flags[0]&1 == 1
	if state := strings.Join(h.Values("Tracestate"), ","); len(state) <= maxState {
		c.State = state
	}
	return c, true
}

// Set puts the context into the header of a request to another process.
func (c Context) Set(h http.Header) {
	flags := 0
	if c.Sampled {
		flags = 1
	}
	h.Set("Traceparent", fmt.Sprintf("00-%x-%x-%02x", c.Trace, c.Span, flags))
	if h.Del("Tracestate"); c.State != "" {
		h.Set("Tracestate", c.State)
	}
}

// ID returns the trace's id, "" of the zero value.
func (c Context) ID() string {
	if c.Trace == [16]byte{} {
		return ""
	}
	return hex.EncodeToString(c.Trace[:])
}

// child returns the context of a new span below c, in a new trace if c is the zero value.
func (c Context) child() Context {
	for c.Trace == [16]byte{} {
		rand.Read(c.Trace[:])
	}
	for c.Span = [8]byte{}; c.Span == [8]byte{}; {
		rand.Read(c.Span[:])
	}
	return c
}
