package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"sort"
	"time"

	"golang.org/x/term"

	"github.com/kvasir-llm/kvasir/bench"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/server"
)

type benchLoadCmd struct {
	Model string `arg:"" optional:"" help:"A model to load in this process; with --url, the name that requests give."`
	URL   string `name:"url" help:"Base URL of an OpenAI-compatible server, such as http://127.0.0.1:8000/v1." placeholder:"URL"`

	APIKey      string `name:"api-key" help:"Key for the server." env:"OPENAI_API_KEY" placeholder:"KEY"`
	HTTP        bool   `name:"http" help:"Put the load on the model in this process over HTTP, as on a server."`
	Completions bool   `help:"Use /completions rather than /chat/completions."`
	Vocab       int    `help:"With --completions: send synthetic prompts as tokens, by their numbers below this, rather than as words." placeholder:"N"`
	IgnoreEOS   bool   `name:"ignore-eos" help:"Ask the server for answers of full length; not every server knows how." default:"true" negatable:""`

	Temperature float32 `help:"What answers are sampled with; 0 takes the likeliest token." placeholder:"T"`

	Workload  string  `help:"fixed; shared-prefix, multi-turn or long-context, which are fixed with other sizes; or mooncake, azure or conversations, which read --file." enum:"fixed,shared-prefix,multi-turn,long-context,mooncake,azure,conversations" default:"fixed"`
	File      string  `help:"The trace (Mooncake's JSON lines, Azure's CSV) or the conversations (ShareGPT's JSON)." type:"existingfile" placeholder:"PATH"`
	Requests  int     `short:"n" help:"Conversations; of a file, at most as many as it has." default:"100" placeholder:"N"`
	Input     int     `help:"fixed: tokens of each turn's prompt. By default 256, or what the workload says." placeholder:"N"`
	Output    int     `help:"fixed: tokens of each answer. By default 128, or what the workload says." placeholder:"N"`
	Turns     int     `help:"fixed: turns of each conversation; each prompt holds all before it. By default 1, or what the workload says." placeholder:"N"`
	Shared    float64 `help:"fixed: share of the first prompt that begins like others', 0 to 1. By default 0, or what the workload says." placeholder:"S"`
	Groups    int     `help:"fixed: how many such beginnings there are. By default 1, or what the workload says." placeholder:"N"`
	Spread    float64 `help:"fixed: lengths vary by this share, 0 to 1." placeholder:"S"`
	Lengths   float64 `help:"files: times their numbers of tokens." default:"1" placeholder:"X"`
	TimeScale float64 `help:"traces: 2 replays twice as fast as recorded." default:"1" placeholder:"X"`

	Clients    int           `short:"c" help:"Conversations at once, a closed loop. Without it they arrive at --rate, or as the trace says." placeholder:"N"`
	Rate       float64       `help:"Conversations a second, on average; without it and --clients all arrive at once." placeholder:"R"`
	Burstiness float64       `help:"Shape of the gamma distribution of arrivals: 1 is Poisson, less is more bursty, more is more even." default:"1" placeholder:"K"`
	Burst      int           `help:"Conversations that arrive together." default:"1" placeholder:"N"`
	Duration   time.Duration `help:"Longest time; what is under way then is cut off." default:"10m"`
	Seed       uint64        `help:"The same seed makes the same workload." default:"1" placeholder:"N"`

	TTFT time.Duration `name:"slo-ttft" help:"For goodput: longest time to the first token." placeholder:"TIME"`
	TPOT time.Duration `name:"slo-tpot" help:"For goodput: longest time of a token after the first." placeholder:"TIME"`
	E2E  time.Duration `name:"slo-e2e" help:"For goodput: longest time of a request." placeholder:"TIME"`

	Sweep  bool    `help:"Find the highest rate that meets the SLO, trying others from --rate on."`
	Attain float64 `help:"--sweep: share of the requests that must meet the SLO." default:"0.9" placeholder:"S"`
	JSON   bool    `name:"json" help:"Print a JSON object."`
	HTML   string  `name:"html" help:"Also write a page with plots to this file." placeholder:"PATH"`
	shapeFlags
	schedFlags
	draftFlags
	engineFlags
}

func (benchLoadCmd) Help() string {
	return `Examples:
  kvasir bench load --url http://127.0.0.1:8000/v1 -c 32 -n 256 --input 256 --output 128 --shared 0.5
  kvasir bench load --url http://127.0.0.1:8000/v1 --workload mooncake --file trace.jsonl --lengths 0.05 --time-scale 2
  kvasir bench load --shape 125m -c 8 -n 64
  kvasir bench load --shape 125m -c 8 -n 64 --http
  kvasir bench load --rate 4 --burstiness 0.5 --slo-ttft 500ms --json
  kvasir bench load --url http://127.0.0.1:8000/v1 --sweep --rate 1 --slo-ttft 1s --slo-tpot 50ms`
}

