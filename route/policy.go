package route

import (
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/named"
)

// filters leave out candidates, each for a reason, which is its name.
var filters = named.List[func(q *Request, c *Candidate) bool]{
	{Name: "down", Is: func(_ *Request, c *Candidate) bool { return c.Down != "" }},
	{Name: "other", Is: func(q *Request, c *Candidate) bool { return q.Only != nil && !slices.Contains(q.Only, c.ID) }},
	{Name: "failed", Is: func(q *Request, c *Candidate) bool { return slices.Contains(q.Tried, c.ID) }},
	{Name: "full", Is: func(_ *Request, c *Candidate) bool { return c.MaxRequests > 0 && c.Requests >= c.MaxRequests }},
	{Name: "context", Is: func(q *Request, c *Candidate) bool { return c.Context > 0 && q.Context > c.Context }},
}

// scorer rates candidates by one of their properties, from 0 (worst) to 1 (best). One of its functions is set.
type scorer struct {
	// good is the rating itself.
	good func(q *Request, c *Candidate) float64
	// load is something of which less is better. The candidate with the least of it is rated 1, one with twice as much
	// 0.5.
	load func(q *Request, c *Candidate) float64
}

// scorers are all there are. A new one is one entry here and, if it needs facts that nothing else needs, a field of
// Candidate.
var scorers = named.List[scorer]{
	{Name: "queue", Help: "few requests in flight", Is: scorer{load: func(_ *Request, c *Candidate) float64 {
		return float64(1 + max(c.Requests, c.Waiting+c.Running))
	}}},
	// The work before the request's first token and beside it, as in Dynamo's cost: what is in flight, and what the
	// request adds to it.
	{Name: "tokens", Help: "few tokens to compute, those of the request included", Is: scorer{load: func(q *Request, c *Candidate) float64 {
		return c.work(q)
	}}},
	{Name: "kv", Help: "much memory for KV blocks free", Is: scorer{good: func(_ *Request, c *Candidate) float64 { return 1 - c.KVUse }}},
	{Name: "prefix", Help: "much of the prompt cached", Is: scorer{good: func(_ *Request, c *Candidate) float64 {
		if c.hot {
			return 0
		}
		return c.held()
	}}},
	{Name: "session", Help: "where the session's last request went", Is: scorer{good: func(_ *Request, c *Candidate) float64 {
		return one(c.Session)
	}}},
	{Name: "adapter", Help: "the adapter in memory", Is: scorer{good: func(q *Request, c *Candidate) float64 {
		switch {
		case q.Adapter == "" || c.has(q.Adapter):
			return 1
		case c.AdapterRoom:
			return 0.8
		}
		return 0
	}}},
	{Name: "cost", Help: "cheap", Is: scorer{load: func(_ *Request, c *Candidate) float64 { return c.Cost }}},
	{Name: "locality", Help: "in the request's zone", Is: scorer{good: func(q *Request, c *Candidate) float64 {
		return one(c.Zone == q.Zone)
	}}},
	{Name: "latency", Help: "a short time until the answer's end, as learned", Is: scorer{load: func(_ *Request, c *Candidate) float64 {
		return c.Latency
	}}},
	{Name: "slo", Help: "the times that the model's slo allows, as learned", Is: scorer{good: func(q *Request, c *Candidate) float64 {
		return q.SLO.met(c)
	}}},
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Weights are the scorers of a policy by name, each with the factor of its rating.
type Weights map[string]float64

// presets are policies with names, the first the default. What each is for is in docs/gateway.md.
var presets = named.List[Weights]{
	{Name: "balanced", Help: "cached prefixes and even load", Is: Weights{"prefix": 4, "tokens": 3, "queue": 1, "kv": 1, "adapter": 1, "session": 0.5}},
	{Name: "least-load", Help: "fewest requests in flight", Is: Weights{"queue": 1}},
	{Name: "prefix", Help: "cached prefixes before load", Is: Weights{"prefix": 8, "tokens": 1, "queue": 1, "kv": 1}},
	{Name: "latency", Help: "the shortest time, as learned from each endpoint", Is: Weights{"latency": 4, "queue": 1}},
	{Name: "slo", Help: "within the model's slo, and of those the cheapest", Is: Weights{"slo": 8, "cost": 2, "prefix": 2, "tokens": 1, "queue": 1}},
	{Name: "cheap", Help: "the lowest cost that is not overloaded", Is: Weights{"cost": 4, "kv": 1, "queue": 1}},
	{Name: "random", Help: "the less loaded one of two at random", Is: Weights{}},
}

// Policy chooses an endpoint.
type Policy struct {
	names   []string // of the scorers
	scorers []scorer
	weights []float64
	total   float64 // of the weights
}

// NewPolicy makes the policy of a preset, or of weights if there are some.
func NewPolicy(preset string, weights Weights) (*Policy, error) {
	if len(weights) == 0 {
		var err error
		if weights, err = presets.Find("policy", preset); err != nil {
			return nil, err
		}
	}
	p := &Policy{}
	for name := range weights {
		if _, err := scorers.Find("scorer", name); err != nil || name == "" {
			return nil, fmt.Errorf("scorer is %q; want one of %v", name, scorers.Names())
		}
	}
	for _, s := range scorers {
		w, ok := weights[s.Name]
		switch {
		case !ok || w == 0:
			continue
		case !(w > 0 && w <= 1000):
			return nil, fmt.Errorf("the weight of scorer %q is %v; want 0 to 1000", s.Name, w)
		}
		p.names, p.scorers, p.weights = append(p.names, s.Name), append(p.scorers, s.Is), append(p.weights, w)
		p.total += w
	}
	return p, nil
}
