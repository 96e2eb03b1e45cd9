package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/kvasir-llm/kvasir/bench"
)

type benchCacheCmd struct {
	File        string        `required:"" help:"The trace (Mooncake's JSON lines, Azure's CSV) or the conversations (ShareGPT's JSON)." type:"existingfile" placeholder:"PATH"`
	Workload    string        `help:"What it is: mooncake, azure or conversations." enum:"mooncake,azure,conversations" default:"mooncake"`
	Requests    int           `short:"n" help:"Conversations at most; 0 is all." placeholder:"N"`
	Lengths     float64       `help:"Times its numbers of tokens; a smaller one is faster and rounds." default:"0.03125" placeholder:"X"`
	TimeScale   float64       `help:"2 replays twice as fast as recorded." default:"1" placeholder:"X"`
	Blocks      []int         `help:"Sizes of the cache to try, in blocks." default:"5000,10000,20000,50000,200000" placeholder:"N,..."`
	Eviction    []string      `help:"Orders of eviction to try." default:"lru,lfu" placeholder:"NAME,..."`
	BlockTokens int           `help:"Tokens of a block, after --lengths." default:"16"`
	MaxSeqs     int           `help:"Sequences computed at once." default:"1024"`
	TPOT        time.Duration `name:"tpot" help:"The simulated machine: time of a step that only decodes." default:"30ms" placeholder:"TIME"`
	Speed       float64       `help:"The simulated machine: recorded tokens computed in a second." default:"100000" placeholder:"N"`
	JSON        bool          `name:"json" help:"Print a JSON array of rows."`
}

func (benchCacheCmd) Help() string {
	return `Replays a trace through the scheduler and the KV cache without a model, on a simulated machine, and says what share of the prompts
was found in the cache.

Examples:
  kvasir bench cache --file trace.jsonl
  kvasir bench cache --file trace.jsonl --lengths 1 --block-tokens 512 --blocks 20000 -n 1000`
}

// cacheRow is a line of the table.
type cacheRow struct {
	Eviction    string  `json:"eviction"`
	Blocks      int     `json:"blocks"`
	HitRate     float64 `json:"hit_rate"`
	Ideal       float64 `json:"ideal_hit_rate"`
	Evictions   uint64  `json:"evictions"`
	Preemptions uint64  `json:"preemptions"`
	Unfilled    float64 `json:"unfilled"`
}

func (c *benchCacheCmd) Run() error {
	if !(c.Speed > 0) || c.TPOT <= 0 {
		return usageError{fmt.Sprintf("--speed %v and --tpot %v; want above 0", c.Speed, c.TPOT)}
	}
	cs, _, err := readTrace(c.Workload, c.File, bench.TraceOptions{Limit: c.Requests, Speed: c.TimeScale, Lengths: c.Lengths})
	if err != nil {
		return err
	}
	rows := []cacheRow{}
	if !c.JSON {
		fmt.Printf("%-10s %10s %9s %9s %12s %12s %9s\n", "eviction", "blocks", "hits", "ideal", "evictions", "preemptions", "unfilled")
	}
	for _, eviction := range c.Eviction {
		for _, blocks := range c.Blocks {
			row, err := c.simulate(cs, eviction, blocks)
			if err != nil {
				return err
			}
			if rows = append(rows, row); !c.JSON {
				fmt.Printf("%-10s %10d %8.2f%% %8.2f%% %12d %12d %8.1f%%\n",
					eviction, blocks, 100*row.HitRate, 100*row.Ideal, row.Evictions, row.Preemptions, 100*row.Unfilled)
			}
		}
	}
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(rows)
	}
	return nil
}

func (c *benchCacheCmd) simulate(cs []bench.Conversation, eviction string, blocks int) (cacheRow, error) {
	rep, err := bench.SimulateCache(cs, bench.CacheOptions{
		BlockTokens: c.BlockTokens, Blocks: blocks, MaxSeqs: c.MaxSeqs, TokenBudget: 8192, MaxPassed: 16, Evict: eviction,
		Step: time.Duration(float64(c.TPOT) / c.Lengths), PerToken: time.Duration(float64(time.Second) / c.Speed / c.Lengths),
	})
	return cacheRow{eviction, blocks, rep.HitRate(), rep.IdealRate(), rep.Evictions, rep.Preemptions, rep.Unfilled}, err
}
