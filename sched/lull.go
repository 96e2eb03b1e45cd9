package sched

// A tenant that asks again as soon as it has its answer would find the crowd's next step just begun, each time. So once
// its last sequence has ended, no step of the crowd alone begins for as long as it usually takes to come again: as
// anticipatory disk schedulers wait for the next read of a process that reads one block after the other (Iyer and
// Druschel, SOSP 2001).

// lull is how long nothing is planned for a tenant's sake.
type lull struct {
	tenant   *tenant // nil: nothing is held
	from, to int64   // microseconds
	spent    float64 // of mostLull
	last     int64   // when that was
}

const (
	lullShare = 0.125   // of the time the device is held at most,
	mostLull  = 100_000 // and so many microseconds besides

	lullPart  = 4 // what is usual is at most this part of a step, since it is to cost less than it saves,
	lullTimes = 6 // and waited for so many times as long, since a tenant that is missed waits for a step
)

// habit is how long a tenant takes to ask again, in microseconds: an estimate of the median, which moves by a tenth
// each time, so that a few long times do not hide what is usual.
type habit struct {
	left   int64 // when its last sequence ended; 0: it did not, or the tenant has come since
	median float64
}

const habitMoves = 1.1

// came notes that the tenant asks, so many microseconds after its last sequence had ended.
func (h *habit) came(micros float64) {
	switch {
	case h.median == 0:
		h.median = max(micros, 1)
	case micros > h.median:
		h.median = min(micros, h.median*habitMoves)
	default:
		h.median = max(micros, h.median/habitMoves, 1)
	}
}

// returns notes that a tenant asks.
func (s *Scheduler) returns(t *tenant) {
	if t.habit.left > 0 {
		t.habit.came(float64(s.micros - t.habit.left))
	}
	if t.habit.left = 0; s.lull.tenant == t {
		s.endLull()
	}
}

// leaves notes that a tenant's last sequence has its tokens. If it is ahead of the crowd, and usually comes again
// well within a step of all that run, the device is held for it.
func (s *Scheduler) leaves(t *tenant) {
	t.habit.left = max(s.micros, 1)
	c := s.crowd()
	if c == nil || t == c || t.served > c.due() || !s.cost.known {
		return
	}
	usual := t.habit.median
	if usual == 0 || usual > s.stepOfAll()/lullPart {
		return
	}
	s.lull.pay(s.micros, 0)
	if most := mostLull - s.lull.spent; usual <= most {
		s.lull.tenant, s.lull.from, s.lull.to = t, s.micros, s.micros+int64(min(lullTimes*usual, most))
	}
}

// stepOfAll predicts how long a step takes in which all that run go on, in microseconds.
func (s *Scheduler) stepOfAll() float64 {
	s.cost.fit()
	micros := s.cost.base()
	for q := s.running.front; q != nil; q = q.next {
		micros += s.cost.work(q.computed, min(q.length-q.computed, leastChunk))
	}
	return micros
}

// lulled reports whether the device is held. It is not beside others than the crowd.
func (s *Scheduler) lulled() bool {
	if s.lull.tenant == nil {
		return false
	}
	if s.micros < s.lull.to && s.crowdAlone() {
		return true
	}
	s.endLull()
	return false
}

// crowdAlone reports whether all that run and wait are of the crowd, or behind it.
func (s *Scheduler) crowdAlone() bool {
	c := s.crowd()
	if c == nil || s.seats(c) < s.running.n {
		return false
	}
	all := s.waiting.tenants.All()
	for _, t := range all[:min(3, len(all))] { // the first two of a heap are among the first three
		if t != c && t.served <= c.due() {
			return false
		}
	}
	return true
}

// endLull lets steps begin.
func (s *Scheduler) endLull() {
	s.lull.pay(s.micros, min(s.micros, s.lull.to)-s.lull.from)
	s.lull.tenant = nil
}

// pay counts time that was held.
func (l *lull) pay(now, micros int64) {
	l.spent = max(0, l.spent-lullShare*float64(now-l.last)) + float64(micros)
	l.last = now
}
