package text

import (
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/sched"
)

func TestProfiles(t *testing.T) {
	for _, p := range Profiles {
		o := Options{Profile: p.Name}
		if err := o.defaults(); err != nil || o.check() != nil {
			t.Errorf("%s: %v, %v", p.Name, err, o.check())
		}
		if _, err := sched.New(sched.Config{
			BlockTokens: o.BlockTokens, Blocks: 1000, MaxSeqs: o.MaxSeqs, TokenBudget: o.TokenBudget, MaxChunk: o.MaxChunk,
			MaxWaiting: o.MaxWaiting, MaxPassed: o.MaxPassed, Policy: o.Policy, Batch: o.Batch, Allocation: o.Allocation,
		}); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if o.TokenBudget != p.TokenBudget || o.Policy != p.Policy || o.Batch != p.Batch || o.Allocation != p.Allocation || o.MaxPassed != p.MaxPassed {
			t.Errorf("%s became %+v", p.Name, o)
		}
	}
	for _, c := range []struct {
		said                Options
		budget, chunk, seqs int
	}{
		{Options{}, 8192, 0, 256},
		{Options{Profile: "throughput"}, 8192, 0, 1024},
		{Options{Profile: "latency"}, 4096, 2048, 64},
		{Options{TokenBudget: 100}, 100, 0, 100},
		{Options{MaxSeqs: 8}, 8192, 0, 8},
		{Options{MaxSeqs: 600}, 8192, 0, 600},
		{Options{Profile: "latency", TokenBudget: 300}, 300, 128, 64},
	} {
		o := c.said
		if err := o.defaults(); err != nil {
			t.Fatal(err)
		}
		narrow := o
		o.widen(c.said, 512)
		if o.TokenBudget != narrow.TokenBudget || o.MaxSeqs != narrow.MaxSeqs || o.MaxChunk != narrow.MaxChunk {
			t.Errorf("%+v: a processor's settings became %d, %d, %d", c.said, o.TokenBudget, o.MaxChunk, o.MaxSeqs)
		}
		o.widen(c.said, 8192)
		if o.TokenBudget != c.budget || o.MaxChunk != c.chunk || o.MaxSeqs != c.seqs {
			t.Errorf("%+v: budget %d, chunk %d, seqs %d; want %d, %d, %d", c.said, o.TokenBudget, o.MaxChunk, o.MaxSeqs, c.budget, c.chunk, c.seqs)
		}
	}
	if o := (Options{Profile: "throughput", Allocation: sched.OnDemand}); o.defaults() != nil || o.Allocation != sched.OnDemand {
		t.Errorf("the allocation that was said became %s", o.Allocation)
	}
	o := Options{Profile: "latency", TokenBudget: 7, Policy: "vtc", MaxPassed: -1} // what is said wins
	if err := o.defaults(); err != nil || o.TokenBudget != 7 || o.Policy != "vtc" || o.MaxPassed != 0 || o.MaxSeqs != 16 {
		t.Errorf("%v, %+v", err, o)
	}
	for flag, bad := range map[string]Options{"max-passed": {MaxPassed: -2}, "max-seqs": {MaxSeqs: 600, TokenBudget: 599}, "token-budget": {MaxSeqs: 8, TokenBudget: 7}} {
		if _, err := Open(nil, bad); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%+v: error %v; want one that names %s", bad, err, flag)
		}
	}
	if _, err := Open(nil, Options{Policy: "fast"}); err == nil || !strings.Contains(err.Error(), "fcfs priority") {
		t.Errorf("error %v; want one that names the policies", err)
	}
	if _, err := Open(nil, Options{Profile: "fast"}); err == nil || !strings.Contains(err.Error(), "chat, throughput") {
		t.Errorf("error %v; want one that names the profiles", err)
	}
}
