package guard

import (
	"crypto/tls"
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

	listener *listener // of Listen
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

// Bound gives a server of another making, which has an HTTP2Config, the bounds of a connection.
func (d *Door) Bound(s *http.Server) {
	s.ReadHeaderTimeout, s.IdleTimeout, s.MaxHeaderBytes = headerTimeout, idleTimeout, maxHeaderBytes
	s.HTTP2.SendPingTimeout, s.HTTP2.WriteByteTimeout = idleTimeout, d.Accept
	s.ErrorLog = slog.NewLogLogger(d.Log.Handler(), slog.LevelWarn)
}

// Listen returns a listener of the connections of ln that are within bounds. It closes those beyond, so that they take
// no place in a queue. The log tells of an address that other hosts may reach and anyone may use.
func (d *Door) Listen(ln net.Listener) net.Listener {
	if at, ok := ln.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() && !d.Known {
		d.Log.Warn("anyone who reaches this address may use it: there are no API keys", "address", at)
	}
	d.listener = &listener{Listener: ln, most: d.Most, mostEach: d.MostEach, log: d.Log, each: map[netip.Prefix]int{}}
	if d.TLS == nil {
		return d.listener
	}
	over := d.TLS.Clone()
	over.NextProtos = []string{"h2", "http/1.1"}
	return tls.NewListener(d.listener, over)
}

// listener bounds the connections that are open at once.
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
