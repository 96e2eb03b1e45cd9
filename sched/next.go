package sched

import (
	"slices"

	"github.com/kvasir-llm/kvasir/kv"
)

// Next plans the next step, or returns nil when nothing is to run now (see Wake). Two plans may be outstanding: one
// that is begun and one after it, in which the tokens that the first will yield are planned for by position though
// their values are not known yet. It may be begun, too, before the first is committed. With two outstanding, Next
// returns nil, and with one that samples for a sequence that is not planned ahead (PlanAhead): the next plan serves
// all.
//
// Every running sequence with something to compute gets rows, those admitted first before the others. If there is no
// block for one, the running sequence that the policy puts last is preempted: it gives up its blocks, waits again and
// is computed anew later. If that is the one in need itself, it computes as many tokens as it has blocks for; if those
// are none, it keeps what it has and sits the step out. What budget remains goes to the queue, in order, as long as
// each finds the blocks for all its tokens; Config.MaxPassed says what comes of those behind one that does not. No
// sequence is admitted in a step that preempts. A plan that preempts may have no rows, if what was given up did not
// suffice, and so may one that only moves blocks; it is to be committed like any other.
//
// Decoding never starves for others' prompts: what a running sequence asks for never grows from step to step, so those
// before it leave it at least what they left when it was admitted; under a fair policy, where prompts ask for less
// beside those that lead, they leave it a row. Only a crowd's sequences sit steps out beside others (see alone and
// short), never two in a row for others' prompts. All of this is for Mixed batches; see Batch for others.
func (s *Scheduler) Next() *Plan {
	if s.outstanding == 2 {
		return nil
	}
	if s.outstanding == 1 && !s.newest().begun {
		panic("sched: Next while the plan before is not begun")
	}
	if s.outstanding == 1 && (s.newest().waits || s.expectant()) || s.outstanding == 0 && s.lulled() {
		return nil
	}
	p := s.outstandingAt(s.outstanding)
	p.reset()
	p.spare, p.kept = s.survey()
	s.allow(p)
	s.pool.Round(&p.Moves)
	s.fill(p)
	for s.outstanding == 0 && len(p.Seqs)+len(p.Preempted) == 0 && s.waiting.n > 0 && s.pool.Underway() == 0 &&
		s.dropOldest() {
		s.fill(p) // waiting sequences may lack the blocks that are held for them
	}
	if len(p.Seqs) == 0 && len(p.Preempted) == 0 && len(p.Moves) == 0 {
		return nil
	}
	p.pressed = s.prompts(s.waiting.tokens-s.waiting.behindTokens) > 0
	p.Edits = s.pool.Edits(p.Edits)
	p.Shifts, s.shifts = append(p.Shifts, s.shifts...), s.shifts[:0]
	s.outstanding++
	s.verify()
	return p
}

// planRunning lets the running sequences catch up, those in the background after the others.
func (s *Scheduler) planRunning(p *Plan, prompts bool) {
	s.prepare(p, prompts)
	s.planClass(p, prompts, false)
	s.planClass(p, prompts, true)
}

// prepare comes before running sequences are planned: it lets the prompts that lead go on.
func (s *Scheduler) prepare(p *Plan, prompts bool) {
	if p.leading && prompts {
		s.planLeading(p)
	}
}

// planClass lets the running sequences catch up that are in the background, or those that are not; those with more than
// their last token to compute only if it is the prompts' turn.
func (s *Scheduler) planClass(p *Plan, prompts, background bool) {
	if background && s.background == 0 {
		return
	}
	for q := s.running.front; q != nil && p.Rows < s.cfg.TokenBudget; q = q.next {
		if q.background != background || p.has(q) {
			continue
		}
		p.owed = max(0, p.owed-1)
		if s.busy(q) || !prompts && q.length-q.computed > 1 || s.rests(p, q) {
			continue
		}
		if k := s.draft(p, q); k > 0 {
			s.plan(p, q, 1, k, 0)
		} else {
			s.planNext(p, q)
		}
	}
}

