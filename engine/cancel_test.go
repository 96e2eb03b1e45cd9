package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// TestCancelFreesAtOnce cancels a request in each state it can be in while a step hangs, and wants its blocks back
// before the step ends.
func TestCancelFreesAtOnce(t *testing.T) {
	tests := []struct {
		name   string
		steps  int // that the victim runs before
		others int // requests before it
	}{
		{"waiting", 0, 1},
		{"in its first step", 0, 0},
		{"in the middle of its prompt", 1, 0},
		{"decoding", 5, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := smallConfig()
				cfg.MaxSeqs = 1
				cfg.PrefixCache = false
				f, g := newFake(cfg), newGate(t)
				f.forward = g.forward
				e := start(t, Config{Runner: f, Sched: cfg})
				for n := range tt.others {
					submit(t, e, t.Context(), request(n, 5, 3))
				}
				synctest.Wait()
				used := e.Stats().Sched.KV.Used
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				s := submit(t, e, ctx, request(9, 17, 30))
				for range tt.steps {
					synctest.Wait()
					g.step()
				}
				synctest.Wait()
				gone := errors.New("the client has gone")
				cancel(gone)
				synctest.Wait()
				if st := e.Stats().Sched; st.KV.Used != used || st.Waiting != 0 || st.Running != tt.others {
					t.Errorf("%d run, %d wait, %d blocks are in use; want %d, 0, %d", st.Running, st.Waiting, st.KV.Used, tt.others, used)
				}
				if _, last := read(t, s); last.Finish != FinishCancelled || last.Err != gone || last.ID != -1 {
					t.Errorf("the stream ended with %+v", last)
				}
				after := submit(t, e, t.Context(), request(3, 9, 8)) // takes the freed blocks
				g.open()
				if ids, _ := read(t, after); !slices.Equal(ids, expected(request(3, 9, 8))) {
					t.Errorf("the request after it got %v", ids)
				}
				synctest.Wait()
				wantIdle(t, e)
			})
		})
	}
}

func TestCancelledBeforeSubmit(t *testing.T) {
	cfg := smallConfig()
	e := start(t, Config{Runner: newFake(cfg), Sched: cfg})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Submit(ctx, request(1, 4, 4)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; want %v", err, context.Canceled)
	}
	if err := e.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCancelBeforeArrival lets the loop hear of a cancellation before it hears of the request.
func TestCancelBeforeArrival(t *testing.T) {
	cfg := smallConfig()
	e := start(t, Config{Runner: newFake(cfg), Sched: cfg})
	q := newSequence(request(1, 4, 4), e.maxLen)
	q.unhook = func() {}
	gone := errors.New("the client has gone")
	for _, m := range []message{{seq: q, reason: FinishCancelled, err: gone}, {seq: q}} {
		if err := e.inbox.post(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-q.answer; err != gone {
		t.Errorf("the request was answered with %v; want %v", err, gone)
	}
	if err := e.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	wantIdle(t, e)
}

// TestCancelRaces cancels requests while they are being taken. None may be left behind.
func TestCancelRaces(t *testing.T) {
	cfg := smallConfig()
	e := start(t, Config{Runner: newFake(cfg), Sched: cfg})
	var all sync.WaitGroup
	for n := range 200 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			go cancel()
			s, err := e.Submit(ctx, request(n, 4, 4))
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				return
			}
			if _, last := read(t, s); last.Finish == "" {
				t.Error("the stream has no end")
			}
		})
	}
	all.Wait()
	if err := e.Drain(t.Context()); err != nil { // returns once nothing is left
		t.Error(err)
	}
	wantIdle(t, e)
}

func TestStop(t *testing.T) {
	cfg := smallConfig()
	e := start(t, Config{Runner: newFake(cfg), Sched: cfg})
	r := request(1, 5, 200)
	s := submit(t, e, t.Context(), r)
	tok, err := s.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	ids, last := read(t, s)
	ids = append([]int32{tok.ID}, ids...)
	if last.Finish != FinishStop && len(ids) < 200 || last.Err != nil {
		t.Errorf("the stream ended with %+v after %d tokens", last, len(ids))
	}
	if !slices.Equal(ids, expected(r)[:len(ids)]) {
		t.Errorf("got %v", ids)
	}
	s.Stop() // once more does nothing
	wantIdle(t, e)
}

// TestClientsHangUp serves 64 clients of which half hang up at some point. The others do not notice, and nothing stays
// behind.
func TestClientsHangUp(t *testing.T) {
	cfg := smallConfig()
	cfg.Blocks = 40
	e := start(t, Config{Runner: newFake(cfg), Sched: cfg})
	var all sync.WaitGroup
	for n := range 64 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			r := request(n%40, 1+rng.IntN(40), 1+rng.IntN(60))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := submit(t, e, ctx, r)
			if n%2 == 1 {
				for range rng.IntN(r.MaxTokens) {
					if _, err := s.Next(t.Context()); err != nil {
						t.Error(err)
					}
				}
				return
			}
			ids, last := read(t, s)
			if !slices.Equal(ids, expected(r)) || last.Finish != FinishLength {
				t.Errorf("client %d got %v, %q; want %v", n, ids, last.Finish, expected(r))
			}
		})
	}
	all.Wait()
	if err := e.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	wantIdle(t, e)
}
