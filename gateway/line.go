package gateway

import (
	"io"
	"net"
	"net/http/httptrace"
	"sync"
)

// line is a connection to an endpoint that knows whether what came over it was read.
//
// An endpoint may send more than the answer to a request, such as a second answer. http.Transport drops a connection on
// which something comes that nobody waits for, but not if the next request takes the connection before the transport
// has looked: then that request's client would get the rest of another one's answer. So a request that takes a used
// connection waits until the transport reads from it again, as it only does when it has nothing left, or closes it.
type line struct {
	net.Conn
	mu      sync.Mutex
	changed sync.Cond
	reading bool
	closed  bool
}

func newLine(c net.Conn) *line {
	l := &line{Conn: c}
	l.changed.L = &l.mu
	return l
}

func (l *line) set(reading, closed bool) {
	l.mu.Lock()
	l.reading, l.closed = reading, l.closed || closed
	l.mu.Unlock()
	if reading || closed {
		l.changed.Broadcast()
	}
}

func (l *line) Read(p []byte) (int, error) {
	l.set(true, false)
	n, err := l.Conn.Read(p)
	l.set(false, false)
	return n, err
}

func (l *line) Close() error {
	l.set(false, true)
	return l.Conn.Close()
}

// settle waits until there is nothing left on the line, or no line.
func (l *line) settle() {
	l.mu.Lock()
	for !l.reading && !l.closed {
		l.changed.Wait()
	}
	l.mu.Unlock()
}

// settled makes a request wait until the connection that it takes has settled.
var settled = &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
	if !got.Reused {
		return
	}
	c := got.Conn
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	if l, ok := c.(*line); ok {
		l.settle()
	}
}}

// pieces is a body in several parts.
type pieces struct{ rest net.Buffers }

func (p *pieces) Read(into []byte) (int, error) { return p.rest.Read(into) }

func (p *pieces) Close() error { return nil }

// ReadFrom writes pieces, to which http.Transport has set a limit, as they are: without a buffer between.
func (l *line) ReadFrom(r io.Reader) (int64, error) {
	if limited, ok := r.(*io.LimitedReader); ok {
		if p, ok := limited.R.(*pieces); ok {
			n, err := p.rest.WriteTo(l.Conn)
			limited.N -= n
			return n, err
		}
	}
	return io.Copy(struct{ io.Writer }{l.Conn}, r)
}
