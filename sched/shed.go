package sched

// Expendable returns the sequence that should make room for one that Add refused since the queue is full, of those that
// never ran. If the queue has too many, it is the one whose priority is least urgent, if that is less urgent than r's,
// and of these the last to arrive. Else, if r is of a payer, it is the last to arrive of the payer whose prompts that
// wait have most tokens, as long as these are still as many as those of r's own payer with r: so one that floods the
// queue is refused before others are. There is none if r says by when it wants its first token. It looks at all that
// wait.
func (s *Scheduler) Expendable(r *Request) (id SeqID, ok bool) {
	if r.Background {
		return 0, false
	}
	q := s.lessUrgent(r.Priority)
	if q == nil {
		q = s.excess(r)
	}
	if q == nil {
		return 0, false
	}
	return q.id, true
}

// fresh calls do for each sequence that waits and never ran.
func (s *Scheduler) fresh(do func(*sequence)) {
	for _, t := range s.waiting.tenants.All() {
		for _, q := range t.waiting.All() {
			if !q.charged {
				do(q)
			}
		}
	}
}

func (s *Scheduler) lessUrgent(priority int) (last *sequence) {
	if s.waiting.n != s.cfg.MaxWaiting {
		return nil
	}
	s.fresh(func(q *sequence) {
		if q.priority <= priority {
			return
		}
		if last == nil || q.priority > last.priority || q.priority == last.priority && q.arrival > last.arrival {
			last = q
		}
	})
	return last
}

// excess returns the last sequence of the payer that has most in the queue, nil if that is not more than r's has.
func (s *Scheduler) excess(r *Request) (last *sequence) {
	if r.Payer == "" || r.Parent != 0 || r.Within > 0 {
		return nil
	}
	tokens := map[string]int{}
	s.fresh(func(q *sequence) {
		if !q.background { // which keeps no other waiting
			tokens[q.payer] += q.counted
		}
	})
	own := tokens[r.Payer] + len(r.Prompt)
	s.fresh(func(q *sequence) {
		if q.background || q.payer == "" || q.payer == r.Payer || q.parent != 0 || tokens[q.payer]-q.counted < own || q.priority < r.Priority {
			return
		}
		if last == nil || tokens[q.payer] > tokens[last.payer] ||
			tokens[q.payer] == tokens[last.payer] && q.arrival > last.arrival {
			last = q
		}
	})
	return last
}
