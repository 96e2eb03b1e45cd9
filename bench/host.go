package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/sampling"
	"github.com/kvasir-llm/kvasir/sched"
)

// HostOptions describe the load of MeasureHost.
type HostOptions struct {
	Seqs    int           // sequences that decode
	Context int           // tokens of each, nearly all of them shared
	Step    time.Duration // that the simulated device takes for a step
	Steps   int           // measured
}

// HostReport is what the host does for a step.
type HostReport struct {
	Host   float64 `json:"host_us_per_step"` // of the engine's loop, all that it does: median, in microseconds
	Least  float64 `json:"host_us_least"`    // of all steps
	CPU    float64 `json:"cpu_us_per_step"`  // processor time of the whole process, with the readers that it wakes
	Idle   float64 `json:"device_idle_share"`
	Allocs float64 `json:"allocs_per_step"` // of the whole process
	Seqs   int     `json:"seqs"`
	Tokens int     `json:"context"`
	Step   float64 `json:"step_ms"`
	Steps  int     `json:"steps"`
}

// timed is an engine.Runner that computes nothing and takes as long for each step. It is idle while no step is queued.
type timed struct {
	step  time.Duration
	queue chan *deviceStep
	ring  [2]deviceStep
	n     int

	mu    sync.Mutex
	ends  time.Time // when the last step that was started is over
	idle  time.Duration
	total time.Duration
}

// deviceStep is a step of a timed device.
type deviceStep struct {
	ends time.Time
	done chan struct{} // [1]
}

// newTimed starts a device. It tells failed if it does not go on.
func newTimed(step time.Duration, failed chan<- error) *timed {
	t := &timed{step: step, queue: make(chan *deviceStep, 2)}
	for i := range t.ring {
		t.ring[i].done = make(chan struct{}, 1)
	}
	guard.Go(func() error { t.run(); return nil }, func(err error) {
		if err != nil {
			failed <- err
		}
	})
	return t
}

// run tells the engine of each step when its time is over.
func (t *timed) run() {
	timer := time.NewTimer(0)
	for s := range t.queue {
		timer.Reset(time.Until(s.ends))
		<-timer.C
		s.done <- struct{}{}
	}
}

func (t *timed) Start(*compute.Batch) (compute.Step, error) {
	s, now := &t.ring[t.n%2], time.Now()
	t.n++
	t.mu.Lock()
	if begin := t.ends; begin.Before(now) {
		t.idle += now.Sub(begin)
		t.total += now.Sub(begin)
		t.ends = now
	}
	t.ends = t.ends.Add(t.step)
	t.total += t.step
	s.ends = t.ends
	t.mu.Unlock()
	t.queue <- s
	return s, nil
}

// reset begins to count the device's time anew.
func (t *timed) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle, t.total = 0, 0
}

// share returns the share of its time that the device was idle.
func (t *timed) share() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return float64(t.idle) / float64(max(t.total, 1))
}

func (t *timed) BlockBytes() int { return 0 }
func (t *timed) Trees() bool     { return false }

func (s *deviceStep) Choose()                     {}
func (s *deviceStep) Done() <-chan struct{}       { return s.done }
func (s *deviceStep) Wait() error                 { return nil }
func (s *deviceStep) Chosen(i int) compute.Chosen { return compute.Chosen{Token: int32(i)} }
func (s *deviceStep) Logits(int) []float32        { return nil }
func (s *deviceStep) Hidden(int) []float32        { return nil }

// stepWatch is an engine.Observer that keeps the times of full steps.
type stepWatch struct {
	seqs, steps int
	warm        int // full steps before those that are measured
	measuring   func()
	hosts       []time.Duration
	done        chan struct{} // closed when all are there
}

func (*stepWatch) RequestDone(engine.RequestDone) {}

func (w *stepWatch) StepDone(d engine.StepDone) {
	switch {
	case d.Seqs < w.seqs || len(w.hosts) == w.steps:
	case w.warm > 0:
		if w.warm--; w.warm == 0 {
			w.measuring()
		}
	default:
		if w.hosts = append(w.hosts, d.Host); len(w.hosts) == w.steps {
			close(w.done)
		}
	}
}

