package gateway

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/fair"
	"github.com/kvasir-llm/kvasir/route"
)

// model is a model of the configuration with its queue. It outlives reloads, by its name. Gateway.mu guards all of it
// but the name.
type model struct {
	name string // that of Model, which may be read without Gateway.mu
	Model
	pool       []*endpoint
	ids        []int       // of the endpoints in pool
	prefill    []*endpoint // those that only compute prompts, which are not in pool
	prefillIDs []int
	transfer   transfer
	policy     *route.Policy
	queue      *fair.Queue
	jobs       map[*job]struct{} // that wait in queue
	shadows    int               // copies under way of its requests
}

// job is a request on its way to an endpoint.
type job struct {
	fair    fair.Request
	route   route.Request
	model   *model
	explain bool
	adapter Adapter
	split   bool          // the model has endpoints that only compute prompts
	hedge   time.Duration // after which a second endpoint is asked, too; 0 is never
	next    int           // how many endpoints are named to try after the first

	ready   chan struct{} // closed once one of these is set
	placed  *placement
	refused *refusal
}

// placement is a job's place at an endpoint.
type placement struct {
	job      *job // that waited for it in the queue; nil if none did
	endpoint *endpoint
	flight   *route.Flight
	api      string      // the endpoint's, as when the placement was made
	why      string      // the decision, if the job wants it explained
	next     []*endpoint // to try after this one, if the job wants some
}

