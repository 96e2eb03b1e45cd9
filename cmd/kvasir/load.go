package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/quant"
)

// engineFlags are the settings that every command with an engine takes.
type engineFlags struct {
	Context   int     `help:"Most tokens of prompt and answer together; 0 is what the model was made for, or what fits." placeholder:"TOKENS"`
	KVBytes   size    `name:"kv-bytes" help:"Memory for the KV cache, such as 512M or 8G; 0 is half of what is free, or what --gpu-memory leaves." placeholder:"SIZE"`
	GPUMemory float64 `name:"gpu-memory" help:"Share of a GPU's memory that may be used in all; what weights and steps leave of it is for the KV cache." default:"0.9"`
	kvFlags
	BlockTokens natural `help:"Tokens of a KV block, a multiple of 16." default:"16"`
	TokenBudget int     `help:"Tokens computed in one step: larger favours throughput, smaller the time between tokens. By default 512, on a GPU 8192, or what --profile says." placeholder:"N"`
	MaxChunk    int     `help:"Most prompt tokens of one request in a step. By default the whole budget, or what --profile says." placeholder:"N"`
	NoPrefix    bool    `name:"no-prefix-cache" help:"Do not reuse the KV blocks of prompts that begin alike."`
	computeFlags
}

// computeFlags say how a model is computed.
type computeFlags struct {
	deviceFlags
	Precision string `help:"What weights of 16 bits are multiplied with: auto is bfloat16, f32 is float32, which is slower; docs/precision.md says what each costs." enum:"auto,f32" default:"auto"`
}

func (f computeFlags) options() compute.Options {
	o := f.deviceFlags.options()
	o.Wide = f.Precision == "f32"
	return o
}

// openDevice opens the device.
func (f computeFlags) openDevice() (compute.Device, error) {
	return compute.Open(f.Device, f.options())
}

func (f engineFlags) options(name string) text.Options {
	return text.Options{
		Name: name, Device: f.Device, Compute: f.computeFlags.options(),
		Context: f.Context, KVBytes: int64(f.KVBytes), DeviceShare: f.GPUMemory, KVType: f.kvType(), BlockTokens: int(f.BlockTokens),
		TokenBudget: f.TokenBudget, MaxChunk: f.MaxChunk, NoPrefix: f.NoPrefix,
	}
}

// kvFlags say how keys and values are kept.
type kvFlags struct {
	KVType string `name:"kv-type" help:"Type of the numbers in the KV cache: f32, f16, bf16, q8_0 or q4_0, on a GPU also f8_e4m3; auto is bf16, where the device has it. Smaller types hold more tokens; docs/performance.md says what they cost." enum:"auto,f32,f16,bf16,q8_0,q4_0,f8_e4m3" default:"auto"`
}

// kvType returns the type, 0 for compute.ServedKV.
func (f kvFlags) kvType() quant.Type {
	t, _ := quant.Parse(strings.ToUpper(f.KVType)) // the flag takes no other, but auto
	return t
}

// schedFlags are the settings of commands that serve many requests at once; docs/scheduling.md says when to turn them.
type schedFlags struct {
	Profile    string         `help:"Settings of the scheduler for a kind of use: chat, throughput, long-context or latency. What is set beside it wins." enum:"chat,throughput,long-context,latency" default:"chat"`
	MaxSeqs    natural        `help:"Sequences computed at once. By default 64, on a GPU 256, or what --profile says." placeholder:"N"`
	Policy     string         `help:"Who comes first: ${policy_help}. By default fcfs, and vtc where requests need an API key, or what --profile says." enum:",${policies}" default:"" placeholder:"NAME"`
	Batch      string         `help:"How prompts and answers share steps: ${batch_help}." enum:",${batches}" default:"" placeholder:"NAME"`
	Allocation string         `help:"KV blocks that a request must find to be admitted: ${allocation_help}." enum:",${allocations}" default:"" placeholder:"NAME"`
	Evict      string         `name:"eviction" help:"Cached KV blocks that are forgotten first: ${eviction_help}." enum:",${evictions}" default:"" placeholder:"NAME"`
	Interval   int            `help:"While anyone decodes, compute prompts in every Nth step only." placeholder:"N"`
	Window     time.Duration  `help:"How long a static batch waits to become full." placeholder:"TIME"`
	StepTarget *time.Duration `help:"How long a step may take while anyone decodes, so that tokens come evenly: prompts are computed in chunks that fit; 0 is any time. By default 50ms, on a GPU 33ms." placeholder:"TIME"`
	HostKV     size           `name:"host-kv-bytes" help:"Memory for KV blocks that the cache forgets, from which they come back if that is faster than computing them." placeholder:"SIZE"`
	DiskKV     string         `name:"disk-kv" help:"Directory of a file for KV blocks that the cache, and the memory for them, forget. It outlives the process." type:"path" placeholder:"DIR"`
	DiskKVSize size           `name:"disk-kv-bytes" help:"Size of that file, for each model." placeholder:"SIZE"`
	Preempt    string         `help:"How requests that had to give up their KV blocks come back: ${preempt_help}." enum:",${preempts}" default:"" placeholder:"NAME"`
	MaxPassed  int            `help:"How many requests one that lacks KV blocks lets pass; -1 is none." placeholder:"N"`
}

