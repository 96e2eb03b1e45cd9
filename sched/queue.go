package sched

import (
	"cmp"
	"maps"

	"github.com/kvasir-llm/kvasir/heap"
)

// queue holds the waiting sequences, in the order of the policy: the tenants that have any, the one served least in
// front, and in each of these its own sequences. Under a policy that is not fair, all are of one tenant.
type queue struct {
	tenants      heap.Heap[*tenant]
	n            int
	tokens       int // of all in it, as they were when they came
	behind       int // of those, sequences in the background
	behindTokens int
	fresh        fresh
	// left is the tenant of the sequence whose leaving made the queue empty.
	left *tenant
}

// tenant is an account whose sequences count together. The service that it got is what tokens cost: weightIn for each
// token of a prompt that had to be computed, weightOut for each generated one. Of two tenants that always have
// sequences waiting, neither gets more service than the other by over twice the larger of what one prompt costs and
// what the tokens of all running sequences cost.
type tenant struct {
	name   string
	served int64
	live   int // sequences that wait or run
	habit  habit
	users  turns

	waiting heap.Heap[*sequence]
	at      int // its place in queue.tenants; -1: none of its sequences waits
}

// The relative cost of tokens, as in the paper: a generated one takes a place in a step of its own.
const (
	weightIn  = 1
	weightOut = 2
)

func (t *tenant) before(u *tenant) bool { return t.waiting.First().before(u.waiting.First()) }
func (t *tenant) placed(at int)         { t.at = at }

func (w *queue) push(q *sequence) {
	t := q.tenant
	t.waiting.Push(q)
	q.counted = q.length
	w.tokens += q.counted
	if q.background {
		w.behind, w.behindTokens = w.behind+1, w.behindTokens+q.counted
	}
	if w.n++; t.at < 0 {
		w.tenants.Push(t)
	} else {
		w.tenants.Fix(t.at)
	}
}

// front returns the first sequence of a queue that is not empty.
func (w *queue) front() *sequence { return w.tenants.First().waiting.First() }

func (w *queue) remove(q *sequence) {
	t := q.tenant
	w.tokens -= q.counted
	if q.background {
		w.behind, w.behindTokens = w.behind-1, w.behindTokens-q.counted
	}
	if t.waiting.Len() > 1 {
		t.waiting.Remove(q.at)
		w.tenants.Fix(t.at)
	} else {
		w.tenants.Remove(t.at)
		t.waiting.Remove(0)
	}
	if w.n--; w.n == 0 {
		w.left = t
	}
}

// fix restores the order after a waiting sequence's rank has changed.
func (w *queue) fix(q *sequence) {
	q.tenant.waiting.Fix(q.at)
	w.tenants.Fix(q.tenant.at)
}

// charge adds to the service that a tenant got.
func (w *queue) charge(t *tenant, cost int) {
	t.served += int64(cost)
	if t.at >= 0 {
		w.tenants.Fix(t.at)
	}
}

// least returns the service below which no tenant may come back: what was not asked for in time is not owed. It is that
// of the tenant in front or, when none waits, of the one that did last.
func (w *queue) least() int64 {
	switch {
	case w.n > 0:
		return w.tenants.First().served
	case w.left != nil:
		return w.left.served
	}
	return 0
}

// tenantOf returns the tenant that a request counts for: its payer or, if that is unknown, the tenant it names. One
// that has no sequence waiting is lifted to the least.
func (s *Scheduler) tenantOf(r *Request) *tenant {
	name := s.nameOf(r)
	t := s.tenants[name]
	if t == nil {
		if len(s.tenants) >= s.sweepAt {
			s.sweepTenants()
		}
		t = &tenant{name: name, at: -1, waiting: heap.New((*sequence).before, (*sequence).placed)}
		s.tenants[name] = t
	}
	if t.waiting.Len() == 0 {
		t.served = max(t.served, s.waiting.least())
	}
	return t
}

func (s *Scheduler) nameOf(r *Request) string {
	if !s.policy.fair {
		return ""
	}
	return cmp.Or(r.Payer, r.Tenant)
}

// turns lets those that a payer tells apart take turns, by start-time fair queueing (Goyal, Vin and Cheng, 1996): a
// sequence's turn is when the one before it of the same user would end if each user's tokens took as long as they cost,
// or now. Names cost a payer nothing, so they count among each other only.
type turns struct {
	now  int64            // the turn of the sequence that was admitted last
	ends map[string]int64 // by user, of those that are not due now
}

// mostUsers is of how many users a payer's turns are remembered.
const mostUsers = 1024

// due returns the turn of a user's next sequence.
func (t *turns) due(user string) int64 { return max(t.now, t.ends[user]) }

// next returns the turn of a sequence of a user that costs something.
func (t *turns) next(user string, cost int64) int64 {
	if t.ends == nil {
		t.ends = map[string]int64{}
	}
	turn := t.due(user)
	t.ends[user] = turn + cost
	if len(t.ends) > mostUsers {
		maps.DeleteFunc(t.ends, func(_ string, end int64) bool { return end <= t.now })
		if len(t.ends) > mostUsers { // all are equal again
			clear(t.ends)
		}
	}
	return turn
}

// spent adds to what a user's last sequence costs.
func (t *turns) spent(user string, cost int64) {
	if end, ok := t.ends[user]; ok {
		t.ends[user] = end + cost
	}
}

// sweepTenants forgets tenants that have nothing here and would be lifted if they came back.
func (s *Scheduler) sweepTenants() {
	least := s.waiting.least()
	for name, t := range s.tenants {
		if t.live == 0 && t.served <= least {
			delete(s.tenants, name)
		}
	}
	s.sweepAt = 2*len(s.tenants) + 64
}
