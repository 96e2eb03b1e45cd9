package fair

import (
	"container/list"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/heap"
)

// Request is a request that waits, or that went and has not been settled. The exported fields must not change while it
// does.
type Request struct {
	Tenant   string
	Weight   float64 // of the tenant's share; the latest request's counts. 0 means 1
	Priority int     // the lowest goes first, whatever its tenant was served
	Deadline int64   // when it must have gone; a tenant's requests go in the order of their deadlines. 0 is none
	Cost     float64 // in tokens, as estimated; prompt and answer may count differently
	Again    bool    // it went before and failed through no fault of its own: it is never turned away
	Value    any     // the caller's

	lane    *lane
	at      int // in the lane's requests; -1 if it does not wait
	arrival int64
	went    int64 // when it did
}

// Queue holds the requests that wait for one pool of endpoints.
//
// A request's class is its priority. Of the lowest class that waits, the tenant with the lowest counter is next, with
// its request of the earliest deadline. A request's cost, divided by the tenant's weight, is added to the counter when
// it goes. A tenant that has nothing waiting gains little: when it comes back, its counter is raised to that of the
// tenant that went last, less the cost of a few requests. Those few let a tenant that stays below its share send some
// requests at once without waiting behind one that is always above it. Tenants that have most of this left are first,
// in the order of arrival: by counters, some would wait longer than others for what chance had them send lately.
type Queue struct {
	most     int // requests that may wait
	waiting  int
	weights  float64 // of the tenants that have requests waiting or unsettled
	tenants  map[string]*tenant
	idle     list.List // those of them that have nothing waiting or unsettled, the longest idle first
	classes  []*class  // by priority
	arrivals int64
	speed    meter
	cost     average // of a request that went

	all     int     // places, as Next was told last
	unused  float64 // share of them that may be kept for others than greedy tenants and is not used
	kept    int     // places that greedy tenants leave free
	greed   float64 // weights of greedy tenants
	modest  int     // requests that went and are not settled, of tenants that are not greedy
	busy    average // their number
	due     average // places that are those tenants' share
	first   average // seconds from when a request of theirs went until its first token
	service average // seconds from when a request went until it is settled
}

// tenant is the account of a tenant. There is one as long as the tenant has requests waiting or unsettled, or is owed
// less than others and is one of the latest.
type tenant struct {
	name    string
	weight  float64
	counter float64 // cost of what went, divided by weights
	waiting int
	cost    float64 // of those that wait
	going   int     // requests that went and are not settled
	greedy  bool    // it wants much more than its share of all places
	lanes   []*lane
	idle    *list.Element // nil if it has something waiting or unsettled
}

// lane is a tenant's requests of one class that wait.
type lane struct {
	tenant   *tenant
	class    *class
	requests heap.Heap[*Request]
	at       int     // in the class's lanes; -1 if it is empty
	key      float64 // what its order goes by: the tenant's counter, or less than all
}

// class is all lanes of one priority.
type class struct {
	priority int
	lanes    heap.Heap[*lane]
	floor    float64 // the highest counter of a tenant when it went
}

// credit is how many requests of average cost a tenant that comes back may be ahead of those that waited.
const credit = 32

// remembered is how many tenants that have nothing waiting or unsettled have accounts.
const remembered = 4096

// Unused is the share of places that a new queue may leave unused for tenants within their share.
const Unused = 0.4

// NewQueue makes a queue in which at most so many requests wait.
func NewQueue(most int) *Queue {
	return &Queue{most: most, unused: Unused, tenants: map[string]*tenant{}}
}

// SetMost changes how many requests may wait. Those that do stay.
func (q *Queue) SetMost(most int) { q.most = most }

// SetUnused changes what share of all places may be unused on average, kept for tenants within their shares.
func (q *Queue) SetUnused(most float64) {
	q.unused = most
	q.keep()
}

// Waiting returns how many requests wait.
func (q *Queue) Waiting() int { return q.waiting }

