package sched

import (
	"cmp"
	"fmt"

	"github.com/kvasir-llm/kvasir/kv"
)

// Check verifies every invariant of the scheduler and its pool and names the first that is broken. It is meant for
// tests; it looks at everything.
func (s *Scheduler) Check() error {
	if err := s.pool.Check(); err != nil {
		return err
	}
	held := 0
	for _, q := range s.byID {
		if q.held {
			held++
		}
	}
	if n := s.running.n + s.waiting.n + held; n != len(s.byID) || s.running.n > s.cfg.MaxSeqs || held < s.held.n {
		return fmt.Errorf("sched: %d running (at most %d), %d waiting and %d held (%d with blocks), %d known",
			s.running.n, s.cfg.MaxSeqs, s.waiting.n, held, s.held.n, len(s.byID))
	}
	if all := s.runningAdapters(nil); s.cfg.MaxAdapters > 0 && len(all) > s.cfg.MaxAdapters {
		return fmt.Errorf("sched: the running sequences use the adapters %v; at most %d may be in use", all, s.cfg.MaxAdapters)
	}
	refs := make([]int, s.cfg.Blocks)
	s.pool.PinnedRefs(refs)
	if err := cmp.Or(s.checkList(&s.running, refs), s.checkList(&s.held, refs), s.checkQueue()); err != nil {
		return err
	}
	for b, n := range refs {
		if got := s.pool.Refs(int32(b)); got != n {
			return fmt.Errorf("sched: block %d is in %d tables, the pool counts %d", b, n, got)
		}
	}
	return nil
}

// checkList verifies sequences that hold blocks, and counts these.
func (s *Scheduler) checkList(l *list, refs []int) error {
	n := 0
	for q := l.front; q != nil; q = q.next {
		if err := s.checkSequence(q, true); err != nil {
			return err
		}
		for _, table := range q.table.Blocks {
			for _, b := range table {
				if b >= 0 {
					refs[b]++
				}
			}
		}
		n++
	}
	if n != l.n {
		return fmt.Errorf("sched: a list of %d sequences says %d", n, l.n)
	}
	return nil
}

// checkChain verifies that what a waiting sequence remembers of its cached prefix leads to the same as a new search.
func (s *Scheduler) checkChain(q *sequence) error {
	if !q.lookup {
		return nil
	}
	var fresh kv.Prefix
	s.pool.Match(&fresh, q.names, q.keys, q.tokens[:q.length-1])
	remembered := q.prefix.Clone()
	s.pool.Match(&remembered, q.names, q.keys, q.tokens[:q.length-1])
	if remembered.Tokens != fresh.Tokens {
		return fmt.Errorf("sched: sequence %d finds %d tokens, by what it remembers %d", q.id, fresh.Tokens, remembered.Tokens)
	}
	return nil
}

// checkQueue verifies that every place is right and no one waits before one that comes earlier.
func (s *Scheduler) checkQueue() error {
	n := 0
	for i, t := range s.waiting.tenants {
		if t.at != i || s.tenants[t.name] != t || len(t.waiting) == 0 || i > 0 && t.before(s.waiting.tenants[(i-1)/2]) {
			return fmt.Errorf("sched: tenant %q, served %d, is in place %d, says %d", t.name, t.served, i, t.at)
		}
		for i, q := range t.waiting {
			if q.at != i || q.tenant != t || q.rank != s.policy.rank(q) || i > 0 && q.before(t.waiting[(i-1)/2]) {
				return fmt.Errorf("sched: sequence %d, of rank %d, waits in place %d, says %d", q.id, q.rank, i, q.at)
			}
			if err := cmp.Or(s.checkSequence(q, false), s.checkChain(q)); err != nil {
				return err
			}
			n++
		}
	}
	live := 0
	for name, t := range s.tenants {
		if live += t.live; name != t.name || (t.at < 0) != (len(t.waiting) == 0) {
			return fmt.Errorf("sched: tenant %q has %d waiting in place %d", name, len(t.waiting), t.at)
		}
	}
	if n != s.waiting.n || live != len(s.byID) {
		return fmt.Errorf("sched: %d wait, the queue says %d; tenants have %d sequences of %d", n, s.waiting.n, live, len(s.byID))
	}
	return nil
}

func (s *Scheduler) checkSequence(q *sequence, running bool) error {
	size := s.cfg.BlockTokens
	switch {
	case q.ended || q.running() != running || (q.at < 0) != running || s.byID[q.id] != q:
		return fmt.Errorf("sched: sequence %d is listed but has ended, or the other way round", q.id)
	case q.known > q.length || q.length > q.limit || q.length-q.known > 2:
		return fmt.Errorf("sched: sequence %d knows %d of %d tokens, at most %d", q.id, q.known, q.length, q.limit)
	case q.computed >= q.length || q.table.Named*size > q.computed:
		return fmt.Errorf("sched: sequence %d computed %d of %d tokens, %d blocks are named", q.id, q.computed, q.length, q.table.Named)
	case !running && q.computed+q.table.Named > 0:
		return fmt.Errorf("sched: sequence %d waits but computed %d tokens", q.id, q.computed)
	case s.cfg.PrefixCache && (len(q.names) != q.known/size || len(q.tokens) != q.known):
		return fmt.Errorf("sched: sequence %d knows %d tokens, has %d and names %d", q.id, q.known, len(q.tokens), len(q.names)*size)
	}
	for _, table := range q.table.Blocks {
		if len(table) < s.pool.BlocksFor(q.computed) {
			return fmt.Errorf("sched: sequence %d computed %d tokens, in %d blocks", q.id, q.computed, len(table))
		}
	}
	return nil
}
