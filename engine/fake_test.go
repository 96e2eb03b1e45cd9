package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/choose"
	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/sampling"
	"github.com/kvasir-llm/kvasir/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const fakeVocab = 97

// fake is a Runner whose logits are a hash of all tokens of the sequence, which it reads from a simulated cache. A
// wrong block table, position or order of steps changes them. Each step runs on a goroutine of its own once the one
// before is done.
type fake struct {
	blockTokens int
	slots       []int32           // [blocks*blockTokens] the token in each slot of the cache
	tables      map[int32][]int32 // block tables by slot of the sequence
	states      map[int32]*choose.State
	last        *fakeStep
	failed      atomic.Int64 // steps
	lists       bool         // it takes no trees
	seen        int64        // of them, those whose Wait has returned

	// forward, if set, may act before a step; an error fails it. after may spoil its logits, given the sequences'
	// tokens.
	forward func(b *compute.Batch) error
	after   func(tokens []int32, logits []float32)
}

func newFake(cfg sched.Config) *fake {
	return &fake{
		blockTokens: cfg.BlockTokens, slots: make([]int32, cfg.Blocks*cfg.BlockTokens),
		tables: map[int32][]int32{}, states: map[int32]*choose.State{},
	}
}

// fakeStep is a step of a fake.
type fakeStep struct {
	f      *fake
	b      *compute.Batch
	before *fakeStep
	seen   int64
	done   chan struct{}
	resume chan struct{} // [1]
	waited bool
	fault  *compute.Fault

	logits map[int32][]float32 // by row
	hidden map[int32][]float32
	chosen []compute.Chosen
}

func (f *fake) BlockBytes() int { return 4 * f.blockTokens }
func (f *fake) Trees() bool     { return !f.lists }

func (f *fake) Start(b *compute.Batch) (compute.Step, error) {
	cache := compute.CacheSpec{Blocks: len(f.slots) / f.blockTokens, BlockTokens: f.blockTokens, Layers: make([]compute.CacheLayer, 1)}
	if err := b.Check(fakeVocab, cache, compute.Limits{Rows: 1 << 20, Slots: 1 << 20}); err != nil {
		return nil, err
	}
	s := &fakeStep{
		f: f, b: b, before: f.last, seen: f.seen, done: make(chan struct{}), resume: make(chan struct{}, 1),
		logits: map[int32][]float32{}, hidden: map[int32][]float32{}, chosen: make([]compute.Chosen, len(b.Choose)),
	}
	if s.before != nil && s.before.before != nil {
		if !s.before.before.waited {
			return nil, errors.New("fake: two steps are under way")
		}
		s.before.before.before = nil
	}
	f.last = s
	go s.run()
	return s, nil
}

func (s *fakeStep) run() {
	defer close(s.done)
	defer func() {
		if v := recover(); v != nil {
			s.fault = &compute.Fault{Err: fmt.Errorf("the step panicked: %v\n%s", v, debug.Stack())}
		}
		if s.fault != nil && !s.fault.Skipped {
			s.f.failed.Add(1)
		}
	}()
	if s.before != nil {
		<-s.before.done
	}
	if s.seen != s.f.failed.Load() {
		s.fault = &compute.Fault{Err: errors.New("skipped"), Skipped: true}
		return
	}
	for r, k := range s.b.From {
		if k >= 0 {
			s.b.IDs[r] = max(0, s.before.chosen[k].Token)
		}
	}
	if err := s.compute(); err != nil && !errors.As(err, &s.fault) {
		s.fault = &compute.Fault{Err: err}
	}
}

