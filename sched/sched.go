package sched

import (
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/kvasir-llm/kvasir/heap"
	"github.com/kvasir-llm/kvasir/kv"
)

// SeqID names a sequence; the caller chooses it.
type SeqID uint64

// ErrQueueFull is returned by Add when Config.MaxWaiting sequences wait already.
var ErrQueueFull = errors.New("sched: the queue is full")

// Config bounds what a Scheduler may use.
type Config struct {
	// BlockTokens is how many tokens a block of the KV cache holds. Small blocks waste less at a sequence's end and
	// share shorter prefixes; large ones make shorter tables. 16 is usual.
	BlockTokens int
	// Blocks is how many blocks the device's cache has.
	Blocks int
	// Groups are the groups of layers that have block tables of their own; none is one group of full attention. Groups
	// with a window give back the blocks that lie before it.
	Groups []kv.Group
	// States is how many slots the device has for the recurrent state of sequences. 0 means that the model has none;
	// else no more sequences run than there are slots, and no prefix is found in the cache.
	States int
	// MaxSeqs is how many sequences run at once, which is the most that a step can decode; never more than TokenBudget.
	MaxSeqs int
	// TokenBudget is the most tokens (rows) of one step, over all sequences. A large budget computes prompts sooner; a
	// small one makes decoding sequences wait less for each token.
	TokenBudget int
	// MaxChunk is the most tokens of one sequence in one step, so that a long prompt leaves budget to those behind it.
	// 0 means the whole budget.
	MaxChunk int
	// Whole computes every prompt in one step, as models want whose tokens see those after them. One for which a step
	// has too few rows left waits for the next, and lets others pass like one that lacks blocks; MaxChunk does not
	// count.
	Whole bool
	// MaxLen is the most tokens that a sequence may hold, prompt and output together. 0 means what the blocks can hold.
	MaxLen int
	// MaxWaiting is how many sequences may wait before Add refuses more. 0 means any number.
	MaxWaiting int
	// Policy orders the waiting and the running sequences. It is one of the names that Policies returns; "" is fcfs.
	Policy string
	// Batch says how prompts and decoding sequences share steps; "" is Mixed.
	Batch Batch
	// Interval is how many steps pass from one that computes prompts to the next, as long as a sequence decodes: those
	// between only decode. 0 and 1 are every step.
	Interval int
	// StepTarget is how long a Mixed step may take, in microseconds, while a sequence decodes: prompts get the time
	// that it leaves, as far as what Took tells lets it be known, and at least a few rows. 0 is any time.
	StepTarget int64
	// Stairs tell what steps of many rows take, by the numbers of rows that fill what the device computes at a time, so
	// that chunks of prompts fill it. None are a device whose rows take equally long.
	Stairs []Stair
	// MaxQueueTime is how long, in milliseconds, it may be predicted to take until a sequence's first token before Add
	// refuses it, unless none is before it or it is one of a burst; Request.Within counts instead if it is given. 0 is
	// any time.
	MaxQueueTime int64
	// Window is how long, in milliseconds, the sequence in front of the queue waits for a Static batch to become full.
	Window int64
	// Allocation says how many blocks a sequence must find to be admitted; "" is OnDemand.
	Allocation Allocation
	// MaxPassed is how many admissions a waiting sequence for which there are not enough blocks lets pass, of sequences
	// behind it that need fewer. After that, blocks that become free are kept for it. 0 means none: all wait behind the
	// first that does not fit.
	MaxPassed int
	// MaxAdapters is how many different adapters the running sequences may use, of those that take turns on the device
	// (Request.Adapter). 0 means any number.
	MaxAdapters int
	// PrefixCache makes computed blocks findable, so that a sequence that begins like an earlier one skips them.
	PrefixCache bool
	// Evict is the order in which cached blocks are evicted, by one of the names that kv.Policies returns; "" is lru.
	Evict string
	// Tiers are those below the device, the fastest first; see kv.Move. They need PrefixCache.
	Tiers []kv.TierConfig
	// Preempt says how preempted sequences come back; "" is Auto.
	Preempt Preempt
	// HashSeed is where the names of blocks begin: engines that have the same name equal blocks alike. "" is "0".
	HashSeed string
	// Events collects what happens to the contents of the cache, for Scheduler.Events.
	Events bool
}

