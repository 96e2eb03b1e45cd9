package engine

import (
	"log/slog"
	"sync"

	"github.com/kvasir-llm/kvasir/guard"
)

// delivery is a token on its way to a stream.
type delivery struct {
	stream *Stream
	token  brief
}

// outbox is the way from the loop to the streams. A goroutine of its own hands out tokens, since waking as many readers
// as a step has sequences takes about as long as all that the loop does for the step.
type outbox struct {
	over func(n int) // hears how many requests have had their last token
	log  *slog.Logger
	done chan struct{}

	mu     sync.Mutex
	more   sync.Cond // list or closed has changed
	list   []delivery
	closed bool

	// The goroutine's own.
	handing []delivery // what it hands out
	handed  int        // of these
	last    int        // last tokens among these
}

func newOutbox(over func(n int), log *slog.Logger) *outbox {
	o := &outbox{over: over, log: log, done: make(chan struct{})}
	o.more.L = &o.mu
	guard.Go(o.run, o.ended)
	return o
}

// send hands a list over, and returns an empty one for the next.
func (o *outbox) send(list []delivery) []delivery {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.list) == 0 {
		o.list, list = list, o.list
	} else {
		o.list = append(o.list, list...)
		clear(list)
	}
	o.more.Signal()
	return list[:0]
}

// close returns when all tokens are handed out.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.more.Signal()
	o.mu.Unlock()
	<-o.done
}

// run hands out tokens until the outbox is closed.
func (o *outbox) run() error {
	for {
		for o.handed < len(o.handing) {
			d := &o.handing[o.handed]
			o.handed++
			if d.token.last() {
				o.last++
			}
			d.stream.push(d.token)
		}
		if n := o.last; n > 0 {
			o.last = 0
			o.over(n)
		}
		if !o.next() {
			return nil
		}
	}
}

// ended goes on after the token whose reader could not be told because of a panic.
func (o *outbox) ended(err error) {
	if err != nil {
		o.log.Error("handing out a token panicked", "error", err)
		guard.Go(o.run, o.ended)
		return
	}
	close(o.done)
}

// next waits for tokens, and takes them in exchange for the list that is done with. It returns false if the outbox is
// closed.
func (o *outbox) next() bool {
	clear(o.handing)
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.list) == 0 && !o.closed {
		o.more.Wait()
	}
	o.list, o.handing, o.handed = o.handing[:0], o.list, 0
	return len(o.handing) > 0
}
