package sched

import (
	"slices"

	"github.com/kvasir-llm/kvasir/kv"
)

// Next plans the next step, or returns nil when nothing can run now. Two plans may be outstanding: one that is being
// computed and one that is prepared meanwhile, in which the tokens that the first will yield are planned for by position
// though their values are not known yet. With two outstanding, Next returns nil.
//
// Every running sequence with something to compute gets rows, those admitted first before the others. If there is no block
// for one, the running sequence that the policy puts last is preempted: it gives up its blocks, waits again and is computed
// anew later. If that is the one in need itself, it keeps what it has and sits the step out. What budget remains goes to
// the queue, in order, as long as each finds the blocks for all its tokens; Config.MaxPassed says what comes of those
// behind one that does not. No one is admitted in a step that preempts. A plan that preempts may have no rows, if what was
// given up did not suffice, and so may one that only moves blocks; it is to be committed like any other.
//
// Decoding never starves for others' prompts: what a running sequence asks for never grows from step to step, so those
// before it leave it at least what they left when it was admitted. All of this is for Mixed batches; see Batch for others.
func (s *Scheduler) Next() *Plan {
	if s.outstanding == 2 {
		return nil
	}
	p := &s.plans[(s.oldest+s.outstanding)%2]
	p.reset()
	s.pool.Round(&p.Moves)
	s.fill(p)
	for s.outstanding == 0 && len(p.Seqs)+len(p.Preempted) == 0 && s.waiting.n > 0 && s.dropOldest() {
		s.fill(p) // those who wait may lack the blocks of those who are held for them
	}
	if len(p.Seqs) == 0 && len(p.Preempted) == 0 && len(p.Moves) == 0 {
		return nil
	}
	s.outstanding++
	return p
}

// planRunning lets the running sequences catch up, those with more than their last token to compute only if it is the
// prompts' turn.
func (s *Scheduler) planRunning(p *Plan, prompts bool) {
	for q := s.running.front; q != nil && p.Rows < s.cfg.TokenBudget; q = q.next {
		if q.length == q.limit || !prompts && q.length-q.computed > 1 {
			continue // its last token is on the way, or it is not its turn
		}
		if n := s.rows(q, p); s.grow(p, q, n) {
			s.plan(p, q, n, 0)
		}
	}
}

// planPrompts lets those catch up that have more than their last token to compute. They have the blocks since they were
// admitted, but for layers with a window.
func (s *Scheduler) planPrompts(p *Plan) {
	for q := s.running.front; q != nil && p.Rows < s.cfg.TokenBudget; q = q.next {
		if q.length-q.computed <= 1 {
			continue
		}
		if n := s.rows(q, p); s.grow(p, q, n) {
			s.plan(p, q, n, 0)
		}
	}
}

// rows returns how many tokens q may compute in what is left of the plan's budget.
func (s *Scheduler) rows(q *sequence, p *Plan) int {
	return min(q.length-q.computed, s.cfg.MaxChunk, s.cfg.TokenBudget-p.Rows)
}

// grow gives q blocks for its next n tokens, if need be by preempting those that come after it in the order of the policy.
// The first of that order always succeeds, since Add admits none that does not fit alone.
func (s *Scheduler) grow(p *Plan, q *sequence, n int) bool {
	for {
		if s.pool.Grow(&q.table, q.computed, q.computed+n, 0, &p.Copies) {
			return true
		}
		if s.dropOldest() {
			continue
		}
		last := s.lastRunning()
		if last == q {
			return false
		}
		s.stow(p, last)
		s.preempt(p, last)
	}
}

// lastRunning returns the running sequence that the policy puts last.
func (s *Scheduler) lastRunning() *sequence {
	last := s.running.back
	last.rank = s.policy.rank(last)
	for q := last.prev; q != nil; q = q.prev {
		if q.rank = s.policy.rank(q); last.before(q) {
			last = q
		}
	}
	return last
}

// preempt takes a running sequence's blocks and its work in p, and lets it wait again. It keeps its tokens, and one that the step under way
// computes will still reach it: before it can be admitted again, since the plan that preempts admits no one and the plan
// after it is made when that step is committed. The step may read the old table, so that is left to it.
func (s *Scheduler) preempt(p *Plan, q *sequence) {
	p.withdraw(q)
	s.running.remove(q)
	s.pool.Release(&q.table)
	q.computed, q.done = 0, 0
	s.wait(q)
	s.preemptions++
	p.Preempted = append(p.Preempted, q.id)
}

// lookahead is how many waiting sequences that do not fit a step looks behind.
const lookahead = 8

// admit starts waiting sequences, in their order. One for which there are not enough blocks lets those behind it pass, but
// only Config.MaxPassed times.
func (s *Scheduler) admit(p *Plan) {
	if s.waiting.n == 0 || p.Rows >= s.cfg.TokenBudget || s.running.n >= s.cfg.MaxSeqs {
		return
	}
	s.begin()
	for open := true; open && p.Rows < s.cfg.TokenBudget && s.running.n < s.cfg.MaxSeqs && s.waiting.n > 0 &&
		s.pool.Available() > s.promised && s.pool.AvailableStates() > 0; {
		q := s.waiting.front()
		s.waiting.remove(q)
		if s.start(p, q) {
			for _, u := range s.unfit {
				u.passed++
				open = open && u.passed < s.cfg.MaxPassed
			}
		} else {
			s.unfit = append(s.unfit, q)
			open = q.passed < s.cfg.MaxPassed && len(s.unfit) < lookahead
		}
	}
	for _, u := range s.unfit {
		s.waiting.push(u)
	}
	clear(s.unfit)
	s.unfit = s.unfit[:0]
}