// Request is a sequence to be continued.
type Request struct {
	ID     SeqID
	Prompt []int32 // must not change while the sequence lives
	// MaxTokens is the most tokens to generate, at least 1. The sequence also ends at Config.MaxLen.
	MaxTokens int
	// Keys are what else the contents of this sequence's blocks depend on. Sequences share blocks only if they are
	// equal.
	Keys kv.Keys
	// Adapter is the number of the adapter that the sequence waits for a place of; 0 is none. One for which there is no
	// place lets others pass like one that lacks blocks.
	Adapter uint64
	// Keep is what the sequence asks for its blocks under the eviction policy priority.
	Keep kv.Retention
	// Parent names a sequence that the prompt begins like, or is 0: one of several answers to the same prompt, or a
	// beam. If it runs when this one could be admitted, they share the blocks of all tokens that they have in common,
	// the last block too, until one writes to it. If it has a block's worth of them still to compute, this one lets
	// others pass until then.
	Parent SeqID
	// Hold keeps the sequence's blocks when it has its MaxTokens, for those that have it as Parent: one step of a beam
	// search. These take its place in the queue, full or not. It lives until Cancel, or until the one of them that has
	// Heir is admitted, to which it leaves what it has, or ends. If blocks run out, those of held sequences go first.
	Hold, Heir bool
	// Priority is for the policy priority, and for Expendable: the lowest comes first.
	Priority int
	// Tenant is the account that the policy vtc counts the sequence for. Payer is one that a client cannot have several
	// of at will, such as an API key; "" is unknown. Payers that are known share as tenants do, and tenants share what
	// their payer gets. See Expendable, too.
	Tenant, Payer string
	// Deadline is for the policy edf: when the first token is due, in milliseconds since a moment of the caller's
	// choice, and Interval how many milliseconds later each token after it is. With Deadline 0, the sequence comes
	// after those that have one.
	Deadline, Interval int64
	// Within is how long, in milliseconds, it may take until others leave it its turn, or Add refuses it; 0 is as
	// Config.MaxQueueTime says. Patient is any time.
	Within  int64
	Patient bool
	// Background puts the sequence behind all others, under every policy: it runs on what they leave, waits while one
	// of them waits, and is preempted for one that waits for its place or its blocks. It is Patient.
	Background bool
	// NoCache computes every token of the prompt even if the cache has it, for requests that want the prompt's logits.
	NoCache bool
}

// Scheduler runs sequences from Add until they end. There are no phases: a sequence has tokens, of which some are
// computed, and each step lets it catch up by as many as budget and blocks allow. One that has caught up yields a new
// token, and is one behind again.
//
// The running sequences hold blocks, the waiting ones none. Which one is admitted next, and which one has to give up
// its blocks when there are too few, is up to a policy.
//
// A Scheduler is used by one goroutine at a time. Next and Commit allocate the lists of a sequence's blocks and of
// their names when they admit it, or first try to, and otherwise nothing.
type Scheduler struct {
	cfg    Config
	policy policy
	pool   *kv.Pool
	fit    int     // the most tokens that the blocks can hold of one sequence
	root   kv.Hash // stands before every first block

	byID     map[SeqID]*sequence
	running  list // in order of admission
	held     list // those that were held first in front, if they have blocks
	waiting  queue
	arrivals uint64
	tenants  map[string]*tenant
	sweepAt  int      // how many tenants there are before those without a claim are forgotten
	latest   [2]visit // of different tenants, the last one first
	lone     bool     // the plan before was to be
	lull     lull
	turn     int // of those that a crowd takes

	plans       [2]Plan // a ring: the oldest outstanding plan is plans[oldest], the other follows it
	oldest      int
	outstanding int

	shifts  []kv.Shift // that the next plan makes
	slots   []int32    // free ones, of those below slotted; the others were never used
	slotted int32

	cost  cost     // of steps
	usual usual    // what they compute
	pace  pace     // of prompts
	error lateness // of predictions
	patience

	micros, now  int64 // microseconds and milliseconds, as Tick told
	sincePrompts int   // plans since one that computed prompts
	closed       bool  // a Static batch takes no more

	lengths     lengths     // of outputs, for Learned
	promised    int         // scratch: blocks to be left for the running sequences
	forecast    forecast    // scratch: of the running sequences, for Learned
	unfit       []*sequence // scratch: those for which a plan finds too few blocks
	over        []*sequence // scratch: those whose tenants have places enough
	adapters    []uint64    // scratch: those of the running sequences
	background  int         // sequences in the background, waiting or running
	preemptions uint64
	calls       int         // that were to be verified
	filled      []*sequence // scratch: those of which a step fills a block
	touched     int         // means nothing, but that what sequence.touch reads is used
}

