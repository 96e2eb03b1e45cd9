// Package engine serves one model: it takes requests of token ids at any time, runs them together step by step, and
// streams their tokens. It knows nothing of text, HTTP or other engines. Read Engine.Submit first, then Engine.turn, the
// loop that everything else serves.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/sampling"
	"github.com/kvasir-llm/kvasir/sched"
)

// Runner computes steps. It is used by one goroutine at a time.
type Runner interface {
	// Forward computes a batch and returns when its logits are readable. An error is the whole step's.
	Forward(b *compute.Batch) error
	// Logits returns the logits [vocab] of row b.Logits[i]. They may be changed, and are valid until the next Forward.
	Logits(i int) []float32
	// Hidden returns the final hidden state of row b.Hidden[i]. It is valid until the next Forward.
	Hidden(i int) []float32
}

// Config says what an Engine runs on.
type Config struct {
	Runner   Runner
	Vocab    int                                    // tokens of the model
	Sched    sched.Config                           // the Runner must take its TokenBudget as rows, and have its Blocks of BlockTokens
	Long     func(tokens int) bool                  // whether a sequence that may grow to so many is a long one, as model.Spec.Long; nil is never
	Slots    int                                    // adapters that the Runner holds at once; 0 is none
	Place    func(slot int, a *model.Adapter) error // as model.Model.Place; called when nothing computes
	Adapters []Adapter                              // known from the start, the pinned ones on the device
	Tiers    Tiers                                  // memory and files that blocks go to when the Runner's cache is full; it must be a Mover
	Observer Observer                               // nil is none
	Events   func([]kv.Event)                       // hears of what happens to the contents of the prefix cache, from the loop, as an Observer; nil is none
	Logger   *slog.Logger                           // hears of failed steps; nil is none
	Now      func() time.Time
}

// ErrClosed is returned for requests of an engine that is closed, or that ended because it was.
var ErrClosed = errors.New("engine: closed")

// ErrTimeout ends a request whose Timeout is over.
var ErrTimeout = errors.New("engine: the request took longer than its timeout")

// ErrDraining is returned by Submit once Drain was called.
var ErrDraining = errors.New("engine: draining, no new requests are taken")

// Engine serves one model. Its methods may be called from any goroutine.
//
// One goroutine, the loop, owns the scheduler and everything below "the loop's own"; a second one runs the steps, so
// that the loop can plan the next step and hear of arrivals and cancellations meanwhile. The two meet over channels.
type Engine struct {
	cfg     Config
	maxLen  int       // tokens of a sequence at most
	retains bool      // requests may say what is to be Kept
	epoch   time.Time // the scheduler's deadlines count from it
	lastID  atomic.Uint64
	notify  chan struct{} // [1] something is in the inbox, or closing is set
	work    chan *compute.Batch
	done    chan error // answers work
	drained chan struct{}
	stopped chan struct{} // the loop has ended

	mu       sync.Mutex
	inbox    []message
	live     int // requests taken whose end is not yet in their Stream
	draining bool
	closing  bool
	stats    Stats
	phase    phase
	since    time.Time // of phase
	adapters map[string]*adapter
	loads    uint64 // adapters that were loaded

	// The loop's own.
	sched     *sched.Scheduler
	seqs      map[sched.SeqID]*sequence
	todo      []message // taken from the inbox, of which handled are done
	handled   int
	tiers     *tiers      // nil: there are none
	plan      *sched.Plan // of the step in hand
	next      *sched.Plan // of the one after it
	computing bool
	idle      bool      // nothing can run before the next message
	started   time.Time // when the step in hand was handed to the Runner
	batch     compute.Batch
	entries   []entry     // what the step does for plan.Seqs, one each
	rows      [][]float32 // logits of batch.Logits
	hidden    [][]float32 // final hidden states of batch.Hidden
	samplers  []sampling.Sampler
	sampled   atomic.Int64 // entries of the step in hand that a sampler has taken
	results   []sched.Result
	outbox    []delivery
	report    StepDone
	counts    Stats
	slots     []*adapter // by slot; the first is nobody's
	pinned    []*adapter // which never change
}

// message tells the loop that a request arrives, or, with a reason, that one must end; or asks it to call a function.
type message struct {
	ask    func()
	seq    *sequence
	reason FinishReason
	err    error
}

