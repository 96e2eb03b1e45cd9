package engine

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/sampling"
	"github.com/kvasir-llm/kvasir/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const fakeVocab = 97

// fake is a Runner whose logits are a hash of all tokens of the sequence, which it reads from a simulated cache. A wrong
// block table, position or order of steps changes them.
type fake struct {
	blockTokens int
	slots       []int32 // [blocks*blockTokens] the token in each slot of the cache
	logits      [][]float32
	hidden      [][]float32

	// forward, if set, may act before a step; an error fails it. after may spoil its logits, given the sequences' tokens.
	forward func(b *compute.Batch) error
	after   func(tokens []int32, logits []float32)
}

func newFake(cfg sched.Config) *fake {
	return &fake{blockTokens: cfg.BlockTokens, slots: make([]int32, cfg.Blocks*cfg.BlockTokens)}
}

func (f *fake) Forward(b *compute.Batch) error {
	if f.forward != nil {
		if err := f.forward(b); err != nil {
			return err
		}
	}
	cache := compute.CacheSpec{Blocks: len(f.slots) / f.blockTokens, BlockTokens: f.blockTokens, Layers: make([]compute.CacheLayer, 1)}
	if err := b.Check(fakeVocab, cache); err != nil {
		return err
	}
	for _, c := range b.Copies {
		copy(f.slots[int(c[1])*f.blockTokens:][:f.blockTokens], f.slots[int(c[0])*f.blockTokens:])
	}
	b.Copies = b.Copies[:0]
	f.logits = f.logits[:0]
	f.hidden = f.hidden[:0]
	wanted, hidden := b.Logits, b.Hidden
	for _, s := range b.Seqs {
		slot := func(p int32) *int32 {
			return &f.slots[int(s.Tables[0][p/int32(f.blockTokens)])*f.blockTokens+int(p)%f.blockTokens]
		}
		for r := s.Row; r < s.Row+s.Rows; r++ {
			if b.Pos[r] != s.Start+r-s.Row {
				return errors.New("fake: positions are not consecutive")
			}
			*slot(b.Pos[r]) = b.IDs[r]
			var tokens []int32
			for p := range b.Pos[r] + 1 {
				tokens = append(tokens, *slot(p))
			}
			if len(hidden) > 0 && hidden[0] == r {
				hidden, f.hidden = hidden[1:], append(f.hidden, fakeLogits(tokens)[:8])
			}
			if len(wanted) == 0 || wanted[0] != r {
				continue
			}
			wanted = wanted[1:]
			l := fakeLogits(tokens)
			if f.after != nil {
				f.after(tokens, l)
			}
			f.logits = append(f.logits, l)
		}
	}
	return nil
}

func (f *fake) Logits(i int) []float32 { return f.logits[i] }
func (f *fake) Hidden(i int) []float32 { return f.hidden[i] }

// fakeLogits hashes a sequence to logits.
func fakeLogits(tokens []int32) []float32 {
	h := uint64(14695981039346656037)
	for _, t := range tokens {
		h = (h ^ uint64(t)) * 1099511628211
	}
	out := make([]float32, fakeVocab)
	for i := range out {
		h = h*6364136223846793005 + 1442695040888963407
		out[i] = float32(h>>40) / (1 << 21)
	}
	return out
}

// expected is what a request yields, computed without an engine.
func expected(r Request) []int32 {
	var s sampling.Sampler
	seq := sampling.NewSequence(r.Params, r.Prompt)
	ids := slices.Clone(r.Prompt)
	for len(ids) < len(r.Prompt)+r.MaxTokens {
		c, err := s.Sample(seq, fakeLogits(ids), -1)
		if err != nil {
			panic(err)
		}
		seq.Accept(c.Token)
		ids = append(ids, c.Token)
		if slices.Contains(r.StopTokens, c.Token) && !r.IgnoreEOS {
			break
		}
	}
	return ids[len(r.Prompt):]
}

// smallConfig is a scheduler's configuration with blocks for about eight short sequences.
func smallConfig() sched.Config {
	return sched.Config{BlockTokens: 4, Blocks: 64, MaxSeqs: 8, TokenBudget: 32, MaxChunk: 8, PrefixCache: true}
}

// start makes an engine that ends with the test.
func start(t testing.TB, cfg Config) *Engine {
	t.Helper()
	if cfg.Vocab == 0 {
		cfg.Vocab = fakeVocab
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// request returns a sampled request; n tells requests and their prompts apart.
func request(n, promptLen, maxTokens int) Request {
	p := sampling.Defaults()
	p.Seed = uint64(n)
	r := Request{Params: p, MaxTokens: maxTokens, Logprobs: -1, PromptLogprobs: -1}
	for i := range promptLen {
		r.Prompt = append(r.Prompt, int32((n*31+i*7)%fakeVocab))
	}
	return r
}

func submit(t testing.TB, e *Engine, ctx context.Context, r Request) *Stream {
	t.Helper()
	s, err := e.Submit(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read returns all tokens of a stream and its last Token, which may be no token.
func read(t testing.TB, s *Stream) (ids []int32, last Token) {
	t.Helper()
	for {
		tok, err := s.Next(context.Background())
		if err == io.EOF {
			return ids, last
		}
		if err != nil {
			t.Error(err)
			return ids, last
		}
		if last.Finish != "" {
			t.Errorf("token %v comes after the last, %v", tok, last)
		}
		last = tok
		if tok.ID >= 0 {
			ids = append(ids, tok.ID)
		}
	}
}

// wantIdle fails if the engine still holds something.
func wantIdle(t testing.TB, e *Engine) {
	t.Helper()
	s := e.Stats().Sched
	if s.Running+s.Waiting+s.KV.Used != 0 {
		t.Errorf("%d run, %d wait and %d blocks are in use; want none", s.Running, s.Waiting, s.KV.Used)
	}
}

// gate lets a test run a Runner step by step. It opens when the test ends.
type gate struct {
	pass  chan struct{}
	ended <-chan struct{}
}

func newGate(t *testing.T) *gate { return &gate{pass: make(chan struct{}), ended: t.Context().Done()} }

func (g *gate) forward(*compute.Batch) error {
	select {
	case <-g.pass:
	case <-g.ended:
	}
	return nil
}

func (g *gate) step() { g.pass <- struct{}{} }
func (g *gate) open() { close(g.pass) }