// Stats are a scheduler's counters.
type Stats struct {
	Running, Waiting int    // sequences
	Preemptions      uint64 // how often a running sequence had to give up its blocks
	// Held is how many tokens the blocks of the running sequences have room for, with those that Preallocate keeps for
	// them; Unfilled is how many of these are not computed. Blocks that sequences share count for each of them, and
	// tokens for each group of layers.
	Held, Unfilled int
	KV             kv.Stats
}

// String prints the counters in a fixed order.
func (s Stats) String() string {
	return fmt.Sprintf("running %d, waiting %d, preemptions %d\n%v", s.Running, s.Waiting, s.Preemptions, s.KV)
}

// New makes a scheduler with nothing to do. It refuses a configuration under which nothing could run.
func New(cfg Config) (*Scheduler, error) {
	for _, f := range []struct {
		name       string
		value, min int
	}{
		{"BlockTokens", cfg.BlockTokens, 1}, {"Blocks", cfg.Blocks, 1}, {"MaxSeqs", cfg.MaxSeqs, 1},
		{"TokenBudget", cfg.TokenBudget, 1}, {"MaxChunk", cfg.MaxChunk, 0}, {"MaxLen", cfg.MaxLen, 0},
		{"MaxWaiting", cfg.MaxWaiting, 0}, {"MaxPassed", cfg.MaxPassed, 0}, {"MaxAdapters", cfg.MaxAdapters, 0}, {"Interval", cfg.Interval, 0},
		{"Window", int(cfg.Window), 0}, {"StepTarget", int(cfg.StepTarget), 0}, {"MaxQueueTime", int(cfg.MaxQueueTime), 0},
	} {
		if f.value < f.min || f.value > math.MaxInt32 {
			return nil, fmt.Errorf("sched: config: %s is %d, must be %d to %d", f.name, f.value, f.min, math.MaxInt32)
		}
	}
	policy, err := policies.Find("sched: config: Policy", cfg.Policy)
	if err != nil {
		return nil, err
	}
	if cfg.Batch, err = batches.Find("sched: config: Batch", string(cfg.Batch)); err != nil {
		return nil, err
	}
	if cfg.Window > 0 && cfg.Batch != Static {
		return nil, fmt.Errorf("sched: config: Window is %d ms but Batch is %q; only %q batches wait to become full", cfg.Window, cfg.Batch, Static)
	}
	if cfg.Allocation, err = allocations.Find("sched: config: Allocation", string(cfg.Allocation)); err != nil {
		return nil, err
	}
	if err := cfg.checkTiers(); err != nil {
		return nil, err
	}
	stairs, err := newStairs(cfg.Stairs)
	if err != nil {
		return nil, err
	}
	cfg.MaxSeqs = min(cfg.MaxSeqs, cfg.TokenBudget)
	if cfg.MaxChunk == 0 || cfg.Whole {
		cfg.MaxChunk = cfg.TokenBudget
	}
	pool, err := kv.New(kv.Config{
		Blocks: cfg.Blocks, BlockTokens: cfg.BlockTokens, Groups: cfg.Groups, States: cfg.States, Policy: cfg.Evict, Events: cfg.Events,
		Tiers: cfg.Tiers, StoreAll: cfg.Preempt == Swap,
	})
	if err != nil {
		return nil, fmt.Errorf("sched: config: %w", err)
	}
	all := cfg.Blocks * cfg.BlockTokens // more than any but windows can hold
	fit := sort.Search(max(all, cfg.MaxLen), func(n int) bool { return pool.Most(n+1, cfg.MaxChunk) > cfg.Blocks })
	if fit == 0 {
		return nil, fmt.Errorf("sched: config: %d blocks are too few for %d groups of layers", cfg.Blocks, pool.Groups())
	}
	if cfg.MaxLen == 0 {
		cfg.MaxLen = min(fit, all)
	}
	return &Scheduler{
		waiting: queue{tenants: heap.New((*tenant).before, (*tenant).placed)},
		cfg:     cfg,
		policy:  policy,
		pool:    pool,
		cost:    cost{stairs: stairs},
		fit:     fit,
		root:    cfg.root(),
		byID:    make(map[SeqID]*sequence),
		tenants: make(map[string]*tenant),
	}, nil
}