// place waits until it is the job's turn, and returns where it goes. The caller must call Gateway.leave afterwards.
func (g *Gateway) place(ctx context.Context, j *job) (*placement, *refusal) {
	g.mu.Lock()
	m := j.model
	j.ready, j.placed, j.refused = make(chan struct{}), nil, nil
	j.fair.Value = j
	patience := g.setup.Load().cfg.Queue
	j.fair.Deadline = int64(g.now() + patience.MaxWait)
	m.jobs[j] = struct{}{}
	if turned := m.queue.Add(int64(g.now()), &j.fair); turned != nil {
		turned.Request.Value.(*job).refuse(overloaded(turned))
	}
	g.pump(m)
	wait := patience.MaxWait
	if j.placed == nil && j.refused == nil {
		wait = g.outlook(j).patience(patience)
	}
	g.mu.Unlock()

	select {
	case <-j.ready:
		return j.placed, j.refused
	default:
	}
	for began := g.now(); ; {
		timer := time.NewTimer(wait)
		select {
		case <-j.ready:
			timer.Stop()
			return j.placed, j.refused
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		if wait = g.giveUp(ctx, j, patience.MaxWait-(g.now()-began)); wait <= 0 {
			return j.placed, j.refused
		}
	}
}

// giveUp ends the wait of a job, unless it has ended or there is hope: then it returns how much longer to wait.
func (g *Gateway) giveUp(ctx context.Context, j *job, left time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if j.placed != nil || j.refused != nil {
		return 0
	}
	o := g.outlook(j)
	if ctx.Err() == nil && o == busy && left > 0 {
		return left
	}
	j.model.queue.Remove(&j.fair)
	delete(j.model.jobs, j)
	why := g.fleet.Choose(j.model.policy, &j.route, j.model.ids).String()
	switch o {
	case busy:
		j.refused = &refusal{status: http.StatusTooManyRequests, kind: "rate_limit_error", code: "overloaded", retry: time.Second,
			message: "no endpoint of the model became free in time"}
	case down:
		j.refused = unavailable("no endpoint of the model is up: " + why)
	case never:
		j.refused = unavailable("no endpoint of the model can take the request: " + why)
	}
	return 0
}

// outlook is what a job that waits can hope for.
type outlook int

const (
	busy  outlook = iota // its turn
	down                 // an endpoint that comes up
	never                // nothing: all endpoints failed on it, or are too small for it
)

// patience is how long to wait with such an outlook.
func (o outlook) patience(q Queue) time.Duration {
	return [...]time.Duration{q.MaxWait, q.DownWait, 0}[o]
}

func (g *Gateway) outlook(j *job) outlook {
	o := never
	if len(j.model.ids) == 0 { // none was found yet
		o = down
	}
	for _, c := range g.fleet.Choose(j.model.policy, &j.route, j.model.ids).Rated {
		switch c.Refused {
		case "", "full":
			return busy
		case "down":
			o = down
		}
	}
	return o
}

// refuse ends a job's wait. Gateway.mu is held.
func (j *job) refuse(f *refusal) {
	delete(j.model.jobs, j)
	j.refused = f
	close(j.ready)
}

// overloaded words a refusal of the queue.
func overloaded(f *fair.Refusal) *refusal {
	why := map[string]string{
		"full":     "too many requests wait",
		"shed":     "too many requests wait, and others had to go first",
		"deadline": "the wait would be too long",
	}
	return &refusal{status: http.StatusTooManyRequests, kind: "rate_limit_error", code: "overloaded", message: why[f.Reason],
		retry: time.Duration(f.RetryAfter) * time.Second}
}

// pump sends what can go of a model's queue. g.mu is held.
func (g *Gateway) pump(m *model) {
	var to *endpoint
	var next []*endpoint
	var why, how string
	can := func(r *fair.Request) bool {
		j := r.Value.(*job)
		d := g.fleet.Choose(m.policy, &j.route, m.ids)
		if d.Chosen < 0 {
			return false
		}
		to, next, why, how = m.pool[d.Chosen], nil, "", d.How()
		for _, i := range d.Next(j.next) {
			next = append(next, m.pool[i])
		}
		if j.explain {
			why = strings.Join(strings.Fields(d.String()), " ")
		}
		return true
	}
	for m.queue.Waiting() > 0 {
		r := m.queue.Next(int64(g.now()), g.places(m), can)
		if r == nil {
			return
		}
		j := r.Value.(*job)
		delete(m.jobs, j)
		to.requests++
		g.metrics.chosen.WithLabelValues(to.url, how).Inc()
		j.placed = &placement{job: j, endpoint: to, flight: g.fleet.Send(to.id, &j.route), api: to.cfg.API, why: why, next: next}
		close(j.ready)
	}
}

// places counts the requests that the endpoints of a model can take.
func (g *Gateway) places(m *model) fair.Places {
	var p fair.Places
	for _, e := range m.pool {
		if e.down == "" {
			most := g.fleet.Most(e.id)
			p.All += most
			p.Free += max(0, most-e.requests)
		}
	}
	return p
}

// first says that an answer has begun, a stream after so many seconds; 0 if nothing can be learned from its time.
func (g *Gateway) first(p *placement, seconds float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.flight.First(seconds)
	if p.job != nil && seconds > 0 {
		p.job.model.queue.First(int64(g.now()), &p.job.fair)
	}
}

// leave says that a job has left an endpoint: what it cost, the later tokens of its answer and the seconds since the
// first one. A job that is nil is charged for elsewhere.
func (g *Gateway) leave(j *job, p *placement, cost float64, tokens int, seconds float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.flight.End(tokens, seconds)
	p.endpoint.requests--
	if j != nil {
		j.model.queue.Settle(int64(g.now()), &j.fair, cost)
	}
	g.pumpAll()
}

// moved says that another endpoint than the one of a placement got the job.
func (g *Gateway) moved(j *job, p *placement, to *endpoint) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.flight.End(0, 0)
	p.endpoint.requests--
	p.endpoint, p.flight = to, g.fleet.Send(to.id, &j.route)
	to.requests++
}

// pumpAll sends what can go of all queues: endpoints may belong to several models.
func (g *Gateway) pumpAll() {
	for _, m := range g.setup.Load().models {
		if m.queue.Waiting() > 0 {
			g.pump(m)
		}
	}
}

// alone reports whether a model has one endpoint: if that breaks a connection, there is no other to try.
func (g *Gateway) alone(m *model) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(m.pool) == 1
}
