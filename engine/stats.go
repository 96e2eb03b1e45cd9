package engine

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/sched"
)

// Observer hears of what happens, from the loop: it must be quick, and must not call the Engine.
type Observer interface {
	RequestDone(RequestDone)
	StepDone(StepDone) // its slices are reused after the call
}

// RequestDone describes a request that has ended.
type RequestDone struct {
	Prompt, Cached, Generated int // tokens; Cached of the prompt came from the prefix cache
	MaxTokens                 int
	Preempted                 int           // times
	Queue                     time.Duration // from arrival to the first step; 0 if it never ran
	FirstToken                time.Duration // from arrival; 0 if there was none
	Decode                    time.Duration // from the first token to the last
	Total                     time.Duration // from arrival to the end
	Reason                    FinishReason
}

// StepDone describes a step.
type StepDone struct {
	Rows, Seqs, Preempted int
	Duration              time.Duration   // on the device
	Host                  time.Duration   // what the loop did for it: its time since the step before, but for waiting
	Gaps                  []time.Duration // from the previous token of its sequence, for each token but first ones
	FirstTokens           []time.Duration // from the arrival of its request, for each first token
}

// Stats are counters since the start, and what is now.
type Stats struct {
	Sched           sched.Stats
	MaxLen          int // tokens of a sequence at most
	Steps           uint64
	Rebuilds        uint64 // times that the device was made again after a fault
	PromptTokens    uint64 // of requests that have a first token
	GeneratedTokens uint64
	Drafts          DraftStats
	LastStep        time.Duration
	Rates           kv.Rates // measured, if there are tiers
	// Held and Unfilled are the sums over all steps of sched.Stats.Held and Unfilled: their quotient is the share of
	// the memory allocated to sequences that was not used.
	Held, Unfilled uint64 // tokens
}

// Stats returns the counters as of the last step, arrival or cancellation.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

// publish makes the loop's counters visible.
func (e *Engine) publish() {
	e.counts.Sched = e.sched.Stats()
	e.mu.Lock()
	e.stats = e.counts
	e.mu.Unlock()
}

// phase is what the loop is doing.
type phase string

const (
	phaseIdle      phase = ""
	phasePlanning  phase = "planning"
	phaseComputing phase = "computing"
)

// enter notes that the loop begins a phase.
func (e *Engine) enter(p phase) {
	now := e.cfg.Now()
	e.mu.Lock()
	e.phase, e.since = p, now
	e.mu.Unlock()
}

// Health returns nil if the engine is idle or what it does now began no longer ago than within, and else an error that
// says what hangs.
func (e *Engine) Health(within time.Duration) error {
	if e.inbox.closed() {
		return ErrClosed
	}
	now := e.cfg.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	age := now.Sub(e.since)
	switch {
	case e.dead != nil:
		return e.dead
	case e.ailment != nil:
		return e.ailment
	case e.sleeps:
		return nil
	case age <= within:
		return nil
	case e.phase != phaseIdle:
		return fmt.Errorf("engine: step %d has been %s for %v; want at most %v", e.stats.Steps, e.phase, age, within)
	case e.stats.Sched.Waiting > 0:
		return fmt.Errorf("engine: %d requests wait but nothing has run for %v", e.stats.Sched.Waiting, age)
	}
	return nil
}

// observeToken notes that a sequence got a token, now since the engine's start.
func (e *Engine) observeToken(s *step, q *sequence, now time.Duration) {
	if q.plain || !q.pools {
		e.counts.GeneratedTokens++
	}
	if !q.began {
		q.began, q.first = true, now
		q.stream.tell(q.cached, q.scores, nil, e.times(q))
		e.counts.PromptTokens += uint64(q.prompt)
		s.report.FirstTokens = append(s.report.FirstTokens, now-q.arrived.Sub(e.epoch))
	} else {
		s.report.Gaps = append(s.report.Gaps, now-q.last)
	}
	q.last = now
}

// times returns when a sequence came to what it came to.
func (e *Engine) times(q *sequence) Times {
	t := Times{Arrived: q.arrived}
	if q.ran {
		t.Scheduled = e.epoch.Add(q.scheduled)
	}
	if q.began {
		t.First = e.epoch.Add(q.first)
	}
	return t
}

// observeStep notes that a step is over.
func (e *Engine) observeStep(s *step) {
	e.counts.Steps++
	e.counts.LastStep = s.report.Duration
	e.counts.Held += uint64(e.counts.Sched.Held)
	e.counts.Unfilled += uint64(e.counts.Sched.Unfilled)
	if e.cfg.Observer != nil {
		defer e.observerPanicked()
		e.cfg.Observer.StepDone(s.report)
	}
}

// observeEnd tells the observer of a request that has ended.
func (e *Engine) observeEnd(q *sequence, reason FinishReason) {
	if e.cfg.Observer == nil {
		return
	}
	generated := q.generated()
	switch {
	case q.search != nil:
		generated = q.search.beams.Tokens()
	case q.pools:
		generated = 0
	}
	d := RequestDone{
		Prompt: q.prompt, Cached: q.cached, Generated: generated, MaxTokens: q.req.MaxTokens,
		Preempted: q.preempted, Total: e.cfg.Now().Sub(q.arrived), Reason: reason,
	}
	arrived := q.arrived.Sub(e.epoch)
	if q.ran {
		d.Queue = q.scheduled - arrived
	}
	if q.began {
		d.FirstToken, d.Decode = q.first-arrived, q.last-q.first
	}
	defer e.observerPanicked()
	e.cfg.Observer.RequestDone(d)
}

// observerPanicked keeps an observer's panic from the requests.
func (e *Engine) observerPanicked() {
	if v := recover(); v != nil {
		e.cfg.Logger.Error("the observer panicked", "panic", v, "stack", string(debug.Stack()))
	}
}
