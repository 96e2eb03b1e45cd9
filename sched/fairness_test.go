package sched

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// load runs a scheduler step by step, as an endless supply of requests demands.
type load struct {
	t      rapid.TB
	s      *Scheduler
	id     SeqID
	step   int
	tenant map[SeqID]string
	prompt map[SeqID]int
	began  map[SeqID]bool
	ended  map[SeqID]bool

	waiting, served map[string]int // sequences that have not begun; service, as vtc defines it
}

func newLoad(t rapid.TB, cfg Config) *load {
	s, err := New(cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return &load{t: t, s: s, tenant: map[SeqID]string{}, prompt: map[SeqID]int{}, began: map[SeqID]bool{},
		ended: map[SeqID]bool{}, waiting: map[string]int{}, served: map[string]int{}}
}

func (l *load) add(r Request) SeqID {
	r.ID = l.id
	l.id++
	if err := l.s.Add(r); err != nil {
		l.t.Fatalf("%v", err)
	}
	l.waiting[r.Tenant]++
	l.tenant[r.ID], l.prompt[r.ID] = r.Tenant, len(r.Prompt)
	return r.ID
}

func (l *load) run() {
	p := l.s.Next()
	if p == nil {
		return
	}
	results := make([]Result, len(p.Seqs))
	for i, w := range p.Seqs {
		if !l.began[w.ID] {
			l.began[w.ID] = true
			l.waiting[l.tenant[w.ID]]--
			l.served[l.tenant[w.ID]] += weightIn * l.prompt[w.ID]
		}
		if w.Sample {
			l.served[l.tenant[w.ID]] += weightOut
		}
		results[i].Tokens = []int32{int32(l.step)}
	}
	ids := make([]SeqID, len(p.Seqs))
	for i, w := range p.Seqs {
		ids[i] = w.ID
	}
	l.s.Commit(p, results)
	for i, r := range results {
		if r.Finished {
			l.ended[ids[i]] = true
		}
	}
	l.step++
}

// unfairness lets a tenant with long prompts and one with short prompts and long answers send without end, and returns
// the largest difference of the service that they got, and the bound of the paper: twice the larger of what a prompt
// costs and what all tokens that the cache holds cost.
func unfairness(t rapid.TB, policy string, longest, output, chunk int) (worst, bound int) {
	cfg := Config{BlockTokens: 4, Blocks: 64, MaxSeqs: 12, TokenBudget: 32, MaxChunk: chunk, Policy: policy}
	l := newLoad(t, cfg)
	for range 2000 {
		for l.waiting["long"] < 20 {
			l.add(Request{Tenant: "long", Prompt: make([]int32, longest-int(l.id)%5), MaxTokens: 1 + int(l.id)%3})
		}
		for l.waiting["short"] < 20 {
			l.add(Request{Tenant: "short", Prompt: make([]int32, 1+int(l.id)%4), MaxTokens: output})
		}
		l.run()
		worst = max(worst, l.served["long"]-l.served["short"], l.served["short"]-l.served["long"])
	}
	return worst, 2 * max(weightIn*longest, weightOut*cfg.Blocks*cfg.BlockTokens)
}

// TestFairShares holds vtc to the bound that its paper proves, and shows that first come, first served breaks it.
func TestFairShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		longest := rapid.IntRange(6, 120).Draw(t, "longest prompt")
		output := rapid.IntRange(1, 40).Draw(t, "output")
		if worst, bound := unfairness(t, "vtc", longest, output, rapid.SampledFrom([]int{0, 3}).Draw(t, "chunk")); worst > bound {
			t.Fatalf("the service of two busy tenants differs by %d, at most %d may be", worst, bound)
		}
	})
	fair, bound := unfairness(t, "vtc", 100, 4, 0)
	t.Logf("differs by %d, may by %d", fair, bound)
	if worst, _ := unfairness(t, "fcfs", 100, 4, 0); worst < 4*bound {
		t.Errorf("fcfs differs by %d, vtc by %d, the bound is %d: the load shows little", worst, fair, bound)
	}
}

