package text

import (
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/internal/brittle"
)

// brittleOpened counts how often the brittle device was opened: the processor, or what KVASIR_GPU says is there.
var brittleOpened atomic.Int64

func init() {
	gpu := os.Getenv("KVASIR_GPU") != ""
	brittle.Register(!gpu, func() (compute.Device, error) {
		brittleOpened.Add(1)
		if gpu {
			return compute.Open("cuda", compute.Options{})
		}
		return cpu.New(cpu.Options{Threads: 1})
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
	m := openBrittle(t, Options{})
	_, want, _ := answer(t, m, plainRequest("Once upon a time"))
	before := brittleOpened.Load()
	brittle.Left.Store(9)
	defer brittle.Left.Store(0)
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
