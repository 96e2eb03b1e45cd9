package fleet

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/kvasir-llm/kvasir/named"
)

// Fault is a way in which an engine fails or lies.
type Fault int

const (
	NoFault Fault = iota
	Dies
	Drips
	failing
	busy
	BadEvents
	garbage
	short
	silent
	EndsEarly
	Contradicts
)

// Faults are all of them, by name.
var Faults = named.List[Fault]{
	{Name: "none", Is: NoFault},
	{Name: "dies", Is: Dies, Help: "breaks off, and all connections with it, and is down for a time"},
	{Name: "drips", Is: Drips, Help: "sends the rest of an answer byte by byte, ten a second"},
	{Name: "errors", Is: failing, Help: "answers with status 503"},
	{Name: "busy", Is: busy, Help: "answers with status 429"},
	{Name: "bad-events", Is: BadEvents, Help: "has an event that is no JSON in a stream"},
	{Name: "garbage", Is: garbage, Help: "says status 200 and then something that is no answer"},
	{Name: "short", Is: short, Help: "says that an answer is longer than it is"},
	{Name: "silent", Is: silent, Help: "never answers"},
	{Name: "ends-early", Is: EndsEarly, Help: "ends a stream in its middle as if it were whole"},
	{Name: "contradicts", Is: Contradicts, Help: "tells of blocks that it does not have, and not of those that it has"},
}

// draw returns what goes wrong with the next request.
func (e *Engine) draw() Fault {
	if e.model.Fault == NoFault {
		return NoFault
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.random.Float64() >= e.model.Share {
		return NoFault
	}
	return e.model.Fault
}

// before does what goes wrong before an answer, and returns true if there will be none.
func (f Fault) before(a *answered) bool {
	switch f {
	case failing:
		http.Error(a.w, "the engine has a problem", http.StatusServiceUnavailable)
	case busy:
		http.Error(a.w, "too many requests", http.StatusTooManyRequests)
	case silent:
		<-a.r.Context().Done()
	case garbage:
		a.w.Header().Set("Content-Type", "application/json")
		io.WriteString(a.w, "<html><body>It works!</body></html>\x00\xff")
	case short:
		a.w.Header().Set("Content-Type", "application/json")
		a.w.Header().Set("Content-Length", "1000")
		io.WriteString(a.w, `{"choices":[]}`)
	default:
		return false
	}
	return true
}

// during does what goes wrong in the middle of an answer, and returns true if it ends with that. buf is what comes next
// of it.
func (f Fault) during(a *answered, buf *[]byte) bool {
	switch f {
	case Dies:
		a.engine.die()
		a.w.Write(*buf)
		http.NewResponseController(a.w).Flush()
		panic(http.ErrAbortHandler)
	case BadEvents:
		*buf = append(*buf, "data: {\"choices\":[{\"delta\"\n\ndata: segmentation fault\n\n"...)
	case EndsEarly:
		a.w.Write(*buf)
		return true
	case Drips:
		for i := range *buf {
			a.w.Write((*buf)[i : i+1])
			if http.NewResponseController(a.w).Flush() != nil || !sleep(a.r.Context(), 100*time.Millisecond) {
				return true
			}
		}
		*buf = (*buf)[:0]
	}
	return false
}

// die makes the engine refuse all for a while, and forget what it had cached.
func (e *Engine) die() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead = time.Now().Add(e.model.Down); e.cache != nil {
		e.cache.clear()
	}
}

func (e *Engine) isDead() bool {
	if e.model.Fault != Dies {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Now().Before(e.dead)
}

// String returns the name.
func (f Fault) String() string {
	for _, v := range Faults {
		if v.Is == f {
			return v.Name
		}
	}
	return fmt.Sprintf("Fault(%d)", int(f))
}

func durationOf(n int) time.Duration { return time.Duration(max(0, n)) }
