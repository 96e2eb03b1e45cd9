package events

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// Endpoint is a parsed address of ZeroMQ.
type Endpoint struct {
	Network, Address string // as for net.Listen and net.Dial
	Bind             bool   // else connect
}

// ParseEndpoint reads tcp://host:port or ipc://path. As in vLLM, an address with * or ::, and any ipc, is one to
// listen on, and any other one to connect to; as in CZMQ, a leading @ or > says which. A host or a port * is any.
func ParseEndpoint(s string) (Endpoint, error) {
	e := Endpoint{Bind: strings.Contains(s, "*") || strings.Contains(s, "::") || strings.HasPrefix(s, "ipc://")}
	rest := strings.TrimLeft(s, "@>")
	switch s[:len(s)-len(rest)] {
	case "":
	case "@":
		e.Bind = true
	case ">":
		e.Bind = false
	default:
		return e, fmt.Errorf("events: endpoint %q; want at most one of @ and > before it", s)
	}
	scheme, address, _ := strings.Cut(rest, "://")
	if scheme == "ipc" && address != "" {
		e.Network, e.Address = "unix", address
		return e, nil
	}
	host, port, err := net.SplitHostPort(address)
	if scheme != "tcp" || err != nil || port == "" {
		return e, fmt.Errorf("events: endpoint %q; want tcp://host:port or ipc://path", s)
	}
	if host == "*" {
		host = ""
	}
	if port == "*" {
		port = "0"
	}
	e.Network, e.Address = "tcp", net.JoinHostPort(host, port)
	return e, nil
}

// accept serves connections until the listener is closed.
func (p *Publisher) accept(ln net.Listener, serve func(net.Conn) error) {
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files
			p.cfg.Logger.Warn("KV events: no connection could be accepted", "error", err)
			if !p.pause(time.Second) {
				return
			}
			continue
		}
		p.start(func() { p.serve(conn, serve) })
	}
}

// pause waits; false: the publisher was closed.
func (p *Publisher) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-p.ctx.Done():
		return false
	}
}

// serve runs one connection to its end.
func (p *Publisher) serve(conn net.Conn, serve func(net.Conn) error) {
	stop := guard.OnDone(p.ctx, conn.Close, func(error) {})
	defer stop()
	defer conn.Close()
	if err := serve(conn); err != nil && !errors.Is(err, io.EOF) && p.ctx.Err() == nil {
		p.cfg.Logger.Info("KV events: a connection ended", "peer", conn.RemoteAddr().String(), "error", err)
	}
}

// connect connects to a subscriber that listens, over and over.
func (p *Publisher) connect(at Endpoint) {
	const soonest, latest = 100 * time.Millisecond, 5 * time.Second
	wait := soonest
	for {
		var d net.Dialer
		conn, err := d.DialContext(p.ctx, at.Network, at.Address)
		if err == nil {
			wait = soonest
			p.serve(conn, p.subscribe)
		}
		if !p.pause(wait) {
			return
		}
		wait = min(2*wait, latest)
	}
}

// subscriber is a peer of the PUB socket.
type subscriber struct {
	*peer
	wake chan struct{} // [1] something is in the queue

	mu     sync.Mutex
	topics []string  // prefixes it wants
	queue  [][]frame // messages to be sent
	unsent int       // of those taken from the queue
}

// wants reports whether the peer subscribed to a topic.
func (s *subscriber) wants(topic string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.topics, func(prefix string) bool { return strings.HasPrefix(topic, prefix) })
}

// push queues a message, unless most wait already.
func (s *subscriber) push(m []frame, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue)+s.unsent >= most {
		return
	}
	s.queue = append(s.queue, m)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// maxTopics bounds what a peer may subscribe to.
const maxTopics = 1024

// change subscribes to a topic or takes one subscription back.
func (s *subscriber) change(add bool, topic string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.topics, topic); !add && i >= 0 {
		s.topics = slices.Delete(s.topics, i, i+1)
	}
	if add {
		s.topics = append(s.topics, topic)
	}
	if len(s.topics) > maxTopics {
		return fmt.Errorf("events: more than %d subscriptions", maxTopics)
	}
	return nil
}

// subscribe serves a peer of the PUB socket.
func (p *Publisher) subscribe(conn net.Conn) error {
	peer, err := shake(conn, "PUB", "SUB", "XSUB")
	if err != nil {
		return err
	}
	s := &subscriber{peer: peer, wake: make(chan struct{}, 1)}
	p.mu.Lock()
	p.subs = append(p.subs, s)
	p.mu.Unlock()
	gone := make(chan struct{})
	sent := make(chan error, 1)
	guard.Go(func() error { return s.send(gone) }, func(err error) { sent <- err })
	err = s.listen()
	p.mu.Lock()
	p.subs = slices.DeleteFunc(p.subs, func(o *subscriber) bool { return o == s })
	p.mu.Unlock()
	close(gone)
	conn.Close()
	return errors.Join(err, <-sent)
}

// listen reads subscriptions until the connection ends. They are messages, or the commands of ZMTP 3.1.
func (s *subscriber) listen() error {
	var failed error
	for {
		m, err := s.message(func(name string, data []byte) {
			if name == "SUBSCRIBE" || name == "CANCEL" {
				failed = errors.Join(failed, s.change(name == "SUBSCRIBE", string(data)))
			}
		}, func(pong frame) { s.push([]frame{pong}, maxTopics) })
		if err = errors.Join(err, failed); err != nil {
			return err
		}
		if len(m) == 1 && len(m[0]) > 0 && m[0][0] <= 1 {
			if err := s.change(m[0][0] == 1, string(m[0][1:])); err != nil {
				return err
			}
		}
	}
}

// send sends what is queued until the peer is gone. A peer may take its time.
func (s *subscriber) send(gone <-chan struct{}) error {
	const together = 64
	var taken [][]frame
	for {
		select {
		case <-s.wake:
		case <-gone:
			return nil
		}
		s.mu.Lock()
		taken, s.queue = s.queue, taken[:0]
		s.unsent = len(taken)
		s.mu.Unlock()
		for some := range slices.Chunk(taken, together) {
			if err := s.write(time.Time{}, slices.Concat(some...)...); err != nil {
				s.conn.Close() // ends listen
				return err
			}
			s.mu.Lock()
			s.unsent -= len(some)
			s.mu.Unlock()
		}
		clear(taken)
	}
}

// answerTime is how long a peer may take to accept one batch of a replay.
const answerTime = time.Minute

// answer serves a peer of the replay socket, a ROUTER: a number is answered with the batches from there on, and the
// number -1 with nothing behind it.
func (p *Publisher) answer(conn net.Conn) error {
	c, err := shake(conn, "ROUTER", "REQ", "DEALER", "ROUTER")
	if err != nil {
		return err
	}
	send := func(frames []frame) error { return c.write(time.Now().Add(answerTime), frames...) }
	for {
		m, err := c.message(func(string, []byte) {}, func(pong frame) { send([]frame{pong}) })
		if err != nil {
			return err
		}
		if len(m) != 2 || len(m[0]) != 0 || len(m[1]) > 8 {
			return fmt.Errorf("events: a question of %d frames; want an empty one and a sequence number of 8 bytes", len(m))
		}
		var first [8]byte
		copy(first[8-len(m[1]):], m[1])
		for _, b := range p.since(binary.BigEndian.Uint64(first[:])) {
			if err := send(message(nil, number(b.seq), b.payload)); err != nil {
				return err
			}
		}
		if err := send(message(nil, number(^uint64(0)), nil)); err != nil {
			return err
		}
	}
}
