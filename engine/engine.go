// Package engine serves one model: it takes requests of token ids at any time, runs them together step by step, and
// streams their tokens. It knows nothing of text, HTTP or other engines. Read Engine.Submit first, then Engine.turn,
// the loop that everything else serves.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine/tier"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/sched"
)

// Runner computes steps: a compute.Program with a model in it. It is used by one goroutine at a time.
type Runner interface {
	// Start queues a batch, as compute.Program does.
	Start(b *compute.Batch) (compute.Step, error)
	// BlockBytes is the size of a compute.Transfer.
	BlockBytes() int
	// Trees reports whether a batch may have Parents.
	Trees() bool
}

// Config says what an Engine runs on.
type Config struct {
	Runner Runner
	Vocab  int // tokens of the model
	// Model tells the weights and the type of keys and values, in the names of KV blocks; "" leaves them without.
	Model string
	Sched sched.Config          // the Runner must take its TokenBudget as rows, and have its Blocks of BlockTokens
	Long  func(tokens int) bool // whether a sequence that may grow to so many is a long one, as model.Spec.Long; nil is never
	Slots int                   // adapters that the Runner holds at once; 0 is none
	// Place returns what puts an adapter into a slot, as model.Runner.Place.
	Place func(slot int, a *model.Adapter) (compute.Placement, error)
	// Base, if not nil, makes the Runner again when its device was lost, and lets it sleep. Place is of the Runner that
	// it made last.
	Base     Base
	Drafts   Drafts
	Adapters []Adapter        // known from the start, the pinned ones on the device
	Tiers    Tiers            // memory and files that blocks go to when the Runner's cache is full; 0 is none
	Observer Observer         // nil is none
	Events   func([]kv.Event) // hears of what happens to the contents of the prefix cache, from the loop, as an Observer; nil is none
	Lost     func(error)      // hears, from the loop and once at most, that the device is lost for good; nil is none
	Backlog  int64            // bytes that may wait for the readers of streams; 0 is 64 MiB
	Logger   *slog.Logger     // hears of failed steps; nil is none
	Now      func() time.Time
}

// ErrClosed is returned for requests of an engine that is closed, or that ended because it was.
var ErrClosed = errors.New("engine: closed")

// ErrTimeout ends a request whose Timeout is over.
var ErrTimeout = errors.New("engine: the request took longer than its timeout")

// ErrDevice ends requests, and refuses new ones, once the device is lost.
var ErrDevice = errors.New("engine: the device is lost")

// ErrDraining is returned by Submit once Drain was called.
var ErrDraining = errors.New("engine: draining, no new requests are taken")

