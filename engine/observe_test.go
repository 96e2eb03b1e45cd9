package engine

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kvasir-llm/kvasir/compute"
)

// recorder is an Observer that keeps what it hears.
type recorder struct {
	mu       sync.Mutex
	requests []RequestDone
	steps    []StepDone
}

func (r *recorder) RequestDone(d RequestDone) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, d)
}

func (r *recorder) StepDone(d StepDone) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d.Gaps, d.FirstTokens = slices.Clone(d.Gaps), slices.Clone(d.FirstTokens)
	r.steps = append(r.steps, d)
}

// TestObserver runs in a bubble whose time only steps take, a second each.
func TestObserver(t *testing.T) { synctest.Test(t, observe) }

func observe(t *testing.T) {
	cfg := smallConfig() // chunks of 8
	f := newFake(cfg)
	f.forward = func(*compute.Batch) error {
		<-time.After(time.Second)
		return nil
	}
	var rec recorder
	e := start(t, Config{Runner: f, Sched: cfg, Observer: &rec})
	read(t, submit(t, e, t.Context(), request(1, 12, 3)))
	read(t, submit(t, e, t.Context(), request(1, 12, 1))) // its first two blocks are cached
	begun := request(1, 4, 9)                             // the same tokens, of which 8 are an answer
	begun.Prompt, begun.Begun = request(1, 12, 9).Prompt, 8
	read(t, submit(t, e, t.Context(), begun))
	if err := e.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := time.Second
	wantRequests := []RequestDone{
		{Prompt: 12, Generated: 3, MaxTokens: 3, FirstToken: 2 * s, Decode: 2 * s, Total: 4 * s, Reason: FinishLength},
		{Prompt: 12, Cached: 11, Generated: 1, MaxTokens: 1, FirstToken: s, Total: s, Reason: FinishLength},
		{Prompt: 4, Cached: 4, Generated: 9, MaxTokens: 9, FirstToken: s, Total: s, Reason: FinishLength},
	}
	if d := cmp.Diff(wantRequests, rec.requests); d != "" {
		t.Error(d)
	}
	second := []time.Duration{s}
	wantSteps := []StepDone{
		{Rows: 8, Seqs: 1, Duration: s},
		{Rows: 4, Seqs: 1, Duration: s, FirstTokens: []time.Duration{2 * s}},
		{Rows: 1, Seqs: 1, Duration: s, Gaps: second},
		{Rows: 1, Seqs: 1, Duration: s, Gaps: second},
		{Rows: 1, Seqs: 1, Duration: s, FirstTokens: second},
		{Rows: 1, Seqs: 1, Duration: s, FirstTokens: second},
	}
	if d := cmp.Diff(wantSteps, rec.steps, cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
}

// brittle is an Observer that panics.
type brittle struct{}

func (brittle) RequestDone(RequestDone) { panic("metrics are down") }
func (brittle) StepDone(StepDone)       { panic("metrics are down") }

func TestObserverPanics(t *testing.T) {
	cfg := smallConfig()
	e := start(t, Config{Runner: newFake(cfg), Sched: cfg, Observer: brittle{}})
	r := request(1, 12, 9)
	if ids, last := read(t, submit(t, e, t.Context(), r)); !slices.Equal(ids, expected(r)) || last.Finish != FinishLength {
		t.Errorf("got %v, %+v", ids, last)
	}
}
