package text

import (
	"fmt"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/sched"
)

// Profile is a set of scheduler settings for a kind of use. MaxChunk 0 is the whole budget, Allocation "" on demand.
type Profile struct {
	Name                                      string
	TokenBudget, MaxChunk, MaxSeqs, MaxPassed int
	Policy                                    string
	Batch                                     sched.Batch
	Allocation                                sched.Allocation
}

// Profiles are all there are, the default first. docs/scheduling.md says what each is for.
var Profiles = []Profile{
	{Name: "chat", TokenBudget: 512, MaxSeqs: 64, MaxPassed: 16, Policy: "fcfs", Batch: sched.Mixed},
	{Name: "throughput", TokenBudget: 2048, MaxSeqs: 256, MaxPassed: 64, Policy: "fcfs", Batch: sched.PrefillFirst, Allocation: sched.Learned},
	{Name: "long-context", TokenBudget: 1024, MaxChunk: 512, MaxSeqs: 16, MaxPassed: 64, Policy: "fcfs", Batch: sched.Mixed},
	{Name: "latency", TokenBudget: 256, MaxChunk: 128, MaxSeqs: 16, MaxPassed: 16, Policy: "edf", Batch: sched.Mixed},
}

// processorRows is the StepRows of a processor, for which the profiles' numbers are.
const processorRows = 512

// wideTarget is the step target of such devices: 900 rows of an 8B model, 256 of them decoding, take 32 ms.
const wideTarget = 33 * time.Millisecond

// widen sets the numbers that come from a profile to what a device with larger steps wants. said is what there was
// before the profile.
func (o *Options) widen(said Options, rows int) {
	if rows <= processorRows {
		return
	}
	p, _ := findProfile(o.Profile) // defaults found it
	wide := func(n int) int { return min(n*rows/processorRows, rows) }
	if said.TokenBudget == 0 {
		o.TokenBudget = max(wide(p.TokenBudget), o.MaxSeqs)
		if said.MaxChunk == 0 {
			o.MaxChunk = wide(p.MaxChunk)
		}
	}
	if said.MaxSeqs == 0 {
		o.MaxSeqs = min(4*p.MaxSeqs, o.TokenBudget)
	}
	if said.StepTarget == 0 {
		o.StepTarget = wideTarget
	}
}

func findProfile(name string) (Profile, error) {
	var names []string
	for _, p := range Profiles {
		if p.Name == name || name == "" {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("text: profile is %q; want one of %s", name, strings.Join(names, ", "))
}
