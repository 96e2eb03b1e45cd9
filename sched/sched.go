// Package sched decides what runs in the next step: which sequences, how many of their tokens, in which blocks of the KV
// cache. It knows nothing of models, devices, goroutines or time, and of tokens only what it takes to name blocks: it is
// told facts (Add, Cancel, Commit) and answers with plans (Next). Read Scheduler first, then Next.
package sched

import (
	"errors"
	"fmt"
	"math"

	"github.com/kvasir-llm/kvasir/kv"
)

// SeqID names a sequence; the caller chooses it.
type SeqID uint64

// ErrQueueFull is returned by Add when Config.MaxWaiting sequences wait already.
var ErrQueueFull = errors.New("sched: the queue is full")

// Config bounds what a Scheduler may use.
type Config struct {
	// BlockTokens is how many tokens a block of the KV cache holds. Small blocks waste less at a sequence's end and share
	// shorter prefixes; large ones make shorter tables. 16 is usual.
	BlockTokens int
	// Blocks is how many blocks the device's cache has.
	Blocks int
	// MaxSeqs is how many sequences run at once, which is the most that a step can decode.
	MaxSeqs int
	// TokenBudget is the most tokens (rows) of one step, over all sequences. A large budget computes prompts sooner; a
	// small one lets those who already decode wait less for each token.
	TokenBudget int
	// MaxChunk is the most tokens of one sequence in one step, so that a long prompt leaves budget to those behind it. 0
	// means the whole budget.
	MaxChunk int
	// MaxLen is the most tokens that a sequence may hold, prompt and output together. 0 means what the blocks can hold.
	MaxLen int
	// MaxWaiting is how many sequences may wait before Add refuses more. 0 means any number.
	MaxWaiting int
	// PrefixCache makes computed blocks findable, so that a sequence that begins like an earlier one skips them.
	PrefixCache bool
}

// Request is a sequence to be continued.
type Request struct {
	ID     SeqID
	Prompt []int32
	// MaxTokens is the most tokens to generate, at least 1. The sequence also ends at Config.MaxLen.
	MaxTokens int
	// Extra is what else the contents of this sequence's blocks depend on: an adapter's name, a cache salt. Sequences
	// share blocks only if it is equal. It must not change while the sequence lives.
	Extra []byte
	// NoCache computes every token of the prompt even if the cache has it, for those who want the prompt's logits.
	NoCache bool
}

// Scheduler runs sequences from Add until they end. There are no phases: a sequence has tokens, of which some are
// computed, and each step lets it catch up by as many as budget and blocks allow. One that has caught up yields a new
// token, and is one behind again.
//
// Sequences are served first come, first served. The running ones, each of which holds its blocks, always come before
// the waiting ones, which hold none, and both are in order of arrival.
//
// A Scheduler is used by one goroutine at a time. Next and Commit allocate a table for each admission and otherwise
// nothing, but that the list of a sequence's block names doubles as it grows.
type Scheduler struct {
	cfg  Config
	pool *kv.Pool

	byID             map[SeqID]*sequence
	running, waiting list
	arrivals         uint64

	plans       [2]Plan // a ring: the oldest outstanding plan is plans[oldest], the other follows it
	oldest      int
	outstanding int

	chain       []kv.BlockID // scratch: the cached prefix of the sequence being admitted
	preemptions uint64
}

// Stats are a scheduler's counters.
type Stats struct {
	Running, Waiting int    // sequences
	Preemptions      uint64 // how often a running sequence had to give up its blocks
	KV               kv.Stats
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
		{"MaxWaiting", cfg.MaxWaiting, 0},
	} {
		if f.value < f.min || f.value > math.MaxInt32 {
			return nil, fmt.Errorf("sched: config: %s is %d, must be %d to %d", f.name, f.value, f.min, math.MaxInt32)
		}
	}
	if cfg.MaxChunk == 0 {
		cfg.MaxChunk = cfg.TokenBudget
	}
	if cfg.MaxLen == 0 {
		cfg.MaxLen = cfg.Blocks * cfg.BlockTokens
	}
	return &Scheduler{
		cfg:  cfg,
		pool: kv.NewPool(cfg.Blocks, cfg.BlockTokens),
		byID: make(map[SeqID]*sequence),
	}, nil
}

// Add puts a sequence at the end of the queue. It refuses one that is malformed, that could never run to its end in the
// blocks there are, or for which the queue has no place (ErrQueueFull).
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
	case s.pool.BlocksFor(limit-1) > s.cfg.Blocks: // the last token is never computed
		return fmt.Errorf("sched: sequence %d: %d tokens need %d blocks of %d, there are %d",
			r.ID, limit, s.pool.BlocksFor(limit-1), s.cfg.BlockTokens, s.cfg.Blocks)
	case s.byID[r.ID] != nil:
		return fmt.Errorf("sched: sequence %d: there is one of that name already", r.ID)
	case s.cfg.MaxWaiting > 0 && s.waiting.n >= s.cfg.MaxWaiting:
		return ErrQueueFull
	}
	q := &sequence{id: r.ID, arrival: s.arrivals, limit: limit, extra: r.Extra, lookup: s.cfg.PrefixCache && !r.NoCache}
	s.arrivals++
	q.length = n
	for _, t := range r.Prompt {
		s.learn(q, t)
	}
	s.byID[q.id] = q
	s.waiting.pushBack(q)
	return nil
}

// Cancel ends a sequence and frees all it holds, whether it waits or runs; false if there is none of that name. The
// oldest outstanding plan is taken to be under way and keeps the sequence's Work, whose result Commit will ignore; a
// second outstanding plan loses it.
func (s *Scheduler) Cancel(id SeqID) bool {
	q := s.byID[id]
	if q == nil {
		return false
	}
	s.end(q)
	if s.outstanding == 2 {
		s.plans[1-s.oldest].dropEnded()
	}
	return true
}

// Stats returns the counters.
func (s *Scheduler) Stats() Stats {
	return Stats{Running: s.running.n, Waiting: s.waiting.n, Preemptions: s.preemptions, KV: s.pool.Stats()}
}

// learn appends a token whose value is known, and names the block that it fills.
func (s *Scheduler) learn(q *sequence, token int32) {
	q.known++
	if !s.cfg.PrefixCache {
		return
	}
	q.tail = append(q.tail, token)
	if len(q.tail) < s.cfg.BlockTokens {
		return
	}
	if len(q.names) == 0 {
		q.names = append(q.names, kv.HashBlock(kv.Hash{}, q.tail, q.extra))
	} else {
		q.names = append(q.names, kv.HashBlock(q.names[len(q.names)-1], q.tail, nil))
	}
	q.tail = q.tail[:0]
}

// end forgets a sequence and releases its blocks. Plans may still point to it.
func (s *Scheduler) end(q *sequence) {
	delete(s.byID, q.id)
	q.list.remove(q)
	s.pool.Release(q.table)
	q.table = nil
	q.ended = true
}