// New starts an engine. Close ends it.
func New(cfg Config) (*Engine, error) {
	if cfg.Runner == nil || cfg.Vocab < 1 {
		return nil, fmt.Errorf("engine: config: a Runner and a vocabulary are needed; the vocabulary is %d", cfg.Vocab)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Sched.MaxAdapters, cfg.Sched.Events = cfg.Slots, cfg.Events != nil
	for _, a := range cfg.Adapters {
		if a.Pinned && cfg.Sched.MaxAdapters > 0 {
			cfg.Sched.MaxAdapters--
		}
	}
	t, err := newTiers(&cfg)
	if err != nil {
		return nil, err
	}
	s, err := sched.New(cfg.Sched)
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	t.adopt(s)
	e := &Engine{
		cfg:      cfg,
		epoch:    cfg.Now(),
		notify:   make(chan struct{}, 1),
		work:     make(chan *compute.Batch),
		done:     make(chan error),
		drained:  make(chan struct{}),
		stopped:  make(chan struct{}),
		sched:    s,
		tiers:    t,
		seqs:     map[sched.SeqID]*sequence{},
		adapters: map[string]*adapter{},
		slots:    make([]*adapter, cfg.Slots+1),
		samplers: make([]sampling.Sampler, min(runtime.GOMAXPROCS(0), 16)),
	}
	e.maxLen, e.retains = s.MaxLen(), s.Retains()
	e.counts.MaxLen = e.maxLen
	if err := e.placePinned(); err != nil {
		return nil, errors.Join(err, t.close())
	}
	for _, a := range cfg.Adapters {
		if a.Pinned {
			continue
		}
		if err := e.Load(a, false); err != nil {
			return nil, errors.Join(err, t.close())
		}
	}
	e.publish()
	go e.compute()
	go e.loop()
	return e, nil
}

// Submit takes a request. A *sampling.ParamError says which of its fields cannot be used; sched.ErrQueueFull that too
// many wait already; the stream may end with it too, when more urgent ones came. When ctx is done, at any time, the request ends and what it holds is free again. The request must
// not change while it is served.
func (e *Engine) Submit(ctx context.Context, r Request) (*Stream, error) {
	if err := r.check(e.cfg.Vocab, e.maxLen); err != nil {
		return nil, err
	}
	if r.Keep != (kv.Retention{}) && !e.retains {
		return nil, &sampling.ParamError{Field: "kv_priority", Problem: "means nothing under this engine's eviction policy; it needs the policy priority"}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	a, err := e.take(r.Adapter)
	if err != nil {
		return nil, err
	}
	ended := func() {}
	if r.Timeout > 0 {
		ctx, ended = context.WithTimeoutCause(ctx, r.Timeout, ErrTimeout)
	}
	q := newSequence(r, e.maxLen)
	q.long = e.cfg.Long != nil && e.cfg.Long(len(q.ids)+q.req.MaxTokens)
	q.adapter = a
	q.id = sched.SeqID(e.lastID.Add(1))
	q.arrived = e.cfg.Now()
	q.stream = &Stream{engine: e, seq: q, wake: make(chan struct{}, 1)}
	forget := context.AfterFunc(ctx, func() { e.post(message{seq: q, reason: FinishCancelled, err: context.Cause(ctx)}) })
	q.unhook = func() { forget(); ended() }
	if err := e.post(message{seq: q}); err != nil {
		q.unhook()
		q.release()
		return nil, err
	}
	select {
	case err := <-q.answer:
		if err != nil {
			return nil, err
		}
		return q.stream, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// post puts a message in the loop's inbox.
func (e *Engine) post(m message) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	arrival := m.seq != nil && m.reason == ""
	switch {
	case e.closing:
		return ErrClosed
	case arrival && e.draining:
		return ErrDraining
	case arrival:
		e.live++
	}
	e.inbox = append(e.inbox, m)
	e.wake()
	return nil
}

// wake makes the loop look into its inbox.
func (e *Engine) wake() {
	select {
	case e.notify <- struct{}{}:
	default:
	}
}

// Drain refuses new requests from now on and waits until those taken have ended, or ctx is done.
func (e *Engine) Drain(ctx context.Context) error {
	e.mu.Lock()
	e.draining = true
	e.left(0)
	e.mu.Unlock()
	select {
	case <-e.drained:
		return nil
	case <-e.stopped:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// left notes that n requests are over. The caller holds mu.
func (e *Engine) left(n int) {
	e.live -= n
	if !e.draining || e.live > 0 {
		return
	}
	select {
	case <-e.drained:
	default:
		close(e.drained)
	}
}

// Close ends all requests with ErrClosed, waits for the step being computed, and stops the engine. The Runner is not used
// afterwards.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closing = true
	e.wake()
	e.mu.Unlock()
	<-e.stopped
	return nil
}
