package sched

import (
	"math"

	"github.com/kvasir-llm/kvasir/named"
)

// policy is an order of sequences. The waiting ones are admitted from its front; when blocks run out, the running one
// at its back gives up its own. Sequences that are equal to it are in order of arrival.
type policy struct {
	// rank places a sequence: the lowest comes first. It stays the same while the sequence waits.
	rank func(*sequence) int64
	// fair puts the tenant that was served least before all others, and ranks only sequences of the same tenant.
	fair bool
}

// policies are all there are; the first is the default.
var policies = named.List[policy]{
	{Name: "fcfs", Help: "first come, first served", Is: policy{rank: func(*sequence) int64 { return 0 }}},
	// The lowest Request.Priority first. Whoever is less urgent than what keeps coming may wait forever.
	{Name: "priority", Help: "as requests say", Is: policy{rank: func(q *sequence) int64 { return int64(q.priority) }}},
	// A long prompt is overtaken only by those that arrive soon after it: see agingTokens.
	{Name: "shortest-prompt", Is: policy{
		rank: func(q *sequence) int64 { return int64(q.prompt) + agingTokens*int64(q.arrival) },
	}},
	// By the virtual token counters of Sheng et al., Fairness in Serving Large Language Models (OSDI 2024). See tenant.
	{Name: "vtc", Help: "a fair share for each API key, and each user", Is: policy{rank: func(q *sequence) int64 { return q.turn }, fair: true}},
	// The deadline of the first token, then that of the next.
	{Name: "edf", Help: "earliest deadline", Is: policy{rank: func(q *sequence) int64 {
		if q.deadline == 0 {
			return math.MaxInt64
		}
		return q.deadline + int64(q.length-q.prompt)*q.interval
	}}},
}

// agingTokens is how many tokens longer a prompt counts, under shortest-prompt, for each sequence that arrived before
// it: a prompt of 4,000 tokens is overtaken by at most the next 250.
const agingTokens = 16

// Policies returns the names that Config.Policy takes, the default first.
func Policies() []string { return policies.Names() }

// PolicyHelp says what they mean, as part of a sentence.
func PolicyHelp() string { return policies.Help() }