// busy reports whether a sequence cannot be planned: it is paused, or it waits until a plan that samples for it is
// committed, since that is its last token, or may be any number of them, or since PlanAhead says so.
func (s *Scheduler) busy(q *sequence) bool {
	return q.when&paused != 0 && q.length-q.computed == 1 || q.length == q.limit || q.length > q.known && (q.drafted || q.when&solo != 0)
}

// planPrompts lets those catch up that have more than their last token to compute. They have the blocks since they were
// admitted, but for layers with a window.
func (s *Scheduler) planPrompts(p *Plan) {
	for q := s.running.front; q != nil && p.Rows < s.cfg.TokenBudget; q = q.next {
		if q.length-q.computed <= 1 {
			continue
		}
		s.planNext(p, q)
	}
}

// planLeading lets the prompts that lead go on.
func (s *Scheduler) planLeading(p *Plan) {
	for q := s.running.front; q != nil; q = q.next {
		if q.length-q.computed <= 1 || s.busy(q) || !p.leads(q) {
			continue
		}
		p.owed = max(0, p.owed-1)
		s.planNext(p, q)
	}
}

// rows returns how many tokens q may compute in what is left of the plan's budget. One that was forced asks for one,
// and takes others only from the spare ones.
func (s *Scheduler) rows(p *Plan, q *sequence) int {
	if q.length-q.computed == 1 {
		return 1
	}
	n := min(q.length-q.computed, s.cfg.MaxChunk, max(1, s.cfg.TokenBudget-p.Rows-p.owed))
	n = s.chunk(p, q, n)
	if q.computed < int(q.forced) {
		n = min(n, 1+p.spare)
		p.spare -= n - 1
	}
	return n
}

// planNext puts the next tokens of a running sequence into p, if there are blocks for any.
func (s *Scheduler) planNext(p *Plan, q *sequence) {
	n := s.rows(p, q)
	got := s.grow(p, q, n)
	if q.computed < int(q.forced) {
		p.spare += n - max(got, 1)
	}
	if got > 0 {
		s.plan(p, q, got, 0, 0)
	}
}

// grow gives q blocks for its next n tokens, if need be by preempting those that come after it in the order of the
// policy. If there are none, it goes on with fewer tokens, and one that was forced does before it preempts. It returns
// for how many there are blocks. The first of that order always succeeds, since Add admits none that does not fit
// alone.
func (s *Scheduler) grow(p *Plan, q *sequence, n int) int {
	for !s.pool.Ready(&q.table, q.computed+n) && !s.pool.Grow(&q.table, q.computed, q.computed+n, 0, &p.Copies) {
		if s.dropOldest() {
			continue
		}
		last := s.lastRunning(p)
		fewer := (q.computed+n-1)/s.cfg.BlockTokens*s.cfg.BlockTokens - q.computed // a block less
		switch {
		case fewer > 0 && (last == q || q.computed < int(q.forced)):
			n = fewer
		case last == q:
			return 0
		default:
			s.swapOut(p, last)
			s.preempt(p, last)
		}
	}
	return n
}

// lastRunning returns the running sequence that the policy puts last, as they were before p: else one that p lets yield
// a token could be preempted for that, and those that wait for each other's blocks might never yield one.
func (s *Scheduler) lastRunning(p *Plan) *sequence {
	var last *sequence
	for q := s.running.back; q != nil; q = q.prev {
		yields := p.yields(q)
		q.length -= yields
		q.rank = s.policy.rank(q)
		q.length += yields
		if last == nil || last.before(q) {
			last = q
		}
	}
	return last
}

// preempt takes a running sequence's blocks and its work in p, and lets it wait again. It keeps its tokens, and one
// that the step under way computes will still reach it: before it can be admitted again, since the plan that preempts
// admits none and the plan after it is made when that step is committed.
func (s *Scheduler) preempt(p *Plan, q *sequence) {
	p.withdraw(q)
	s.running.remove(q)
	s.release(q)
	q.computed, q.done, q.forced, q.draft = 0, 0, 0, 0
	s.wait(q)
	s.preemptions++
	p.Preempted = append(p.Preempted, q.id)
}

