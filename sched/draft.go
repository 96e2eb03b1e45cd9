package sched

import "fmt"

// PlanAhead says whether a sequence may be planned again while a plan that samples for it is outstanding, as is usual.
// One for which it may not finds its last token known after each Commit, as Propose wants, at the cost of all waiting
// for it: no plan is made beside one that samples for it.
func (s *Scheduler) PlanAhead(id SeqID, ahead bool) {
	if q := s.byID[id]; q != nil {
		q.when.set(solo, !ahead)
	}
}

// Pause says whether a sequence that has caught up sits steps out, for a reason of the caller's. It keeps its blocks,
// and a row is left for it. Prompts are computed nevertheless, also that of a sequence that was preempted.
func (s *Scheduler) Pause(id SeqID, on bool) {
	if q := s.byID[id]; q != nil {
		q.when.set(paused, on)
	}
}

// Draft is tokens that may follow a sequence's last one, as a list or as a tree of alternatives.
type Draft struct {
	Tokens []int32
	// Parents, if not nil, makes a tree of them: Tokens[i] follows Tokens[Parents[i]], which comes before it, or if
	// that is -1 the sequence's last token. Tokens that follow the same one differ; the best comes first.
	Parents []int32
}

// Check returns an error that says why d is no list and no tree.
func (d Draft) Check() error {
	if d.Parents != nil && len(d.Parents) != len(d.Tokens) {
		return fmt.Errorf("sched: a tree of %d tokens with %d parents", len(d.Tokens), len(d.Parents))
	}
	for i, p := range d.Parents {
		if p < -1 || int(p) >= i {
			return fmt.Errorf("sched: token %d of a tree follows token %d; want one before it", i, p)
		}
		for j := range i {
			if d.Parents[j] == p && d.Tokens[j] == d.Tokens[i] {
				return fmt.Errorf("sched: tokens %d and %d of a tree are both %d and follow token %d", j, i, d.Tokens[i], p)
			}
		}
	}
	return nil
}

// Parent returns the number of the token that token i follows; -1: the sequence's last one.
func (d Draft) Parent(i int) int {
	if d.Parents == nil {
		return i - 1
	}
	return int(d.Parents[i])
}

// Cut returns the first n tokens of a draft, which are one too.
func (d Draft) Cut(n int) Draft {
	if d.Tokens = d.Tokens[:n]; d.Parents != nil {
		d.Parents = d.Parents[:n]
	}
	return d
}

// Chain returns the list that begins a tree: at each token, it goes on with the best that follows.
func (d Draft) Chain() Draft {
	if d.Parents == nil {
		return d
	}
	var list []int32
	last := int32(-1)
	for i, p := range d.Parents {
		if p == last {
			list, last = append(list, d.Tokens[i]), int32(i)
		}
	}
	return Draft{Tokens: list}
}

// Propose tells what may follow the tokens of a running sequence that has caught up: its next plan computes its last
// token and as many of the proposed ones, from the first on, as its limit, the step's rows and the free blocks allow,
// and Commit takes those that are accepted. It is not planned again until then. Proposals preempt no one, leave a row
// for each that runs, and are forgotten when the sequence is preempted or Force tells what follows.
func (s *Scheduler) Propose(id SeqID, d Draft) error {
	if err := d.Check(); err != nil {
		return fmt.Errorf("sequence %d: %w", id, err)
	}
	q := s.byID[id]
	problem := ""
	switch {
	case q == nil:
		problem = "there is none of that name"
	case s.cfg.States > 0:
		problem = "the model has recurrent state, which cannot be rolled back"
	case q.hold:
		problem = "it is to be held, or is"
	case !q.running():
		problem = "it does not run"
	case q.length > q.known:
		problem = fmt.Sprintf("it knows %d of %d tokens: the others are not committed yet", q.known, q.length)
	case q.computed < q.known-1:
		problem = fmt.Sprintf("it has computed %d of %d tokens", q.computed, q.known)
	}
	if problem != "" {
		return fmt.Errorf("sched: sequence %d: %d tokens are proposed, but %s", id, len(d.Tokens), problem)
	}
	q.draft = int32(min(len(d.Tokens), q.limit-q.known-1))
	return nil
}

