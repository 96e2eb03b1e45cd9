package sched

import (
	"strings"
	"testing"
)

// busy returns a scheduler with running sequences that decode without end and waiting ones behind them.
func busy(tb testing.TB, running, waiting int, cache bool) *Scheduler {
	s, err := New(Config{
		BlockTokens: 16, Blocks: 1 << 16, MaxSeqs: running, TokenBudget: 2048, MaxLen: 1 << 18, PrefixCache: cache,
	})
	if err != nil {
		tb.Fatal(err)
	}
	for i := range running + waiting {
		r := Request{ID: SeqID(i), Prompt: make([]int32, 8), MaxTokens: 1 << 17}
		r.Prompt[0] = int32(i)
		if err := s.Add(r); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

// pipelined returns a function that runs one step as the engine does: the next is planned while one computes.
func pipelined(s *Scheduler) func() {
	results := make([]Result, 4096)
	p := s.Next()
	return func() {
		following := s.Next()
		s.Commit(p, results[:len(p.Seqs)])
		p = following
	}
}

// A step allocates nothing, but that the list of a sequence's block names doubles once in a while.
func TestNoAllocation(t *testing.T) {
	for _, cache := range []bool{false, true} {
		s := busy(t, 64, 1000, cache)
		step := pipelined(s)
		for range 2050 { // the lists of names now have room for twice as many
			step()
		}
		if n := testing.AllocsPerRun(1500, step); n != 0 {
			t.Errorf("cache %v: %v allocations per step", cache, n)
		}
		if got := s.Stats(); got.Running != 64 || got.Waiting != 1000 || got.KV.Used < 64*3500/16 {
			t.Errorf("cache %v: the steps did not do what was meant:\n%v", cache, got)
		}
	}
}

// The caller's mistakes would misplace tokens, so they must not pass unnoticed.
func TestMisusePanics(t *testing.T) {
	for _, c := range []struct {
		want string
		do   func(s *Scheduler)
	}{
		{"not the oldest", func(s *Scheduler) { s.Next(); s.Commit(s.Next(), make([]Result, 2)) }},
		{"not the oldest", func(s *Scheduler) { p := s.Next(); s.Commit(p, make([]Result, 2)); s.Commit(p, nil) }},
		{"1 results for 2 sequences", func(s *Scheduler) { s.Commit(s.Next(), make([]Result, 1)) }},
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, c.want) {
					t.Errorf("panic %q, want %q", got, c.want)
				}
			}()
			c.do(busy(t, 2, 0, true))
		}()
	}
}

// One step of 256 decoding sequences with 10,000 in the queue.
func BenchmarkStep(b *testing.B) {
	for _, c := range []struct {
		name  string
		cache bool
	}{{"cache=off", false}, {"cache=on", true}} {
		b.Run(c.name, func(b *testing.B) {
			var s *Scheduler
			var step func()
			begin := func() {
				s = busy(b, 256, 10000, c.cache)
				step = pipelined(s)
				for range 600 {
					step()
				}
			}
			begin()
			b.ReportAllocs()
			for b.Loop() {
				if step(); s.Stats().KV.Used > 65000 {
					b.StopTimer()
					begin()
					b.StartTimer()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(256*b.N), "ns/token")
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
