package sched

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/kv"
)

// busy returns a scheduler with running sequences that decode without end and waiting ones behind them.
func busy(tb testing.TB, policy string, running, waiting int, cache bool) *Scheduler {
	return crowded(tb, Config{
		BlockTokens: 16, Blocks: 1 << 16, MaxSeqs: running, TokenBudget: 2048, MaxLen: 1 << 18, PrefixCache: cache,
		Policy: policy, MaxPassed: 16,
	}, running, waiting, 8)
}

// blocked is the same, but more could run if there were the blocks for those who wait: each step looks behind as many
// as it may, and none fits.
func blocked(tb testing.TB, policy string, running, waiting int) *Scheduler {
	return crowded(tb, Config{
		BlockTokens: 512, Blocks: 2*running + 8, MaxSeqs: 2 * running, TokenBudget: 2048, MaxLen: 1 << 18,
		Policy: policy, MaxPassed: 16,
	}, running, waiting, 8*512+1)
}

// learned makes a scheduler look at what outputs may be expected to hold.
func learned(s *Scheduler) *Scheduler {
	s.cfg.Allocation = Learned
	for i := range 100 {
		s.lengths.add(10 * i)
	}
	return s
}

// prefixed is the same, but the first of those who wait find 8,000 tokens each in the cache, and lack blocks for the
// rest.
func prefixed(tb testing.TB, policy string, running, waiting int) *Scheduler {
	const blocks, prefix = 8000, 8000
	s, err := New(Config{
		BlockTokens: 16, Blocks: blocks, MaxSeqs: 2 * running, TokenBudget: 2 * prefix, MaxLen: 1 << 18,
		Policy: policy, MaxPassed: 16, PrefixCache: true,
	})
	if err != nil {
		tb.Fatal(err)
	}
	add := func(id, first, n, most int) {
		prompt := make([]int32, n)
		prompt[0] = int32(first)
		if err := s.Add(Request{ID: SeqID(id), Prompt: prompt, MaxTokens: most}); err != nil {
			tb.Fatal(err)
		}
	}
	run := func() {
		p := s.Next()
		s.Commit(p, zeros(len(p.Seqs)))
	}
	for i := range lookahead { // their prompts stay in the cache
		add(i, i, prefix, 1)
		run()
	}
	for i := range running {
		add(lookahead+i, lookahead+i, 8, 1<<10)
	}
	run()
	for i := range waiting {
		n := 8
		if i < lookahead {
			n = (blocks - 8) * 16
		}
		add(lookahead+running+i, i, n, 1)
	}
	return s
}