func (c *benchLoadCmd) Run(ctx context.Context) error {
	if c.Sweep && c.HTML != "" {
		return usageError{"both --sweep and --html: the page shows one load"}
	}
	if err := c.useless(); err != nil {
		return err
	}
	if c.Sweep && c.Rate == 0 {
		c.Rate = 1
	}
	workload, err := c.workload(c.Seed)
	if err != nil {
		return err
	}
	target, steps, closeTarget, err := c.target(ctx)
	if err != nil {
		return err
	}
	defer closeTarget()
	o := bench.LoadOptions{Steps: steps, Clients: c.Clients, Duration: c.Duration, SLO: bench.SLO{TTFT: c.TTFT, TPOT: c.TPOT, E2E: c.E2E}}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		o.Progress, o.Every = printProgress, 200*time.Millisecond
	}
	if c.Sweep {
		return c.sweep(ctx, target, o)
	}
	rep, err := bench.Load(ctx, target, workload, o)
	if err != nil {
		return err
	}
	if c.HTML != "" {
		if err := c.writePage(rep); err != nil {
			return err
		}
	}
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(rep)
	}
	printReport(os.Stdout, rep)
	return nil
}

// useless refuses flags that would change nothing.
func (c *benchLoadCmd) useless() error {
	_, fixed := bench.FixedNamed(c.Workload)
	trace := c.Workload == "mooncake" || c.Workload == "azure"
	own := c.defaults()
	for _, f := range []struct {
		set   bool
		flags string
		why   string
	}{
		{fixed && c.File != "", "--file", "the workload " + c.Workload + " reads none"},
		{fixed && c.Lengths != 1, "--lengths", "the workload " + c.Workload + " has --input and --output"},
		{!trace && c.TimeScale != 1, "--time-scale", "the workload " + c.Workload + " has no times of its own"},
		{!fixed && (c.Input != 0 || c.Output != 0 || c.Turns != 0 || c.Shared != 0 || c.Groups != 0 || c.Spread != 0),
			"--input, --output, --turns, --shared, --groups and --spread", "the workload " + c.Workload + " takes them from --file"},
		{c.Rate == 0 && !c.Sweep && (c.Burst != 1 || c.Burstiness != 1), "--burst and --burstiness", "they need --rate"},
		{!c.Sweep && c.Attain != 0.9, "--attain", "it needs --sweep"},
		{c.URL != "" && c.HTTP, "--http", "it is for a model in this process"},
		{c.URL == "" && !c.HTTP && (c.Completions || !c.IgnoreEOS), "--completions and --no-ignore-eos", "they need --url or --http"},
		{!c.Completions && c.Vocab != 0, "--vocab", "it needs --completions"},
		{c.URL != "" && (c.schedFlags != own.schedFlags || c.draftFlags != own.draftFlags || c.engineFlags != own.engineFlags), "settings of an engine", "the server at --url has its own"},
	} {
		if f.set {
			return usageError{fmt.Sprintf("%s would change nothing: %s", f.flags, f.why)}
		}
	}
	return nil
}

// defaults returns the command as it is without flags.
func (c *benchLoadCmd) defaults() *benchLoadCmd {
	var plain cli
	if _, err := newParser(&plain).Parse([]string{"bench", "load"}); err != nil {
		panic(err) // it has no flags that must be given
	}
	return &plain.Bench.Load
}

// writePage writes --html.
func (c *benchLoadCmd) writePage(rep bench.Report) error {
	f, err := os.Create(c.HTML)
	if err != nil {
		return err
	}
	return errors.Join(rep.WriteHTML(f, "kvasir bench load: "+c.title()), f.Close())
}

// title says what was measured.
func (c *benchLoadCmd) title() string {
	target, arrivals := c.URL, fmt.Sprintf("%d clients", c.Clients)
	if target == "" {
		target = cmp.Or(c.Shape, c.Model, builtin.Name) + " in process"
	}
	if c.HTTP {
		target += ", over HTTP"
	}
	switch {
	case c.Rate > 0:
		arrivals = fmt.Sprintf("%g a second", c.Rate)
	case c.Clients == 0:
		arrivals = "at their own times"
	}
	return fmt.Sprintf("%s workload, %s, %s", c.Workload, arrivals, target)
}

