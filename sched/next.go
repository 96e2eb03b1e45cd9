package sched

import "github.com/kvasir-llm/kvasir/kv"

// Next plans the next step, or returns nil when nothing can run now. Two plans may be outstanding: one that is being
// computed and one that is prepared meanwhile, in which the tokens that the first will yield are planned for by position
// though their values are not known yet. With two outstanding, Next returns nil.
//
// Every running sequence with something to compute gets rows, the oldest first. If there is no block for one, the youngest
// running sequence is preempted: it gives up its blocks, goes to the front of the queue and is computed anew later. The
// youngest itself keeps what it has and sits the step out. What budget remains goes to the queue, in order, as long as
// each finds the blocks for all its tokens; the first that does not stops those behind it. No one is admitted in a step
// that preempts. A plan that preempts may have no rows, if what was given up did not suffice; it is to be committed like
// any other.
//
// Decoding never starves for others' prompts: what a running sequence asks for never grows from step to step, so
// those before it leave it at least what they left when it was admitted.
func (s *Scheduler) Next() *Plan {
	if s.outstanding == 2 {
		return nil
	}
	p := &s.plans[(s.oldest+s.outstanding)%2]
	p.reset()
	s.planRunning(p)
	if len(p.Preempted) == 0 {
		s.admit(p)
	}
	if len(p.Seqs) == 0 && len(p.Preempted) == 0 {
		return nil
	}
	s.outstanding++
	return p
}

// planRunning lets the running sequences catch up.
func (s *Scheduler) planRunning(p *Plan) {
	for q := s.running.front; q != nil && p.Rows < s.cfg.TokenBudget; q = q.next {
		if q.length == q.limit {
			continue // its last token is on the way
		}
		n := s.rows(q, p)
		if !s.grow(p, q, q.computed+n) {
			return // it is the last one
		}
		s.plan(p, q, n, 0)
	}
}

// rows returns how many tokens q may compute in what is left of the plan's budget.
func (s *Scheduler) rows(q *sequence, p *Plan) int {
	return min(q.length-q.computed, s.cfg.MaxChunk, s.cfg.TokenBudget-p.Rows)
}

// grow gives q blocks for its first n tokens, if need be by preempting those that came after it. The oldest running
// sequence always succeeds, since Add admits none that does not fit alone.
func (s *Scheduler) grow(p *Plan, q *sequence, n int) bool {
	for {
		table, ok := s.pool.Alloc(q.table, s.pool.BlocksFor(n)-len(q.table))
		if ok {
			q.table = table
			return true
		}
		youngest := s.running.back
		if youngest == q {
			return false
		}
		s.preempt(youngest)
		p.Preempted = append(p.Preempted, youngest.id)
	}
}

// preempt takes a running sequence's blocks and puts it at the front of the queue. It keeps its tokens, and one that the
// step under way computes will still reach it: before it can be admitted again, since the plan that preempts admits no one
// and the plan after it is made when that step is committed. The step may read the old table, so that is left to it.
func (s *Scheduler) preempt(q *sequence) {
	s.pool.Release(q.table)
	q.table = nil
	q.computed, q.named = 0, 0
	s.running.remove(q)
	s.waiting.pushFront(q)
	s.preemptions++
}

// admit starts waiting sequences. One is admitted with blocks for all its tokens, so that no prompt is left half
// computed, and only if a block for each running sequence stays available, so that they can grow for a while before it
// would have to leave again.
func (s *Scheduler) admit(p *Plan) {
	for p.Rows < s.cfg.TokenBudget && s.running.n < s.cfg.MaxSeqs && s.waiting.n > 0 {
		q := s.waiting.front
		s.chain = s.chain[:0]
		if q.lookup {
			// The last token is always computed, for its logits.
			s.chain = s.pool.Match(s.chain, q.names[:min(len(q.names), (q.length-1)/s.cfg.BlockTokens)])
		}
		need := s.pool.BlocksFor(q.length) - len(s.chain)
		if s.pool.Available()-s.pool.Unused(s.chain) < need+s.running.n {
			return
		}
		if q.lookup {
			s.pool.Share(s.chain, q.length)
		}
		q.table = append(make([]kv.BlockID, 0, s.pool.BlocksFor(q.limit-1)), s.chain...)
		q.table, _ = s.pool.Alloc(q.table, need)
		q.named = len(s.chain)
		q.computed = q.named * s.cfg.BlockTokens
		s.waiting.remove(q)
		s.running.pushBack(q)
		s.plan(p, q, s.rows(q, p), q.computed)
	}
}

// plan puts the next n tokens of q into p.
func (s *Scheduler) plan(p *Plan, q *sequence, n, cached int) {
	start := q.computed
	q.computed += n
	sample := q.computed == q.length
	if sample {
		q.length++
	}
	blocks := s.pool.BlocksFor(start + n)
	p.Seqs = append(p.Seqs, Work{
		ID: q.id, Start: start, N: n, Sample: sample, Cached: cached,
		Blocks: q.table[:blocks:blocks],
	})
	p.owners = append(p.owners, q)
	p.Rows += n
}