// Add lets a request wait. If that is one too many, one is turned away: the request itself, or one that has less claim
// to wait; see Refusal.
func (q *Queue) Add(now int64, r *Request) *Refusal {
	t := q.tenant(r)
	var refusal *Refusal
	if !r.Again {
		if late := q.late(now, t, r); late != nil {
			q.leave(t)
			return late
		}
		if q.waiting >= q.most {
			refusal = q.shed(now, t, r)
			if refusal.Request == r {
				q.leave(t)
				return refusal
			}
			q.take(refusal.Request)
		}
	}
	l := q.lane(t, r.Priority)
	if t.waiting == 0 {
		q.raise(t, l.class)
	}
	q.fix(t)
	q.arrivals++
	r.lane, r.arrival = l, q.arrivals
	l.requests.Push(r)
	if l.at < 0 {
		l.class.lanes.Push(l)
	}
	t.cost += r.Cost
	q.count(t, 1, 0)
	if refusal != nil {
		q.leave(refusal.Request.lane.tenant)
	}
	return refusal
}

// count adds to the numbers of a tenant's requests.
func (q *Queue) count(t *tenant, waiting, going int) {
	before := t.waiting + t.going
	if t.greedy {
		q.greed -= t.weight
	} else {
		q.modest -= t.going
	}
	t.waiting, t.going, q.waiting = t.waiting+waiting, t.going+going, q.waiting+waiting
	share := float64(q.all) * t.weight / max(q.weights, t.weight)
	if t.greedy = float64(t.waiting+t.going) > share+lucky*math.Sqrt(share); t.greedy {
		q.greed += t.weight
	} else {
		q.modest += t.going
	}
	switch after := t.waiting + t.going; {
	case before == 0 && after > 0:
		q.weights += t.weight
		q.wake(t)
	case before > 0 && after == 0:
		q.weights -= t.weight
	}
}

// raise gives a tenant that comes back a counter not much lower than that of those that kept waiting.
func (q *Queue) raise(t *tenant, c *class) {
	t.counter = max(t.counter, c.floor-credit*q.cost.mean/t.weight)
}

// triedLanes bounds how many tenants Next asks for, when the first ones' requests cannot go.
const triedLanes = 16

// lucky is how many standard deviations beyond its share a tenant's requests make it greedy. Those within a share come
// at random times, so that the variance of their number is their mean.
const lucky = 4

// Places are the requests that a pool can serve at once; 0 means any number.
type Places struct{ Free, All int }

// Next takes out the request that goes next, of those that can, and charges its tenant. It returns nil if none can: of
// every class it asks for at most 16 tenants. Some places are kept for tenants that are not greedy; see demand.
func (q *Queue) Next(now int64, p Places, can func(*Request) bool) *Request {
	if p.All != q.all {
		q.all = p.All
		q.keep()
	}
	for _, c := range q.classes {
		var passed []*lane
		var r *Request
		for len(passed) < triedLanes && c.lanes.Len() > 0 {
			l := c.lanes.First()
			if first := l.requests.First(); !(l.tenant.greedy && p.All > 0 && p.Free <= q.kept) && can(first) {
				r = first
				break
			}
			c.lanes.Remove(0)
			passed = append(passed, l)
		}
		for _, l := range passed {
			c.lanes.Push(l)
		}
		if r != nil {
			t := r.lane.tenant
			c.floor = max(c.floor, t.counter)
			q.count(t, 0, 1)
			q.take(r)
			q.cost.add(r.Cost)
			q.busy.add(float64(q.modest))
			q.due.add(float64(q.all) * (1 - q.greed/q.weights))
			q.keep()
			q.speed.add(now, r.Cost)
			q.charge(t, r.Cost)
			r.went = now
			return r
		}
	}
	return nil
}

// keep learns how many places greedy tenants leave free. What is unused for others is a part of their share, which they
// could use as well: greedy tenants have no less than their own. Averages tell more than what is under way now: where
// others have little for a moment, greedy tenants would get places that the others need in the next.
func (q *Queue) keep() {
	d := demand{places: float64(q.all), busy: q.busy.mean, first: q.first.mean, service: q.service.mean}
	if q.first.of == 0 { // answers come as a whole
		d.first = d.service
	}
	q.kept = d.kept(min(q.unused*d.places, q.due.mean-d.busy))
}

// Remove takes out a request that waits, as its client has gone or its time is over. It returns false if the request
// does not wait.
func (q *Queue) Remove(r *Request) bool {
	if r.lane == nil || r.at < 0 {
		return false
	}
	t := r.lane.tenant
	q.take(r)
	q.leave(t)
	return true
}

// First says that the first token of a request that went has come, if its answer is a stream.
func (q *Queue) First(now int64, r *Request) {
	if !r.lane.tenant.greedy {
		q.first.add(float64(now-r.went) / 1e9)
	}
}