// Add puts a sequence in the queue. It refuses one that is malformed, that could never run to its end in the
// blocks there are, or for which the queue has no place or would take too long (BusyError).
func (s *Scheduler) Add(r Request) error {
	n := len(r.Prompt)
	limit := s.cfg.MaxLen
	if n < limit {
		limit = n + min(r.MaxTokens, limit-n)
	}
	switch {
	case n == 0:
		return fmt.Errorf("sched: sequence %d: the prompt is empty", r.ID)
	case r.MaxTokens < 1:
		return fmt.Errorf("sched: sequence %d: MaxTokens is %d, must be at least 1", r.ID, r.MaxTokens)
	case n >= s.cfg.MaxLen:
		return fmt.Errorf("sched: sequence %d: a prompt of %d tokens leaves no place for output, a sequence may hold %d",
			r.ID, n, s.cfg.MaxLen)
	case s.pool.Most(limit-1, s.cfg.MaxChunk) > s.cfg.Blocks: // the last token is never computed
		return fmt.Errorf("sched: sequence %d: %d tokens need %d blocks of %d, there are %d",
			r.ID, limit, s.pool.Most(limit-1, s.cfg.MaxChunk), s.cfg.BlockTokens, s.cfg.Blocks)
	case s.cfg.Whole && n > s.cfg.TokenBudget:
		return fmt.Errorf("sched: sequence %d: a prompt of %d tokens must be computed in one step, which has %d rows", r.ID, n, s.cfg.TokenBudget)
	case r.Keep != (kv.Retention{}) && !s.pool.Retains():
		return fmt.Errorf("sched: sequence %d: a retention of %v needs the eviction policy priority", r.ID, r.Keep)
	case s.byID[r.ID] != nil:
		return fmt.Errorf("sched: sequence %d: there is one of that name already", r.ID)
	case s.cfg.MaxWaiting > 0 && s.waiting.n >= s.cfg.MaxWaiting && !s.isHeld(r.Parent):
		return &BusyError{s.Wait()}
	}
	predicted, err := s.late(&r)
	if err != nil {
		return err
	}
	q := &sequence{
		Tokens: tokensOf(r.Prompt[:n:n]), id: r.ID, length: n, limit: limit, hold: r.Hold, tenant: s.tenantOf(&r),
		background: r.Background, predicted: predicted > 0,
		rest: &rest{
			arrival: s.arrivals, since: s.now, prompt: n, keys: r.Keys, keep: r.Keep, heir: r.Heir, adapter: r.Adapter,
			lookup: s.cfg.PrefixCache && !r.NoCache, priority: r.Priority, payer: r.Payer, deadline: r.Deadline,
			interval: r.Interval, at: -1, due: predicted,
		},
	}
	s.arrivals++
	if s.policy.fair && r.Payer != "" && !s.isHeld(r.Parent) {
		q.user, q.turn, q.turns = r.Tenant, q.tenant.users.next(r.Tenant, weightIn*int64(n)), true
	}
	if q.tenant.live++; q.tenant.live == 1 {
		s.returns(q.tenant)
	}
	if r.Background {
		s.background++
		q.priority = math.MaxInt
	}
	if !r.NoCache {
		q.parent = r.Parent
	}
	if s.isHeld(q.parent) {
		s.inherit(q, s.byID[q.parent])
	}
	s.byID[q.id] = q
	s.wait(q)
	s.verify()
	return nil
}

