package sched

import "fmt"

// Check verifies every invariant of the scheduler and its pool and names the first that is broken. It is meant for
// tests; it looks at everything.
func (s *Scheduler) Check() error {
	if err := s.pool.Check(); err != nil {
		return err
	}
	if n := s.running.n + s.waiting.n; n != len(s.byID) || s.running.n > s.cfg.MaxSeqs {
		return fmt.Errorf("sched: %d running (at most %d) and %d waiting, %d known",
			s.running.n, s.cfg.MaxSeqs, s.waiting.n, len(s.byID))
	}
	refs := make([]int, s.cfg.Blocks)
	var last *sequence
	for _, l := range []*list{&s.running, &s.waiting} {
		n := 0
		for q := l.front; q != nil; q = q.next {
			if last != nil && last.arrival >= q.arrival {
				return fmt.Errorf("sched: sequence %d comes after %d, which arrived later", q.id, last.id)
			}
			if err := s.checkSequence(q, l); err != nil {
				return err
			}
			for _, b := range q.table {
				refs[b]++
			}
			last = q
			n++
		}
		if n != l.n {
			return fmt.Errorf("sched: a list of %d sequences says %d", n, l.n)
		}
	}
	for b, n := range refs {
		if got := s.pool.Refs(int32(b)); got != n {
			return fmt.Errorf("sched: block %d is in %d tables, the pool counts %d", b, n, got)
		}
	}
	return nil
}

func (s *Scheduler) checkSequence(q *sequence, l *list) error {
	size := s.cfg.BlockTokens
	switch {
	case q.ended || q.list != l || s.byID[q.id] != q:
		return fmt.Errorf("sched: sequence %d is listed but has ended, or the other way round", q.id)
	case q.known > q.length || q.length > q.limit || q.length-q.known > 2:
		return fmt.Errorf("sched: sequence %d knows %d of %d tokens, at most %d", q.id, q.known, q.length, q.limit)
	case q.computed >= q.length || q.named*size > q.computed || len(q.table) < s.pool.BlocksFor(q.computed):
		return fmt.Errorf("sched: sequence %d computed %d of %d tokens, in %d blocks of which %d are named",
			q.id, q.computed, q.length, len(q.table), q.named)
	case l == &s.waiting && len(q.table)+q.computed+q.named > 0:
		return fmt.Errorf("sched: sequence %d waits but holds blocks %v", q.id, q.table)
	case s.cfg.PrefixCache && len(q.names)*size+len(q.tail) != q.known:
		return fmt.Errorf("sched: sequence %d knows %d tokens but names %d and %d", q.id, q.known, len(q.names)*size, len(q.tail))
	}
	return nil
}