// sweep looks for the highest rate that meets the SLO.
func (c *benchLoadCmd) sweep(ctx context.Context, target bench.Target, load bench.LoadOptions) error {
	if !c.JSON {
		fmt.Printf("%12s %9s %12s %12s %12s %12s\n", "rate", "SLO met", "goodput", "TTFT p99", "TPOT p99", "request p99")
	}
	o := bench.SweepOptions{Load: load, Start: c.Rate, Attain: c.Attain, Within: 0.05}
	again := func(n int, rate float64) ([]bench.Conversation, error) {
		c.Rate = rate
		return c.workload(c.Seed + uint64(n)) // other prompts each time: caches would know those of the last
	}
	best, points, err := bench.Sweep(ctx, target, o, again, func(p bench.SweepPoint) {
		if r := p.Report; !c.JSON {
			fmt.Printf("%10.3f/s %8.1f%% %10.3f/s %9.1f ms %9.1f ms %9.1f ms\n", p.Rate, 100*p.Attained, r.Goodput, r.TTFT.P99, r.TPOT.P99, r.E2E.P99)
		}
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(struct {
			Rate   float64            `json:"highest_rate"`
			Points []bench.SweepPoint `json:"points"`
		}{best, points})
	}
	fmt.Printf("\nhighest rate that meets the SLO: %.3f a second\n", best)
	return nil
}

// workload makes or reads the conversations and sets when they arrive.
func (c *benchLoadCmd) workload(seed uint64) (cs []bench.Conversation, err error) {
	timed := false
	if f, ok := bench.FixedNamed(c.Workload); ok {
		if c.Input < 0 || c.Output < 0 || c.Turns < 0 || c.Groups < 0 {
			return nil, usageError{fmt.Sprintf("--input %d, --output %d, --turns %d, --groups %d; want at least 1", c.Input, c.Output, c.Turns, c.Groups)}
		}
		f.Conversations, f.Spread = c.Requests, c.Spread
		f.Turns, f.Input, f.Output = cmp.Or(c.Turns, f.Turns), cmp.Or(c.Input, f.Input), cmp.Or(c.Output, f.Output)
		f.Shared, f.Groups = cmp.Or(c.Shared, f.Shared), cmp.Or(c.Groups, f.Groups)
		cs, err = f.Make(seed)
	} else {
		cs, timed, err = c.read()
	}
	if err != nil {
		return nil, usageError{err.Error()}
	}
	if c.Clients > 0 && c.Rate > 0 {
		return nil, usageError{"both --clients and --rate: a loop is closed or open"}
	}
	if c.Clients > 0 || timed && c.Rate == 0 {
		return cs, nil
	}
	a := bench.Arrivals{Rate: c.Rate, Burstiness: c.Burstiness, Burst: c.Burst}
	if c.Rate == 0 {
		a.Rate = math.Inf(1)
	}
	if err := a.Schedule(cs, seed); err != nil {
		return nil, usageError{err.Error()}
	}
	return cs, nil
}

// read reads --file.
func (c *benchLoadCmd) read() (cs []bench.Conversation, timed bool, err error) {
	if c.File == "" {
		return nil, false, fmt.Errorf("--workload %s needs --file", c.Workload)
	}
	return readTrace(c.Workload, c.File, bench.TraceOptions{Limit: c.Requests, Speed: c.TimeScale, Lengths: c.Lengths})
}

// readTrace reads a file of one of the kinds. timed is whether it says when requests arrive.
func readTrace(kind, file string, o bench.TraceOptions) (cs []bench.Conversation, timed bool, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	switch kind {
	case "mooncake":
		cs, err = bench.ParseMooncake(f, o)
		return cs, true, err
	case "azure":
		cs, err = bench.ParseAzure(f, o)
		return cs, true, err
	}
	cs, err = bench.ParseConversations(f, o)
	return cs, false, err
}

// target connects to the server, or loads the model, of whose steps it tells.
func (c *benchLoadCmd) target(ctx context.Context) (bench.Target, *bench.Steps, func(), error) {
	if c.URL != "" {
		if c.Shape != "" {
			return nil, nil, nil, usageError{"both --url and --shape"}
		}
		t, end, err := c.connect(ctx, c.URL, c.Model)
		return t, nil, end, err
	}
	name, ckpt, err := c.open(ctx, c.Model)
	if err != nil {
		return nil, nil, nil, err
	}
	steps := new(bench.Steps)
	o := c.options(name)
	c.schedFlags.apply(&o)
	if err := c.draftFlags.openDraft(ctx, &o); err != nil {
		return nil, nil, nil, err
	}
	o.MaxWaiting, o.Observer = 1<<20, steps
	m, err := text.Open(ckpt, o)
	if err != nil {
		return nil, nil, nil, err
	}
	if !c.HTTP {
		return bench.InProcess{Model: m, Temperature: c.Temperature}, steps, func() { m.Close() }, nil
	}
	t, end, err := c.serve(ctx, m, name)
	return t, steps, func() { end(); m.Close() }, err
}

// connect makes a server at a URL the target.
func (c *benchLoadCmd) connect(ctx context.Context, url, model string) (bench.Target, func(), error) {
	t, err := bench.NewOpenAI(ctx, url, bench.OpenAIOptions{
		Model: model, Key: c.APIKey, Completions: c.Completions, Vocab: c.Vocab, IgnoreEOS: c.IgnoreEOS, Temperature: c.Temperature,
	})
	if err != nil {
		return nil, func() {}, err
	}
	return t, t.Close, nil
}

// serve makes the model in this process the target, over HTTP.
func (c *benchLoadCmd) serve(ctx context.Context, m *text.Model, name string) (bench.Target, func(), error) {
	s, err := server.New(server.Config{Models: []server.Served{server.FromText(m)}})
	if err != nil {
		return nil, func() {}, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, func() {}, err
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	guard.Go(func() error { return s.Serve(serving, ln) }, func(err error) { served <- err })
	t, end, err := c.connect(ctx, "http://"+ln.Addr().String()+"/v1", name)
	return t, func() { end(); stop(); <-served }, err
}

func printProgress(p bench.Progress) {
	if p.Over {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
		return
	}
	fmt.Fprintf(os.Stderr, "\r\x1b[K%s  %d answered, %d running, %d failed  %.0f pieces/s",
		p.Elapsed.Round(100*time.Millisecond), p.Ended-p.Failed, p.Running, p.Failed, float64(p.Pieces)/p.Elapsed.Seconds())
}

func printReport(w io.Writer, r bench.Report) {
	fmt.Fprintf(w, "%d requests in %.1f s, %d failed", r.Requests, r.Elapsed.Seconds(), r.Failed)
	if r.CutOff > 0 {
		fmt.Fprintf(w, ", %d cut off", r.CutOff)
	}
	fmt.Fprintf(w, "\ntokens: %d in, %d out; %.1f%% of the prompts' came from a prefix cache\n", r.Prompt, r.Generated, 100*r.HitRate)
	fmt.Fprintf(w, "throughput: %.1f tokens/s out, %.1f in all; goodput %.2f requests/s\n\n", r.Output, r.Total, r.Goodput)
	fmt.Fprintf(w, "%-28s %10s %10s %10s %10s %10s\n", "milliseconds", "mean", "p50", "p90", "p95", "p99")
	row := func(name string, s bench.Summary) {
		fmt.Fprintf(w, "%-28s %10.2f %10.2f %10.2f %10.2f %10.2f\n", name, s.Mean, s.P50, s.P90, s.P95, s.P99)
	}
	row("time to first token", r.TTFT)
	row("time per output token", r.TPOT)
	row("between pieces", r.ITL)
	row("request", r.E2E)
	row("request, by output token", r.Normalized)
	row("sent late (the client's own)", r.Late)
	if r.Unfilled >= 0 {
		fmt.Fprintf(w, "\nof the KV memory that running sequences held, %.1f%% was not filled\n", 100*r.Unfilled)
	}
	if s := r.Steps; s != nil {
		fmt.Fprintf(w, "\n%-28s %10s %10s %10s %10s\n", "steps, milliseconds", "count", "p50", "p99", "max")
		row := func(name string, t bench.StepTimes) {
			fmt.Fprintf(w, "%-28s %10d %10.2f %10.2f %10.2f\n", name, t.Count, t.P50, t.P99, t.Max)
		}
		row("all", s.All)
		row(fmt.Sprintf("decoding %d sequences", s.Seqs), s.Equal)
		fmt.Fprintf(w, "%d collections of garbage meanwhile\n", s.Collections)
	}
	if own := r.Own(); own > 0 {
		fmt.Fprintf(w, "\nthe client itself: %.0f µs of processor time a request, %.2f processors\n",
			float64(own.Nanoseconds())/1e3, r.CPU.Seconds()/r.Elapsed.Seconds())
	}
	var kinds []string
	for kind := range r.Errors {
		kinds = append(kinds, kind)
	}
	sort.Strings(kinds)
	for _, kind := range kinds {
		fmt.Fprintf(w, "\n%d times: %s", r.Errors[kind], kind)
	}
	if len(kinds) > 0 {
		fmt.Fprintln(w)
	}
}
