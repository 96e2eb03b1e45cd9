package sched

// Expendable returns the sequence that should make room for one that Add refused since the queue is full, of those that
// never ran. If the queue has too many, it is the one whose priority is least urgent, if that is less urgent than r's,
// and of these the last to arrive. Else, if r is of a payer, it is the last to arrive of the payer whose prompts that
// wait have most tokens, as long as these are still as many as those of r's own payer with r: so one that floods the
// queue is refused before others are. There is none if r says by when it wants its first token.
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

// fresh counts the sequences that wait and never ran, so that nothing is looked for among them in vain: a flood would
// take the time of a search for each request that is refused.
type fresh struct {
	tokens map[string]int // by payer, without those in the background, which keep no other waiting
	urgent map[int]int    // sequences, by priority
}

// add counts a sequence that comes. Nothing changes while it is tried in vain.
func (f *fresh) add(q *sequence) {
	if q.charged {
		return
	}
	if f.tokens == nil {
		f.tokens, f.urgent = map[string]int{}, map[int]int{}
	}
	q.fresh = q.length
	f.count(q, 1)
}

// drop counts it out, when it runs for the first time or ends.
func (f *fresh) drop(q *sequence) {
	if q.fresh > 0 {
		f.count(q, -1)
		q.fresh = 0
	}
}

func (f *fresh) count(q *sequence, n int) {
	if f.urgent[q.priority] += n; f.urgent[q.priority] == 0 {
		delete(f.urgent, q.priority)
	}
	if q.background {
		return
	}
	if f.tokens[q.payer] += n * q.fresh; f.tokens[q.payer] == 0 {
		delete(f.tokens, q.payer)
	}
}

// overdone reports whether another payer than one has more tokens than so many.
func (f *fresh) overdone(payer string, tokens int) bool {
	for other, n := range f.tokens {
		if other != "" && other != payer && n > tokens {
			return true
		}
	}
	return false
}

// lessUrgent reports whether there is a sequence of a priority behind one.
func (f *fresh) lessUrgent(priority int) bool {
	for other := range f.urgent {
		if other > priority {
			return true
		}
	}
	return false
}

// eachFresh calls do for each sequence that waits and never ran.
func (s *Scheduler) eachFresh(do func(*sequence)) {
	for _, t := range s.waiting.tenants.All() {
		for _, q := range t.waiting.All() {
			if !q.charged {
				do(q)
			}
		}
	}
}

func (s *Scheduler) lessUrgent(priority int) (last *sequence) {
	if s.waiting.n != s.cfg.MaxWaiting || !s.waiting.fresh.lessUrgent(priority) {
		return nil
	}
	s.eachFresh(func(q *sequence) {
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
	tokens := s.waiting.fresh.tokens
	own := tokens[r.Payer] + len(r.Prompt)
	if !s.waiting.fresh.overdone(r.Payer, own) {
		return nil
	}
	s.eachFresh(func(q *sequence) {
		if q.background || q.payer == "" || q.payer == r.Payer || q.parent != 0 || tokens[q.payer]-q.fresh < own || q.priority < r.Priority {
			return
		}
		if last == nil || tokens[q.payer] > tokens[last.payer] ||
			tokens[q.payer] == tokens[last.payer] && q.arrival > last.arrival {
			last = q
		}
	})
	return last
}
