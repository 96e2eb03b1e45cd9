package engine

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
)

// TestUnread holds that what waits for readers is bounded for all streams together: above the bound the stream in which
// most waits ends, whether or not its sequence has ended, and others go on; what is read, or whose reader is gone, is
// not counted.
func TestUnread(t *testing.T) {
	cfg := smallConfig()
	cfg.Blocks = 256
	e := start(t, Config{Runner: newFake(cfg), Sched: cfg, Backlog: 40 << 10})
	held := func() (int64, int) {
		e.backlog.mu.Lock()
		defer e.backlog.mu.Unlock()
		return e.backlog.bytes, len(e.backlog.unread)
	}
	ends := func(s *Stream) (n int, err error) {
		for {
			switch t, stop := s.Next(context.Background()); {
			case stop == io.EOF:
				return n, err
			case t.Err != nil:
				err = t.Err
			case t.ID >= 0:
				n++
			}
		}
	}
	over := func(s *Stream) func() bool { // all its tokens are in the stream
		return func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.ended
		}
	}
	await := func(what string, f func() bool) {
		t.Helper()
		for !f() {
			if t.Context().Err() != nil {
				t.Fatal(what)
			}
		}
	}
	wide := func(seed, tokens int) Request { // tokens that take 184 bytes each
		r := request(seed, 4, tokens)
		r.Logprobs = 10
		return r
	}
	first := submit(t, e, t.Context(), wide(1, 120))
	await("the first", over(first))
	if bytes, n := held(); n != 1 || bytes < 120*180 || bytes > 40<<10 {
		t.Fatalf("%d bytes of %d streams are counted", bytes, n)
	}
	ctx, leave := context.WithCancel(t.Context())
	gone := submit(t, e, ctx, wide(2, 95))
	await("the second", over(gone))
	leave()
	await("the reader that is gone is counted", func() bool { _, n := held(); return n == 1 })
	second := submit(t, e, t.Context(), wide(3, 110))
	for seed := 4; seed < 7; seed++ { // together more than there is, but for what is read; each less than the others hold
		reader := wide(seed, 100)
		if ids, _ := read(t, submit(t, e, t.Context(), reader)); !slices.Equal(ids, expected(reader)) {
			t.Error("a stream that is read does not go on")
		}
	}
	await("the third", over(second))
	if n, err := ends(first); !errors.Is(err, ErrUnread) || n != 0 {
		t.Errorf("the stream in which most waited has %d tokens and ends with %v", n, err)
	}
	if n, err := ends(second); err != nil || n != 110 {
		t.Errorf("the other has %d tokens and ends with %v", n, err)
	}
	running := submit(t, e, t.Context(), wide(5, 400)) // which alone takes more than there is
	await("it ends", over(running))
	if _, err := ends(running); !errors.Is(err, ErrUnread) {
		t.Errorf("a stream that takes all ends with %v", err)
	}
	if bytes, n := held(); bytes != 0 || n != 0 {
		t.Errorf("%d bytes of %d streams stay counted", bytes, n)
	}
}
