package engine

import (
	"fmt"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/sched"
)

// null is a Runner that computes nothing, so that only the loop's own work is left. Once in a hundred steps it waits for
// someone to take from its channel.
type null struct {
	logits  [][]float32
	steps   int
	hundred chan struct{}
	ended   <-chan struct{}
}

func (n *null) Forward(b *compute.Batch) error {
	for len(n.logits) < len(b.Logits) {
		n.logits = append(n.logits, make([]float32, 32))
	}
	if n.steps++; n.steps%100 == 0 {
		select {
		case n.hundred <- struct{}{}:
		case <-n.ended:
		}
	}
	return nil
}

func (n *null) Logits(i int) []float32 { return n.logits[i] }

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
	r.Params.Temperature = 0
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

// BenchmarkStep measures what the loop adds to each step: planning, packing, sampling from 32 logits, delivery.
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
