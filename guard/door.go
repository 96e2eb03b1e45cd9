package guard

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a connection that no request can change.
const (
	headerTimeout  = 10 * time.Second // for a request's headers, and for TLS to be agreed on
	idleTimeout    = 2 * time.Minute  // between requests
	maxHeaderBytes = 64 << 10

	maxStreams  = 64       // requests at once on one connection of HTTP/2
	streamBytes = 64 << 10 // of a body that nobody has read yet, on HTTP/2
)

// Door bounds what HTTP connections take before anything is known of who is at their other end. Requests are bounded by
// an Answer, a Budget and a deadline of their bodies.
type Door struct {
	// Most bounds the connections that are open at once, and MostEach those of one address that is not a loopback
	// address, or of one /64 network of IPv6. More are closed. 0 is any number.
	Most, MostEach int
	// TLS, if not nil, is what connections speak.
	TLS *tls.Config
	// Known says that whoever asks must say who it is.
	Known bool
	// Accept is how long a connection of HTTP/2 may take to accept anything at all.
	Accept time.Duration
	// Log tells of connections that are closed, and of what goes wrong on others.
	Log *slog.Logger

	listener *listener    // of Listen
	server   *http.Server // of Server or Bound
	arriving arriving     // connections of that
}

// Open returns how many connections are open that were accepted, also those that a server has not seen yet.
func (d *Door) Open() int {
	d.listener.mu.Lock()
	defer d.listener.mu.Unlock()
	return d.listener.open
}

// Server returns a server of HTTP/2 and HTTP/1.1, whose connections are those of d.Listen.
func (d *Door) Server(h http.Handler) *http.Server {
	s := &http.Server{Handler: h, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(d.TLS != nil)
	s.Protocols.SetUnencryptedHTTP2(d.TLS == nil)
	s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: streamBytes,
		MaxReceiveBufferPerConnection: maxStreams * streamBytes / 4}
	d.Bound(s)
	return s
}

// Bound gives a server of another making, which has an HTTP2Config, the bounds of a connection. A Door has one server.
func (d *Door) Bound(s *http.Server) {
	d.server = s
	d.arriving.watch(s)
	s.ReadHeaderTimeout, s.IdleTimeout, s.MaxHeaderBytes = headerTimeout, idleTimeout, maxHeaderBytes
	s.HTTP2.SendPingTimeout, s.HTTP2.WriteByteTimeout = idleTimeout, d.Accept
	s.DisableGeneralOptionsHandler = true // which waits for a body without an end
	s.ErrorLog = slog.NewLogLogger(d.Log.Handler(), slog.LevelWarn)
}

// Listen returns a listener of the connections of ln that are within bounds. It closes those beyond, so that they take
// no place in a queue. The log tells of an address that other hosts may reach and anyone may use.
func (d *Door) Listen(ln net.Listener) net.Listener {
	if at, ok := ln.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() && !d.Known {
		d.Log.Warn("anyone who reaches this address may use it: there are no API keys", "address", at)
	}
	d.listener = newListener(ln, d.Most, d.MostEach, d.Log)
	if d.TLS == nil {
		return d.listener
	}
	over := d.TLS.Clone()
	over.NextProtos = []string{"h2", "http/1.1"}
	return tls.NewListener(d.listener, over)
}

// arrivalTime is how long Shutdown waits for the requests of connections that have sent none.
const arrivalTime = time.Second

// Shutdown accepts no more connections, and waits until those that were accepted have their answers and are closed. The
// server must serve, or be about to.
//
// http.Server.Shutdown answers no request that is read after its call, so it comes last: until then, connections that
// were accepted are read.
func (d *Door) Shutdown(ctx context.Context) error {
	d.server.SetKeepAlivesEnabled(false)
	d.listener.stop(ctx)
	soon, cancel := context.WithTimeout(ctx, arrivalTime)
	defer cancel()
	for d.arriving.any() && pause(soon) {
	}
	for {
		if err := d.server.Shutdown(ctx); err != nil || d.Open() == 0 {
			return err
		}
		if !pause(ctx) {
			return ctx.Err()
		}
	}
}

