package text

import (
	"strings"

	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/sched"
)

// Batch, Allocation and Preempt are settings of the scheduler; package sched says what their values mean.
type (
	Batch      = sched.Batch
	Allocation = sched.Allocation
	Preempt    = sched.Preempt
)

// Choices lists the values that settings of Options can have, by the setting's name in plural, and as "policy_help" and
// so on what they mean, as part of a sentence.
func Choices() map[string]string {
	list := func(names []string) string { return strings.Join(names, ",") }
	return map[string]string{
		"policies": list(sched.Policies()), "policy_help": sched.PolicyHelp(),
		"drafts": list(Drafts()), "drafts_help": drafts.Help(),
		"evictions": list(kv.Policies()), "eviction_help": kv.PolicyHelp(),
		"batches": list(sched.Batches()), "batch_help": sched.BatchHelp(),
		"allocations": list(sched.Allocations()), "allocation_help": sched.AllocationHelp(),
		"preempts": list(sched.Preempts()), "preempt_help": sched.PreemptHelp(),
	}
}