func (s *fakeStep) compute() error {
	f, b := s.f, s.b
	if f.forward != nil {
		if err := f.forward(b); err != nil {
			return err
		}
	}
	for _, e := range b.Edits {
		for len(f.tables[e.Slot]) <= int(e.At) {
			f.tables[e.Slot] = append(f.tables[e.Slot], -1)
		}
		f.tables[e.Slot][e.At] = e.Block
	}
	for _, c := range b.Choosers {
		f.states[c.Slot] = new(choose.State)
		f.states[c.Slot].Reset(c.Choosing)
	}
	for _, sh := range b.Shifts {
		f.slots[int(sh.To)*f.blockTokens+int(sh.ToAt)] = f.slots[int(sh.From)*f.blockTokens+int(sh.FromAt)]
	}
	b.Shifts = b.Shifts[:0]
	if f.lists && len(b.Parents) > 0 {
		return errors.New("fake: a tree")
	}
	f.move(b.Out, func(held, data []int32) { copy(data, held) })
	for _, c := range b.Copies {
		copy(f.slots[int(c[1])*f.blockTokens:][:f.blockTokens], f.slots[int(c[0])*f.blockTokens:])
	}
	f.move(b.In, func(held, data []int32) { copy(held, data) })
	b.Out, b.Copies, b.In = b.Out[:0], b.Copies[:0], b.In[:0]
	for _, q := range b.Seqs {
		slot := func(p int32) *int32 {
			return &f.slots[int(f.tables[q.Slot][p/int32(f.blockTokens)])*f.blockTokens+int(p)%f.blockTokens]
		}
		for r := q.Row; r < q.Row+q.Rows; r++ {
			*slot(q.Start + r - q.Row) = b.IDs[r]
			var tokens []int32
			for p := range q.Start {
				tokens = append(tokens, *slot(p))
			}
			before := len(tokens)
			for at := r; at >= 0; at = b.Parent(&q, at) {
				tokens = slices.Insert(tokens, before, *slot(q.Start + at - q.Row))
			}
			if int(b.Pos[r]) != len(tokens)-1 {
				return errors.New("fake: positions are not consecutive")
			}
			l := fakeLogits(tokens)
			s.hidden[r] = slices.Clone(l[:8])
			if f.after != nil && slices.Contains(b.Logits, r) {
				f.after(tokens, l)
			}
			s.logits[r] = l
		}
	}
	s.choose()
	return nil
}

// move calls f with what blocks hold and the memory of their transfers.
func (f *fake) move(transfers []compute.Transfer, copy func(held, data []int32)) {
	for _, t := range transfers {
		copy(f.slots[int(t.Block)*f.blockTokens:][:f.blockTokens], kernel.View[int32](t.Data))
	}
}

// choose makes the step's choices.
func (s *fakeStep) choose() {
	if s.b.Hold {
		<-s.resume
	}
	var sampler choose.Sampler
	for i, c := range s.b.Choose {
		row, words := s.b.Logits[c.Row], compute.MaskWords(fakeVocab)
		if s.chosen[i].Token = -1; c.After >= 0 && s.chosen[c.After].Token != s.b.IDs[row] {
			continue
		}
		var mask []uint32
		if c.Mask >= 0 {
			mask = s.b.Masks[int(c.Mask)*words:][:words]
		}
		s.chosen[i] = sampler.Choose(s.f.states[c.Slot], slices.Clone(s.logits[row]), c, mask)
		s.chosen[i].Top = slices.Clone(s.chosen[i].Top)
	}
}

func (s *fakeStep) Done() <-chan struct{} { return s.done }

func (s *fakeStep) Choose() { s.resume <- struct{}{} }

func (s *fakeStep) Wait() error {
	<-s.done
	if s.fault == nil {
		s.waited = true
		return nil
	}
	if !s.waited && !s.fault.Skipped {
		s.f.seen++
	}
	s.waited = true
	return s.fault
}

func (s *fakeStep) Chosen(i int) compute.Chosen { return s.chosen[i] }
func (s *fakeStep) Logits(i int) []float32      { return s.logits[s.b.Logits[s.b.Read[i]]] }
func (s *fakeStep) Hidden(i int) []float32      { return s.hidden[s.b.Hidden[i]] }

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
	var s choose.Sampler
	var state choose.State
	state.Reset(r.Sampling.Choosing(r.Prompt, nil, nil))
	ids := slices.Clone(r.Prompt)
	for n := range uint64(r.MaxTokens) {
		c := s.Choose(&state, fakeLogits(ids), compute.Choice{N: n, Given: -1, Top: -1}, nil)
		if c.Err != nil {
			panic(c.Err)
		}
		ids = append(ids, c.Token)
		if slices.Contains(r.Stops(), c.Token) {
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
	r := Request{Params: Params{Sampling: p, MaxTokens: maxTokens, Logprobs: -1, PromptLogprobs: -1}}
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