// crowded adds sequences of a thousand tenants and ten priorities. Those that wait have prompts of a length of their
// own.
func crowded(tb testing.TB, cfg Config, running, waiting, prompt int) *Scheduler {
	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range running + waiting {
		r := Request{ID: SeqID(i), Prompt: make([]int32, 8), MaxTokens: 1 << 10, Tenant: strconv.Itoa(i * 7 % 1000),
			Priority: i * 13 % 10, Deadline: int64(1 + i*31%5000), Interval: 50}
		if cfg.BlockTokens == 16 {
			r.MaxTokens = 1 << 17
		}
		if i == running { // those before it run before it comes
			s.Commit(s.Next(), zeros(running))
		}
		if i >= running {
			r.Prompt = make([]int32, prompt)
		}
		r.Prompt[0] = int32(i)
		if err := s.Add(r); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

// pipelined returns a function that runs one step as the engine does: the next is planned while one computes.
func pipelined(s *Scheduler) func() {
	results := zeros(4096)
	p := s.Next()
	s.Begin(p)
	return func() {
		following := s.Next()
		s.Begin(following)
		s.Commit(p, results[:len(p.Seqs)])
		p = following
	}
}

// zeros are results of one token each.
func zeros(n int) []Result {
	results, token := make([]Result, n), make([]int32, 1)
	for i := range results {
		results[i].Tokens = token
	}
	return results
}

// A step allocates nothing, unless it admits someone.
func TestNoAllocation(t *testing.T) {
	if invariants {
		t.Skip("verifying allocates")
	}
	for _, policy := range Policies() {
		cache := policy != "fcfs"
		s := busy(t, policy, 64, 1000, cache)
		step := pipelined(s)
		for range 20 { // the lists of a step now have room
			step()
		}
		if n := testing.AllocsPerRun(1500, step); n != 0 {
			t.Errorf("%s: %v allocations per step", policy, n)
		}
		if got := s.Stats(); got.Running != 64 || got.Waiting != 1000 || got.KV.Used < 64*1500/16 {
			t.Errorf("%s: the steps did not do what was meant:\n%v", policy, got)
		}
	}
}

// Nor does one that computes proposed tokens, of which some are accepted.
func TestNoAllocationWithProposals(t *testing.T) {
	if invariants {
		t.Skip("verifying allocates")
	}
	s := busy(t, "", 64, 0, true)
	for id := range SeqID(64) {
		s.PlanAhead(id, false)
	}
	draft, results, accepted := make([]int32, 3), zeros(64), make([]int32, 3)
	step := func() {
		p := s.Next()
		s.Begin(p)
		for i, w := range p.Seqs {
			results[i].Tokens = accepted[:1+w.Draft*2/3]
		}
		s.Commit(p, results[:len(p.Seqs)])
		for id := range SeqID(64) {
			if err := s.Propose(id, Draft{Tokens: draft}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 20 {
		step()
	}
	if n := testing.AllocsPerRun(500, step); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
	if got := s.Stats(); got.Running != 64 || got.KV.Used < 64*500*3/16 {
		t.Errorf("the steps did not do what was meant:\n%v", got)
	}
}

// The caller's mistakes would misplace tokens, so they must not pass unnoticed.
func TestMisusePanics(t *testing.T) {
	for _, c := range []struct {
		want string
		do   func(s *Scheduler)
	}{
		{"not the oldest", func(s *Scheduler) { s.Begin(s.Next()); s.Commit(s.Next(), zeros(2)) }},
		{"not the oldest", func(s *Scheduler) { p := s.Next(); s.Commit(p, zeros(2)); s.Commit(p, nil) }},
		{"1 results for 2 sequences", func(s *Scheduler) { s.Commit(s.Next(), zeros(1)) }},
		{"0 tokens for sequence 0", func(s *Scheduler) { s.Commit(s.Next(), make([]Result, 2)) }},
		{"2 tokens for sequence 1", func(s *Scheduler) {
			p := s.Next()
			s.Commit(p, []Result{{Tokens: []int32{1}}, {Tokens: []int32{1, 1}}})
		}},
		{"not begun", func(s *Scheduler) { s.Next(); s.Next() }},
		{"begun already", func(s *Scheduler) { p := s.Next(); s.Begin(p); s.Begin(p) }},
		{"is begun", func(s *Scheduler) { p := s.Next(); s.Begin(p); s.Lost(p, kv.Move{From: kv.Place{Tier: host}}) }},
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, c.want) {
					t.Errorf("panic %q, want %q", got, c.want)
				}
			}()
			c.do(busy(t, "", 2, 0, true))
		}()
	}
}

// One step of 256 decoding sequences with 10,000 in the queue: when no more may run, with and without the naming of
// blocks, and when more might but do not fit, the first eight of them after finding 8,000 tokens each in the cache.
func BenchmarkStep(b *testing.B) {
	const running, waiting = 256, 10000
	for _, policy := range Policies() {
		for _, c := range []struct {
			name  string
			make  func() *Scheduler
			steps int // how long it stays as it is
		}{
			{"full", func() *Scheduler { return busy(b, policy, running, waiting, false) }, 4000},
			{"full,cache", func() *Scheduler { return busy(b, policy, running, waiting, true) }, 3300},
			{"blocked", func() *Scheduler { return blocked(b, policy, running, waiting) }, 480},
			{"blocked,learned", func() *Scheduler { return learned(blocked(b, policy, running, waiting)) }, 480},
			{"blocked,prefixes", func() *Scheduler { return prefixed(b, policy, running, waiting) }, 150},
		} {
			if c.steps == 150 && policy == "shortest-prompt" {
				continue // for which they would not come first
			}
			b.Run(policy+"/"+c.name, func(b *testing.B) {
				step, left := func() {}, 0
				b.ReportAllocs()
				for b.Loop() {
					if left == 0 {
						b.StopTimer()
						s := c.make()
						step, left = pipelined(s), c.steps
						for range 20 {
							step()
						}
						if got := s.Stats(); got.Running != running || got.Waiting != waiting {
							b.Fatalf("%v", got)
						}
						b.StartTimer()
					}
					step()
					left--
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(running*b.N), "ns/token")
			})
		}
	}
}

// One step of 64 decoding sequences of 128k tokens each takes as long as one of short ones.
func BenchmarkLongContexts(b *testing.B) {
	const running, steps = 64, 8000
	for _, tokens := range []int{16, 128 << 10} {
		b.Run(strconv.Itoa(tokens), func(b *testing.B) {
			step, left, prompt := func() {}, 0, make([]int32, tokens)
			for b.Loop() {
				if left == 0 {
					b.StopTimer()
					s, err := New(Config{
						BlockTokens: 16, Blocks: running * (tokens/16 + 1000), MaxSeqs: running, TokenBudget: running * tokens,
						MaxLen: 1 << 18,
					})
					if err != nil {
						b.Fatal(err)
					}
					for id := range SeqID(running) {
						if err := s.Add(Request{ID: id, Prompt: prompt, MaxTokens: 15000}); err != nil {
							b.Fatal(err)
						}
					}
					step, left = pipelined(s), steps
					for range 20 {
						step()
					}
					b.StartTimer()
				}
				step()
				left--
			}
		})
	}
}

// Sequences that come, find half of their prompt of 512 tokens in the cache, yield 32 tokens and end: all that the
// scheduler ever does, for each token that a client gets.
func BenchmarkLives(b *testing.B) {
	s, err := New(Config{BlockTokens: 16, Blocks: 12000, MaxSeqs: 256, TokenBudget: 8192, PrefixCache: true})
	if err != nil {
		b.Fatal(err)
	}
	prompt := make([]int32, 512)
	id := SeqID(0)
	refill := func() {
		for ; s.Stats().Waiting < 64; id++ {
			prompt[256] = int32(id)
			if err := s.Add(Request{ID: id, Prompt: prompt, MaxTokens: 32}); err != nil {
				b.Fatal(err)
			}
		}
	}
	refill()
	step := pipelined(s)
	for b.Loop() {
		refill()
		step()
	}
	tokens := float64(id) * 32
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/tokens, "ns/token")
	b.ReportMetric(float64(s.Stats().KV.Hits)/float64(s.Stats().KV.Queries), "hits/token")
}

// BenchmarkRefusal measures what it takes to refuse a request of a payer whose others fill the queue, while another's
// waits.
func BenchmarkRefusal(b *testing.B) {
	s, err := New(Config{BlockTokens: 16, Blocks: 4096, MaxSeqs: 64, TokenBudget: 512, MaxWaiting: 1000, Policy: "vtc"})
	if err != nil {
		b.Fatal(err)
	}
	prompt := make([]int32, 16)
	for i := range 1000 {
		r := Request{ID: SeqID(i + 1), Prompt: prompt, MaxTokens: 16, Payer: "flood"}
		if i == 0 {
			r.Payer = "other"
		}
		if err := s.Add(r); err != nil {
			b.Fatal(err)
		}
	}
	r := Request{ID: 2000, Prompt: prompt, MaxTokens: 16, Payer: "flood"}
	for b.Loop() {
		if err := s.Add(r); !errors.Is(err, ErrQueueFull) {
			b.Fatal(err)
		}
		if id, ok := s.Expendable(&r); ok {
			b.Fatalf("sequence %d should make room", id)
		}
	}
}
