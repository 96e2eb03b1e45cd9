package sched

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

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
	if err := cmp.Or(s.checkList(&s.running), s.checkList(&s.held), s.checkQueue(), s.checkSlots()); err != nil {
		return err
	}
	var tables []*kv.Table
	for _, q := range s.byID {
		if q.running() {
			tables = append(tables, &q.table)
		}
	}
	return s.pool.CheckTables(tables)
}

// checkSlots verifies that each slot belongs to one running sequence or is free.
func (s *Scheduler) checkSlots() error {
	owners := make([]int, s.slotted)
	for q := s.running.front; q != nil; q = q.next {
		owners[q.slot]++
	}
	for _, slot := range s.slots {
		owners[slot]++
	}
	if i := slices.IndexFunc(owners, func(n int) bool { return n != 1 }); i >= 0 || int(s.slotted) > s.cfg.MaxSeqs {
		return fmt.Errorf("sched: of %d slots, %d has not one owner (-1: all have), at most %d may be there", s.slotted, i, s.cfg.MaxSeqs)
	}
	return nil
}

// checkList verifies sequences that hold blocks.
func (s *Scheduler) checkList(l *list) error {
	n := 0
	for q := l.front; q != nil; q = q.next {
		if err := s.checkSequence(q, true); err != nil {
			return err
		}
		n++
	}
	if n != l.n {
		return fmt.Errorf("sched: a list of %d sequences says %d", n, l.n)
	}
	return nil
}

// checkOffer verifies that what a waiting sequence remembers of its last offer leads to the same as a new search.
func (s *Scheduler) checkOffer(q *sequence) error {
	if !q.lookup {
		return nil
	}
	s.name(q)
	fresh, remembered := kv.Offer{}, q.offer.Clone()
	w := kv.Want{Lookup: true, Names: q.names, Keys: q.keys, Tokens: q.All()[:q.length-1], Length: q.length}
	s.pool.Offer(&fresh, w)
	if s.pool.Offer(&remembered, w); remembered.Found != fresh.Found {
		return fmt.Errorf("sched: sequence %d finds %d tokens, by what it remembers %d", q.id, fresh.Found, remembered.Found)
	}
	return nil
}

// checkQueue verifies that every place is right and no one waits before one that comes earlier.
func (s *Scheduler) checkQueue() error {
	n := 0
	counted := fresh{map[string]int{}, map[int]int{}}
	if t, wrong := s.waiting.tenants.Check(func(t *tenant) int { return t.at }); wrong {
		return fmt.Errorf("sched: tenant %q, served %d, is not in its place, says %d", t.name, t.served, t.at)
	}
	for _, t := range s.waiting.tenants.All() {
		if s.tenants[t.name] != t || t.waiting.Len() == 0 {
			return fmt.Errorf("sched: tenant %q is listed, with %d waiting", t.name, t.waiting.Len())
		}
		if q, wrong := t.waiting.Check(func(q *sequence) int { return q.at }); wrong {
			return fmt.Errorf("sched: sequence %d, of rank %d, is not in its place, says %d", q.id, q.rank, q.at)
		}
		for _, q := range t.waiting.All() {
			if q.tenant != t || q.rank != s.policy.rank(q) {
				return fmt.Errorf("sched: sequence %d waits with rank %d, now %d", q.id, q.rank, s.policy.rank(q))
			}
			if err := cmp.Or(s.checkSequence(q, false), s.checkOffer(q)); err != nil {
				return err
			}
			if q.charged != (q.fresh == 0) {
				return fmt.Errorf("sched: sequence %d counts %d tokens of those that never ran; it did: %v", q.id, q.fresh, q.charged)
			}
			if !q.charged {
				counted.count(q, 1)
			}
			n++
		}
	}
	if f := &s.waiting.fresh; !maps.Equal(f.tokens, counted.tokens) || !maps.Equal(f.urgent, counted.urgent) {
		return fmt.Errorf("sched: those that never ran are counted as %v; they are %v", *f, counted)
	}
	live := 0
	for name, t := range s.tenants {
		if live += t.live; name != t.name || (t.at < 0) != (t.waiting.Len() == 0) {
			return fmt.Errorf("sched: tenant %q has %d waiting in place %d", name, t.waiting.Len(), t.at)
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
	case q.known > q.length || q.length > q.limit || q.length-q.known > 2 && !q.drafted:
		return fmt.Errorf("sched: sequence %d knows %d of %d tokens, at most %d", q.id, q.known, q.length, q.limit)
	case q.computed >= q.length || int(q.table.Named)*size > q.computed:
		return fmt.Errorf("sched: sequence %d computed %d of %d tokens, %d blocks are named", q.id, q.computed, q.length, q.table.Named)
	case !running && q.computed+int(q.table.Named) > 0:
		return fmt.Errorf("sched: sequence %d waits but computed %d tokens", q.id, q.computed)
	case len(q.names) < int(q.table.Named) || len(q.names) > q.known/size || len(q.All()) != q.known:
		return fmt.Errorf("sched: sequence %d knows %d tokens, has %d and names %d", q.id, q.known, len(q.All()), len(q.names)*size)
	case !running:
		return nil
	}
	for _, table := range q.table.Blocks {
		if len(table) < s.pool.BlocksFor(q.computed) {
			return fmt.Errorf("sched: sequence %d computed %d tokens, in %d blocks", q.id, q.computed, len(table))
		}
	}
	if !q.held {
		return s.pool.CheckReady(&q.table, q.computed)
	}
	return nil
}