// MaxLen returns how many tokens a sequence may hold, prompt and output together. The last token takes no place in the
// cache, since nothing is computed from it.
func (s *Scheduler) MaxLen() int { return min(s.cfg.MaxLen, s.fit+1) }

// wait puts a sequence in the queue.
func (s *Scheduler) wait(q *sequence) {
	q.rank = s.policy.rank(q)
	s.waiting.push(q)
	s.waiting.fresh.add(q)
}

// rerank puts a waiting sequence, whose length has changed, in its place.
func (s *Scheduler) rerank(q *sequence) {
	q.rank = s.policy.rank(q)
	s.waiting.fix(q)
}

// Cancel ends a sequence and frees all it holds, whether it waits or runs; false if there is none of that name. A plan
// that is begun keeps the sequence's Work, whose result Commit will ignore; one that is not loses it.
func (s *Scheduler) Cancel(id SeqID) bool {
	q := s.byID[id]
	if q == nil {
		return false
	}
	s.end(q)
	s.dropEnded()
	s.verify()
	return true
}

// Tick tells the time, in microseconds since a moment of the caller's choice; it never goes back. Config.Window asks
// for it, and the pool, for how long blocks are kept, and fair policies, for how soon tenants come again.
func (s *Scheduler) Tick(micros int64) {
	s.micros = max(s.micros, micros)
	s.now = s.micros / 1000
	s.pool.Tick(s.now)
}

// Wake returns at which time, in microseconds, Next will plan a step that it does not plan yet, if nothing else
// happens; ok is false if there is no such time.
func (s *Scheduler) Wake() (at int64, ok bool) {
	if s.lull.tenant != nil {
		return s.lull.to, true
	}
	if s.cfg.Window == 0 || s.running.n > 0 || s.waiting.n == 0 {
		return 0, false
	}
	return 1000 * (s.waiting.front().since + s.cfg.Window), true
}

// Stats returns the counters.
func (s *Scheduler) Stats() Stats {
	st := Stats{Running: s.running.n, Waiting: s.waiting.n, Preemptions: s.preemptions, KV: s.pool.Stats()}
	for q := s.running.front; q != nil; q = q.next {
		held, filled := q.table.Held(), q.computed*s.pool.Groups()-s.pool.Gone(&q.table)*s.cfg.BlockTokens
		if s.cfg.Allocation == Preallocate {
			held = s.pool.Most(q.limit-1, s.cfg.MaxChunk)
		}
		st.Held += held * s.cfg.BlockTokens
		st.Unfilled += held*s.cfg.BlockTokens - filled
	}
	return st
}

// learn appends tokens whose values are known.
func (s *Scheduler) learn(q *sequence, tokens []int32) {
	q.add(tokens)
}

// name names the blocks that q's known tokens fill.
func (s *Scheduler) name(q *sequence) {
	size, tokens := s.cfg.BlockTokens, q.All()
	for n := len(q.names); n < len(tokens)/size; n++ {
		parent, keys := s.root, q.keys
		if n > 0 {
			parent, keys = q.names[n-1], kv.Keys{}
		}
		q.names = append(q.names, kv.HashBlock(parent, tokens[n*size:(n+1)*size], keys))
	}
}

// end forgets a sequence and releases its blocks. Plans may still point to it.
func (s *Scheduler) end(q *sequence) {
	delete(s.byID, q.id)
	switch {
	case q.held && q.running():
		s.drop(q)
	case q.held:
	case q.running():
		s.running.remove(q)
		s.release(q)
	default:
		s.waiting.remove(q)
		s.waiting.fresh.drop(q)
		s.pool.Forget(&q.awaits)
	}
	q.tenant.live--
	if q.background {
		s.background--
	}
	q.ended = true
	s.succeed(q)
}
