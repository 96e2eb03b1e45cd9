package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/kvasir-llm/kvasir/bench"
	"github.com/kvasir-llm/kvasir/weights"
)

// ours is the name of kvasir among the engines.
const ours = "kvasir"

// campaign is a running plan. Each round measures every model with every engine, one after another, in reverse order in
// every second round: changes of the machine over time, and the effects of the engine before, fall on all engines.
type campaign struct {
	plan
	began time.Time
	took  map[string]time.Duration // of models in the round before
	say   func(format string, a ...any)

	results results
	dir     string // of the model files
}

// measure carries out the plan. When interrupted it returns the results so far and the error.
func (c *campaign) measure(ctx context.Context) (results, error) {
	if c.compute.Threads == 0 {
		c.compute.Threads = runtime.GOMAXPROCS(0)
	}
	c.results.Machine = describeMachine()
	c.results.Threads = c.compute.Threads
	if c.dir = c.models; c.dir == "" {
		var err error
		if c.dir, err = os.MkdirTemp("", "kvasir-report-"); err != nil {
			return c.results, err
		}
		defer os.RemoveAll(c.dir)
	}
	for round := range c.rounds {
		for _, s := range c.shapes {
			for _, q := range c.quants {
				start, name := time.Now(), s.Name+" "+q
				if round > 0 && time.Since(c.began)+c.took[name] > c.budget {
					c.say("round %d, %s: left out, it would end after %v", round+1, name, c.budget)
					continue
				}
				if err := c.model(ctx, s, q, round); err != nil {
					return c.results, fmt.Errorf("%s: %w", name, err)
				}
				c.took[name] = time.Since(start)
				c.say("round %d, %s: %.0f s", round+1, name, c.took[name].Seconds())
			}
		}
	}
	return c.results, nil
}

// model measures one model with all engines.
func (c *campaign) model(ctx context.Context, s bench.Shape, quant string, round int) error {
	file := filepath.Join(c.dir, s.Name+"-"+quant+".gguf")
	if _, err := os.Stat(file); err != nil {
		if err := writeModel(file, s, quant); err != nil {
			return err
		}
	}
	if c.models == "" {
		defer os.Remove(file)
	}
	for i := range len(c.peers) + 1 {
		if round%2 == 1 {
			i = len(c.peers) - i
		}
		var err error
		if i == 0 {
			err = c.own(ctx, s.Name, file)
		} else {
			err = c.peer(ctx, c.peers[i-1], s.Name, quant, file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeModel writes a model under a temporary name and renames it, so that a partial file is never used.
func writeModel(file string, s bench.Shape, quant string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.Create(file + ".part")
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err = bench.WriteRandom(w, s, quant); err == nil {
		err = w.Flush()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(file+".part", file)
	}
	if err != nil {
		os.Remove(file + ".part")
	}
	return err
}

// own measures kvasir.
func (c *campaign) own(ctx context.Context, name, file string) error {
	ckpt, err := weights.Open(file)
	if err != nil {
		return err
	}
	defer debug.FreeOSMemory() // the next engine may need it
	defer ckpt.Close()
	m, err := bench.OpenModel(ckpt, bench.ModelOptions{Name: name, Device: c.device, Compute: c.compute, Chunk: 512, Repetitions: 1, BlockTokens: 16})
	if err != nil {
		return err
	}
	defer m.Close()
	c.results.Kernels = m.Device
	for _, t := range c.tests {
		row, err := m.Run(ctx, t)
		if err != nil {
			return err
		}
		c.results.add(ours, name, m.Quant, t.Name, row.TokensPerSecond, row.Floor)
		c.results.peaks(row)
	}
	return nil
}

// peer measures another engine.
func (c *campaign) peer(ctx context.Context, p peer, name, quant, file string) error {
	speeds, err := p.measure(ctx, file, c.compute.Threads, c.tests)
	for _, t := range c.tests {
		if v := speeds[t.Name]; v > 0 {
			c.results.add(p.name, name, upper(quant), t.Name, v, 0)
		}
	}
	return err
}
