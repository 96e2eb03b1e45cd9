package engine

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/sched"
	"github.com/kvasir-llm/kvasir/weights"
)

// vector reads a pooled stream to its end.
func vector(t *testing.T, s *Stream) []float32 {
	t.Helper()
	last, err := s.Next(t.Context())
	if err != nil || last.Finish != FinishStop || last.ID != -1 {
		t.Fatalf("a pooled request gave %+v (%v); want its end alone", last, err)
	}
	if _, err := s.Next(t.Context()); err != io.EOF {
		t.Fatalf("after the end: %v; want EOF", err)
	}
	return s.Vector()
}

// poolRequests are prompts of several lengths with common beginnings, pooled in every way.
func poolRequests(seed uint64, n, vocab int) []Request {
	rng := rand.New(rand.NewPCG(seed, 0))
	var all []Request
	base := make([]int32, 60)
	for i := range base {
		base[i] = int32(rng.IntN(vocab))
	}
	for i := range n {
		prompt := append(slices.Clone(base[:rng.IntN(20)]), base[rng.IntN(30):][:1+rng.IntN(30)]...)
		all = append(all, Request{Prompt: prompt, Pool: poolings[i%3]})
	}
	return all
}

// TestPooling compares with the hidden states of the fake, in steps of all sizes, with and without a prefix cache,
// and beside requests that generate, for which pooled ones are preempted.
func TestPooling(t *testing.T) {
	for _, chunk := range []int{1, 3, 8, 32} {
		for _, cache := range []bool{false, true} {
			t.Run(fmt.Sprint(chunk, cache), func(t *testing.T) {
				cfg := smallConfig()
				cfg.MaxChunk, cfg.PrefixCache, cfg.Blocks = chunk, cache, 30
				e := start(t, Config{Runner: newFake(cfg), Sched: cfg})
				var streams []*Stream
				requests := poolRequests(1, 24, fakeVocab)
				for i, r := range requests {
					if i%6 == 0 {
						submit(t, e, t.Context(), request(i, 6, 40))
					}
					streams = append(streams, submit(t, e, t.Context(), r))
				}
				for i, r := range requests {
					if got, want := vector(t, streams[i]), fakeVector(r); !slices.Equal(got, want) {
						t.Errorf("request %d, %s of %d tokens: %v; want %v", i, r.Pool, len(r.Prompt), got, want)
					}
				}
			})
		}
	}
}

// fakeVector is what the fake gives, computed without an engine.
func fakeVector(r Request) []float32 {
	from, to := 0, len(r.Prompt)
	switch r.Pool {
	case PoolCLS:
		to = 1
	case PoolLast:
		from = to - 1
	}
	sum := make([]float64, 8)
	for p := from; p < to; p++ {
		for i, v := range fakeLogits(r.Prompt[:p+1])[:8] {
			sum[i] += float64(v)
		}
	}
	out := make([]float32, 8)
	for i, v := range sum {
		out[i] = float32(v / float64(to-from))
	}
	return out
}

// TestEncoderVectors computes the vectors and classes of an encoder alone and in crowds: all bits must be the same.
func TestEncoderVectors(t *testing.T) {
	for _, name := range []string{"bert", "bert_classes"} {
		t.Run(name, func(t *testing.T) {
			var want [][]float32
			for _, budget := range []int{50, 64, 200} {
				e, vocab := encoderEngine(t, name, budget)
				requests := poolRequests(2, 12, vocab)
				for i := range requests {
					if name == "bert_classes" {
						requests[i].Pool = PoolClasses
					}
					if requests[i].Types = make([]int32, len(requests[i].Prompt)); i%2 == 0 {
						requests[i].Types[len(requests[i].Types)-1] = 1
					} else if i%3 == 0 {
						requests[i].Types = nil
					}
				}
				var streams []*Stream
				for i, r := range requests {
					if streams = append(streams, submit(t, e, t.Context(), r)); budget == 50 {
						vector(t, streams[i]) // one after the other
					}
				}
				var got [][]float32
				for _, s := range streams {
					if budget != 50 {
						vector(t, s)
					}
					got = append(got, s.Vector())
				}
				if want == nil {
					want = got
				}
				for i := range got {
					for j, v := range got[i] {
						if math.Float32bits(v) != math.Float32bits(want[i][j]) {
							t.Fatalf("budget %d: request %d: value %d is %g; want %g", budget, i, j, v, want[i][j])
						}
					}
				}
			}
		})
	}
}

func encoderEngine(t *testing.T, name string, budget int) (e *Engine, vocab int) {
	t.Helper()
	ckpt, err := weights.Open(filepath.Join("..", "model", "testdata", "encoders", name, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	m, err := loader.Model(ckpt, dev, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.NewRunner(budget, 40, 16, 16)
	if err != nil {
		t.Fatal(err)
	}
	e, err = New(Config{Runner: r, Vocab: m.Spec.Vocab,
		Sched: sched.Config{BlockTokens: 16, Blocks: 40, MaxSeqs: 8, TokenBudget: budget, MaxPassed: 2, MaxLen: 301, Whole: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(); dev.Close(); ckpt.Close() })
	return e, m.Spec.Vocab
}

func TestPoolingRefused(t *testing.T) {
	e, _ := encoderEngine(t, "bert", 50)
	for want, r := range map[string]Request{
		"pooling is \"max\"":                       {Prompt: []int32{1}, Pool: "max"},
		"prompt has 2 tokens and 1 token types":    {Prompt: []int32{1, 2}, Types: []int32{0}, Pool: PoolMean},
		"prompt has 301 tokens; want at most 300":  {Prompt: make([]int32, 301), Pool: PoolMean},
		"computed in one step, which has 50 rows":  {Prompt: make([]int32, 51), Pool: PoolMean},
		"prompt has token 97 at position 1; the v": {Prompt: []int32{1, 97}, Pool: PoolMean},
	} {
		_, err := e.Submit(t.Context(), r)
		if p := new(fault.Error); err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &p) && !strings.Contains(want, "in one step") {
			t.Errorf("error %v; want %q", err, want)
		}
	}
}
