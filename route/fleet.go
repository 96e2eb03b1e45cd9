package route

import (
	"fmt"
	"slices"
)

// Fleet is the state of all endpoints. It counts the work that is in flight, so that a decision depends on what was
// sent a moment ago rather than on what engines reported a second ago.
type Fleet struct {
	members  []*member // by number; nil where there is none
	prefixes *prefixes
	sessions sessions
	picker   *picker
	most     int

	depth      []int // scratch
	candidates []Candidate
}

// member is an endpoint.
type member struct {
	Endpoint
	load     Load
	down     string
	requests int
	inFlight int
	latency  latency
}

// Options configure a Fleet.
type Options struct {
	Seed   uint64 // of what is drawn
	Blocks int    // that are remembered of each endpoint; see prefixes
}

// NewFleet makes one without endpoints.
func NewFleet(o Options) *Fleet {
	return &Fleet{prefixes: newPrefixes(0, o.Blocks), picker: newPicker(o.Seed), most: o.Blocks}
}

// Join adds an endpoint and returns its number. The numbers of those that have left are given again.
func (f *Fleet) Join(e Endpoint) (id int, err error) {
	if id = slices.Index(f.members, nil); id < 0 {
		if len(f.members) == MaxEndpoints {
			return 0, fmt.Errorf("a fleet has at most %d endpoints", MaxEndpoints)
		}
		id = len(f.members)
		f.members = append(f.members, nil)
		if id >= len(f.prefixes.order) { // begin anew, with room for 64 more
			f.prefixes = newPrefixes(min(id+64, MaxEndpoints), f.most)
		}
	}
	f.members[id] = &member{Endpoint: e}
	return id, nil
}

// Change gives an endpoint another configuration.
func (f *Fleet) Change(id int, e Endpoint) { f.members[id].Endpoint = e }

// Leave removes an endpoint. What is in flight there may end later.
func (f *Fleet) Leave(id int) {
	f.members[id] = nil
	f.prefixes.Forget(id)
	f.sessions.forget(id)
}

// Tell says what an endpoint reported of its load.
func (f *Fleet) Tell(id int, l Load) {
	if m := f.members[id]; m != nil {
		m.load = l
	}
}

// SetDown says why an endpoint takes no requests; "" means that it does.
func (f *Fleet) SetDown(id int, why string) {
	if m := f.members[id]; m != nil {
		m.down = why
	}
}

// Choose chooses one of some endpoints for a request, and changes nothing. The decision is valid until the next one.
func (f *Fleet) Choose(p *Policy, q *Request, among []int) Decision {
	return f.picker.pick(p, q, f.View(q, among))
}

// View returns all that is known of some endpoints, in view of a request. It is valid until the next call.
func (f *Fleet) View(q *Request, among []int) []Candidate {
	if f.depth = slices.Grow(f.depth[:0], len(f.prefixes.order))[:len(f.prefixes.order)]; len(q.Blocks) > 0 {
		f.prefixes.Match(q.Blocks, f.depth)
	} else {
		clear(f.depth)
	}
	session := f.sessions.find(q.Session)
	f.candidates = f.candidates[:0]
	for _, id := range among {
		m := f.members[id]
		if m == nil {
			continue
		}
		c := Candidate{
			ID: id, Endpoint: &m.Endpoint, Load: m.load, Down: m.down, Requests: m.requests, InFlight: m.inFlight,
			Held: f.depth[id], Session: id == session,
		}
		c.Latency = m.latency.predict(c.uncached(q), float64(m.inFlight), m.requests, q.Output)
		f.candidates = append(f.candidates, c)
	}
	return f.candidates
}

// Flight is a request that was sent to an endpoint and whose answer has not ended.
type Flight struct {
	fleet    *Fleet
	member   *member
	tokens   int     // that it adds to those in flight
	output   int     // of which these are not of the prompt
	uncached float64 // when it was sent, as all that follows
	before   float64 // tokens in flight
	requests int     // with this one
}

// Send counts a request as sent to an endpoint, until its Flight ends, and notes where its prompt and session went.
func (f *Fleet) Send(id int, q *Request) *Flight {
	m := f.members[id]
	c := f.View(q, []int{id})[0]
	uncached := c.uncached(q)
	t := &Flight{
		fleet: f, member: m, tokens: int(uncached) + q.Output, output: q.Output,
		uncached: uncached, before: float64(m.inFlight), requests: m.requests + 1,
	}
	m.requests++
	m.inFlight += t.tokens
	f.prefixes.Note(id, q.Blocks)
	f.sessions.note(q.Session, id)
	return t
}

// First says that the answer's first token came, after so many seconds: the prompt is not in flight any more.
func (t *Flight) First(seconds float64) {
	t.member.latency.learn(t.uncached, t.before, seconds)
	t.member.inFlight -= t.tokens - t.output
	t.tokens = t.output
}

// End says that an answer ended, well or not: later tokens, and the seconds since the first one. It may be said once.
func (t *Flight) End(tokens int, seconds float64) {
	if tokens > 0 && seconds > 0 {
		t.member.latency.learnNext(t.requests, seconds/float64(tokens))
	}
	t.member.requests--
	t.member.inFlight -= t.tokens
}