// Engine serves one model. Its methods may be called from any goroutine.
//
// One goroutine, the loop, owns the scheduler, the stepper and the sequences; everything else reaches it through the
// inbox, and hears from it through the outbox. While the device computes step N, the loop hands over the tokens of step
// N-1 and plans, packs and starts step N+1.
type Engine struct {
	cfg      Config
	inbox    *inbox
	adapters *adapters
	maxLen   int // tokens of a sequence at most
	backlog  *backlog
	retains  bool      // requests may say what is to be Kept
	epoch    time.Time // the scheduler's deadlines count from it
	lastID   atomic.Uint64
	stopped  chan struct{} // the loop has ended

	mu    sync.Mutex // what others see of the loop
	stats Stats
	phase phase
	since time.Time // of phase
	dead  error     // the device is lost
	// ailment says that the device is being made again, sleeps that the model sleeps. The loop alone writes them.
	ailment error
	sleeps  bool

	// The loop's own.
	sched    *sched.Scheduler
	seqs     map[sched.SeqID]*sequence
	todo     []message // taken from the inbox, of which handled are done
	handled  int
	tiers    *tiers // nil: there are none
	steps    *stepper
	rebuilt  []time.Time // when the device was made again, lately
	slept    asleep      // what sleeps
	change   *change     // nil: none was asked for
	held     []*sequence // requests that wait until the model sleeps
	pending  *sched.Plan // one that waits for the step under way
	idle     bool        // nothing can run before the next message
	pauses   pauses
	busy     time.Time          // when the loop last began to work, after waiting
	spent    time.Duration      // that it worked since the step before, up to then
	host     time.Duration      // that it works for a step, a moving average
	guessing time.Duration      // that a Drafter takes for a token, likewise
	usual    *[lookupKinds]rate // of lookups
	asks     []Ask              // what Drafts.Drafter is to be asked
	quiet    []func()           // what waits until no step is under way
	results  []sched.Result
	out      []delivery // what goes to the outbox next
	outbox   *outbox
	sends    chan struct{} // [mostSends] Blocks.Send
	blocks   tier.Options  // of streams of blocks
	counts   Stats
	touched  int // means nothing, but that what sequence.touch reads is used
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
	if r, ok := cfg.Runner.(compute.Stepped); ok {
		for _, s := range r.Stairs() {
			cfg.Sched.Stairs = append(cfg.Sched.Stairs, sched.Stair(s))
		}
	}
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
		inbox:    newInbox(),
		adapters: &adapters{place: cfg.Place, log: cfg.Logger, known: map[string]*adapter{}, slots: make([]*adapter, cfg.Slots+1)},
		epoch:    cfg.Now(),
		stopped:  make(chan struct{}),
		sends:    make(chan struct{}, mostSends),
		blocks:   tier.Options{Block: cfg.Runner.BlockBytes(), Layouts: cfg.Tiers.Layouts, Model: cfg.Tiers.Model},
		sched:    s,
		tiers:    t,
		seqs:     map[sched.SeqID]*sequence{},
		usual:    usualRates(),
		backlog:  &backlog{most: cmp.Or(cfg.Backlog, usualBacklog), unread: map[*Stream]int64{}},
	}
	e.steps = &stepper{
		tiers: t, adapt: e.adapters, now: cfg.Now, epoch: e.epoch, seqs: e.seqs,
		owners: make([]*sequence, cfg.Sched.MaxSeqs), words: compute.MaskWords(cfg.Vocab),
	}
	e.steps.use(cfg.Runner)
	e.maxLen, e.retains = s.MaxLen(), s.Retains()
	e.counts.MaxLen = e.maxLen
	if err := e.adapters.pin(cfg.Adapters, e.epoch); err != nil {
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
	if t != nil {
		t.deliver = func(a arrived) { e.inbox.post(message{ask: func() { t.arrive(e.sched, a) }}) }
	}
	e.busy = e.epoch
	e.publish()
	e.outbox = newOutbox(e.inbox.over, cfg.Logger)
	guard.Go(e.loop, e.over)
	return e, nil
}

// Submit checks and queues a request, as Prepare and Prepared.Submit do. It returns a *fault.Error that names the
// first field that cannot be used, or ErrQueueFull if too many requests wait. Cancelling ctx, at any time, ends the
// request and frees what it holds. The request's slices must not change until its stream has ended.
func (e *Engine) Submit(ctx context.Context, r Request) (*Stream, error) {
	p, err := e.Prepare(r)
	if err != nil {
		return nil, err
	}
	return p.Submit(ctx)
}

// submit queues a request that passed check.
func (e *Engine) submit(ctx context.Context, r Request) (*Stream, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	a, err := e.adapters.take(r.Adapter)
	if err != nil {
		return nil, err
	}
	reader, ended := ctx, func() {}
	if r.Timeout > 0 {
		ctx, ended = context.WithTimeoutCause(ctx, r.Timeout, ErrTimeout)
	}
	q := newSequence(r, e.maxLen)
	q.long = e.long(q.prompt + q.req.MaxTokens)
	q.adapter = a
	if e.drafts(q) {
		q.drafting = e.newDrafting(&r)
	}
	q.settle()
	q.id = sched.SeqID(e.lastID.Add(1))
	q.arrived = e.cfg.Now()
	q.stream = &Stream{engine: e, seq: q, wake: make(chan struct{}, 1), ctx: reader, tokens: make([]brief, 0, 8)}
	cancelled := func() error { return e.inbox.post(message{seq: q, reason: FinishCancelled, err: context.Cause(ctx)}) }
	forget := guard.OnDone(ctx, cancelled, func(error) {}) // post fails where the engine ends, and all requests with it
	q.unhook = func() { forget(); ended() }
	if err := e.inbox.post(message{seq: q}); err != nil {
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

// long reports whether a sequence that may grow to so many tokens is a long one.
func (e *Engine) long(tokens int) bool { return e.cfg.Long != nil && e.cfg.Long(tokens) }

// Close ends all requests with ErrClosed, waits for the steps under way, and stops the engine. The Runner is not used
// afterwards.
func (e *Engine) Close() error {
	e.inbox.close()
	<-e.stopped
	return nil
}
