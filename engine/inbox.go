package engine

import (
	"context"
	"sync"
)

// message tells the loop that a request arrives, or, with a reason, that one must end; or asks it to call a function.
type message struct {
	ask    func()
	seq    *sequence
	reason FinishReason
	err    error
}

// inbox is the way to the loop: messages for it, and how many requests it has taken. Any goroutine may use it.
type inbox struct {
	notify  chan struct{} // [1] there are messages, or closing is set
	drained chan struct{} // closed when draining and no request is live

	mu       sync.Mutex
	messages []message
	live     int // requests taken whose end is not yet in their Stream
	draining bool
	closing  bool
}

func newInbox() *inbox {
	return &inbox{notify: make(chan struct{}, 1), drained: make(chan struct{})}
}

// post adds a message.
func (b *inbox) post(m message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	arrival := m.seq != nil && m.reason == ""
	switch {
	case b.closing:
		return ErrClosed
	case arrival && b.draining:
		return ErrDraining
	case arrival:
		b.live++
	}
	b.messages = append(b.messages, m)
	b.wake()
	return nil
}

// wake makes the loop look into its inbox.
func (b *inbox) wake() {
	select {
	case b.notify <- struct{}{}:
	default:
	}
}

// take appends the messages to a list and reports whether the engine is closing.
func (b *inbox) take(to []message) (all []message, closing bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	to = append(to, b.messages...)
	clear(b.messages)
	b.messages = b.messages[:0]
	return to, b.closing
}

// drain refuses new requests from now on.
func (b *inbox) drain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.draining = true
	b.left(0)
}

// close tells the loop to end.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closing = true
	b.wake()
}

func (b *inbox) closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closing
}

// over notes that n requests have ended.
func (b *inbox) over(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left(n)
}

// left is over for a caller that holds mu.
func (b *inbox) left(n int) {
	b.live -= n
	if !b.draining || b.live > 0 {
		return
	}
	select {
	case <-b.drained:
	default:
		close(b.drained)
	}
}

// Drain refuses new requests from now on and waits until those taken have ended, or ctx is done.
func (e *Engine) Drain(ctx context.Context) error {
	e.inbox.drain()
	select {
	case <-e.inbox.drained:
		return nil
	case <-e.stopped:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
