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
	exact    *Exact // nil until an endpoint tells what it holds
	sessions sessions
	picker   *picker
	most     int

	depth      []int   // scratch, as all below
	exactDepth [][]int // for each of a request's Exact
	candidates []Candidate
}

// member is an endpoint.
type member struct {
	Endpoint
	load           Load
	down           string
	requests       int
	tokensInFlight int // prompts that are not answered yet, and answers as expected
	latency        latency
	limit          limit
	coverage       Coverage
	blockTokens    int       // of the blocks that its KV events tell of
	flights        []*Flight // of prompts with Exact names
}

// Coverage is how much of an endpoint's prefix cache is known from its KV events.
type Coverage int

const (
	Untold     Coverage = iota // nothing: what it holds is guessed
	ToldPartly                 // what it told; it may hold more, from before it was followed
	ToldFully                  // all
)

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
	f.SetCoverage(id, Untold)
	f.members[id] = nil
	f.prefixes.Forget(id)
	f.sessions.forget(id)
}

// SetLoad says what an endpoint reported of its load.
func (f *Fleet) SetLoad(id int, l Load) {
	if m := f.members[id]; m != nil {
		m.load = l
		if l.Running+l.Waiting > 0 {
			m.limit.told(m.requests, l.Running, l.Waiting)
		}
	}
}

// SetCoverage says how much an endpoint tells from now on of what it holds. All that it told before is void.
func (f *Fleet) SetCoverage(id int, c Coverage) {
	m := f.members[id]
	if m == nil {
		return
	}
	if f.exact == nil {
		f.exact = NewExact(MaxEndpoints)
	}
	f.exact.Clear(id)
	if m.coverage, m.blockTokens = c, 0; c == ToldFully {
		f.prefixes.Forget(id)
	}
}

// Store says that an endpoint holds a block of tokens; see Exact.Store. It returns how many blocks it told of.
func (f *Fleet) Store(id int, b Block) int {
	if m := f.members[id]; m != nil && m.coverage != Untold {
		m.blockTokens = len(b.Tokens)
		f.exact.Store(id, b)
		return f.exact.Held(id)
	}
	return 0
}

// Remove says that an endpoint does not hold a block any more, by the engine's name.
func (f *Fleet) Remove(id int, name uint64) {
	if f.exact != nil {
		f.exact.Remove(id, name)
	}
}

// BlockTokens returns the sizes of the blocks that some endpoints tell of, in tokens.
func (f *Fleet) BlockTokens(among []int) []int {
	var sizes []int
	for _, id := range among {
		if m := f.members[id]; m != nil && m.blockTokens > 0 && !slices.Contains(sizes, m.blockTokens) {
			sizes = append(sizes, m.blockTokens)
		}
	}
	return sizes
}

// Held returns how many blocks an endpoint holds, as it told.
func (f *Fleet) Held(id int) int {
	if f.exact == nil {
		return 0
	}
	return f.exact.Held(id)
}

// Loaded says that an endpoint has an adapter in memory, until it reports its load.
func (f *Fleet) Loaded(id int, adapter string) {
	if m := f.members[id]; m != nil && !slices.Contains(m.load.Adapters, adapter) {
		m.load.Adapters = append(slices.Clone(m.load.Adapters), adapter)
	}
}

// SetDown says why an endpoint takes no requests; "" means that it does.
func (f *Fleet) SetDown(id int, why string) {
	if m := f.members[id]; m != nil {
		m.down = why
	}
}

// Refused says that an endpoint turned a request away as it had too many.
func (f *Fleet) Refused(id int) {
	if m := f.members[id]; m != nil {
		m.limit.refused(m.requests)
	}
}

// Most returns how many requests an endpoint can have in flight: its limit, or what was learned to be less. 0 is any
// number.
func (f *Fleet) Most(id int) int {
	if m := f.members[id]; m != nil {
		return m.most()
	}
	return 0
}

func (m *member) most() int {
	if m.Fixed {
		return m.Limit
	}
	return m.limit.of(m.Limit)
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
	f.matchExact(q)
	session := f.sessions.find(q.Session)
	f.candidates = f.candidates[:0]
	for _, id := range among {
		m := f.members[id]
		if m == nil {
			continue
		}
		c := Candidate{
			ID: id, Endpoint: &m.Endpoint, Load: m.load, Down: m.down, Requests: m.requests, TokensInFlight: m.tokensInFlight,
			HeldBlocks: f.depth[id], PromptBlocks: len(q.Blocks), Session: id == session,
		}
		f.setExact(&c, m, q)
		c.MaxRequests = m.most()
		c.Latency, c.TTFT, c.TPOT = m.latency.predict(c.uncached(q), float64(m.tokensInFlight), m.requests, q.Output)
		f.candidates = append(f.candidates, c)
	}
	return f.candidates
}

