package sched

import "slices"

// adapterFits reports whether the running sequences leave a place for q's adapter, or use it themselves.
func (s *Scheduler) adapterFits(q *sequence) bool {
	if q.adapter == 0 || s.cfg.MaxAdapters == 0 {
		return true
	}
	s.adapters = s.runningAdapters(s.adapters[:0])
	return len(s.adapters) < s.cfg.MaxAdapters || slices.Contains(s.adapters, q.adapter)
}

// runningAdapters appends the adapters of the running sequences, each once.
func (s *Scheduler) runningAdapters(to []uint64) []uint64 {
	for q := s.running.front; q != nil; q = q.next {
		if q.adapter != 0 && !slices.Contains(to, q.adapter) {
			to = append(to, q.adapter)
		}
	}
	return to
}