// Settle says that a request that went has ended, and what it did cost. It must be called once for each that Next
// returned.
func (q *Queue) Settle(now int64, r *Request, cost float64) {
	t := r.lane.tenant
	q.service.add(float64(now-r.went) / 1e9)
	q.count(t, 0, -1)
	q.charge(t, cost-r.Cost)
	q.leave(t)
}

// Charge charges a tenant for what it got, or gives back, without a request of its own.
func (q *Queue) Charge(tenant string, weight float64, priority int, cost float64) {
	t := q.tenant(&Request{Tenant: tenant, Weight: weight})
	if l := q.lane(t, priority); t.waiting == 0 {
		q.raise(t, l.class)
	}
	q.charge(t, cost)
	q.leave(t)
}

// take takes a request out of its lane.
func (q *Queue) take(r *Request) {
	l, t := r.lane, r.lane.tenant
	l.requests.Remove(r.at)
	if l.requests.Len() == 0 {
		l.class.lanes.Remove(l.at)
	}
	t.cost -= r.Cost
	if q.count(t, -1, 0); t.waiting == 0 {
		t.cost = 0
	}
}

// charge adds a cost, which may be negative, to a tenant's counter.
func (q *Queue) charge(t *tenant, cost float64) {
	t.counter += cost / t.weight
	q.fix(t)
}

// fix restores the order of lanes after a counter has changed.
func (q *Queue) fix(t *tenant) {
	for _, l := range t.lanes {
		if l.key = t.counter; t.counter < l.class.floor-credit/2*q.cost.mean/t.weight {
			l.key = math.Inf(-1)
		}
		if l.at >= 0 {
			l.class.lanes.Fix(l.at)
		}
	}
}

// tenant returns the account of a request's tenant.
func (q *Queue) tenant(r *Request) *tenant {
	t := q.tenants[r.Tenant]
	if t == nil {
		t = &tenant{name: r.Tenant, weight: 1}
		q.tenants[r.Tenant] = t
	}
	weight := r.Weight
	if weight <= 0 {
		weight = 1
	}
	if t.waiting+t.going > 0 {
		q.weights += weight - t.weight
	}
	if t.greedy {
		q.greed += weight - t.weight
	}
	t.weight = weight
	return t
}

// leave forgets a tenant that has nothing to lose or to gain by it: when it comes back it begins at the floor. Of the
// others it forgets those that were idle longest, if there are too many.
func (q *Queue) leave(t *tenant) {
	if t.waiting > 0 || t.going > 0 {
		return
	}
	q.wake(t)
	for _, l := range t.lanes {
		if t.counter > l.class.floor-credit*q.cost.mean/t.weight {
			if t.idle = q.idle.PushBack(t); q.idle.Len() > remembered {
				first := q.idle.Front().Value.(*tenant)
				q.wake(first)
				delete(q.tenants, first.name)
			}
			return
		}
	}
	delete(q.tenants, t.name)
}

// wake takes a tenant from those that are idle.
func (q *Queue) wake(t *tenant) {
	if t.idle != nil {
		q.idle.Remove(t.idle)
		t.idle = nil
	}
}

// lane returns a tenant's lane of a class.
func (q *Queue) lane(t *tenant, priority int) *lane {
	for _, l := range t.lanes {
		if l.class.priority == priority {
			return l
		}
	}
	l := &lane{tenant: t, class: q.class(priority), at: -1}
	l.requests = heap.New(func(a, b *Request) bool { return a.before(b) }, func(r *Request, at int) { r.at = at })
	t.lanes = append(t.lanes, l)
	return l
}

func (q *Queue) class(priority int) *class {
	i, found := slices.BinarySearchFunc(q.classes, priority, func(c *class, p int) int { return c.priority - p })
	if !found {
		c := &class{priority: priority}
		c.lanes = heap.New(func(a, b *lane) bool { return a.before(b) }, func(l *lane, at int) { l.at = at })
		q.classes = slices.Insert(q.classes, i, c)
	}
	return q.classes[i]
}

// before orders the requests of a lane.
func (r *Request) before(o *Request) bool {
	if a, b := uint64(r.Deadline-1), uint64(o.Deadline-1); a != b { // 0, no deadline, is after all others
		return a < b
	}
	return r.arrival < o.arrival
}

// before orders the lanes of a class; those of equal keys by the arrival of their first requests.
func (l *lane) before(o *lane) bool {
	if l.key != o.key {
		return l.key < o.key
	}
	return l.requests.First().arrival < o.requests.First().arrival
}
