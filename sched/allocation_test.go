package sched

import (
	"math"
	"math/rand/v2"
	"testing"
)

// simulation is what a closed loop of clients leads to.
type simulation struct {
	time        float64 // of all steps, by costs
	recomputed  int     // tokens
	generated   int
	preemptions uint64
	running     float64 // mean
	unfilled    float64 // share of what running sequences hold, mean
}

// costs of a step: reading the weights, and each row's arithmetic, in rows. Of the order of a model on a processor.
const costStep, costRow = 16, 1

// simulate lets clients ask for what they want, answers of a median of 150 tokens with a long tail, while all but a
// tenth say that they would take 1,024.
func simulate(t testing.TB, allocation Allocation, blocks, clients, requests int) simulation {
	s, err := New(Config{
		BlockTokens: 16, Blocks: blocks, MaxSeqs: clients, TokenBudget: 512, Allocation: allocation, MaxPassed: 16,
		PrefixCache: true, MaxLen: 4096,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	length := func(median, sigma float64, most int) int {
		return max(1, min(most, int(median*math.Exp(sigma*r.NormFloat64()))))
	}
	yields, computed := map[SeqID]int{}, map[SeqID]int{}
	var sim simulation
	ended, steps, id := 0, 0, SeqID(0)
	for ended < requests {
		for st := s.Stats(); st.Running+st.Waiting < clients; st = s.Stats() {
			id++
			prompt := make([]int32, length(200, 0.8, 2000))
			for i := range prompt {
				prompt[i] = r.Int32()
			}
			yields[id] = length(150, 0.9, 1024)
			most := 1024
			if id%10 == 0 {
				most = yields[id]
			}
			if err := s.Add(Request{ID: id, Prompt: prompt, MaxTokens: most}); err != nil {
				t.Fatal(err)
			}
		}
		p := s.Next()
		results := make([]Result, len(p.Seqs))
		for i, w := range p.Seqs {
			results[i].Tokens = []int32{r.Int32()}
			sim.recomputed += max(0, min(computed[w.ID], w.Start+w.N)-w.Start)
			computed[w.ID] = max(computed[w.ID], w.Start+w.N)
			if w.Sample {
				sim.generated++
				yields[w.ID]--
				results[i].Finished = yields[w.ID] == 0
			}
		}
		sim.time += costStep + costRow*float64(p.Rows)
		st := s.Stats()
		sim.running += float64(st.Running)
		sim.unfilled += float64(st.Unfilled) / float64(max(st.Held, 1))
		steps++
		s.Commit(p, results)
		for i := range results {
			if results[i].Finished {
				ended++
			}
		}
	}
	sim.preemptions = s.Stats().Preemptions
	sim.running /= float64(steps)
	sim.unfilled /= float64(steps)
	return sim
}

// TestAllocations compares the ways to admit where blocks are scarce: preallocation never preempts and leaves most of
// what it keeps unfilled; learned lengths preempt less than demand alone, at no less throughput, and fill as much.
func TestAllocations(t *testing.T) {
	sims := map[Allocation]simulation{}
	for _, a := range []Allocation{OnDemand, Preallocate, Learned} {
		sim := simulate(t, a, 1024, 128, 1500)
		sims[a] = sim
		t.Logf("%-12s %5.1f running, %4d preemptions, %6d recomputed, %4.1f%% unfilled, %.3f generated in the time of a row",
			a, sim.running, sim.preemptions, sim.recomputed, 100*sim.unfilled,
			float64(sim.generated)/sim.time)
	}
	demand, all, learned := sims[OnDemand], sims[Preallocate], sims[Learned]
	switch {
	case all.preemptions > 0 || all.unfilled < 0.4:
		t.Errorf("preallocation preempts %d times and leaves %.0f%% unfilled", all.preemptions, 100*all.unfilled)
	case demand.preemptions < 100 || demand.unfilled > 0.04:
		t.Errorf("on demand, %d are preempted and %.1f%% is unfilled: the load shows little", demand.preemptions, 100*demand.unfilled)
	case learned.preemptions > demand.preemptions/10 || learned.unfilled > 0.04:
		t.Errorf("learned lengths preempt %d times and leave %.1f%% unfilled", learned.preemptions, 100*learned.unfilled)
	case float64(learned.generated)/learned.time < float64(demand.generated)/demand.time:
		t.Error("learned lengths cost throughput")
	}
}

// Buckets are in order, without gaps, and none is wider than an eighth of its lengths.
func TestBuckets(t *testing.T) {
	for n := range 1 << 16 {
		b := bucketOf(n)
		if n > longest(b) || b > 0 && n <= longest(b-1) || longest(b) > n+n/8 {
			t.Fatalf("length %d is in bucket %d, of lengths from %d to %d", n, b, longest(max(b-1, 0))+1, longest(b))
		}
	}
	if bucketOf(math.MaxInt32) != buckets-1 || longest(buckets-1) < math.MaxInt32 {
		t.Errorf("the last bucket is %d and ends at %d", bucketOf(math.MaxInt32), longest(buckets-1))
	}
}

// What is expected is the median of the outputs that became at least as long.
func TestExpectedLengths(t *testing.T) {
	var l lengths
	for range enough - 1 {
		l.add(4)
	}
	if l.known() {
		t.Errorf("%d lengths are believed", enough-1)
	}
	for range enough + 1 {
		l.add(10)
	}
	l.add(14)
	if !l.known() {
		t.Errorf("%d lengths are not believed", l.total)
	}
	for generated, want := range map[int]int{0: 10, 4: 10, 5: 10, 11: 14, 14: 14, 15: 30, 100: 206} {
		if got := l.expect[bucketOf(generated)]; got != want {
			t.Errorf("an output of %d is expected to become %d long; want %d", generated, got, want)
		}
	}
	for range 3 * remembered {
		l.add(1)
	}
	if l.known(); l.expect[0] != 1 || l.total >= remembered {
		t.Errorf("after %d outputs of one token %d are expected; %d are remembered", 3*remembered, l.expect[0], l.total)
	}
}
