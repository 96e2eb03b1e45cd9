package fakecuda

import (
	"fmt"
	"time"
)

// work is what a stream does in its turn.
type work func() error

// stream is a queue of work, which runs when something waits for it.
type stream struct {
	ctx   *context
	queue []work
	done  int    // of all that were queued, so many ran
	kept  []work // captured
	keeps bool
}

// event is a point in a stream.
type event struct {
	of     *stream // nil: it was not recorded
	behind int     // so much work
	passed time.Time
}

// add queues work, or keeps it for a graph.
func (s *stream) add(w work) {
	if s.keeps {
		s.kept = append(s.kept, w)
	} else {
		s.queue = append(s.queue, w)
	}
}

// queued returns how much work there was and is.
func (s *stream) queued() int { return s.done + len(s.queue) }

// until runs a stream's work up to some number of all. A failure is a fault of the context.
func (d *Driver) until(s *stream, n int) error {
	for s.done < n {
		if len(s.queue) == 0 {
			return fmt.Errorf("a stream waits for work that was never queued")
		}
		w := s.queue[0]
		s.queue = s.queue[1:]
		s.done++
		if err := w(); err != nil {
			return err
		}
	}
	return nil
}

// finish is until for what waits on the host: a fault spoils the context.
func (d *Driver) finish(s *stream, n int) int32 {
	if err := d.until(s, n); err != nil {
		d.said[badAddress] = err.Error()
		s.ctx.spoilt = badAddress
	}
	return s.ctx.spoilt
}

// order does the calls of streams and events.
func (d *Driver) order(name string, a []uintptr) int32 {
	var kinds []string // of the handles
	switch name {
	case "cuStreamCreate":
		*at[uintptr](a[0]) = d.add(object{kind: "stream", stream: &stream{ctx: d.current}}, 0)
		return success
	case "cuEventCreate":
		*at[uintptr](a[0]) = d.add(object{kind: "event", event: new(event)}, 0)
		return success
	case "cuEventRecord":
		kinds = []string{"event", "stream"}
	case "cuStreamWaitEvent":
		kinds = []string{"stream", "event"}
	case "cuEventSynchronize", "cuEventDestroy_v2":
		kinds = []string{"event"}
	case "cuStreamSynchronize", "cuStreamDestroy_v2":
		kinds = []string{"stream"}
	case "cuStreamBeginCapture_v2", "cuStreamEndCapture":
		d.Work++
		kinds = []string{"stream"}
	case "cuEventElapsedTime":
		return d.elapsed(at[float32](a[0]), a[1], a[2])
	default:
		return d.wrong("the fake has no %s", name)
	}
	for i, kind := range kinds {
		if c := d.is(a[i], kind); c != success {
			return c
		}
	}
	if kinds[0] == "event" {
		return d.events(name, d.live[a[0]].event, a)
	}
	return d.streams(name, d.live[a[0]].stream, a)
}

func (d *Driver) events(name string, e *event, a []uintptr) int32 {
	switch name {
	case "cuEventRecord":
		s := d.live[a[1]].stream
		if s.keeps {
			return d.wrong("an event is recorded while a graph is captured")
		}
		s.add(func() error { e.passed = time.Now(); return nil })
		e.of, e.behind = s, s.queued()
	case "cuEventSynchronize":
		if e.of != nil {
			return d.finish(e.of, e.behind)
		}
	case "cuEventDestroy_v2":
		return d.drop(a[0], "event")
	}
	return success
}

func (d *Driver) streams(name string, s *stream, a []uintptr) int32 {
	switch name {
	case "cuStreamWaitEvent":
		e := d.live[a[1]].event
		if e.of == nil {
			return d.wrong("work waits for event %#x, which was not recorded", a[1])
		}
		if of, behind := e.of, e.behind; of != s {
			s.add(func() error { return d.until(of, behind) })
		}
	case "cuStreamSynchronize":
		if d.capturing != nil {
			return d.wrong("waiting while a graph is captured")
		}
		return d.finish(s, s.queued())
	case "cuStreamDestroy_v2":
		if c := d.finish(s, s.queued()); c != success {
			return c
		}
		return d.drop(a[0], "stream")
	case "cuStreamBeginCapture_v2":
		if d.capturing != nil {
			return d.wrong("capturing while a graph is captured")
		}
		d.capturing, s.keeps = s, true
	case "cuStreamEndCapture":
		if d.capturing != s {
			return d.wrong("the end of a capture that did not begin")
		}
		*at[uintptr](a[1]) = d.add(object{kind: "graph", graph: s.kept}, 0)
		d.capturing, s.keeps, s.kept = nil, false, nil
	}
	return success
}

// elapsed sets the milliseconds between two events.
func (d *Driver) elapsed(to *float32, from, until uintptr) int32 {
	for _, e := range []uintptr{from, until} {
		if c := d.is(e, "event"); c != success {
			return c
		}
		if d.live[e].event.passed.IsZero() {
			return notReady
		}
	}
	*to = float32(d.live[until].event.passed.Sub(d.live[from].event.passed).Seconds() * 1e3)
	return success
}