// room returns how many rows of a plan are left for waiting sequences.
func (s *Scheduler) room(p *Plan) int {
	if p.most == 0 || p.least == 0 && (p.turns || p.left+p.extra <= 0) {
		return 0
	}
	return s.cfg.TokenBudget - p.Rows - p.kept
}

// lookahead is how many waiting sequences that do not fit a step looks behind.
const lookahead = 8

// admit starts waiting sequences, in their order. One for which there are not enough blocks lets those behind it pass,
// but only Config.MaxPassed times. One in the background passes no other, and is started only if background is set.
func (s *Scheduler) admit(p *Plan, background bool) {
	if s.waiting.n == 0 || s.room(p) <= 0 || s.running.n >= s.cfg.MaxSeqs {
		return
	}
	s.begin()
	for open := true; open && s.room(p) > 0 && s.running.n < s.cfg.MaxSeqs && s.waiting.n > 0 && s.roomy(); {
		q := s.waiting.front()
		if q.background && (!background || s.passes() || s.running.n >= s.cfg.MaxSeqs-s.kept()) {
			break
		}
		s.waiting.remove(q)
		if s.crowded(q.tenant) {
			s.over = append(s.over, q)
			open = len(s.over) < lookahead
		} else if s.start(p, q) {
			for _, u := range s.unfit {
				u.passed++
				open = open && u.passed < s.cfg.MaxPassed
			}
		} else {
			q.unfit = true
			s.unfit = append(s.unfit, q)
			open = q.passed < s.cfg.MaxPassed && len(s.unfit) < lookahead
		}
	}
	for _, u := range s.unfit {
		s.waiting.push(u)
	}
	for _, q := range s.over {
		s.waiting.push(q)
	}
	clear(s.unfit)
	clear(s.over)
	s.unfit, s.over = s.unfit[:0], s.over[:0]
}

// roomy reports whether there may be blocks and a state for one more.
func (s *Scheduler) roomy() bool {
	return s.pool.Available() > s.promised && s.pool.AvailableStates() > 0
}

// kept is how many places for running sequences those in the background leave to others, so that one that comes need
// not wait until one of them is preempted.
func (s *Scheduler) kept() int { return s.cfg.MaxSeqs / 8 }

// passes reports whether one in the background would pass one that is not.
func (s *Scheduler) passes() bool {
	return len(s.unfit) > 0 && !s.unfit[0].background || len(s.over) > 0 && !s.over[0].background
}

// start admits a sequence if there are blocks for all its tokens, so that no prompt is left half computed, and as many
// more as Config.Allocation wants, and a place for its adapter. In layers with a window it is enough if there are
// blocks for what it computes now. What slow tiers hold for it must have arrived.
func (s *Scheduler) start(p *Plan, q *sequence) bool {
	if q.awaits.Pending() || !s.adapterFits(q) || s.cfg.Whole && q.length > s.room(p) {
		return false
	}
	parent, common := s.parentOf(q)
	o := &q.offer
	w := s.want(p, q, parent, common)
	s.pool.Offer(o, w)
	if common-max(o.Found, s.doneOf(parent)) >= s.cfg.BlockTokens {
		return false // there will be more to share when the parent's step is committed
	}
	for !s.fits(q, o) || !s.pool.CanExpect(&q.awaits, o) {
		if !s.pool.Less(o) {
			return false
		}
	}
	if !s.pool.Expect(&q.awaits, o) {
		return false // it is tried again when its blocks have arrived
	}
	if w.Ends != nil {
		s.held.remove(s.byID[q.parent])
	}
	q.table = s.pool.Accept(o, &p.Copies)
	s.pool.Forget(&q.awaits)
	s.succeed(q)
	q.computed, q.done, q.shared, q.swapped = o.Found, o.Ready, o.Kept, 0
	// So that no step between admission and end allocates:
	*q.older = slices.Grow(q.All(), q.limit-q.known)
	if s.cfg.PrefixCache {
		q.names = slices.Grow(q.names, q.limit/s.cfg.BlockTokens-len(q.names))
	}
	if p.guest == q {
		p.guest, p.found, p.saved, p.savedTime = nil, 0, 0, 0
	}
	q.tenant.users.now = max(q.tenant.users.now, q.turn)
	if q.unfit, q.paid = false, q.tenant.served; !q.charged {
		q.charged = true
		s.waiting.fresh.drop(q)
		s.came(q.tenant, q.length-q.computed)
		s.waiting.charge(q.tenant, weightIn*(q.length-q.computed))
	}
	s.running.pushBack(q)
	s.bind(q)
	s.promise(q)
	s.sincePrompts = 0
	s.plan(p, q, s.chunk(p, q, min(q.length-q.computed, s.firstRows(p))), 0, q.computed)
	return true
}

