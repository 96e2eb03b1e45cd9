package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/sched"
)

// ground is a Base whose Runners are fakes. prepare sees each before it is used.
type ground struct {
	cfg     sched.Config
	prepare func(n int, f *fake)
	fail    error // of what is made next

	mu    sync.Mutex
	calls []string
	made  int
}

func (g *ground) note(call string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, call)
	return g.fail
}

func (g *ground) runner() *fake {
	f := newFake(g.cfg)
	if g.prepare != nil {
		g.prepare(g.made, f)
	}
	g.made++
	return f
}

func (g *ground) Rebuild() (Runner, error)    { return g.runner(), g.note("rebuild") }
func (g *ground) Sleep(l SleepLevel) error    { return g.note(fmt.Sprint("sleep ", l)) }
func (g *ground) WakeWeights() error          { return g.note("weights") }
func (g *ground) WakeRunner() (Runner, error) { return g.runner(), g.note("runner") }
func lostDevice(n int) *compute.Fault {
	return &compute.Fault{Err: fmt.Errorf("fault %d", n), Lost: true}
}
func (g *ground) engine(t *testing.T) *Engine {
	return start(t, Config{Runner: g.runner(), Base: g, Sched: g.cfg})
}

// TestRebuild loses the device at one step or another: requests get the tokens that they would have got, and Health
// tells that the device is being made again.
func TestRebuild(t *testing.T) {
	for at := 1; at < 30; at += 4 {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			cfg := smallConfig()
			cfg.MaxSeqs = 3
			g := &ground{cfg: cfg}
			steps := 0
			hold := newGate(t)
			g.prepare = func(n int, f *fake) {
				f.forward = func(b *compute.Batch) error {
					if n == 0 {
						hold.forward(b)
						if steps++; steps == at {
							return lostDevice(n)
						}
					}
					return nil
				}
			}
			e := g.engine(t)
			var streams []*Stream
			for n := range 5 {
				streams = append(streams, submit(t, e, t.Context(), request(n, 6, 20)))
			}
			hold.open()
			for n, s := range streams {
				ids, last := read(t, s)
				if want := expected(request(n, 6, 20)); !slices.Equal(ids, want) || last.Finish != FinishLength {
					t.Errorf("request %d got %v, %+v; want %v", n, ids, last, want)
				}
			}
			if err := e.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			wantIdle(t, e)
			if got := e.Stats().Rebuilds; got != 1 || g.made != 2 {
				t.Errorf("the device was made again %d times, with %d Runners", got, g.made)
			}
			if err := e.Health(time.Second); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPoison lets a request lose the device whenever it runs: it ends, and those beside it go on.
func TestPoison(t *testing.T) {
	cfg := smallConfig()
	cfg.MaxSeqs = 2
	g := &ground{cfg: cfg}
	poison := request(1, 6, 20).Prompt
	g.prepare = func(n int, f *fake) {
		f.forward = func(b *compute.Batch) error {
			if slices.Equal(b.IDs[:min(len(b.IDs), 6)], poison) || len(b.IDs) >= 12 && slices.Equal(b.IDs[6:12], poison) {
				return lostDevice(n)
			}
			return nil
		}
	}
	e := g.engine(t)
	bad := submit(t, e, t.Context(), request(1, 6, 20))
	if _, last := read(t, bad); last.Finish != FinishError || !strings.Contains(last.Err.Error(), "failed 2 times in steps of this request") {
		t.Errorf("%+v", last)
	}
	s := submit(t, e, t.Context(), request(2, 6, 20))
	if ids, _ := read(t, s); !slices.Equal(ids, expected(request(2, 6, 20))) {
		t.Errorf("the next request got %v", ids)
	}
}

// TestRebuildBound loses the device over and over, or once for good: then requests end, and Health says why.
func TestRebuildBound(t *testing.T) {
	for _, broken := range []bool{false, true} {
		g := &ground{cfg: smallConfig()}
		if broken {
			g.fail = errors.New("no memory")
		}
		g.prepare = func(n int, f *fake) { f.forward = func(*compute.Batch) error { return lostDevice(n) } }
		var told []error
		e := start(t, Config{Runner: g.runner(), Base: g, Sched: g.cfg, Lost: func(err error) { told = append(told, err) }})
		var last Token
		for n := range 3 {
			s, err := e.Submit(t.Context(), request(n, 6, 20))
			if err != nil {
				last.Err = err
				break
			}
			_, last = read(t, s)
		}
		if !errors.Is(last.Err, ErrDevice) || !errors.Is(e.Health(time.Hour), ErrDevice) {
			t.Errorf("%v, %v; want %v", last.Err, e.Health(time.Hour), ErrDevice)
		}
		if want := map[bool]int{false: mostRebuilds + 1, true: 2}[broken]; g.made != want {
			t.Errorf("%d Runners were made; want %d", g.made, want)
		}
		if e.Close(); len(told) != 1 || !strings.Contains(told[0].Error(), "fault") {
			t.Errorf("it told %v", told)
		}
		if broken && !strings.Contains(last.Err.Error(), "it could not be set up again: no memory") {
			t.Error(last.Err)
		}
	}
}

// TestAiling holds the making of a device: meanwhile Health says so, and requests are taken and can be cancelled.
func TestAiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &ground{cfg: smallConfig()}
		slow := make(chan struct{})
		g.prepare = func(n int, f *fake) {
			if n > 0 {
				<-slow
				return
			}
			f.forward = func(*compute.Batch) error { return lostDevice(n) }
		}
		e := g.engine(t)
		first := submit(t, e, t.Context(), request(1, 6, 20))
		synctest.Wait()
		if err := e.Health(time.Hour); err == nil || !strings.Contains(err.Error(), "is being set up again: fault 0") {
			t.Errorf("meanwhile: %v", err)
		}
		second := submit(t, e, t.Context(), request(2, 6, 20))
		ctx, cancel := context.WithCancel(t.Context())
		third := submit(t, e, ctx, request(3, 6, 20))
		cancel()
		if _, last := read(t, third); last.Finish != FinishCancelled {
			t.Errorf("a request that was cancelled ended with %+v", last)
		}
		close(slow)
		for n, s := range []*Stream{first, second} {
			if ids, _ := read(t, s); !slices.Equal(ids, expected(request(n+1, 6, 20))) {
				t.Errorf("request %d got %v", n+1, ids)
			}
		}
		if err := e.Health(time.Hour); err != nil {
			t.Error(err)
		}
	})
}

