package engine

import (
	"bytes"
	"context"
	"encoding/hex"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/kv"
)

// Report says what an engine does now and has done since its start. Unlike Stats, it names no type of the rooms below,
// so that a face can show it without knowing them.
type Report struct {
	Running, Waiting int    // sequences
	Preemptions      uint64 // times that a running sequence lost its blocks
	PromptTokens     uint64 // of requests that have a first token
	GeneratedTokens  uint64
	Held, Unfilled   uint64 // as in Stats
	Drafts           DraftStats
	Cache            CacheReport
	Tiers            []TierReport  // below the device
	TokenTime        time.Duration // to compute a token of a prompt, a moving average; 0 if there are no tiers
}

// Usage returns the share of the KV cache's blocks in use; 1 is all.
func (r *Report) Usage() float64 { return float64(r.Cache.Used) / float64(max(r.Cache.Blocks, 1)) }

// CacheReport counts the blocks of the KV cache.
type CacheReport struct {
	Blocks, Used, Cached, Free int
	Pinned                     int    // references that pins hold
	Queries, Hits              uint64 // prompt tokens looked up in the prefix cache, and found
	Partial                    uint64 // of those, tokens found in blocks that went on differently
	Evictions                  uint64 // cached blocks evicted
	Copies                     uint64 // blocks copied on write
	Lifetime                   Spans  // of evicted blocks, from their naming to their eviction
	Idle                       Spans  // of evicted blocks, from their last use to their eviction
	Reuse                      Spans  // from one use of a block to the next
}

// TierReport counts the blocks of one tier.
type TierReport struct {
	Name          string
	Blocks, Used  int // that it can store, and stores
	Stored        uint64
	Loaded        uint64 // blocks that were to be loaded
	Lost          uint64 // of those, blocks that were not as they had been stored
	Errors        uint64 // blocks that could not be written
	Evicted       uint64
	BlockLoadTime time.Duration // to load a block, a moving average
}

// Spans counts lengths of time. Below[i] of them were shorter than 2^i milliseconds.
type Spans struct {
	Count uint64
	Sum   time.Duration
	Below []uint64
}

// Report returns the counters as of the last step, arrival or cancellation.
func (e *Engine) Report() Report {
	s := e.Stats()
	c := &s.Sched.KV
	r := Report{
		Running: s.Sched.Running, Waiting: s.Sched.Waiting, Preemptions: s.Sched.Preemptions,
		PromptTokens: s.PromptTokens, GeneratedTokens: s.GeneratedTokens, Held: s.Held, Unfilled: s.Unfilled, Drafts: s.Drafts,
		Cache: CacheReport{
			Blocks: c.Blocks, Used: c.Used, Cached: c.Cached, Free: c.Free, Pinned: c.Pinned, Queries: c.Queries, Hits: c.Hits,
			Partial: c.Partial, Evictions: c.Evictions, Copies: c.Copies,
			Lifetime: spans(&c.Lifetime), Idle: spans(&c.Idle), Reuse: spans(&c.Reuse),
		},
		TokenTime: time.Duration(s.Rates.Token),
	}
	for i, spec := range e.cfg.Tiers.List {
		t := kv.Tier(i + 1)
		n := &c.Tiers[t]
		r.Tiers = append(r.Tiers, TierReport{Name: spec.Kind, Blocks: n.Slots, Used: n.Used, Stored: n.Stored,
			Loaded: n.Loaded,
			Errors: e.tiers.errors(t), Lost: n.Lost, Evicted: n.Evicted, BlockLoadTime: time.Duration(s.Rates.Block[t])})
	}
	return r
}

func spans(s *kv.Spans) Spans {
	out, below := Spans{Count: s.Count, Sum: time.Duration(s.Sum) * time.Millisecond}, uint64(0)
	for _, n := range s.Log2[:len(s.Log2)-1] { // the last one has no bound
		below += n
		out.Below = append(out.Below, below)
	}
	return out
}

// CachedBlock describes what one or more blocks hold, one for each group of layers.
type CachedBlock struct {
	Name, Parent string // in hexadecimal; Parent is "" where a sequence starts, and where the parent was evicted
	Tokens       []int32
	Refs         int           // the most that any of its blocks has
	Blocks       int           // blocks that hold it
	Uses         int           // sequences that computed or found it
	Age, Idle    time.Duration // since it got its name, and since it was last used
	Priority     int
}

// CachedBlocks returns what the prefix cache can be searched for, in order of the names.
func (e *Engine) CachedBlocks(ctx context.Context) ([]CachedBlock, error) {
	contents, err := inLoop(ctx, e, func() ([]kv.Contents, error) { return e.sched.Inspect(), nil })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(contents, func(a, b kv.Contents) int { return bytes.Compare(a.Name[:], b.Name[:]) })
	now := e.cfg.Now().Sub(e.epoch).Milliseconds()
	since := func(at int64) time.Duration { return time.Duration(max(0, now-at)) * time.Millisecond }
	out := make([]CachedBlock, len(contents))
	for i, c := range contents {
		out[i] = CachedBlock{Name: hex.EncodeToString(c.Name[:]), Tokens: c.Tokens, Refs: c.Refs, Blocks: c.Blocks,
			Uses: c.Uses,
			Age:  since(c.Named), Idle: since(c.Used), Priority: c.Priority}
		if c.Parent != (kv.Hash{}) {
			out[i].Parent = hex.EncodeToString(c.Parent[:])
		}
	}
	return out, nil
}
