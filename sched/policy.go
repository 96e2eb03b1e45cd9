package sched

import (
	"fmt"
	"math"
	"strings"
)

// policy is an order of sequences. The waiting ones are admitted from its front; when blocks run out, the running one at
// its back gives up its own. Sequences that are equal to it are in order of arrival.
type policy struct {
	name string
	// rank places a sequence: the lowest comes first. It stays the same while the sequence waits.
	rank func(*sequence) int64
	// fair puts the tenant that was served least before all others, and ranks only sequences of the same tenant.
	fair bool
}

// policies are all there are; the first is the default.
var policies = []policy{
	// First come, first served.
	{name: "fcfs", rank: func(*sequence) int64 { return 0 }},
	// The lowest Request.Priority first. Whoever is less urgent than what keeps coming may wait forever.
	{name: "priority", rank: func(q *sequence) int64 { return int64(q.priority) }},
	// The shortest prompt first. A long one is overtaken only by those that arrive soon after it: see agingTokens.
	{name: "shortest-prompt", rank: func(q *sequence) int64 { return int64(q.prompt) + agingTokens*int64(q.arrival) }},
	// A fair share for each tenant, by the virtual token counters of Sheng et al., Fairness in Serving Large Language
	// Models (OSDI 2024). See tenant.
	{name: "vtc", rank: func(*sequence) int64 { return 0 }, fair: true},
	// The earliest deadline first: that of the first token, then that of the next.
	{name: "edf", rank: func(q *sequence) int64 {
		if q.deadline == 0 {
			return math.MaxInt64
		}
		return q.deadline + int64(q.length-q.prompt)*q.interval
	}},
}

// agingTokens is how many tokens longer a prompt counts, under shortest-prompt, for each sequence that arrived before it: a
// prompt of 4,000 tokens is overtaken by at most the next 250.
const agingTokens = 16

// Policies returns the names that Config.Policy takes, the default first.
func Policies() []string {
	var names []string
	for _, p := range policies {
		names = append(names, p.name)
	}
	return names
}

func findPolicy(name string) (policy, error) {
	if name == "" {
		return policies[0], nil
	}
	for _, p := range policies {
		if p.name == name {
			return p, nil
		}
	}
	return policy{}, fmt.Errorf("sched: config: Policy is %q; want one of %s", name, strings.Join(Policies(), ", "))
}