// pause waits for a moment, and reports whether ctx goes on.
func pause(ctx context.Context) bool {
	select {
	case <-time.After(time.Millisecond):
		return true
	case <-ctx.Done():
		return false
	}
}

// arriving are the connections of a server from which a request is read, or the first one is awaited, and that has not
// reached the handler.
type arriving struct {
	mu  sync.Mutex
	all map[net.Conn]bool
}

// arrived is the key of a request's connection in its context.
type arrived struct{}

// watch notes the connections of a server.
func (a *arriving) watch(s *http.Server) {
	a.all = map[net.Conn]bool{}
	s.ConnState = func(c net.Conn, state http.ConnState) {
		a.set(c, state == http.StateNew || state == http.StateActive)
	}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, arrived{}, c) }
	h := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(arrived{}).(net.Conn); ok {
			a.set(c, false)
		}
		h.ServeHTTP(w, r)
	})
}

func (a *arriving) set(c net.Conn, is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if is {
		a.all[c] = true
	} else {
		delete(a.all, c)
	}
}

func (a *arriving) any() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.all) > 0
}

// listener bounds the connections that are open at once.
type listener struct {
	net.Listener
	most, mostEach int // in all, and of one address; 0 is any number
	log            *slog.Logger
	stopped        atomic.Bool
	handedOut      chan struct{} // closed once all that was accepted before the stop is handed out
	closed         chan struct{}
	hand, end      func() // close them
	shut           func() error

	mu   sync.Mutex // guards the rest
	open int
	each map[netip.Prefix]int
	told bool // that connections are refused, since it last was otherwise
}

func newListener(ln net.Listener, most, mostEach int, log *slog.Logger) *listener {
	l := &listener{Listener: ln, most: most, mostEach: mostEach, log: log, each: map[netip.Prefix]int{},
		handedOut: make(chan struct{}), closed: make(chan struct{})}
	l.hand, l.end = sync.OnceFunc(func() { close(l.handedOut) }), sync.OnceFunc(func() { close(l.closed) })
	l.shut = sync.OnceValue(func() error { return l.Listener.Close() })
	return l
}

// stop accepts no more, and waits until what was accepted is handed out. Accept does not return until Close.
func (l *listener) stop(ctx context.Context) {
	l.stopped.Store(true)
	l.shut()
	select {
	case <-l.handedOut:
	case <-l.closed:
	case <-ctx.Done():
	}
}

func (l *listener) Close() error {
	l.end()
	return l.shut()
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			if l.stopped.Load() {
				l.hand()
				<-l.closed
			}
			return nil, err
		}
		if from := origin(c.RemoteAddr()); l.enter(from) {
			closed := make(chan struct{})
			return &conn{Conn: c, closed: closed, leave: sync.OnceFunc(func() { close(closed); l.leave(from) })}, nil
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
	leave  func()
	closed chan struct{} // by leave

	mu     sync.Mutex // guards the rest
	resets int        // in a second that began at since
	since  time.Time
	rests  time.Time // until which nothing is read
}

// Streams of HTTP/2 that a client begins and ends at once cost it nothing and a server much (CVE-2023-44487). A
// connection with so many of them in a second rests for a second.
const mostResets = 16

// connOf returns the connection that a request came on, nil if it is none of a Door's.
func connOf(r *http.Request) *conn {
	over, _ := r.Context().Value(arrived{}).(net.Conn)
	if t, ok := over.(*tls.Conn); ok {
		over = t.NetConn()
	}
	c, _ := over.(*conn)
	return c
}

// reset notes that a client ended a stream before its answer began.
func (c *conn) reset(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.since) > time.Second {
		c.resets, c.since = 0, now
	}
	if c.resets++; c.resets >= mostResets {
		c.rests = now.Add(time.Second)
	}
}

// Read waits while the connection rests.
func (c *conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	rest := time.Until(c.rests)
	c.mu.Unlock()
	if rest > 0 {
		select {
		case <-time.After(rest):
		case <-c.closed:
		}
	}
	return c.Conn.Read(p)
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
