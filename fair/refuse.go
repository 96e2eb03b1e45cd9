package fair

import (
	"fmt"
	"math"
)

// Refusal is a request that was turned away.
type Refusal struct {
	Request    *Request
	Reason     string // "full", "shed" or "deadline"
	RetryAfter int    // seconds until it has a better chance, at least 1
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%s; try again in %d s", r.Reason, r.RetryAfter)
}

const (
	leastRetry = 1  // seconds
	mostRetry  = 60 // seconds
)

// late refuses a request that would wait beyond its deadline, as far as one can tell.
func (q *Queue) late(now int64, t *tenant, r *Request) *Refusal {
	if r.Deadline == 0 {
		return nil
	}
	if wait := q.wait(now, t); now > r.Deadline || wait > 0 && float64(now)+wait*1e9 > float64(r.Deadline) {
		return q.refuse(now, t, r, "deadline")
	}
	return nil
}

// shed decides which request is turned away when one is too many: of the class that matters least, the tenant that has
// most requests waiting for its weight, and its request that is last in order. A new request that is in that position
// is turned away itself.
func (q *Queue) shed(now int64, t *tenant, r *Request) *Refusal {
	share := func(t *tenant, n int) float64 { return float64(n) / t.weight }
	for i := len(q.classes) - 1; i >= 0; i-- {
		c := q.classes[i]
		if c.priority < r.Priority {
			break
		}
		most, longest := 0.0, (*lane)(nil)
		if c.priority == r.Priority {
			most = share(t, 1)
			for _, l := range t.lanes {
				if l.class == c {
					most = share(t, l.requests.Len()+1)
				}
			}
		}
		for _, l := range c.lanes.All() {
			if s := share(l.tenant, l.requests.Len()); s > most {
				most, longest = s, l
			}
		}
		switch {
		case longest != nil:
			return q.refuse(now, longest.tenant, longest.last(), "shed")
		case c.priority == r.Priority:
			return q.refuse(now, t, r, "full")
		}
	}
	return q.refuse(now, t, r, "full")
}

// last returns the request of a lane that would go last.
func (l *lane) last() *Request {
	last := l.requests.First()
	for _, r := range l.requests.All() {
		if last.before(r) {
			last = r
		}
	}
	return last
}

func (q *Queue) refuse(now int64, t *tenant, r *Request, reason string) *Refusal {
	seconds := min(max(math.Ceil(q.wait(now, t)), leastRetry), mostRetry)
	return &Refusal{Request: r, Reason: reason, RetryAfter: int(seconds)}
}

// wait estimates how many seconds it takes until what waits of a tenant has gone: at the speed at which requests went
// lately, shared with the other tenants. It is 0 if that is not known.
func (q *Queue) wait(now int64, t *tenant) float64 {
	speed := q.speed.at(now)
	if speed <= 0 || t.waiting == 0 {
		return 0
	}
	return t.cost / (speed * t.weight / q.weights)
}

// meter measures the cost per second of what went, as a moving average over about 10 seconds.
type meter struct {
	speed float64 // at last
	last  int64
	begin int64
}

const period = 10e9 // nanoseconds

func (m *meter) add(now int64, cost float64) {
	if m.begin == 0 {
		m.begin = now
	}
	m.speed, m.last = m.decayed(now)+cost/period*1e9, now
}

func (m *meter) decayed(now int64) float64 {
	return m.speed * math.Exp(-float64(now-m.last)/period)
}

// at returns the speed, corrected for the time before the first request went. It is 0 in the first second.
func (m *meter) at(now int64) float64 {
	if m.begin == 0 || now-m.begin < 1e9 {
		return 0
	}
	return m.decayed(now) / (1 - math.Exp(-float64(now-m.begin)/period))
}
