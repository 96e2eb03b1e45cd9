package text

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/hub/builtin"
)

// brittle is a device whose step number brittleAt is lost with the device. It is the processor, or what KVASIR_GPU says
// is there.
type brittle struct{ compute.Device }

var brittleAt, brittleSteps, brittleOpened atomic.Int64

type brittleProgram struct{ compute.Program }

type brittleStep struct {
	compute.Step
	lost bool
}

func (b brittle) Compile(g *compute.Graph, c compute.Cache, l compute.Limits) (compute.Program, error) {
	p, err := b.Device.Compile(g, c, l)
	return brittleProgram{p}, err
}

func (b brittle) Sleep() error {
	if d, ok := b.Device.(compute.Sleeper); ok {
		return d.Sleep()
	}
	return nil
}

func (b brittle) Wake() error {
	if d, ok := b.Device.(compute.Sleeper); ok {
		return d.Wake()
	}
	return nil
}

func (p brittleProgram) Start(b *compute.Batch) (compute.Step, error) {
	s, err := p.Program.Start(b)
	return brittleStep{s, b.Rows() > 0 && brittleSteps.Add(1) == brittleAt.Load()}, err
}

func (s brittleStep) Wait() error {
	if err := s.Step.Wait(); err != nil || !s.lost {
		return err
	}
	return &compute.Fault{Err: errors.New("the device fell off the bus"), Lost: true}
}

func init() {
	compute.Register(compute.Kind{
		Name: "brittle", Rank: 2, Host: os.Getenv("KVASIR_GPU") == "",
		Find: func() []compute.Found { return nil },
		Open: func(string, compute.Options) (d compute.Device, err error) {
			brittleOpened.Add(1)
			if os.Getenv("KVASIR_GPU") != "" {
				d, err = compute.Open("cuda", compute.Options{})
			} else {
				d, err = cpu.New(cpu.Options{Threads: 1})
			}
			if err != nil {
				return nil, err
			}
			return brittle{d}, nil
		},
	})
}

func openBrittle(t *testing.T, o Options) *Model {
	t.Helper()
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	o.Name, o.Device, o.KVBytes, o.Context = "mini", "brittle", 8<<20, 256
	m, err := Open(ckpt, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := ckpt.Close(); err != nil { // it is opened again
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func plainRequest(prompt string) Request {
	p := engine.Params{MaxTokens: 20, Logprobs: -1, PromptLogprobs: -1}
	p.Sampling.TopP, p.Sampling.RepetitionPenalty, p.IgnoreEOS = 1, 1, true
	return Request{Prompt: prompt, Params: p}
}

// TestDeviceSetUpAgain loses the device in the middle of an answer, whose tokens are those that it has without that. On
// a GPU, KVASIR_GPU=1 lets it be closed with all it holds and opened again.
func TestDeviceSetUpAgain(t *testing.T) {
	brittleAt.Store(-1)
	m := openBrittle(t, Options{})
	_, want, _ := answer(t, m, plainRequest("Once upon a time"))
	before := brittleOpened.Load()
	brittleSteps.Store(0)
	brittleAt.Store(9)
	defer brittleAt.Store(-1)
	if _, got, last := answer(t, m, plainRequest("Once upon a time")); !slices.Equal(got, want) || len(got) != 20 {
		t.Errorf("got %v, %+v; want %v", got, last, want)
	}
	if n := brittleOpened.Load() - before; n != 1 || m.Engine.Stats().Rebuilds != 1 {
		t.Errorf("the device was opened %d times more, and the engine counts %d", n, m.Engine.Stats().Rebuilds)
	}
}

// TestModelSleeps puts a model to sleep at each level, and compares what it answers before and afterwards, in adapters
// and tiers as without.
func TestModelSleeps(t *testing.T) {
	brittleAt.Store(-1)
	m := openBrittle(t, Options{HostKVBytes: 4 << 20})
	_, want, _ := answer(t, m, plainRequest("Once upon a time"))
	for _, level := range []engine.SleepLevel{engine.SleepOnHost, engine.SleepOnDisk, engine.SleepOnHost} {
		awake := freeOf(t, m)
		if err := m.Engine.Sleep(t.Context(), level, engine.SleepWait); err != nil {
			t.Fatal(err)
		}
		if os.Getenv("KVASIR_GPU") != "" && level == engine.SleepOnHost {
			if asleep := freeOf(t, m); asleep < awake+m.KVBytes {
				t.Errorf("level %d: %d bytes are free, awake %d; the cache alone takes %d", level, asleep, awake, m.KVBytes)
			}
		}
		if err := m.LoadAdapter("a", "nowhere", false); err == nil {
			t.Error("an adapter that is not there is loaded")
		}
		if err := m.Engine.Wake(t.Context(), true, true); err != nil {
			t.Fatal(err)
		}
		if _, got, _ := answer(t, m, plainRequest("Once upon a time")); !slices.Equal(got, want) {
			t.Errorf("after level %d: %v; want %v", level, got, want)
		}
	}
	if err := m.Engine.Sleep(t.Context(), 3, engine.SleepKeep); err == nil || !strings.Contains(err.Error(), "level 3; want 1 or 2") || m.Engine.Asleep() {
		t.Errorf("level 3: %v", err)
	}
	if _, got, _ := answer(t, m, plainRequest("Once upon a time")); !slices.Equal(got, want) {
		t.Errorf("after a sleep that was refused: %v; want %v", got, want)
	}
	if err := m.Engine.Sleep(t.Context(), engine.SleepOnDisk, engine.SleepKeep); err != nil { // and is closed
		t.Error(err)
	}
}

func freeOf(t *testing.T, m *Model) int64 {
	t.Helper()
	free, _, err := m.base.dev.Memory()
	if err != nil {
		t.Fatal(err)
	}
	return free
}