// TestNoOneStarves puts one sequence that needs nearly all blocks among small ones that never cease to come and would
// always fit first.
func TestNoOneStarves(t *testing.T) {
	for _, policy := range Policies() {
		for _, passed := range []int{0, 1, 16} {
			t.Run(fmt.Sprint(policy, ",", passed), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					l := newLoad(t, Config{
						BlockTokens: 4, Blocks: 24, MaxSeqs: 8, TokenBudget: 16, Policy: policy, MaxPassed: passed,
					})
					small := func() {
						l.add(Request{
							Tenant: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tenant"), Deadline: int64(l.step + 100), Interval: 3,
							Prompt: make([]int32, rapid.IntRange(1, 6).Draw(t, "prompt")), MaxTokens: rapid.IntRange(1, 12).Draw(t, "output"),
						})
					}
					for range 20 {
						small()
						l.run()
					}
					big := l.add(Request{Tenant: "a", Deadline: int64(l.step + 100), Interval: 3, Prompt: make([]int32, 80), MaxTokens: 8})
					for !l.ended[big] {
						if l.step > 1500 {
							t.Fatalf("it has not run to its end after %d steps and %d arrivals:\n%v", l.step, l.id, l.s.Stats())
						}
						for l.s.Stats().Waiting < 6 {
							small()
						}
						l.run()
					}
				})
			})
		}
	}
}

// TestInventedUsers holds that what is remembered of a payer's users is bounded, and that those who have had most still
// come last.
func TestInventedUsers(t *testing.T) {
	var u turns
	for i := range 10 * mostUsers {
		u.next(fmt.Sprint(i), 8)
	}
	if len(u.ends) > mostUsers {
		t.Errorf("%d users are remembered; want at most %d", len(u.ends), mostUsers)
	}
	u = turns{}
	for range 3 {
		u.next("busy", 10)
	}
	u.spent("busy", 5)
	u.spent("unknown", 5)
	for i, c := range []struct {
		user string
		want int64
	}{{"busy", 35}, {"other", 0}, {"other", 10}, {"busy", 45}} {
		if got := u.next(c.user, 10); got != c.want {
			t.Errorf("%d: the turn of %s is %d; want %d", i, c.user, got, c.want)
		}
	}
	if u.now = 100; u.next("busy", 1) != 100 {
		t.Errorf("a user who was away is owed time: %v", u)
	}
}

// TestTurnsOfTheBackground holds that a crowd whose sequences are all in the background is never without a step: they
// take turns, of which one is for prompts.
func TestTurnsOfTheBackground(t *testing.T) {
	s, err := New(Config{Blocks: 64, BlockTokens: 4, MaxSeqs: 2, TokenBudget: 8, Policy: "vtc", StepTarget: 50})
	if err != nil {
		t.Fatal(err)
	}
	left := 0
	add := func(tenant string, n int) {
		left++
		if err := s.Add(Request{ID: SeqID(left), Tenant: tenant, Prompt: []int32{1}, MaxTokens: n, Background: tenant == "crowd"}); err != nil {
			t.Fatal(err)
		}
	}
	add("other", 1)
	for range crowdSize {
		add("crowd", 9)
	}
	turns := 0
	for step := 0; left > 0; step++ {
		p := s.Next()
		if p == nil {
			t.Fatalf("nothing to do in step %d, but %d are alive", step, left)
		}
		if p.turns {
			turns++
		}
		s.Begin(p)
		s.Took(p, int64(p.Rows)) // rows take time, steps take none
		results := make([]Result, len(p.Seqs))
		for i := range results {
			results[i].Tokens = []int32{1}
		}
		s.Commit(p, results)
		for _, r := range results {
			if r.Finished {
				left--
			}
		}
	}
	if turns == 0 {
		t.Error("none took turns")
	}
}
