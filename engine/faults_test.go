package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/choose"
)

// TestFailingStep lets steps fail in different ways. If one fails once, nobody notices; if each fails that has a
// token of a certain sequence, that one ends with an error, and those beside it go on.
func TestFailingStep(t *testing.T) {
	broken := errors.New("the device is on fire")
	tests := []struct {
		name string
		fail func() error
		want string
	}{
		{"error", func() error { return broken }, broken.Error()},
		{"panic", func() error { panic("index out of range") }, "panicked: index out of range"},
	}
	for _, tt := range tests {
		for victim := -1; victim < 4; victim++ {
			t.Run(fmt.Sprint(tt.name, victim), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { failingStep(t, victim, tt.fail, tt.want) })
			})
		}
	}
}

// failingStep fails the sixth step, and each that computes the eighth token of the victim.
func failingStep(t *testing.T, victim int, fail func() error, want string) {
	cfg := smallConfig()
	cfg.MaxSeqs = 3
	var poison []int32
	if victim >= 0 {
		r := request(victim, 4, 20)
		poison = append(slices.Clone(r.Prompt), expected(r)...)[7:8]
	}
	f, steps := newFake(cfg), 0
	g := newGate(t)
	f.forward = func(b *compute.Batch) error {
		g.forward(b)
		if steps++; steps == 6 {
			return fail()
		}
		for _, s := range b.Seqs {
			if len(poison) > 0 && s.Rows == 1 && b.Pos[s.Row] == 7 && b.IDs[s.Row] == poison[0] {
				return fail()
			}
		}
		return nil
	}
	var log bytes.Buffer
	e := start(t, Config{Runner: f, Sched: cfg, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var streams []*Stream
	for n := range 4 {
		streams = append(streams, submit(t, e, t.Context(), request(n, 4, 20)))
	}
	g.open()
	for n, s := range streams {
		ids, last := read(t, s)
		switch all := expected(request(n, 4, 20)); {
		case n != victim && (!slices.Equal(ids, all) || last.Finish != FinishLength):
			t.Errorf("request %d got %v, %+v", n, ids, last)
		case n == victim && (!slices.Equal(ids, all[:4]) || last.Finish != FinishError || !strings.Contains(last.Err.Error(), want)):
			t.Errorf("request %d got %v and ended with %+v; want an error with %q", n, ids, last, want)
		}
	}
	synctest.Wait()
	wantIdle(t, e)
	if err := e.Health(time.Second); err != nil || !strings.Contains(log.String(), "failed") {
		t.Errorf("%v; the log says %q", err, log.String())
	}
}

// TestFailingAdmission lets the first step of a request fail, which has its tables to itself. The next request gets the
// same slot and the same blocks, so that nothing of its tables changes.
func TestFailingAdmission(t *testing.T) {
	cfg := smallConfig()
	cfg.MaxSeqs, cfg.Blocks, cfg.PrefixCache = 1, 8, false
	f, poison := newFake(cfg), request(0, 4, 4)
	f.forward = func(b *compute.Batch) error {
		if len(b.Seqs) > 0 && b.Pos[0] == 0 && b.IDs[0] == poison.Prompt[0] {
			return errors.New("the device is on fire")
		}
		return nil
	}
	e := start(t, Config{Runner: f, Sched: cfg})
	if _, last := read(t, submit(t, e, t.Context(), poison)); last.Finish != FinishError {
		t.Errorf("the request whose step fails ends with %+v", last)
	}
	r := request(1, 4, 4)
	if ids, last := read(t, submit(t, e, t.Context(), r)); !slices.Equal(ids, expected(r)) {
		t.Errorf("the request after it gets %v and %+v; want %v", ids, last, expected(r))
	}
}

// TestNaN spoils the logits of one sequence: of its prompt if that is to be scored, else of an output token.
func TestNaN(t *testing.T) {
	for _, position := range []int{3, 9} {
		cfg := smallConfig()
		f := newFake(cfg)
		victim := request(0, 6, 20)
		victim.PromptLogprobs = 0
		f.after = func(tokens []int32, logits []float32) {
			if len(tokens) == position && tokens[0] == victim.Prompt[0] {
				logits[5] = float32(math.NaN())
			}
		}
		e := start(t, Config{Runner: f, Sched: cfg})
		var streams []*Stream
		streams = append(streams, submit(t, e, t.Context(), victim))
		for n := 1; n < 5; n++ {
			streams = append(streams, submit(t, e, t.Context(), request(n, 6, 20)))
		}
		for n, s := range streams {
			ids, last := read(t, s)
			switch want := expected(request(n, 6, 20)); {
			case n > 0 && !slices.Equal(ids, want):
				t.Errorf("request %d got %v; want %v", n, ids, want)
			case n == 0 && (last.Finish != FinishError || !errors.Is(last.Err, choose.ErrNaN) || !slices.Equal(ids, want[:max(0, position-6)])):
				t.Errorf("the spoiled request got %v and %+v", ids, last)
			}
		}
		wantIdle(t, e)
	}
}

// broken is a Runner whose steps panic once when they are asked for a token, on the loop's own goroutine.
type broken struct {
	*fake
	calls, at int
}

type brokenStep struct {
	compute.Step
	b *broken
}

func (b *broken) Start(batch *compute.Batch) (compute.Step, error) {
	s, err := b.fake.Start(batch)
	return brokenStep{s, b}, err
}

func (s brokenStep) Chosen(i int) compute.Chosen {
	if s.b.calls++; s.b.calls == s.b.at {
		panic("no such row")
	}
	return s.Step.Chosen(i)
}

// TestLoopPanics makes the loop itself panic in a step. Requests that were not in the step go on, even those that wait
// with tokens generated already.
func TestLoopPanics(t *testing.T) {
	for at := 1; at < 60; at += 3 {
		cfg := smallConfig()
		cfg.MaxSeqs, cfg.Blocks = 3, 20
		f, g := newFake(cfg), newGate(t)
		f.forward = g.forward
		e := start(t, Config{Runner: &broken{fake: f, at: at}, Sched: cfg})
		var streams []*Stream
		for n := range 6 {
			streams = append(streams, submit(t, e, t.Context(), request(n, 10, 30)))
		}
		g.open()
		failed := 0
		for n, s := range streams {
			ids, last := read(t, s)
			want := expected(request(n, 10, 30))
			if last.Finish == FinishError && strings.Contains(last.Err.Error(), "no such row") {
				failed++
			} else if last.Finish != FinishLength || len(ids) != len(want) {
				t.Errorf("panic at %d: request %d got %d tokens and %+v", at, n, len(ids), last)
			}
			if !slices.Equal(ids, want[:len(ids)]) {
				t.Errorf("panic at %d: request %d got %v; want %v", at, n, ids, want)
			}
		}
		if failed < 1 || failed > 3 {
			t.Errorf("panic at %d: %d requests failed; want those of one step, 1 to 3", at, failed)
		}
		if err := e.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		wantIdle(t, e)
	}
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := smallConfig()
		f, g := newFake(cfg), newGate(t)
		f.forward = g.forward
		e := start(t, Config{Runner: f, Sched: cfg})
		pass := func(d time.Duration) { // of the bubble's time
			synctest.Wait()
			<-time.After(d)
		}
		pass(time.Hour)
		if err := e.Health(time.Second); err != nil {
			t.Errorf("idle: %v", err)
		}
		s := submit(t, e, t.Context(), request(1, 4, 2))
		pass(500 * time.Millisecond)
		if err := e.Health(time.Second); err != nil {
			t.Errorf("half a second into a step: %v", err)
		}
		pass(time.Second)
		if err := e.Health(time.Second); err == nil || !strings.Contains(err.Error(), "computing for 1.5s") {
			t.Errorf("1.5 seconds into a step: %v", err)
		}
		g.step()
		pass(time.Second / 2)
		if err := e.Health(time.Second); err != nil {
			t.Errorf("in the next step: %v", err)
		}
		g.open()
		read(t, s)
		pass(time.Hour)
		if err := e.Health(time.Second); err != nil {
			t.Errorf("idle again: %v", err)
		}
		e.Close()
		if err := e.Health(time.Second); !errors.Is(err, ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := smallConfig()
		f, g := newFake(cfg), newGate(t)
		f.forward = g.forward
		e := start(t, Config{Runner: f, Sched: cfg})
		s := submit(t, e, t.Context(), request(1, 4, 9))
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := e.Drain(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drain of a busy engine: %v; want %v", err, context.DeadlineExceeded)
		}
		if _, err := e.Submit(t.Context(), request(2, 4, 9)); !errors.Is(err, ErrDraining) {
			t.Errorf("Submit while draining: %v; want %v", err, ErrDraining)
		}
		g.open()
		if err := e.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if ids, _ := read(t, s); !slices.Equal(ids, expected(request(1, 4, 9))) {
			t.Errorf("the request being drained got %v", ids)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := smallConfig()
		cfg.MaxSeqs = 1
		f, g := newFake(cfg), newGate(t)
		f.forward = g.forward
		e := start(t, Config{Runner: f, Sched: cfg})
		running := submit(t, e, t.Context(), request(1, 4, 9))
		waiting := submit(t, e, t.Context(), request(2, 4, 9))
		closed := make(chan error)
		go func() { closed <- e.Close() }()
		synctest.Wait()
		g.open()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		for _, s := range []*Stream{running, waiting} {
			if _, last := read(t, s); last.Finish != FinishError || !errors.Is(last.Err, ErrClosed) {
				t.Errorf("a request ended with %+v; want %v", last, ErrClosed)
			}
		}
		if _, err := e.Submit(t.Context(), request(2, 4, 9)); !errors.Is(err, ErrClosed) {
			t.Errorf("Submit: %v; want %v", err, ErrClosed)
		}
		if err := e.Drain(t.Context()); !errors.Is(err, ErrClosed) && err != nil {
			t.Errorf("Drain: %v", err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
