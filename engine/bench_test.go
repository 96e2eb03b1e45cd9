package engine

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/sched"
)

// done is a channel of steps that take no time.
var done = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// null is a Runner that computes nothing, so that only the loop's own work is left. Once in a hundred steps it waits
// for someone to take from its channel, if it has one.
type null struct {
	steps   int
	hundred chan struct{}
	ended   <-chan struct{}
}

func (n *null) Start(*compute.Batch) (compute.Step, error) {
	if n.steps++; n.hundred != nil && n.steps%100 == 0 {
		select {
		case n.hundred <- struct{}{}:
		case <-n.ended:
		}
	}
	return n, nil
}

func (n *null) BlockBytes() int           { return 0 }
func (n *null) Trees() bool               { return false }
func (n *null) Choose()                   {}
func (n *null) Done() <-chan struct{}     { return done }
func (n *null) Wait() error               { return nil }
func (n *null) Chosen(int) compute.Chosen { return compute.Chosen{} }
func (n *null) Logits(int) []float32      { return nil }
func (n *null) Hidden(int) []float32      { return nil }

// decode makes an engine in which seqs sequences of 4096 tokens decode, each with a reader, and returns what lets a
// hundred steps pass.
func decode(tb testing.TB, seqs int) (hundred func()) {
	const most = 4096
	n := &null{hundred: make(chan struct{}), ended: tb.Context().Done()}
	e := start(tb, Config{Runner: n, Vocab: 32, Sched: sched.Config{
		BlockTokens: 16, Blocks: seqs * most / 16 * 2, MaxSeqs: seqs, TokenBudget: 512, MaxLen: most, PrefixCache: true,
	}})
	r := request(1, 1, most-1)
	r.Prompt[0] = 1
	r.Sampling.Temperature = 0
	for range seqs {
		go func() {
			for {
				s, err := e.Submit(tb.Context(), r)
				if err != nil {
					return
				}
				for last := (Token{}); last.Finish == ""; {
					if last, err = s.Next(tb.Context()); err != nil {
						return
					}
				}
			}
		}()
	}
	for e.Stats().Sched.Running < seqs {
		<-n.hundred
	}
	return func() { <-n.hundred }
}

// BenchmarkStep measures what the loop adds to each step: planning, packing, delivery.
func BenchmarkStep(b *testing.B) {
	for _, seqs := range []int{1, 32, 256} {
		b.Run(fmt.Sprint(seqs), func(b *testing.B) {
			hundred := decode(b, seqs)
			b.ReportAllocs()
			for b.Loop() {
				hundred()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/100, "µs/step")
		})
	}
}

// TestStepAllocations wants no allocation in a step but the growth of the sequences' own tokens, which doubles.
func TestStepAllocations(t *testing.T) {
	if verifying {
		t.Skip("the books are verified after each step, which allocates")
	}
	hundred := decode(t, 8)
	for range 5 {
		hundred()
	}
	if n := testing.AllocsPerRun(10, hundred); n > 8*4 {
		t.Errorf("%v allocations in a hundred steps of 8 sequences", n)
	}
}

// BenchmarkPrefixCache serves requests of 256 tokens in and 128 out that have nothing in common, with a Runner that
// computes nothing, with and without the prefix cache: the difference is what it costs where it finds nothing.
func BenchmarkPrefixCache(b *testing.B) {
	for _, cache := range []bool{false, true} {
		b.Run(fmt.Sprint(cache), func(b *testing.B) {
			const clients, in, out = 32, 256, 128
			n := &null{ended: b.Context().Done()}
			e := start(b, Config{Runner: n, Vocab: 32, Sched: sched.Config{
				BlockTokens: 16, Blocks: 2 * clients * (in + out) / 16, MaxSeqs: clients, TokenBudget: 512, PrefixCache: cache,
			}})
			r := request(1, in, out)
			clear(r.Prompt)
			r.Sampling.Temperature = 0
			work := make(chan int32)
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					for id := range work {
						r := r
						r.Prompt = slices.Clone(r.Prompt)
						for i := range 8 {
							r.Prompt[i] = id >> (4 * i) & 15
						}
						s, err := e.Submit(b.Context(), r)
						for last := (Token{}); err == nil && last.Finish == ""; {
							last, err = s.Next(b.Context())
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			id := int32(0)
			for b.Loop() {
				id++
				work <- id
			}
			close(work)
			all.Wait()
			if st := e.Stats().Sched.KV; st.Hits > 0 || cache != (st.Evictions > 0) && b.N > 100 {
				b.Errorf("%v", st)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(in+out), "ns/token")
		})
	}
}
