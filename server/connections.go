package server

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Bounds of a connection that no request can change.
const (
	headerTimeout  = 10 * time.Second // for a request's headers, and for TLS to be agreed on
	idleTimeout    = 2 * time.Minute  // between requests
	maxHeaderBytes = 64 << 10
	lingerTimeout  = time.Second // for the rest of a body that nobody reads
	writeBytes     = 256 << 10   // of an answer that a client has to accept within WriteTimeout

	maxStreams  = 64       // requests at once on one connection of HTTP/2
	streamBytes = 64 << 10 // of a body that nobody has read yet, on HTTP/2
)

// recorder remembers the status of an answer, and gives the client a time to accept each piece of it.
type recorder struct {
	http.ResponseWriter
	status  int
	timeout time.Duration
}

// WriteHeader and Write set the deadline. It holds until the next one of the connection, since net/http sends the end
// of an answer after its handler has returned.
func (r *recorder) WriteHeader(status int) {
	r.extend()
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (n int, err error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	for {
		r.extend()
		m, err := r.ResponseWriter.Write(p[n:min(len(p), n+writeBytes)])
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

// extend gives the client another WriteTimeout. A writer in a test has no deadlines.
func (r *recorder) extend() {
	http.NewResponseController(r.ResponseWriter).SetWriteDeadline(time.Now().Add(r.timeout))
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// dismiss makes the answer to a request not wait for a body that nobody will read. The connection is closed after it.
func dismiss(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		return
	}
	w.Header().Set("Connection", "close")
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(lingerTimeout))
}

// listener bounds the connections that are open at once. It closes those beyond, so that they take no place in a queue.
type listener struct {
	net.Listener
	most, mostEach int // in all, and of one address; 0 is any number
	log            *slog.Logger

	mu   sync.Mutex // guards the rest
	open int
	each map[netip.Prefix]int
	told bool // that connections are refused, since it last was otherwise
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if from := origin(c.RemoteAddr()); l.enter(from) {
			return &conn{Conn: c, leave: sync.OnceFunc(func() { l.leave(from) })}, nil
		}
		c.Close()
	}
}

// origin returns what is bounded as one address: an IPv4 address, or the 64 bits of IPv6 that one customer has. It is
// invalid for a loopback address, where a proxy may bring the connections of many, and for what is no address.
func origin(a net.Addr) netip.Prefix {
	at, err := netip.ParseAddrPort(a.String())
	ip := at.Addr().Unmap()
	if err != nil || ip.IsLoopback() {
		return netip.Prefix{}
	}
	p, _ := ip.WithZone("").Prefix(min(ip.BitLen(), 64)) // fits
	return p
}

func (l *listener) enter(from netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most > 0 && l.open >= l.most || l.mostEach > 0 && from.IsValid() && l.each[from] >= l.mostEach {
		if !l.told {
			l.log.Warn("refusing connections", "open", l.open, "of", from, "open of these", l.each[from])
		}
		l.told = true
		return false
	}
	l.told = false
	l.open++
	l.each[from]++
	return true
}

func (l *listener) leave(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.each[from]--; l.each[from] == 0 {
		delete(l.each, from)
	}
}

// conn is a connection that a listener counts.
type conn struct {
	net.Conn
	leave func()
}

func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// CloseWrite lets net/http end an answer in order where the client still sends.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
