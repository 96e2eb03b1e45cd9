package route

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/reference"
)

// traced is a request of a trace.
type traced struct {
	At     float64  `json:"timestamp"` // milliseconds
	Input  int      `json:"input_length"`
	Output int      `json:"output_length"`
	Blocks []uint64 `json:"hash_ids"` // of 512 tokens
}

const tracedBlock = 512

func readTrace(t *testing.T) (all []traced) {
	f, err := os.Open(reference.Path(t, "traces", "mooncake_conversation.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var x traced
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatal(err)
		}
		h := uint64(0)
		for i, b := range x.Blocks { // a name depends on all before it
			h = chain(h, b)
			x.Blocks[i] = h
		}
		all = append(all, x)
	}
	return all
}

// modelled is an engine that prefills one prompt after another and decodes beside it.
type modelled struct {
	free  float64 // when it has computed all prompts, seconds
	cache *prefixes
	ends  []*landing
}

// landing is an answer under way.
type landing struct {
	sent, first, end float64 // seconds
	flight           *Flight // nil if no fleet chose
	input, output    int
	uncached         float64 // tokens of the prompt that must be computed
	begun            bool
}

// replay sends a trace to modelled engines. It returns the share of blocks found in their caches, and the 99th
// percentile and the median of the time to the first token. choose returns an engine and, if it was chosen by a fleet,
// the flight.
func replay(trace []traced, speed float64, engines []*modelled, choose func(i int, x *traced) (int, *Flight)) (hits, p99, p50 float64) {
	const perToken = 0.03 // seconds
	held := make([]int, 1)
	found, blocks := 0, 0
	var ttft []float64
	for i := range trace {
		x := &trace[i]
		now := x.At / 1000
		for _, e := range engines {
			e.land(now)
		}
		at, flight := choose(i, x)
		e := engines[at]
		e.cache.Match(x.Blocks, held)
		found += held[0]
		blocks += len(x.Blocks)
		e.cache.Note(0, x.Blocks)
		uncached := float64(max(1, x.Input-held[0]*tracedBlock))
		e.free = max(e.free, now) + uncached/speed
		ttft = append(ttft, e.free-now)
		e.ends = append(e.ends, &landing{sent: now, first: e.free, end: e.free + perToken*float64(x.Output), flight: flight,
			input: x.Input, output: x.Output, uncached: uncached})
	}
	slices.Sort(ttft)
	return float64(found) / float64(blocks), ttft[len(ttft)*99/100], ttft[len(ttft)/2]
}

// land tells the fleet of what has happened by now.
func (e *modelled) land(now float64) {
	e.ends = slices.DeleteFunc(e.ends, func(l *landing) bool {
		if l.flight != nil && !l.begun && l.first <= now {
			l.begun = true
			l.flight.First(l.first - l.sent)
		}
		if l.end > now {
			return false
		}
		if l.flight != nil {
			l.flight.End(l.output, l.end-l.first)
		}
		return true
	})
}

// TestConversationTrace replays Mooncake's trace of conversations over 8 modelled engines that are about two thirds
// busy, under every preset and under rules that others use. The default must find nearly all that one infinite cache
// would, and answer sooner than rules that look at load or at prefixes alone.
func TestConversationTrace(t *testing.T) {
	const engines, speed, capacity = 8, 5000, 30_000 // prompt tokens a second, blocks of an engine
	trace := readTrace(t)
	if testing.Short() {
		trace = trace[:3000]
	}
	infinite, seen, all := 0, map[uint64]bool{}, 0
	for _, x := range trace {
		for _, b := range x.Blocks {
			if seen[b] {
				infinite++
			}
			seen[b] = true
			all++
		}
	}
	best := float64(infinite) / float64(all)
	t.Logf("one infinite cache: %.1f%% of blocks", 100*best)
	type result struct{ hits, p99, p50 float64 }
	results := map[string]result{}
	run := func(name string, choose func(pool []*modelled) func(i int, x *traced) (int, *Flight)) {
		var pool []*modelled
		for range engines {
			pool = append(pool, &modelled{cache: newPrefixes(1, capacity)})
		}
		hits, p99, p50 := replay(trace, speed, pool, choose(pool))
		results[name] = result{hits, p99, p50}
		t.Logf("%-22s %5.1f%% of blocks, %5.1f%% of what can be; TTFT p50 %5.2f s, p99 %6.2f s", name, 100*hits, 100*hits/best, p50, p99)
	}
	for _, preset := range presets.Names() {
		p, err := NewPolicy(preset, nil)
		if err != nil {
			t.Fatal(err)
		}
		run(preset, func([]*modelled) func(int, *traced) (int, *Flight) {
			f := NewFleet(Options{Seed: 1, Blocks: capacity})
			var ids []int
			for range engines {
				id, err := f.Join(Endpoint{Name: "e", Fixed: true})
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, id)
			}
			return func(_ int, x *traced) (int, *Flight) {
				q := &Request{Blocks: x.Blocks, Tokens: x.Input, Output: 256}
				id := ids[f.Choose(p, q, ids).Chosen]
				return id, f.Send(id, q)
			}
		})
	}
	run("round robin", func([]*modelled) func(int, *traced) (int, *Flight) {
		return func(i int, _ *traced) (int, *Flight) { return i % engines, nil }
	})
	run("hash of the beginning", func([]*modelled) func(int, *traced) (int, *Flight) {
		return func(_ int, x *traced) (int, *Flight) {
			return int(chain(1, x.Blocks[min(len(x.Blocks)-1, 2)]) % engines), nil
		}
	})
	others := published(capacity)
	for _, name := range slices.Sorted(maps.Keys(others)) {
		choose := others[name]
		run(name, func(pool []*modelled) func(int, *traced) (int, *Flight) {
			return func(_ int, x *traced) (int, *Flight) { return choose(pool, x.At/1000, x), nil }
		})
	}
	if *plotFile != "" {
		points := map[string]point{}
		for name, r := range results {
			points[name] = point{r.hits / best, r.p99}
		}
		if err := drawRules(points); err != nil {
			t.Fatal(err)
		}
	}
	balanced := results["balanced"]
	if balanced.hits < 0.95*best {
		t.Errorf("the default finds %.1f%% of what one infinite cache would; want 95%%", 100*balanced.hits/best)
	}
	for _, other := range append(slices.Sorted(maps.Keys(others)), "round robin", "hash of the beginning", "least-load", "random") {
		if balanced.p99 >= results[other].p99 {
			t.Errorf("p99 TTFT %.2f s; %s has %.2f s", balanced.p99, other, results[other].p99)
		}
	}
}