// fair gives each API key a fair share where neither --policy nor --profile say who comes first: else one that asks for
// much would have others wait, and be refused.
func (f *schedFlags) fair(keys bool) {
	if i := slices.IndexFunc(text.Profiles, func(p text.Profile) bool { return p.Name == f.Profile }); keys && f.Policy == "" &&
		i >= 0 && text.Profiles[i].Policy == "fcfs" {
		f.Policy = "vtc"
	}
}

// apply sets the options that the flags name.
func (f schedFlags) apply(o *text.Options) {
	o.Profile, o.MaxSeqs, o.Policy, o.Batch, o.MaxPassed = f.Profile, int(f.MaxSeqs), f.Policy, text.Batch(f.Batch), f.MaxPassed
	o.Allocation, o.Interval, o.Window, o.Evict = text.Allocation(f.Allocation), f.Interval, f.Window, f.Evict
	if f.StepTarget != nil {
		if o.StepTarget = *f.StepTarget; o.StepTarget == 0 {
			o.StepTarget = -1
		}
	}
	o.HostKVBytes, o.DiskKV, o.DiskKVBytes, o.Preempt = int64(f.HostKV), f.DiskKV, int64(f.DiskKVSize), text.Preempt(f.Preempt)
}

// draftFlags say what guesses tokens ahead; docs/drafts.md.
type draftFlags struct {
	Drafts      string  `help:"What guesses tokens ahead, so that one step yields several where the guesses are right: ${drafts_help}. Answers are the same, and tokens that are not worth their time are not tried." enum:",${drafts}" default:"" placeholder:"NAME"`
	DraftModel  string  `name:"draft-model" help:"A smaller model with the same tokenizer that guesses tokens ahead where nothing is looked up: a built-in name, hub name, file or folder." placeholder:"MODEL"`
	DraftTokens natural `help:"Most tokens guessed ahead at once, up to 64. By default 16." placeholder:"N"`
}

// apply sets the options that the flags name.
func (f draftFlags) apply(o *text.Options) {
	o.Drafts, o.DraftTokens = f.Drafts, int(f.DraftTokens)
}

// openDraft is apply, and opens the model that guesses, for load to close.
func (f draftFlags) openDraft(ctx context.Context, o *text.Options) error {
	f.apply(o)
	if f.DraftModel == "" {
		return nil
	}
	found, err := openModel(ctx, f.DraftModel)
	o.Draft = found.ckpt
	if err != nil {
		return fmt.Errorf("--draft-model: %w", err)
	}
	return nil
}

// natural is a number of things, at least one; a flag that is not given is 0.
type natural int

func (c *natural) UnmarshalText(b []byte) error {
	n, err := strconv.Atoi(string(b))
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a whole number from 1 on", b)
	}
	*c = natural(n)
	return nil
}

// threads is a number of compute threads. 0 is one for each core that the process may use.
type threads int

// mostThreads is how many threads a processor may get: more only wait for each other.
const mostThreads = 4

func (t *threads) UnmarshalText(b []byte) error {
	n, err := strconv.Atoi(string(b))
	if most := mostThreads * runtime.NumCPU(); err != nil || n < 0 || n > most {
		return fmt.Errorf("%q is not a number of threads; want 1 to %d on this machine, or 0 for one per core", b, most)
	}
	*t = threads(n)
	return nil
}

// tcpPort is one to listen on.
type tcpPort uint16

func (p *tcpPort) UnmarshalText(b []byte) error {
	n, err := strconv.ParseUint(string(b), 10, 16)
	if err != nil {
		return fmt.Errorf("%q is not a port; want 0 to 65535", b)
	}
	*p = tcpPort(n)
	return nil
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
		if o.Draft != nil {
			o.Draft.Close()
		}
		debug.FreeOSMemory() // what loading left
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
