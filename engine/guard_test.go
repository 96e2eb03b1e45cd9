package engine

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// lines is a log that several goroutines write.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// TestLoopEnds lets the loop panic between two turns, where nothing recovers: the engine refuses requests from then on,
// and can be closed.
func TestLoopEnds(t *testing.T) {
	if verifying {
		t.Skip("the panic ends the program, so that a broken invariant does")
	}
	var log lines
	var armed atomic.Bool
	e := start(t, Config{
		Runner: newFake(smallConfig()), Sched: smallConfig(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Now: func() time.Time {
			if armed.CompareAndSwap(true, false) {
				panic("the clock is broken")
			}
			return time.Now()
		},
	})
	e.inbox.post(message{ask: func() { armed.Store(true) }}) // then nothing is to run, and the loop rests
	<-e.stopped
	if _, err := e.Submit(t.Context(), request(2, 4, 4)); !errors.Is(err, ErrClosed) {
		t.Errorf("a request after the end: %v", err)
	}
	if err := e.Health(time.Hour); !errors.Is(err, ErrClosed) {
		t.Errorf("its health: %v", err)
	}
	if s := log.String(); !strings.Contains(s, "the clock is broken") {
		t.Errorf("the log has %q", s)
	}
}

// TestOutboxGoesOn lets handing out a token panic: those after it are handed out.
func TestOutboxGoesOn(t *testing.T) {
	var log lines
	over := 0
	o := newOutbox(func(n int) { over += n }, slog.New(slog.NewTextHandler(&log, nil)))
	s := &Stream{wake: make(chan struct{}, 1)}
	ends := func(id int32) brief { return briefOf(Token{ID: id, Finish: FinishStop}) }
	o.send([]delivery{{s, brief{id: 1}}, {nil, ends(2)}, {s, ends(3)}})
	o.close()
	if len(s.tokens) != 2 || s.tokens[1].id != 3 || over != 2 {
		t.Errorf("%v were handed out, %d were the last", s.tokens, over)
	}
	if !strings.Contains(log.String(), "panicked") {
		t.Errorf("the log has %q", log.String())
	}
}