// matchExact finds how much of a prompt endpoints told that they hold.
func (f *Fleet) matchExact(q *Request) {
	for i, e := range q.Exact {
		if i == len(f.exactDepth) {
			f.exactDepth = append(f.exactDepth, nil)
		}
		f.exactDepth[i] = slices.Grow(f.exactDepth[i][:0], len(f.members))[:len(f.members)]
		if f.exact != nil {
			f.exact.Match(e.Names, f.exactDepth[i])
		} else {
			clear(f.exactDepth[i])
		}
	}
}

// setExact replaces the guess of what an endpoint holds by what the endpoint told, and what is under way there: engines
// tell of a block after it was computed. Of one that tells a part, the larger counts.
func (f *Fleet) setExact(c *Candidate, m *member, q *Request) {
	if m.coverage == Untold {
		return
	}
	i := slices.IndexFunc(q.Exact, func(e BlockNames) bool { return e.BlockTokens == m.blockTokens })
	if i < 0 {
		return
	}
	names, held := q.Exact[i].Names, f.exactDepth[i][c.ID]
	for _, t := range m.flights {
		if held < len(names) {
			held = max(held, common(names, t.blockNames(m.blockTokens)))
		}
	}
	guess := c.held()
	if c.HeldBlocks, c.PromptBlocks = held, len(names); m.coverage == ToldPartly && c.held() < guess {
		c.HeldBlocks = int(guess * float64(len(names)))
	}
}

// common returns how many leading blocks two prompts share, by their names.
func common(a, b []uint64) int {
	low, high := 0, min(len(a), len(b))
	for low < high {
		if middle := (low + high) / 2; a[middle] == b[middle] {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// Flight is a request that was sent to an endpoint and whose answer has not ended.
type Flight struct {
	fleet    *Fleet
	member   *member
	tokens   int     // that it adds to those in flight
	output   int     // of which these are not of the prompt
	uncached float64 // tokens of the prompt, when it was sent
	before   float64 // tokens in flight when it was sent
	requests int     // in flight when it was sent, with this one
	exact    []BlockNames
}

// exactly returns the names of the prompt's blocks of a size.
func (t *Flight) blockNames(size int) []uint64 {
	for _, e := range t.exact {
		if e.BlockTokens == size {
			return e.Names
		}
	}
	return nil
}

// Send counts a request as sent to an endpoint, until its Flight ends, and notes where its prompt and session went.
func (f *Fleet) Send(id int, q *Request) *Flight {
	m := f.members[id]
	c := f.View(q, []int{id})[0]
	uncached := c.uncached(q)
	t := &Flight{
		fleet: f, member: m, tokens: int(uncached) + q.Output, output: q.Output,
		uncached: uncached, before: float64(m.tokensInFlight), requests: m.requests + 1,
	}
	m.requests++
	m.tokensInFlight += t.tokens
	if t.exact = q.Exact; len(t.exact) > 0 {
		m.flights = append(m.flights, t)
	}
	f.prefixes.Note(id, q.Blocks)
	f.sessions.note(q.Session, id)
	return t
}

// First says that the answer's first token came, after so many seconds: the prompt is not in flight any more. With 0
// seconds, as of an answer that came as a whole, nothing is learned.
func (t *Flight) First(seconds float64) {
	if seconds > 0 {
		t.member.latency.learn(t.uncached, t.before, seconds)
		t.member.limit.learn(t.uncached, t.requests, seconds)
	}
	t.member.tokensInFlight -= t.tokens - t.output
	t.tokens = t.output
}

// End says that an answer ended, well or not: later tokens, and the seconds since the first one. It may be said once.
func (t *Flight) End(tokens int, seconds float64) {
	if tokens > 0 && seconds > 0 {
		t.member.latency.learnNext(t.requests, seconds/float64(tokens))
	}
	if i := slices.Index(t.member.flights, t); i >= 0 {
		t.member.flights = slices.Delete(t.member.flights, i, i+1)
	}
	t.member.requests--
	t.member.tokensInFlight -= t.tokens
}