// survey returns how many rows of a step the running sequences do not ask for. Each that was forced, or has
// proposals, asks for one, and gets others from these: so what one asks for never grows while it runs. Of the rows that
// they ask for, busy are for those that cannot be planned now. It reads the ends of the tables that will grow, as warm
// does.
func (s *Scheduler) survey() (spare, busy int) {
	spare = s.cfg.TokenBudget
	for q := s.running.front; q != nil; q = q.next {
		if !s.pool.Ready(&q.table, q.computed+1) {
			s.touched += s.pool.Touch(&q.table)
		}
		if q.computed < int(q.forced) {
			spare--
		} else {
			spare -= min(q.length-q.computed, s.cfg.MaxChunk)
		}
		if s.busy(q) && (q.drafted || q.length < q.limit) {
			busy++
		}
	}
	return max(0, spare), busy
}

// draft returns how many of the proposals for q are computed in p, and gives it blocks for them and its last token. It
// returns 0 and does nothing if there are none, or no rows or blocks for any.
func (s *Scheduler) draft(p *Plan, q *sequence) int {
	if q.draft == 0 {
		return 0
	}
	k := min(int(q.draft), p.spare, s.cfg.MaxChunk-1, s.cfg.TokenBudget-p.Rows-1)
	q.draft = 0
	for ; k > 0; k-- {
		if s.pool.Grow(&q.table, q.computed, q.computed+1+k, 0, &p.Copies) {
			p.spare -= k
			return k
		}
	}
	return 0
}

// Force tells which tokens follow those that are known of a sequence. They are computed like a prompt's. It takes as
// many as the sequence's limit allows, and returns how many; ended says that the sequence has all its tokens now, and
// is no more.
//
// What a plan under way yields for the sequence does not count, and Commit empties that result; nor does what it
// computes of tokens whose values are not known yet. With recurrent state, which has gone on with those, Force is
// refused then. A plan that is not begun does not sample for the sequence any more.
func (s *Scheduler) Force(id SeqID, tokens []int32) (n int, ended bool, err error) {
	q := s.byID[id]
	problem := ""
	switch {
	case q == nil:
		problem = "there is none of that name"
	case q.hold:
		problem = "it is to be held, or is"
	case s.cfg.States > 0 && s.unsure(q):
		problem = "its recurrent state has gone on with a token that is not known"
	}
	if problem != "" {
		return 0, false, fmt.Errorf("sched: sequence %d: %d tokens are to follow, but %s", id, len(tokens), problem)
	}
	if n = min(len(tokens), q.limit-q.known); n == 0 {
		return 0, false, nil
	}
	for i := range s.outstanding {
		s.outstandingAt(i).recall(q)
	}
	q.draft, q.drafted = 0, false
	q.computed = min(q.computed, q.known)
	s.learn(q, tokens[:n])
	q.length = q.known
	if q.charged {
		s.waiting.charge(q.tenant, weightIn*n)
	}
	if q.known == q.limit {
		s.finish(q)
		s.dropEnded()
		s.verify()
		return n, true, nil
	}
	if q.running() {
		q.forced = int32(q.known)
	} else {
		s.rerank(q)
	}
	s.verify()
	return n, false, nil
}

// unsure reports whether a plan under way computes a token of q whose value is not known.
func (s *Scheduler) unsure(q *sequence) bool {
	for i := range s.outstanding {
		p := s.outstandingAt(i)
		for j, x := range p.parts {
			if w := &p.Seqs[j]; x.seq == q && p.begun && w.Start+w.N > q.known {
				return true
			}
		}
	}
	return false
}
