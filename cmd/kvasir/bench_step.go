package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kvasir-llm/kvasir/bench"
)

type benchStepCmd struct {
	Seqs    int           `help:"Sequences that decode." default:"256"`
	Context int           `help:"Tokens of each." default:"131072"`
	Step    time.Duration `help:"Time that the simulated device takes for a step." default:"5ms" placeholder:"TIME"`
	Steps   int           `help:"Steps to measure." default:"400"`
	JSON    bool          `name:"json" help:"Print JSON."`
}

func (benchStepCmd) Help() string {
	return `Runs the scheduler and the engine's loop on a simulated device and measures what the host does for a step: the time of the
loop, the processor time of all threads (they also hand out tokens and read them), the share of time in which the device
waits for the loop, and how much is allocated.

Examples:
  kvasir bench step
  kvasir bench step --seqs 1 --context 1024 --step 1ms --json`
}

func (c *benchStepCmd) Run(ctx context.Context) error {
	r, err := bench.MeasureHost(ctx, bench.HostOptions{Seqs: c.Seqs, Context: c.Context, Step: c.Step, Steps: c.Steps})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(r)
	}
	fmt.Printf("%d sequences of %d tokens, steps of %v\n", r.Seqs, r.Tokens, c.Step)
	fmt.Printf("host work    %8.1f µs a step, at least %.1f\nall threads  %8.1f µs a step\ndevice idle  %8.2f%%\nallocations  %8.2f a step\n", r.Host, r.Least, r.CPU, 100*r.Idle, r.Allocs)
	return nil
}
