package sched

// A beam search is a tree of sequences of one new token each. The one whose token is there is held: it has no more to
// compute, and keeps its blocks for the sequences that go on from it. The last of these takes its blocks over.

// hold ends the running of a sequence that has its tokens, but not its life.
func (s *Scheduler) hold(q *sequence) {
	if q.held = true; !q.running() {
		s.waiting.remove(q) // it was preempted while its last token was on the way
		return
	}
	s.running.remove(q)
	s.unbind(q)
	s.held.pushBack(q)
	if s.cfg.States > 0 {
		s.drop(q) // nothing can go on from blocks alone
	}
}

// drop takes the blocks of a held sequence. Those that go on from it are computed anew where the prefix cache has
// nothing.
func (s *Scheduler) drop(q *sequence) {
	s.held.remove(q)
	s.pool.Release(&q.table)
}

// dropOldest takes the blocks of the sequence that is held longest; false: none has any.
func (s *Scheduler) dropOldest() bool {
	q := s.held.front
	if q != nil {
		s.drop(q)
	}
	return q != nil
}

func (s *Scheduler) isHeld(id SeqID) bool {
	q := s.byID[id]
	return q != nil && q.held
}

// inherit gives a sequence that goes on from a held one its place in the queue, and the names of the blocks that they
// have in common.
func (s *Scheduler) inherit(q, parent *sequence) {
	q.arrival, q.since, q.charged = parent.arrival, parent.since, true
	if parent.keys == q.keys {
		n := common(parent.All(), q.All()) / s.cfg.BlockTokens
		q.names = append(q.names, parent.names[:min(len(parent.names), n)]...)
	}
}

// succeed ends the held sequence whose heir q is.
func (s *Scheduler) succeed(q *sequence) {
	if q.heir && s.isHeld(q.parent) {
		s.end(s.byID[q.parent])
	}
	q.heir = false
}

// common returns how many tokens two sequences have in common at their beginning.
func common(a, b []int32) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
