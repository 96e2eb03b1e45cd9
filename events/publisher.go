// Package events tells others, over ZeroMQ and in the format of vLLM, what the prefix cache of an engine holds, and
// follows engines that do: docs/format/kv-events.md specifies it. It knows nothing of how the cache works. Read
// Publisher first, then Feed.
package events

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/kv"
)

// Config says where events go.
type Config struct {
	// Endpoint is where subscribers connect to, such as tcp://*:5557, or what the publisher connects to; see
	// ParseEndpoint.
	Endpoint string
	// Replay is where batches that were missed are asked for, such as tcp://*:5558; "" is nowhere.
	Replay string
	// Topic is the first frame of every message.
	Topic string
	// HWM is how many batches may wait for a subscriber; of more, it misses the newest. 0 is 100000.
	HWM int
	// Buffer is how many of the last batches can be replayed. 0 is 10000.
	Buffer   int
	Encoding Encoding
	Logger   *slog.Logger // hears of peers that make mistakes; nil is none
}

// Publisher numbers batches of events from 0 and sends them to whoever subscribed. A subscriber that does not keep up
// misses batches, which the numbers tell it, and may ask for a replay or a snapshot.
type Publisher struct {
	cfg     Config
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	pub     net.Listener // nil if the publisher connects
	replay  net.Listener // nil if there is none

	mu     sync.Mutex
	next   uint64  // the number of the next batch
	recent []batch // up to Config.Buffer; once it is full, a ring
	subs   []*subscriber
}

// batch is a numbered message: sequence number and payload.
type batch struct {
	seq     uint64
	payload []byte
}

func number(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// Open listens on the endpoints, or begins to connect. Close ends it.
func Open(cfg Config) (*Publisher, error) {
	cfg.HWM, cfg.Buffer = cmp.Or(cfg.HWM, 100_000), cmp.Or(cfg.Buffer, 10_000)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.HWM < 0 || cfg.Buffer < 0 || cfg.Encoding.BlockTokens < 1 {
		return nil, fmt.Errorf("events: %d batches may wait, %d are kept, blocks have %d tokens; want more than 0", cfg.HWM, cfg.Buffer, cfg.Encoding.BlockTokens)
	}
	at, err := ParseEndpoint(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	p := &Publisher{cfg: cfg}
	if at.Bind {
		if p.pub, err = net.Listen(at.Network, at.Address); err != nil {
			return nil, fmt.Errorf("events: %w", err)
		}
	}
	if cfg.Replay != "" {
		if err := p.openReplay(); err != nil {
			if p.pub != nil {
				p.pub.Close()
			}
			return nil, err
		}
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if p.pub != nil {
		p.start(func() { p.accept(p.pub, p.subscribe) })
	} else {
		p.start(func() { p.connect(at) })
	}
	if p.replay != nil {
		p.start(func() { p.accept(p.replay, p.answer) })
	}
	return p, nil
}

// start runs f on a goroutine that Close waits for. A panic ends f alone.
func (p *Publisher) start(f func()) {
	p.running.Add(1)
	guard.Go(func() error { f(); return nil }, func(err error) {
		defer p.running.Done()
		if err != nil {
			p.cfg.Logger.Error("KV events: a connection or a listener panicked", "error", err)
		}
	})
}

func (p *Publisher) openReplay() error {
	at, err := ParseEndpoint(p.cfg.Replay)
	if err != nil {
		return err
	}
	if p.replay, err = net.Listen(at.Network, at.Address); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	return nil
}

// Event is what happened to a block.
type Event = kv.Event

// Publish sends a batch of events that happened now. It waits for nobody.
func (p *Publisher) Publish(events []Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seq := p.next
	p.next++
	if p.replay == nil && len(p.subs) == 0 {
		return
	}
	b := batch{seq, p.cfg.Encoding.AppendBatch(nil, now(), events)}
	switch {
	case p.replay == nil:
	case len(p.recent) < p.cfg.Buffer:
		p.recent = append(p.recent, b)
	default:
		p.recent[seq%uint64(p.cfg.Buffer)] = b
	}
	frames := message([]byte(p.cfg.Topic), number(seq), b.payload)
	for _, s := range p.subs {
		if s.wants(p.cfg.Topic) {
			s.push(frames, p.cfg.HWM)
		}
	}
}

func now() float64 { return float64(time.Now().UnixMicro()) / 1e6 }

// since returns the batches from a number on that are still there, in order.
func (p *Publisher) since(first uint64) []batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []batch
	for _, b := range p.recent {
		if b.seq >= first {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b batch) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

// Source is an engine, which Publish hears of.
type Source interface {
	CacheSnapshot(ctx context.Context, told func()) ([]kv.Event, error)
}

// Snapshot returns a batch that tells a newcomer all that the cache holds, and the number of the first batch that is
// news to it.
func (p *Publisher) Snapshot(ctx context.Context, from Source) (payload []byte, next uint64, err error) {
	seq := make(chan uint64, 1)
	events, err := from.CacheSnapshot(ctx, func() {
		p.mu.Lock()
		seq <- p.next
		p.mu.Unlock()
	})
	if err != nil {
		return nil, 0, err
	}
	return p.cfg.Encoding.AppendBatch(nil, now(), events), <-seq, nil
}

// Close ends all connections.
func (p *Publisher) Close() error {
	p.cancel()
	for _, ln := range []net.Listener{p.pub, p.replay} {
		if ln != nil {
			ln.Close()
		}
	}
	p.running.Wait()
	return nil
}
