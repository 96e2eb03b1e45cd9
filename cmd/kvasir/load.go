package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/sched"
)

// engineFlags are the settings that every command with an engine takes.
type engineFlags struct {
	Context int  `help:"Most tokens of prompt and answer together; 0 is what the model was made for, or what fits." placeholder:"TOKENS"`
	KVBytes size `name:"kv-bytes" help:"Memory for the KV cache, such as 512M or 8G; 0 is half of what is free." placeholder:"SIZE"`
	kvFlags
	BlockTokens int  `help:"Tokens of a KV block, a multiple of 16." default:"16"`
	TokenBudget int  `help:"Tokens computed in one step: larger favours throughput, smaller the time between tokens. By default 512, or what --profile says." placeholder:"N"`
	MaxChunk    int  `help:"Most prompt tokens of one request in a step. By default the whole budget, or what --profile says." placeholder:"N"`
	NoPrefix    bool `name:"no-prefix-cache" help:"Do not reuse the KV blocks of prompts that begin alike."`
	deviceFlags
}

func (f engineFlags) options(name string) text.Options {
	return text.Options{
		Name: name, Threads: f.Threads, Kernels: f.Kernels, Pin: f.Pin,
		Context: f.Context, KVBytes: int64(f.KVBytes), KVType: f.kvType(), BlockTokens: f.BlockTokens,
		TokenBudget: f.TokenBudget, MaxChunk: f.MaxChunk, NoPrefix: f.NoPrefix,
	}
}

// kvFlags say how keys and values are kept.
type kvFlags struct {
	KVType string `name:"kv-type" help:"Type of the numbers in the KV cache: f32, f16, bf16, q8_0 or q4_0. Smaller types hold more tokens; docs/performance.md says what they cost." enum:"f32,f16,bf16,q8_0,q4_0" default:"f32"`
}

func (f kvFlags) kvType() quant.Type {
	t, _ := quant.Parse(strings.ToUpper(f.KVType)) // the flag takes no other
	return t
}

// schedFlags are the settings of commands that serve many requests at once; docs/scheduling.md says when to turn them.
type schedFlags struct {
	Profile    string        `help:"Settings of the scheduler for a kind of use: chat, throughput, long-context or latency. What is set beside it wins." enum:"chat,throughput,long-context,latency" default:"chat"`
	MaxSeqs    int           `help:"Sequences computed at once. By default 64, or what --profile says." placeholder:"N"`
	Policy     string        `help:"Who comes first: fcfs, priority, shortest-prompt, vtc (a fair share for each user) or edf (earliest deadline)." enum:",fcfs,priority,shortest-prompt,vtc,edf" default:"" placeholder:"NAME"`
	Batch      string        `help:"How prompts and answers share steps: mixed, prefill-first, decode-first or static." enum:",mixed,prefill-first,decode-first,static" default:"" placeholder:"NAME"`
	Allocation string        `help:"KV blocks that a request must find to be admitted: on-demand (for its prompt), preallocate (for its longest answer too) or learned (as answers so far let expect)." enum:",on-demand,preallocate,learned" default:"" placeholder:"NAME"`
	Evict      string        `name:"eviction" help:"Cached KV blocks that are forgotten first: lru (the least recently used), lfu (the least often, with ageing) or priority (as requests ask)." enum:",lru,lfu,priority" default:"" placeholder:"NAME"`
	Interval   int           `help:"While anyone decodes, compute prompts in every Nth step only." placeholder:"N"`
	Window     time.Duration `help:"How long a static batch waits to become full." placeholder:"TIME"`
	HostKV     size          `name:"host-kv-bytes" help:"Memory for KV blocks that the cache forgets, from which they come back if that is faster than computing them." placeholder:"SIZE"`
	DiskKV     string        `name:"disk-kv" help:"Directory of a file for KV blocks that the cache, and the memory for them, forget. It outlives the process." type:"path" placeholder:"DIR"`
	DiskKVSize size          `name:"disk-kv-bytes" help:"Size of that file, for each model." placeholder:"SIZE"`
	Preempt    string        `help:"How requests that had to give up their KV blocks come back: swap (loaded from memory or disk), recompute, or auto (what is measured to be faster)." enum:",auto,swap,recompute" default:"" placeholder:"NAME"`
	MaxPassed  int           `help:"How many requests one that lacks KV blocks lets pass; -1 is none." placeholder:"N"`
}

// apply sets the options that the flags name.
func (f schedFlags) apply(o *text.Options) {
	o.Profile, o.MaxSeqs, o.Policy, o.Batch, o.MaxPassed = f.Profile, f.MaxSeqs, f.Policy, sched.Batch(f.Batch), f.MaxPassed
	o.Allocation, o.Interval, o.Window, o.Evict = sched.Allocation(f.Allocation), f.Interval, f.Window, f.Evict
	o.HostKVBytes, o.DiskKV, o.DiskKVBytes, o.Preempt = int64(f.HostKV), f.DiskKV, int64(f.DiskKVSize), sched.Preempt(f.Preempt)
}

// size is a number of bytes, written with an optional K, M, G or T.
type size int64

func (s *size) UnmarshalText(b []byte) error {
	t := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(string(b)), "IB"), "B")
	shift := 0
	if i := strings.IndexAny("KMGT", t[max(len(t)-1, 0):]); i >= 0 && t != "" {
		shift, t = 10*(i+1), t[:len(t)-1]
	}
	n, err := strconv.ParseInt(t, 10, 64)
	if err != nil || n < 0 || n > (1<<62)>>shift {
		return fmt.Errorf("%q is not a size; want a number of bytes, or one with K, M, G or T", b)
	}
	*s = size(n << shift)
	return nil
}

// load starts an engine for a model and shows on a terminal how far it is. It closes the checkpoint.
func load(ctx context.Context, found named, o text.Options) (*text.Model, error) {
	if term.IsTerminal(int(os.Stderr.Fd())) {
		o.Progress = loadProgress(ctx, os.Stderr, o.Name)
		defer io.WriteString(os.Stderr, clearLine)
	}
	m, err := await(ctx, func() (*text.Model, error) {
		m, err := text.Open(found.ckpt, o)
		found.ckpt.Close()
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Name, err)
	}
	return m, nil
}

const (
	clearLine  = "\r\x1b[K"
	quietStart = 300 * time.Millisecond // loading that takes no longer is not worth a word
)

// loadProgress prints how much of a model is loaded, over and over in one line, until ctx ends.
func loadProgress(ctx context.Context, w io.Writer, name string) func(done, total int64) {
	begin, shown := time.Now(), int64(-1)
	return func(done, total int64) {
		percent := done * 100 / max(total, 1)
		if percent == shown || time.Since(begin) < quietStart || ctx.Err() != nil {
			return
		}
		shown = percent
		fmt.Fprintf(w, "%sloading %s: %d%% of %s", clearLine, name, percent, bytes(total))
	}
}
