package engine

import "sync"

// delivery is a token on its way to a stream.
type delivery struct {
	stream *Stream
	token  Token
}

// outbox is the way from the loop to the streams. A goroutine of its own hands out tokens, since waking as many readers
// as a step has sequences takes about as long as all that the loop does for the step.
type outbox struct {
	over func(n int) // hears how many requests have had their last token
	done chan struct{}

	mu     sync.Mutex
	more   sync.Cond // list or closed has changed
	list   []delivery
	closed bool
}

func newOutbox(over func(n int)) *outbox {
	o := &outbox{over: over, done: make(chan struct{})}
	o.more.L = &o.mu
	go o.run()
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

func (o *outbox) run() {
	defer close(o.done)
	for list := o.next(nil); len(list) > 0; list = o.next(list) {
		over := 0
		for i := range list {
			d := &list[i]
			d.stream.push(d.token)
			if d.token.Finish != "" {
				over++
			}
		}
		clear(list)
		if over > 0 {
			o.over(over)
		}
	}
}

// next waits for tokens, and takes them in exchange for a list that is done with. None: the outbox is closed.
func (o *outbox) next(done []delivery) []delivery {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.list) == 0 && !o.closed {
		o.more.Wait()
	}
	list := o.list
	o.list = done[:0]
	return list
}
