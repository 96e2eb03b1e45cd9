package server

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/guard"
)

// stream writes a job's answer piece by piece, each as soon as it is there.
type stream struct {
	*job
	api   *dialect
	alive func(dst []byte) []byte // appends what keeps a silent stream alive; nil is nothing

	mu    sync.Mutex // guards the rest, and the calls of answer
	w     http.ResponseWriter
	flush *http.ResponseController
	buf   []byte // reused for each write
	begun bool   // something was written
	wrote bool   // something was written since the last ping was due
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request, j *job) {
	out := &stream{job: j, api: s.dialectOf(r), w: w, flush: http.NewResponseController(w)}
	out.alive = out.api.alive(j.ask.answer)
	err := out.run(r.Context(), s.cfg.Ping)
	switch {
	case err == nil:
		out.send(j.ask.answer.end)
	case !out.begun:
		s.fail(w, r, err)
	default:
		f := classify(w, out.api, err)
		failTrace(r.Context(), f)
		if f.status != statusGone {
			s.cfg.Logger.Error("a stream broke", "id", w.Header().Get(requestID), "error", err)
			out.send(func(dst []byte) []byte { return out.broken(dst, f) })
		}
	}
}

// await makes a request's job. A stream that has to wait for its model is kept alive by pings meanwhile: it has then
// begun, and fail ends it in its own way.
func (s *Server) await(w http.ResponseWriter, r *http.Request, a *ask) (*job, error) {
	out := &stream{api: s.dialectOf(r), w: w, flush: http.NewResponseController(w)}
	if out.alive = out.api.alive(a.answer); !a.stream || s.shelf == nil || out.alive == nil || s.cfg.Ping < 0 {
		return s.newJob(r.Context(), a)
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Add(1)
	guard.Go(func() error { out.ping(s.cfg.Ping, stop); return nil }, func(error) { wg.Done() })
	defer wg.Wait()
	defer close(stop)
	return s.newJob(r.Context(), a)
}

// broken appends what ends a stream that breaks.
func (o *stream) broken(dst []byte, f *failure) []byte {
	if own, ok := o.answer.(breaker); ok {
		return own.broken(dst, f)
	}
	return o.api.failEvent(dst, f)
}

// run writes all choices. Until it returns, a ping is sent where a silence lasts longer than ping.
func (o *stream) run(ctx context.Context, ping time.Duration) error {
	if ping > 0 && o.alive != nil {
		var wg sync.WaitGroup
		stop := make(chan struct{})
		within, cancel := context.WithCancelCause(ctx)
		ctx = within
		wg.Add(1)
		guard.Go(func() error { o.ping(ping, stop); return nil }, func(err error) {
			cancel(err)
			wg.Done()
		})
		defer wg.Wait()
		defer close(stop)
	}
	return o.each(ctx, o.choice)
}

// choice writes one choice.
func (o *stream) choice(ctx context.Context, c *choice) error {
	var d text.Delta
	for {
		err := c.next(ctx, o.job, &d)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = o.piece(c, &d)
		}
		if err != nil {
			return err
		}
	}
}

func (o *stream) piece(c *choice, d *text.Delta) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = o.answer.piece(o.buf[:0], c, d)
	c.first = false
	if o.keeps {
		if err := o.room.take(weight(d)); err != nil {
			return err
		}
	}
	return o.write()
}

// send writes what no choice owns. An error means that the client is gone, which the next piece finds out too.
func (o *stream) send(event func([]byte) []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = event(o.buf[:0])
	return o.write()
}

// write sends buf. The caller holds mu.
func (o *stream) write() error {
	if len(o.buf) == 0 {
		return nil
	}
	if !o.begun {
		h := o.w.Header()
		h.Set("Content-Type", o.api.streamType)
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // nginx must not hold events back
		o.begun = true
	}
	o.wrote = true
	if _, err := o.w.Write(o.buf); err != nil {
		return gone(err)
	}
	if err := o.flush.Flush(); err != nil && !unsupported(err) {
		return gone(err)
	}
	return nil
}

// ping writes the API's ping whenever nothing was written for as long as every, until stop is closed.
func (o *stream) ping(every time.Duration, stop <-chan struct{}) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		o.pingOnce()
	}
}

// pingOnce writes a ping if nothing was written since the last time.
func (o *stream) pingOnce() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.wrote {
		o.buf = o.alive(o.buf[:0])
		o.write()
	}
	o.wrote = false
}
