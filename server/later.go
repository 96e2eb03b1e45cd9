package server

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/store"
)

// Bounds on what is kept without Config.State.
const (
	memoryResponses = 4096
	memoryBytes     = 64 << 20
)

// maxLater bounds the responses that are made in the background at once.
const maxLater = 1024

// fairShare reports whether an owner who has own of all places that are taken may have another one: as many as are free
// besides, so that no owner ever takes all. Without API keys there is one owner, "", who may.
func fairShare(owner string, own, all, most int) bool {
	return all < most && (owner == "" || own < most-all)
}

// later is the work that goes on when its request is answered, and what is kept of it.
type later struct {
	life context.Context // ends with the server
	end  context.CancelCauseFunc
	work sync.WaitGroup

	mu      sync.Mutex
	kept    *store.Store
	mine    bool // kept is not the caller's to close
	running map[string]*laterOne
	batches map[string]*batchRun
	lines   chan struct{}            // has a value for each request of a batch that is being answered
	turns   map[string]chan struct{} // by owner, of batches that are read
}

// laterOne is a response that is made in the background.
type laterOne struct {
	owner  string
	cancel context.CancelCauseFunc
	events *events
	done   chan struct{} // closed when its end is stored
}

func newLater(kept *store.Store) (*later, error) {
	l := &later{kept: kept, running: map[string]*laterOne{}, batches: map[string]*batchRun{}, turns: map[string]chan struct{}{},
		lines: make(chan struct{}, batchAtOnce)}
	l.life, l.end = context.WithCancelCause(context.Background())
	if kept != nil {
		return l, l.settle()
	}
	return l, nil
}

// store returns what keeps responses. That in memory is opened when it is first asked for.
func (l *later) store() (*store.Store, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() != nil {
		return nil, errShutdown
	}
	if l.kept == nil {
		kept, err := store.Open("", store.Limits{Responses: memoryResponses, ResponseBytes: memoryBytes})
		if err != nil {
			return nil, err
		}
		l.kept, l.mine = kept, true
	}
	return l.kept, nil
}

// run runs f until it returns or the server ends.
func (l *later) run(f func(context.Context) error, ended func(error)) {
	l.work.Add(1)
	guard.Go(func() error { return f(l.life) }, func(err error) {
		defer l.work.Done()
		ended(err)
	})
}

// begin notes a response that is made in the background.
func (l *later) begin(id, owner string, cancel context.CancelCauseFunc) (*laterOne, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := 0
	for _, r := range l.running {
		if r.owner == owner {
			own++
		}
	}
	if !fairShare(owner, own, len(l.running), maxLater) {
		return nil, refuse(http.StatusTooManyRequests, "background", "too_many_requests",
			"%d responses are made in the background already, %d of this API key. Please try again later.", len(l.running), own)
	}
	r := &laterOne{owner: owner, cancel: cancel, events: &events{changed: make(chan struct{}), users: 1}, done: make(chan struct{})}
	l.running[id] = r
	return r, nil
}

// over forgets it, when its end is stored.
func (l *later) over(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.running[id]
	delete(l.running, id)
	close(r.done)
}

// of returns an owner's response that is being made, nil if there is none.
func (l *later) of(owner, id string) *laterOne {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.running[id]; r != nil && r.owner == owner {
		return r
	}
	return nil
}

// close ends what the server does in the background.
func (l *later) close() {
	l.end(errShutdown)
	l.work.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mine {
		l.kept.Close()
		l.kept, l.mine = nil, false
	}
}

// events are those of a stream, while it is made and afterwards. Any goroutine may use them; it is the
// http.ResponseWriter of whoever makes the stream.
type events struct {
	mu      sync.Mutex
	data    []byte
	ends    []int // of each event in data
	over    bool  // no more come
	muted   bool  // they are not kept any more
	changed chan struct{}
	users   int   // whoever makes the stream, and who follow it
	room    *room // of data, until the last of them leaves; nil if it is not counted
}

// enter counts one who follows the stream.
func (e *events) enter() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.users++
}

// leave counts out one who made or followed the stream.
func (e *events) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.users--; e.users == 0 && e.room != nil {
		e.room.leave()
	}
}

// pastEvents returns those that were stored.
func pastEvents(data []byte) *events {
	e := &events{changed: make(chan struct{})}
	e.Write(data)
	e.finish()
	return e
}

func (e *events) Header() http.Header { return http.Header{} }
func (e *events) WriteHeader(int)     {}
func (e *events) Flush()              {}

// Write appends whole events, each of which ends with an empty line and has no other. When there is no room for them,
// none are kept any more: the response goes on, and those who follow it get no more of it.
func (e *events) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.muted && e.room != nil && e.room.take(int64(len(p))) != nil {
		e.muted, e.over, e.data, e.ends = true, true, nil, nil
		e.room.leave()
		e.wake()
	}
	if e.muted {
		return len(p), nil
	}
	for at := 0; ; {
		n := bytes.Index(p[at:], []byte("\n\n"))
		if n < 0 {
			break
		}
		at += n + 2
		e.ends = append(e.ends, len(e.data)+at)
	}
	e.data = append(e.data, p...)
	e.wake()
	return len(p), nil
}

// wake tells those who follow. The caller holds mu.
func (e *events) wake() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// kept reports whether there are the events so far, and those to come will be.
func (e *events) kept() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.muted
}

// finish says that no more come.
func (e *events) finish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	e.wake()
}

// bytes returns all events so far. What is returned here, and by from, stays as it is: data only grows.
func (e *events) bytes() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.data[:len(e.data):len(e.data)]
}

// from returns the events after the first n, and a channel that closes when there are more, nil if there will be none.
func (e *events) from(n int) (data []byte, next int, changed <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if next = len(e.ends); n < next {
		begin := 0
		if n > 0 {
			begin = e.ends[n-1]
		}
		end := e.ends[next-1]
		data = e.data[begin:end:end]
	}
	if !e.over {
		changed = e.changed
	}
	return data, max(n, next), changed
}

// follow writes the events after the first n to a client, as they come.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, e *events, n int) {
	e.enter()
	defer e.leave()
	api, flush := s.dialectOf(r), http.NewResponseController(w)
	w.Header().Set("Content-Type", api.streamType)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Accel-Buffering", "no")
	var ping <-chan time.Time
	if s.cfg.Ping > 0 {
		t := time.NewTicker(s.cfg.Ping)
		defer t.Stop()
		ping = t.C
	}
	for {
		data, next, changed := e.from(n)
		n = next
		if _, err := w.Write(data); err != nil {
			return
		}
		if err := flush.Flush(); err != nil && !unsupported(err) {
			return
		}
		if changed == nil {
			return
		}
		select {
		case <-changed:
		case <-ping:
			if _, err := w.Write([]byte(api.ping)); err != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// errCancelled ends a response that its client cancels.
var errCancelled = errors.New("the client cancelled it")
