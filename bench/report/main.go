// Command report measures the models of docs/performance.md, with other engines in the same run, and writes the data,
// the plots and the table of that page. It knows the page and how to call other engines; bench does the measuring. Read
// plan first, then campaign.
//
//	go run ./bench/report --peer llama.cpp=/path/to/llama-bench
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kvasir-llm/kvasir/bench"
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/forge"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// plan is the set of measurements.
type plan struct {
	shapes  []bench.Shape
	quants  []string // recipes
	tests   []bench.Test
	peers   []peer
	rounds  int
	budget  time.Duration // after the first round, no measurement starts that would end after it
	models  string        // the folder of the model files; "" is a temporary one
	device  string        // by name
	compute compute.Options
}

// page locates the results.
type page struct{ docs string }

func (p page) data() string     { return filepath.Join(p.docs, "performance.json") }
func (p page) markdown() string { return filepath.Join(p.docs, "performance.md") }
func (p page) plots() string    { return filepath.Join(p.docs, "plots") }

func run(ctx context.Context, args []string) error {
	var p plan
	f := flag.NewFlagSet("report", flag.ContinueOnError)
	shapes := f.String("shapes", "1.1b,125m", "the models, by shape")
	quants := f.String("quants", "q8_0,q4_0,q4_k_m,bf16,f16", "their types")
	tests := f.String("tests", "pp512,tg128,b1,b4,b8,b16,b32", "what is measured of each")
	f.IntVar(&p.rounds, "rounds", 3, "how often all of it is measured; the median counts")
	f.DurationVar(&p.budget, "budget", 25*time.Minute, "begin nothing that would not end within this time, but finish the first round")
	quick := f.Bool("quick", false, "one round of the smallest shape, in two types, with short tests")
	f.StringVar(&p.models, "models", "", "keep the model files in this folder, and use those that are there")
	f.StringVar(&p.device, "device", "cpu", "what kvasir computes on, by a name that kvasir devices lists")
	f.IntVar(&p.compute.Threads, "threads", 0, "compute threads; 0 is one for each processor")
	f.StringVar(&p.compute.Kernels, "kernels", "", "instruction set to compute with, the best of this machine if not given")
	docs := f.String("docs", "docs", "the folder of performance.md")
	draw := f.Bool("draw", false, "measure nothing: write plots and tables of the data that is there")
	f.Func("peer", "NAME=PATH [FLAGS]: measure the llama-bench at this path too, and the llama-batched-bench beside it; may be repeated", func(s string) error {
		peer, err := parsePeer(s)
		p.peers = append(p.peers, peer)
		return err
	})
	if err := f.Parse(args); err != nil {
		return err
	}
	if *quick {
		*shapes, *quants, *tests, p.rounds = "125m", "q8_0,q4_k_m", "pp128,tg16,b1,b4,b16", 1
	}
	if f.NArg() > 0 || p.rounds < 1 {
		return fmt.Errorf("arguments %q and %d rounds; want no arguments and at least 1 round", f.Args(), p.rounds)
	}
	to := page{*docs}
	if *draw {
		r, err := readResults(to.data())
		if err != nil {
			return err
		}
		return to.write(r)
	}
	var err error
	for name := range strings.SplitSeq(*shapes, ",") {
		s, err := bench.ParseShape(name)
		if err != nil {
			return err
		}
		p.shapes = append(p.shapes, s)
	}
	for name := range strings.SplitSeq(*quants, ",") {
		if name, err = forge.RecipeName(name); err != nil {
			return err
		}
		p.quants = append(p.quants, name)
	}
	if p.tests, err = bench.ParseTests(*tests); err != nil {
		return err
	}
	c := campaign{plan: p, began: time.Now(), took: map[string]time.Duration{}, say: func(format string, a ...any) { fmt.Fprintf(os.Stderr, format+"\n", a...) }}
	measured, err := c.measure(ctx)
	if len(measured.Rows) > 0 { // an interrupted run keeps its measurements
		err = errors.Join(err, to.write(measured))
	}
	return err
}