// start admits a sequence if there are blocks for all its tokens, so that no prompt is left half computed, and as many more
// as Config.Allocation wants, and a place for its adapter. In layers with a window it is enough if there are blocks for what it computes now.
func (s *Scheduler) start(p *Plan, q *sequence) bool {
	if !s.adapterFits(q) || s.cfg.Whole && q.length > s.cfg.TokenBudget-p.Rows {
		return false
	}
	m := &q.prefix
	if q.lookup { // the last token is always computed, for its logits
		s.pool.Match(m, q.names, q.keys, q.tokens[:q.length-1])
	}
	found, kept := m.Tokens, 0
	parent, common := s.parentOf(q)
	if common-max(found, s.doneOf(parent)) >= s.cfg.BlockTokens {
		return false // there will be more to share when the parent's step is committed
	}
	common = min(common, s.doneOf(parent))
	forks := common > found && s.pool.CanFork(&parent.table, common)
	if forks {
		found = common
		need, k := s.pool.ForkCost(&parent.table, found, s.firstRows(p, q, found), q.length)
		if kept = k; !s.fits(q, need, 0, kept) {
			return false
		}
	} else if !s.fitsAfter(p, q) {
		if !s.pool.Cut(m) || !s.fitsAfter(p, q) { // without a copy of the block that begins alike
			return false
		}
		found = m.Tokens
	}
	ready := found // for others to share
	if !forks {
		var ok bool
		if found, ready, ok = s.revive(p, q); !ok {
			return false
		}
	}
	q.table = s.pool.NewTable(q.limit-1, q.keys, q.keep)
	s.pool.AddState(&q.table)
	switch {
	case forks:
		s.pool.Fork(&q.table, &parent.table, found, q.length)
	case q.lookup:
		kept = s.pool.Kept(m)
		s.pool.Share(&q.table, m, q.length)
	}
	s.succeed(q)
	q.computed, q.done = found, ready
	n := s.rows(q, p)
	s.pool.Grow(&q.table, q.computed, q.computed+n, q.length, &p.Copies)
	s.unstow(q)
	q.shared = kept
	q.prefix = kv.Prefix{}
	if s.cfg.PrefixCache { // so that no step between admission and end allocates
		q.names = slices.Grow(q.names, q.limit/s.cfg.BlockTokens-len(q.names))
		q.tokens = slices.Grow(q.tokens, q.limit-len(q.tokens))
	}
	if !q.charged {
		q.charged = true
		s.waiting.charge(q.tenant, weightIn*(q.length-q.computed))
	}
	s.running.pushBack(q)
	s.promise(q)
	s.sincePrompts = 0
	s.plan(p, q, n, q.computed)
	return true
}

// parentOf returns the running sequence that q may be forked from, and how many tokens they have in common.
func (s *Scheduler) parentOf(q *sequence) (parent *sequence, shared int) {
	parent = s.byID[q.parent]
	if q.parent == 0 || parent == nil || !parent.running() || parent.keys != q.keys {
		return nil, 0
	}
	return parent, min(common(parent.tokens, q.tokens), q.length-1) // the last token is always computed, for its logits
}

// doneOf returns how many tokens of a sequence, if there is one, are computed by steps that are committed.
func (s *Scheduler) doneOf(q *sequence) int {
	if q == nil {
		return 0
	}
	return q.done
}

// firstRows returns up to which token q would be computed by the plan that admits it, if so many are found.
func (s *Scheduler) firstRows(p *Plan, q *sequence, found int) int {
	return found + min(q.length-found, s.cfg.MaxChunk, s.cfg.TokenBudget-p.Rows)
}

// fitsAfter reports whether q can be admitted with the cached prefix that it found.
func (s *Scheduler) fitsAfter(p *Plan, q *sequence) bool {
	need, unused := s.pool.Cost(&q.prefix, s.firstRows(p, q, q.prefix.Tokens), q.length)
	return s.fits(q, need, unused, s.pool.Kept(&q.prefix))
}

// plan puts the next n tokens of q into p.
func (s *Scheduler) plan(p *Plan, q *sequence, n, cached int) {
	start := q.computed
	if q.length-start > 1 {
		s.sincePrompts = 0
	}
	q.computed += n
	sample := q.computed == q.length
	if sample {
		q.length++
	}
	blocks, first := s.pool.BlocksFor(start+n), len(p.tables)
	for _, table := range q.table.Blocks {
		p.tables = append(p.tables, table[:blocks:blocks])
	}
	p.Seqs = append(p.Seqs, Work{
		ID: q.id, Start: start, N: n, Sample: sample, Cached: cached,
		Tables: p.tables[first:len(p.tables):len(p.tables)], State: q.table.State,
	})
	p.owners = append(p.owners, q)
	p.Rows += n
}