// TestSleep lets an engine sleep while requests run, in each mode and level, and wakes it whole or part by part.
func TestSleep(t *testing.T) {
	for _, mode := range []SleepMode{SleepAbort, SleepWait, SleepKeep} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { sleeps(t, mode) })
		})
	}
}

func sleeps(t *testing.T, mode SleepMode) {
	cfg := smallConfig()
	g, hold := &ground{cfg: cfg}, newGate(t)
	g.prepare = func(n int, f *fake) {
		if n == 0 {
			f.forward = hold.forward
		}
	}
	e := g.engine(t)
	running := submit(t, e, t.Context(), request(1, 6, 20))
	for range 4 {
		hold.step()
	}
	slept := make(chan error, 1)
	go func() { slept <- e.Sleep(t.Context(), SleepOnDisk, mode) }()
	synctest.Wait()
	later := make(chan *Stream, 1)
	go func() {
		s, err := e.Submit(t.Context(), request(2, 6, 20))
		if err != nil {
			t.Error(err)
		}
		later <- s
	}()
	hold.open()
	if err := <-slept; err != nil || !e.Asleep() || e.Health(0) != nil {
		t.Fatalf("asleep: %v; it says %v, %v", err, e.Asleep(), e.Health(0))
	}
	if err := e.Sleep(t.Context(), SleepOnHost, SleepAbort); err != nil {
		t.Errorf("a second time: %v", err)
	}
	synctest.Wait()
	ids, last := []int32(nil), Token{}
	if mode != SleepKeep {
		ids, last = read(t, running)
	}
	if mode == SleepAbort && !errors.Is(last.Err, ErrAsleep) {
		t.Errorf("a running request ended with %+v", last)
	}
	if err := e.Wake(t.Context(), false, true); err == nil || !strings.Contains(err.Error(), "once the weights have") {
		t.Errorf("the cache before the weights: %v", err)
	}
	if err := e.Wake(t.Context(), true, false); err != nil || !e.Asleep() {
		t.Errorf("the weights: %v, asleep: %v", err, e.Asleep())
	}
	if err := e.Wake(t.Context(), true, true); err != nil || e.Asleep() {
		t.Errorf("all: %v, asleep: %v", err, e.Asleep())
	}
	if err := e.Wake(t.Context(), true, true); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if mode == SleepKeep {
		ids, last = read(t, running)
	}
	if want := expected(request(1, 6, 20)); mode != SleepAbort && (!slices.Equal(ids, want) || last.Finish != FinishLength) {
		t.Errorf("a running request got %v, %+v; want %v", ids, last, want)
	}
	if ids, _ := read(t, <-later); !slices.Equal(ids, expected(request(2, 6, 20))) {
		t.Errorf("a later request got %v", ids)
	}
	if want := []string{"sleep 2", "weights", "runner"}; !slices.Equal(g.calls, want) {
		t.Errorf("calls %v; want %v", g.calls, want)
	}
}

// TestSleepless checks what cannot sleep, a sleep that fails, and an engine that is closed asleep.
func TestSleepless(t *testing.T) {
	cfg := smallConfig()
	e := start(t, Config{Runner: newFake(cfg), Sched: cfg})
	if err := e.Sleep(t.Context(), SleepOnHost, SleepKeep); !errors.Is(err, ErrSleepless) {
		t.Error(err)
	}
	g := &ground{cfg: cfg, fail: errors.New("no memory")}
	e = g.engine(t)
	if err := e.Sleep(t.Context(), SleepOnHost, SleepKeep); err == nil || !strings.Contains(err.Error(), "no memory") || !e.Asleep() {
		t.Errorf("%v; asleep: %v", err, e.Asleep())
	}
	g.mu.Lock()
	g.fail = nil
	g.mu.Unlock()
	waiting := make(chan error, 1)
	s := submit(t, e, t.Context(), request(1, 6, 20))
	go func() { _, last := read(t, s); waiting <- last.Err }()
	e.Close()
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
