package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvasir-llm/kvasir/sched"
)

// TestPolicies checks that what a request says reaches the policy: of five that wait, the order in which they end.
func TestPolicies(t *testing.T) {
	edits := []func(*Request){
		func(r *Request) { r.Priority, r.Tenant, r.FirstToken = 3, "a", 4*time.Second },
		func(r *Request) { r.Priority, r.Tenant, r.FirstToken = 2, "a", 5*time.Second },
		func(r *Request) { r.Priority, r.Tenant = 2, "b" }, // 1 s
		func(r *Request) { r.Priority, r.Tenant, r.FirstToken = -1, "a", 3*time.Second },
		func(r *Request) { r.Priority, r.Tenant, r.FirstToken = 9, "b", 2*time.Second },
	}
	for policy, want := range map[string][]int{
		"fcfs": {0, 1, 2, 3, 4}, "priority": {3, 1, 2, 0, 4}, "vtc": {0, 2, 1, 4, 3}, "edf": {2, 4, 3, 0, 1},
		"shortest-prompt": {4, 3, 2, 1, 0},
	} {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := smallConfig()
				cfg.MaxSeqs, cfg.Policy, cfg.PrefixCache = 1, policy, false
				f, g := newFake(cfg), newGate(t)
				f.forward = g.forward
				e := start(t, Config{Runner: f, Sched: cfg})
				first := submit(t, e, t.Context(), request(9, 4, 2))
				synctest.Wait() // it is being computed
				streams := map[int]*Stream{}
				for n, edit := range edits {
					prompt := 20
					if policy == "shortest-prompt" {
						prompt = 100 - 20*n
					}
					r := request(n, prompt, 3)
					edit(&r)
					streams[n] = submit(t, e, t.Context(), r)
				}
				var got []int
				for len(streams) > 0 {
					synctest.Wait()
					for n, s := range streams {
						if s.over() {
							got = append(got, n)
							delete(streams, n)
						}
					}
					if len(streams) > 0 {
						g.step()
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("they ended in the order %v; want %v", got, want)
				}
				read(t, first)
			})
		})
	}
}

// over reports whether the last token is there.
func (s *Stream) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// TestTimeout lets the time of requests run out while they wait and while they run.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := smallConfig()
		cfg.MaxSeqs, cfg.PrefixCache = 1, false
		f, g := newFake(cfg), newGate(t)
		f.forward = g.forward
		e := start(t, Config{Runner: f, Sched: cfg})
		var streams []*Stream
		for n, timeout := range []time.Duration{25 * time.Second, 10 * time.Second, 0} {
			r := request(n, 6, 9)
			r.Timeout = timeout
			streams = append(streams, submit(t, e, t.Context(), r))
		}
		synctest.Wait()
		g.step()
		for n, want := range []sched.Stats{{Running: 1, Waiting: 2}, {Running: 1, Waiting: 1}, {Waiting: 1}} {
			synctest.Wait()
			if s := e.Stats().Sched; s.Running != want.Running || s.Waiting != want.Waiting {
				t.Errorf("after %d s, %d run and %d wait; want %d and %d", 15*n, s.Running, s.Waiting, want.Running, want.Waiting)
			}
			time.Sleep(15 * time.Second) // of the bubble's clock
		}
		g.open()
		for n, s := range streams {
			ids, last := read(t, s)
			if n < 2 && (last.Finish != FinishCancelled || last.Err != ErrTimeout) {
				t.Errorf("request %d ended with %+v", n, last)
			} else if n == 2 && !slices.Equal(ids, expected(request(2, 6, 9))) {
				t.Errorf("the request without a timeout got %v", ids)
			}
		}
		wantIdle(t, e)
	})
}

// TestWindow lets a static batch wait to become full: it starts when the window is over though nothing happens, or at
// once when it is full.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := smallConfig()
		cfg.MaxSeqs, cfg.Batch, cfg.Window = 2, sched.Static, 50
		e := start(t, Config{Runner: newFake(cfg), Sched: cfg})
		for _, c := range []struct {
			requests int
			want     time.Duration
		}{{1, 50 * time.Millisecond}, {2, 0}} {
			time.Sleep(time.Second)
			begin := time.Now()
			var streams []*Stream
			for n := range c.requests {
				streams = append(streams, submit(t, e, t.Context(), request(n, 6, 2)))
			}
			for _, s := range streams {
				read(t, s)
			}
			if got := time.Since(begin); got != c.want {
				t.Errorf("%d of 2 requests took %v; want %v", c.requests, got, c.want)
			}
		}
		wantIdle(t, e)
	})
}

// TestShedPayer fills the queue with one payer's requests. Another's take the places of the last of them, which are
// told that it is full, up to an equal share.
func TestShedPayer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := smallConfig()
		cfg.MaxSeqs, cfg.MaxWaiting = 1, 4
		f, g := newFake(cfg), newGate(t)
		f.forward = g.forward
		e := start(t, Config{Runner: f, Sched: cfg})
		streams := map[int]*Stream{}
		for i, c := range []struct {
			payer   string
			refused bool
		}{{"a", false}, {"a", false}, {"a", false}, {"a", false}, {"a", false}, {"a", true}, {"b", false}, {"b", false}, {"b", true}, {"", true}} {
			r := request(i, 4, 2)
			r.Payer = c.payer
			s, err := e.Submit(t.Context(), r)
			if c.refused != errors.Is(err, ErrQueueFull) || !c.refused && err != nil {
				t.Fatalf("request %d: %v; refused %v", i, err, c.refused)
			}
			if err == nil {
				streams[i] = s
			}
			synctest.Wait()
		}
		g.open()
		for i, s := range streams {
			_, last := read(t, s)
			if shed := i == 3 || i == 4; shed != errors.Is(last.Err, ErrQueueFull) || !shed && last.Finish != FinishLength {
				t.Errorf("request %d ended with %+v; made room for another: %v", i, last, shed)
			}
		}
		wantIdle(t, e)
	})
}

// TestShed fills the queue. More urgent requests take the places of the least urgent, which are told that it is full.
func TestShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := smallConfig()
		cfg.MaxSeqs, cfg.MaxWaiting = 1, 2
		f, g := newFake(cfg), newGate(t)
		f.forward = g.forward
		e := start(t, Config{Runner: f, Sched: cfg})
		streams := map[string]*Stream{}
		for i, c := range []struct {
			priority int
			refused  bool
		}{{5, false}, {5, false}, {3, false}, {5, true}, {4, false}, {4, true}, {-1, false}} {
			r := request(i, 4, 2)
			r.Priority = c.priority
			s, err := e.Submit(t.Context(), r)
			if c.refused != errors.Is(err, ErrQueueFull) || !c.refused && err != nil {
				t.Fatalf("request %d: %v; refused %v", i, err, c.refused)
			}
			if err == nil {
				streams[fmt.Sprint(i)] = s
			}
			synctest.Wait()
		}
		g.open()
		for i, s := range streams {
			_, last := read(t, s)
			if shed := i == "1" || i == "4"; shed != errors.Is(last.Err, ErrQueueFull) || !shed && last.Finish != FinishLength {
				t.Errorf("request %s ended with %+v; made room for another: %v", i, last, shed)
			}
		}
		if err := e.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		wantIdle(t, e)
	})
}