// want returns what a waiting sequence asks the pool for. It has the first common tokens in common with parent, if any.
func (s *Scheduler) want(p *Plan, q, parent *sequence, common int) kv.Want {
	w := kv.Want{
		Keys: q.keys, Keep: q.keep, Length: q.length, Rows: s.firstRows(p), Room: q.limit - 1, Lookup: q.lookup,
	}
	if q.lookup { // the last token is always computed, for its logits
		s.name(q)
		w.Names, w.Tokens = q.names, q.All()[:q.length-1]
		w.Stored = !q.charged || s.cfg.Preempt != Recompute
		w.Always = q.charged && s.cfg.Preempt == Swap
		w.Tail, w.TailTokens = q.tail, q.swapped
	}
	if parent != nil {
		w.Parent, w.Common = &parent.table, min(common, parent.done)
	}
	if old := s.byID[q.parent]; q.heir && s.isHeld(q.parent) && old.running() {
		w.Ends = &old.table
	}
	return w
}

// parentOf returns the running sequence that q may be forked from, and how many tokens they have in common.
func (s *Scheduler) parentOf(q *sequence) (parent *sequence, shared int) {
	parent = s.byID[q.parent]
	if q.parent == 0 || parent == nil || !parent.running() || parent.keys != q.keys {
		return nil, 0
	}
	return parent, min(common(parent.All(), q.All()), q.length-1) // the last token is always computed, for its logits
}

// doneOf returns how many tokens of a sequence, if there is one, are computed by steps that are committed.
func (s *Scheduler) doneOf(q *sequence) int {
	if q == nil {
		return 0
	}
	return q.done
}

// firstRows returns how many tokens a sequence may compute in the plan that admits it.
func (s *Scheduler) firstRows(p *Plan) int { return min(s.cfg.MaxChunk, s.room(p)) }

// plan puts the next n tokens of q into p, and as many proposed ones as draft says.
func (s *Scheduler) plan(p *Plan, q *sequence, n, draft, cached int) {
	start, from := q.computed, int32(-1)
	if q.length-start > 1 {
		s.sincePrompts = 0
		s.spend(p, start, n)
	}
	if start+n > q.known {
		from = q.place
	}
	sample := start+n == q.length
	if q.computed += n + draft; sample {
		q.length += 1 + draft
		p.waits = p.waits || q.when&solo != 0
	}
	q.drafted = draft > 0
	q.place = int32(len(p.Seqs))
	p.Seqs, p.parts = append(p.Seqs, Work{}), append(p.parts, part{seq: q})
	w := &p.Seqs[q.place] // set in place: a step has many of them
	w.ID, w.Slot, w.Start, w.N, w.From = q.id, q.slot, start, n+draft, from
	w.State, w.Sample, w.Draft, w.Cached = q.table.State, sample, draft, cached
	p.Rows += n + draft
}

// bind gives a running sequence a slot.
func (s *Scheduler) bind(q *sequence) {
	if last := len(s.slots) - 1; last >= 0 {
		q.slot, s.slots = s.slots[last], s.slots[:last]
	} else {
		q.slot = s.slotted
		s.slotted++
	}
	s.pool.Bind(&q.table, q.slot)
}

// unbind takes a sequence's slot, which may be another's in the next plan.
func (s *Scheduler) unbind(q *sequence) {
	s.slots = append(s.slots, q.slot)
	s.pool.Unbind(&q.table)
}

// release takes the slot and the blocks of a running sequence.
func (s *Scheduler) release(q *sequence) {
	s.unbind(q)
	s.pool.Release(&q.table)
}