var errEnded = errors.New("it has all its tokens")

// MeasureHost runs an engine on a simulated device, with sequences that decode at the end of a long context, and
// measures the work of its loop for a step, the time in which the device has no step, and what is allocated.
func MeasureHost(ctx context.Context, o HostOptions) (HostReport, error) {
	const blockTokens, vocab, warm = 16, 1 << 15, 20
	if o.Seqs < 1 || o.Seqs > 1<<14 || o.Context < 64 || o.Context > 1<<20 || o.Step < 0 || o.Steps < 1 || o.Steps > 1<<14 {
		return HostReport{}, fmt.Errorf("bench: %d sequences of %d tokens, %d steps of %v; want 1 to %d, 64 to %d, 1 to %d, at least 0",
			o.Seqs, o.Context, o.Steps, o.Step, 1<<14, 1<<20, 1<<14)
	}
	failed := make(chan error, o.Seqs+1)
	dev := newTimed(o.Step, failed)
	defer close(dev.queue)
	var before, after runtime.MemStats
	var cpu time.Duration
	w := &stepWatch{seqs: o.Seqs, steps: o.Steps, warm: warm, hosts: make([]time.Duration, 0, o.Steps), done: make(chan struct{})}
	w.measuring = func() {
		dev.reset()
		runtime.ReadMemStats(&before)
		cpu = cpuTime()
	}
	answer := 4 * (o.Steps + warm + 2*o.Seqs) // more than are needed until all decode and the steps are over
	e, err := engine.New(engine.Config{Runner: dev, Vocab: vocab, Observer: w, Sched: sched.Config{
		BlockTokens: blockTokens, Blocks: (o.Context+o.Seqs*(answer+2*blockTokens))/blockTokens + 1, MaxSeqs: o.Seqs,
		TokenBudget: 8192, MaxLen: o.Context + answer + 1, PrefixCache: true,
	}})
	if err != nil {
		return HostReport{}, err
	}
	defer e.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	prompt := make([]int32, o.Context)
	for i := range prompt {
		prompt[i] = int32(i*7) % vocab
	}
	for n := range o.Seqs {
		r := engine.Request{Prompt: slices.Clone(prompt)}
		r.Prompt[len(prompt)-1] = int32(n)
		r.Sampling, r.MaxTokens, r.Logprobs, r.PromptLogprobs = sampling.Defaults(), answer, -1, -1
		s, err := e.Submit(ctx, r)
		if err != nil {
			return HostReport{}, err
		}
		first, err := s.Next(ctx)
		if err != nil {
			return HostReport{}, err
		}
		guard.Go(func() error {
			for t := first; ; {
				if t.Err != nil || t.Finish != "" {
					return cmp.Or(t.Err, errEnded)
				}
				if t, err = s.Next(ctx); err != nil {
					return nil
				}
			}
		}, func(err error) {
			if err != nil {
				failed <- err
			}
		})
	}
	select {
	case <-w.done:
	case err := <-failed:
		return HostReport{}, fmt.Errorf("bench: a sequence ended before the measurement: %w", err)
	case <-ctx.Done():
		return HostReport{}, context.Cause(ctx)
	}
	cpu = cpuTime() - cpu
	runtime.ReadMemStats(&after)
	slices.Sort(w.hosts)
	return HostReport{
		Host: float64(w.hosts[len(w.hosts)/2].Nanoseconds()) / 1e3, Least: float64(w.hosts[0].Nanoseconds()) / 1e3,
		CPU: float64(cpu.Nanoseconds()) / 1e3 / float64(o.Steps), Idle: dev.share(),
		Allocs: float64(after.Mallocs-before.Mallocs) / float64(o.Steps), Seqs: o.Seqs, Tokens: o.Context,
		Step: o.Step.Seconds() * 1e3, Steps: o.Steps,
	}, nil
}
