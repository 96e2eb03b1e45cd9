package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// opened is how an answer began: with its header, and of a hedged request with its first bytes.
type opened struct {
	res *http.Response
	err error
}

// good reports whether an answer is worth waiting for no other.
func (o opened) good() bool {
	return o.err == nil && o.res.StatusCode < 500 && o.res.StatusCode != http.StatusTooManyRequests
}

// open sends the request.
func (a *attempt) open() opened {
	err := a.borrow()
	var r *http.Request
	if err == nil {
		r, err = a.request()
	}
	if err != nil {
		return opened{err: err}
	}
	res, err := a.speak(r)
	return opened{res, err}
}

// openWide sends the request, and waits for the answer's first bytes.
func (a *attempt) openWide() opened {
	o := a.open()
	if o.err != nil {
		return o
	}
	first := make([]byte, 4<<10)
	n, err := o.res.Body.Read(first)
	if err != nil && !errors.Is(err, io.EOF) {
		o.res.Body.Close()
		return opened{err: err}
	}
	o.res.Body = &rejoined{first: first[:n], err: err, ReadCloser: o.res.Body}
	return o
}

// rejoined is a body of which something was read.
type rejoined struct {
	first []byte
	err   error // that came with it
	io.ReadCloser
}

func (r *rejoined) Read(p []byte) (int, error) {
	if len(r.first) > 0 {
		n := copy(p, r.first)
		r.first = r.first[n:]
		return n, nil
	}
	if r.err != nil {
		return 0, r.err
	}
	return r.ReadCloser.Read(p)
}

// hedged sends the request, and a second time to another endpoint if the first has not begun to answer after a while.
// It returns the attempt whose answer is the first good one, or else the last one; the other has ended.
func (x *exchange) hedged(ctx context.Context, a *attempt, after time.Duration) (*attempt, opened) {
	type result struct {
		*attempt
		opened
	}
	results := make(chan result, 2)
	start := func(a *attempt) {
		guard.Go(func() error {
			results <- result{a, a.openWide()}
			return nil
		}, func(err error) {
			if err != nil {
				results <- result{a, opened{err: err}}
			}
		})
	}
	start(a)
	timer := time.NewTimer(after)
	defer timer.Stop()
	var r result
	select {
	case r = <-results:
		return r.attempt, r.opened
	case <-timer.C:
	}
	b := x.second(ctx, a)
	if b == nil {
		r = <-results
		return r.attempt, r.opened
	}
	start(b)
	x.attempts++
	other := b
	if r = <-results; r.attempt == b {
		other = a
	}
	if r.good() {
		other.cancel(context.Canceled)
		guard.Go(func() error {
			if late := <-results; late.err == nil {
				late.res.Body.Close()
			}
			return nil
		}, func(error) { other.leave(nil) })
		return r.attempt, r.opened
	}
	failed := r
	f := failed.refused(failed.opened)
	if failed.err == nil {
		failed.res.Body.Close()
	}
	if x.r.Context().Err() == nil {
		x.g.failedAt(failed.placement.endpoint, f)
	}
	a.job.route.Tried = append(a.job.route.Tried, failed.placement.endpoint.id)
	failed.leave(nil)
	r = <-results
	return r.attempt, r.opened
}

// second begins an attempt at another endpoint of the same model that has room, nil if there is none. It does not go
// through the queue, and is charged to nobody: requests that wait come first.
func (x *exchange) second(ctx context.Context, a *attempt) *attempt {
	g, m := x.g, a.job.model
	g.mu.Lock()
	defer g.mu.Unlock()
	q := a.job.route
	q.Tried = append(slices.Clone(q.Tried), a.placement.endpoint.id)
	p := g.seat(m, &q)
	if p == nil {
		return nil
	}
	p.why = a.placement.why
	return x.begun(ctx, a.job, p)
}
