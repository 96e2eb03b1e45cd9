package cuda

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/sampling"
	"github.com/kvasir-llm/kvasir/sched"
)

// ground is an engine.Base of devices of one driver.
type ground struct {
	t *testing.T
	f *fake
	d *device
	p compute.Program
}

func (g *ground) open() (engine.Runner, error) {
	d, err := newDevice(g.f, 0)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, 1))
	graph := llama(g.t, d, 1, 128, 256, 4, 2, 64, 1000, func(out, in int) compute.Matrix {
		return weight(g.t, d, bell(r, out*in, 1), out, in)
	})
	p, err := d.Compile(graph, oneLayer(g.t, d, 100, compute.CacheLayer{KVHeads: 2, KDim: 64, VDim: 64}), compute.Limits{Rows: 64, Slots: 4})
	g.d, g.p = d, p
	return p, err
}

func (g *ground) close() error {
	if g.p == nil {
		return nil
	}
	err := errors.Join(g.p.Close(), g.d.Close())
	g.d, g.p = nil, nil
	return err
}

func (g *ground) Rebuild() (engine.Runner, error) {
	if err := g.close(); err != nil {
		return nil, err
	}
	return g.open()
}

func (g *ground) Sleep(engine.SleepLevel) error      { return g.close() }
func (g *ground) WakeWeights() error                 { return nil }
func (g *ground) WakeRunner() (engine.Runner, error) { return g.open() }
func (g *ground) token(e *engine.Engine, n int) engine.Token {
	g.t.Helper()
	r := engine.Request{Prompt: sequence(20), Params: engine.Params{Sampling: sampling.Defaults(), MaxTokens: n, Logprobs: -1, PromptLogprobs: -1}}
	s, err := e.Submit(g.t.Context(), r)
	if err != nil {
		g.t.Fatal(err)
	}
	for i := 1; ; i++ {
		tok, err := s.Next(g.t.Context())
		if err != nil || tok.Err != nil || tok.ID != 0 {
			g.t.Fatalf("token %d: %+v, %v; want token 0, which is all that the driver's memory holds", i, tok, err)
		}
		if tok.Finish != "" {
			if i != n {
				g.t.Errorf("%d tokens; want %d", i, n)
			}
			return tok
		}
	}
}

// TestFaultOfKernel lets kernels spoil the context at one point or another of a request's steps: the engine gives up
// the device, opens another and goes on, and the driver misses nothing in the end, nor after a sleep.
func TestFaultOfKernel(t *testing.T) {
	for after := 3; after < 60; after += 14 {
		g := &ground{t: t, f: newFake(t)}
		p, err := g.open()
		if err != nil {
			t.Fatal(err)
		}
		empty := g.f.Free
		e, err := engine.New(engine.Config{Runner: p, Base: g, Vocab: 1000,
			Sched: sched.Config{BlockTokens: 16, Blocks: 100, MaxSeqs: 4, TokenBudget: 64, MaxChunk: 32, PrefixCache: true}})
		if err != nil {
			t.Fatal(err)
		}
		g.token(e, 3)
		g.f.Mu.Lock()
		g.f.FaultAt = g.f.Work + after
		g.f.Mu.Unlock()
		if last := g.token(e, 30); last.Finish != engine.FinishLength {
			t.Errorf("a fault %d calls on: %+v", after, last)
		}
		if n := e.Stats().Rebuilds; n != 1 {
			t.Errorf("a fault %d calls on: the device was made again %d times", after, n)
		}
		g.f.Mu.Lock()
		free := g.f.Free
		g.f.Mu.Unlock()
		if free != empty {
			t.Errorf("a fault %d calls on: %d bytes are free; want %d as before", after, free, empty)
		}
		if err := e.Sleep(t.Context(), engine.SleepOnDisk, engine.SleepWait); err != nil {
			t.Error(err)
		}
		g.f.leaks()
		if err := e.Wake(t.Context(), true, true); err != nil {
			t.Error(err)
		}
		g.token(e, 3)
		if err := errors.Join(e.Close(), g.close()); err != nil {
			t.Error(err)
		}
		g.f.leaks()
	}
}
