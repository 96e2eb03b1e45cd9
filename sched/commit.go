package sched

import "fmt"

// Result is what a step yielded for one Work of its plan.
type Result struct {
	// Tokens are those chosen, if Work.Sample: as many of the proposed ones as are accepted, and one more. Fewer will
	// do, but one. Commit empties those that do not count.
	Tokens []int32
	// Path says which of the proposed tokens were accepted, if they are a tree: by their numbers among those that
	// Propose told, from the sequence's last token on. It has one element less than Tokens. nil: the first ones.
	Path []int32
	// Finished ends the sequence: the caller met a stop token or a stop string. Commit sets it for those that end
	// because they reached Request.MaxTokens or Config.MaxLen, but for those with Request.Hold.
	Finished bool
}

// Begin tells that a plan is under way: from then on it keeps its Work, whatever ends. A plan must be begun before the
// one after it is asked for; one that is committed without was begun and done at once.
func (s *Scheduler) Begin(p *Plan) {
	if s.outstanding == 0 || p != s.newest() || p.begun {
		panic("sched: Begin of a plan that is not the newest, or begun already")
	}
	p.begun = true
}

// Commit tells what the oldest outstanding plan yielded; results[i] belongs to p.Seqs[i]. Afterwards the plan is void
// and its memory is reused. Results of sequences that were cancelled meanwhile are ignored. A sequence that ends frees
// its blocks and leaves the other outstanding plan, if that is not begun; it may become empty but must be committed all
// the same.
//
// If a step failed, Cancel the sequences it failed for first: Commit makes what the others computed findable by prefix.
func (s *Scheduler) Commit(p *Plan, results []Result) {
	if s.outstanding == 0 || p != &s.plans[s.oldest] {
		panic("sched: Commit of a plan that is not the oldest outstanding one")
	}
	if len(results) != len(p.Seqs) {
		panic(fmt.Sprintf("sched: Commit of %d results for %d sequences", len(results), len(p.Seqs)))
	}
	s.warm(p)
	for i := range p.parts {
		if x := &p.parts[i]; !x.seq.ended {
			s.commit(&p.Seqs[i], x, &results[i])
		}
	}
	p.reset()
	p.mangle()
	s.oldest = 1 - s.oldest
	s.outstanding--
	if s.outstanding == 1 && !s.newest().begun { // it may take its tokens from the caller now
		for i := range s.newest().Seqs {
			s.newest().Seqs[i].From = -1
		}
	}
	s.dropEnded()
	s.verify()
}

// warm reads what committing a plan needs, and names the blocks that it fills. None of the reads of a loop waits for
// another, so that it takes a fraction of the time of reading each when it is needed.
func (s *Scheduler) warm(p *Plan) {
	s.filled = s.filled[:0]
	for i := range p.parts {
		q, w := p.parts[i].seq, &p.Seqs[i]
		s.touched += q.touch()
		if s.cfg.PrefixCache && q.running() && (int(q.table.Named)+1)*s.cfg.BlockTokens <= w.Start+w.N-w.Draft {
			s.filled = append(s.filled, q)
		}
	}
	for _, q := range s.filled {
		s.touched += q.touchNames() + s.pool.TouchNext(&q.table)
	}
	for _, q := range s.filled {
		s.name(q)
	}
	for _, q := range s.filled {
		if i := int(q.table.Named); i < len(q.names) {
			s.touched += s.pool.TouchName(&q.table, q.names[i])
		}
	}
}

// commit takes what a step yielded for one sequence.
func (s *Scheduler) commit(w *Work, x *part, r *Result) {
	q, done := x.seq, w.Start+w.N // the tokens whose keys and values are there
	switch {
	case x.recalled:
		done, *r = x.sure, Result{}
	case w.Sample:
		rejected := w.Draft + 1 - len(r.Tokens)
		if len(r.Tokens) == 0 || rejected < 0 {
			panic(fmt.Sprintf("sched: %d tokens for sequence %d, which has %d proposed ones", len(r.Tokens), q.id, w.Draft))
		}
		checkPath(q, w, r)
		if q.predicted {
			s.error.observe(s.now, q.due, s.now-q.since)
			q.predicted = false
		}
		s.learn(q, r.Tokens)
		q.length -= rejected
		done -= rejected
		q.drafted = false
		s.waiting.charge(q.tenant, weightOut*len(r.Tokens))
		if q.turns {
			q.tenant.users.spent(q.user, int64(weightOut*len(r.Tokens)))
		}
	}
	if q.running() {
		s.gather(q, w, r.Path)
		s.settle(q, w, x, done)
	} else { // it was preempted meanwhile: its blocks are not its own any more
		s.rerank(q)
	}
	switch {
	case q.known == q.limit && q.hold && !r.Finished:
		s.hold(q)
	case q.known == q.limit || r.Finished:
		r.Finished = true
		s.finish(q)
	}
}

// checkPath panics if a result's path is none.
func checkPath(q *sequence, w *Work, r *Result) {
	last := int32(-1)
	for _, n := range r.Path {
		if n <= last || int(n) >= w.Draft {
			panic(fmt.Sprintf("sched: sequence %d, which has %d proposed tokens, accepts the path %v", q.id, w.Draft, r.Path))
		}
		last = n
	}
	if r.Path != nil && len(r.Path) != len(r.Tokens)-1 {
		panic(fmt.Sprintf("sched: sequence %d accepts a path of %d tokens and %d tokens", q.id, len(r.Path), len(r.Tokens)))
	}
}

// gather lets the next plan bring the accepted tokens of a tree together: they follow the sequence's last one then.
func (s *Scheduler) gather(q *sequence, w *Work, path []int32) {
	first := w.Start + w.N - w.Draft
	for i, n := range path {
		if int(n) > i {
			s.shifts = s.pool.Shift(&q.table, first+int(n), first+i, s.shifts)
		}
	}
}

// settle brings the table of a sequence up to date, of which a step has computed the first done tokens.
func (s *Scheduler) settle(q *sequence, w *Work, x *part, done int) {
	if w.Draft > 0 {
		if !x.recalled {
			q.computed = done
		}
		s.pool.Truncate(&q.table, q.computed)
	}
	q.done = done
	s.register(q, done)
	s.pool.Slide(&q.table, done)
}

// finish ends a sequence that has its tokens.
func (s *Scheduler) finish(q *sequence) {
	s.lengths.add(q.known - q.prompt)
	if s.end(q); q.tenant.live == 0 {
		s.leaves(q.tenant)
	}
}

// dropEnded takes the work of sequences that have ended out of the newest plan, unless that is begun.
func (s *Scheduler) dropEnded() {
	if s.outstanding > 0 && !s.newest().begun {
		s.newest().drop(func(x part) bool { return x.seq.ended })
	}
}

// newest returns the outstanding plan that was made last.
func (s *Scheduler) newest() *Plan { return s.outstandingAt(s.outstanding - 1) }

// outstandingAt returns an outstanding plan, by age: 0 is the oldest.
func (s *Scheduler) outstandingAt(i int) *Plan { return &s.plans[(s.oldest+i)%2] }

// register names the blocks of q that are full now that its first n tokens are computed. Where an equal block has its
// name already, q goes on with that one.
func (s *Scheduler) register(q *sequence, n int) {
	if !s.cfg.PrefixCache {
		return
	}
	size := s.cfg.BlockTokens
	first := int(q.table.Named)
	if first == n/size {
		return
	}
	s.name(q)
	for i := first; i < n/size; i++ {
		s.pool.Register(&q.table, q.names[:i+1], q.All()[i*size:(i+1)*size])
	}
}
