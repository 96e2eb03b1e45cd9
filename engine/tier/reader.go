package tier

import (
	"log/slog"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/kv"
)

// reader reads blocks, one after the other, on a goroutine of its own.
type reader struct {
	get func(slot int32, name kv.Name, dst []byte) error
	log *slog.Logger

	mu     sync.Mutex
	more   sync.Cond // queue or closed has changed
	queue  []read
	closed bool
	done   chan struct{} // the goroutine has ended
}

// read is a block that Tier.Get was asked for.
type read struct {
	slot int32
	name kv.Name
	dst  []byte
	done func(time.Duration, error)
}

func newReader(get func(int32, kv.Name, []byte) error, log *slog.Logger) *reader {
	r := &reader{get: get, log: log, done: make(chan struct{})}
	r.more.L = &r.mu
	guard.Go(r.run, r.ended)
	return r
}

// add queues a read.
func (r *reader) add(x read) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, x)
	r.more.Signal()
}

// close ends the goroutine after the read under way. What is queued is not read.
func (r *reader) close() {
	r.mu.Lock()
	r.closed = true
	r.more.Signal()
	r.mu.Unlock()
	<-r.done
}

func (r *reader) run() error {
	for {
		x, ok := r.next()
		if !ok {
			return nil
		}
		begin := time.Now()
		err := guard.Try(func() error { return r.get(x.slot, x.name, x.dst) })
		x.done(time.Since(begin), err)
	}
}

// ended goes on after a read whose end could not be told because of a panic.
func (r *reader) ended(err error) {
	if err != nil {
		r.log.Error("telling that a KV block was read panicked", "error", err)
		guard.Go(r.run, r.ended)
		return
	}
	close(r.done)
}

// next waits for a read; false: the reader is closed.
func (r *reader) next() (x read, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) == 0 && !r.closed {
		r.more.Wait()
	}
	if r.closed {
		return x, false
	}
	x, r.queue = r.queue[0], r.queue[1:]
	return x, true
}
