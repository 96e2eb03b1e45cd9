package events

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// Feed follows a publisher: one of this package, vLLM's or SGLang's. Its functions are called from one goroutine at a
// time.
type Feed struct {
	Endpoint string // of the PUB socket, such as tcp://engine:5557
	Replay   string // of the ROUTER socket that sends again what was missed; "" is none
	Topic    string // what the topics of wanted messages begin with
	// Snapshot returns a payload with all that the engine holds, and the number of the first batch that is not in it.
	// It is nil, or returns ErrNoSnapshot, if the engine has no snapshots.
	Snapshot func(ctx context.Context) (payload []byte, next uint64, err error)
	Logger   *slog.Logger

	// Begin is called when all that was told is void. If whole is true, what is told from then on is all that the
	// engine holds. Else it may hold blocks that it told of before anybody listened.
	Begin func(whole bool)
	// Tell is called with each batch, in order. After an error all begins anew.
	Tell func([]Told) error
	// End is called when the connection is lost, before Begin is called again.
	End func()
}

// ErrNoSnapshot is the error of an engine that has no snapshots.
var ErrNoSnapshot = errors.New("events: the engine has no snapshots")

// maxBatch bounds a message of a publisher, in bytes.
const maxBatch = 64 << 20

// follow follows the publisher until ctx ends. It connects again whenever the connection is lost.
func (f *Feed) follow(ctx context.Context) {
	const soonest, latest = 100 * time.Millisecond, 5 * time.Second
	said := ""
	for wait := soonest; ctx.Err() == nil; wait = min(2*wait, latest) {
		began := time.Now()
		err := f.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if text := err.Error(); text != said {
			f.Logger.Info("KV events: not connected", "endpoint", f.Endpoint, "error", err)
			said = text
		}
		if time.Since(began) > latest {
			wait = soonest
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// once follows the publisher over one connection.
func (f *Feed) once(ctx context.Context) error {
	p, done, err := dialPeer(ctx, f.Endpoint, "SUB", "PUB", "XPUB")
	if err != nil {
		return err
	}
	defer done()
	if err := p.write(time.Now().Add(handshakeTime), message(append([]byte{1}, f.Topic...))...); err != nil {
		return err
	}
	defer f.End()
	l := &listener{Feed: f, ctx: ctx, peer: p}
	if err := l.begin(); err != nil {
		return err
	}
	for {
		seq, payload, err := l.next()
		if err == nil {
			err = l.take(seq, payload)
		}
		if err != nil {
			return err
		}
	}
}

// dialPeer connects to a peer and greets it. done ends the connection, as does the end of ctx.
func dialPeer(ctx context.Context, endpoint, kind string, wanted ...string) (p *peer, done func(), err error) {
	at, err := ParseEndpoint(endpoint)
	if err != nil {
		return nil, nil, err
	}
	d := net.Dialer{Timeout: handshakeTime}
	conn, err := d.DialContext(ctx, at.Network, at.Address)
	if err != nil {
		return nil, nil, fmt.Errorf("events: %w", err)
	}
	stop := guard.OnDone(ctx, conn.Close, func(error) {})
	done = func() { stop(); conn.Close() }
	if p, err = shake(conn, kind, wanted...); err != nil {
		done()
		return nil, nil, err
	}
	p.most = maxBatch
	return p, done, nil
}

// listener is a connection of a Feed.
type listener struct {
	*Feed
	*peer
	ctx     context.Context
	started bool   // a batch or a snapshot was taken
	want    uint64 // the number of the batch that is next, if started
	last    int64  // the number of the last message; -1 is none
}

// begin learns what the engine holds, as far as it can be learned.
func (l *listener) begin() error {
	l.last = -1
	if l.Snapshot != nil {
		payload, next, err := l.Snapshot(l.ctx)
		if err == nil {
			l.Begin(true)
			l.started, l.want = true, next
			return l.tell(payload)
		}
		if !errors.Is(err, ErrNoSnapshot) {
			return err
		}
	}
	if l.Replay == "" {
		l.Begin(false)
		return nil
	}
	all, err := l.replay(0)
	if err != nil {
		return err
	}
	l.Begin(len(all) == 0 || all[0].seq == 0)
	return l.takeAll(all)
}

// take takes a message of the publisher.
func (l *listener) take(seq uint64, payload []byte) error {
	restarted := int64(seq) <= l.last
	l.last = int64(seq)
	switch {
	case restarted:
		return errors.New("events: the numbers of batches began anew")
	case !l.started:
		l.started = true
		if seq == 0 {
			l.Begin(true)
		}
	case seq < l.want: // the snapshot, or the replay, had it
		return nil
	case seq > l.want:
		if err := l.fill(seq); err != nil || seq < l.want {
			return err
		}
	}
	l.want = seq + 1
	return l.tell(payload)
}

// fill learns of the batches from the wanted one to that before seq, which were missed.
func (l *listener) fill(seq uint64) error {
	missing := fmt.Errorf("events: batches %d to %d were missed", l.want, seq-1)
	if l.Replay == "" {
		return missing
	}
	all, err := l.replay(l.want)
	if err != nil {
		return err
	}
	if len(all) == 0 || all[0].seq != l.want {
		return missing
	}
	if err := l.takeAll(all); err != nil || l.want >= seq {
		return err
	}
	return missing
}

// takeAll takes batches that were sent again.
func (l *listener) takeAll(all []batch) error {
	for _, b := range all {
		if l.started && b.seq != l.want {
			return fmt.Errorf("events: a replay has batch %d after %d", b.seq, l.want-1)
		}
		l.started, l.want = true, b.seq+1
		if err := l.tell(b.payload); err != nil {
			return err
		}
	}
	return nil
}

func (l *listener) tell(payload []byte) error {
	told, _, err := decode(payload)
	if err != nil {
		return err
	}
	return l.Tell(told)
}

// next waits for a message of the publisher: its topic, number and payload. In a replay an empty frame comes before the
// topic, as vLLM sends it, or in its place.
func (p *peer) next() (seq uint64, payload []byte, err error) {
	m, err := p.message(func(string, []byte) {}, func(pong frame) { p.write(time.Now().Add(handshakeTime), pong) })
	if err != nil {
		return 0, nil, err
	}
	if len(m) == 4 && len(m[0]) == 0 {
		m = m[1:]
	}
	if len(m) != 3 || len(m[1]) != 8 {
		return 0, nil, fmt.Errorf("events: a message of %d frames; want a topic, 8 bytes of a number, and a payload", len(m))
	}
	return binary.BigEndian.Uint64(m[1]), m[2], nil
}

// replayTime is how long a replay may take.
const replayTime = 30 * time.Second

// replay asks for the batches from a number on.
func (l *listener) replay(from uint64) (all []batch, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, replayTime)
	defer cancel()
	p, done, err := dialPeer(ctx, l.Feed.Replay, "DEALER", "ROUTER")
	if err != nil {
		return nil, err
	}
	defer done()
	if err := p.write(time.Now().Add(handshakeTime), message(nil, number(from))...); err != nil {
		return nil, err
	}
	for {
		seq, payload, err := p.next()
		if err != nil || seq == ^uint64(0) {
			return all, err
		}
		all = append(all, batch{seq, payload})
	}
}

// Start follows the publisher on a goroutine of its own, until ctx ends. It calls ended then.
func (f *Feed) Start(ctx context.Context, ended func()) {
	guard.Go(func() error { f.follow(ctx); return nil }, func(err error) {
		if err != nil {
			f.Logger.Error("KV events: a feed panicked", "endpoint", f.Endpoint, "error", err)
		}
		ended()
	})
}
