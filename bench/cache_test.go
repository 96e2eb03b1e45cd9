package bench

import (
	"os"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/internal/reference"
)

// mooncake reads the reference trace, with lengths so small that a recorded block of 512 tokens has 16.
func mooncake(tb testing.TB, limit int) []Conversation {
	f, err := os.Open(reference.Path(tb, "traces", "mooncake_conversation.jsonl"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	cs, err := ParseMooncake(f, TraceOptions{Limit: limit, Speed: 1, Lengths: 1.0 / 32})
	if err != nil {
		tb.Fatal(err)
	}
	return cs
}

// cluster is a machine of the trace's own size: a token, which stands for 32, is decoded in 32 times 30 ms, and prompts
// are computed at 100,000 recorded tokens a second.
func cluster(blocks int) CacheOptions {
	return CacheOptions{
		BlockTokens: 16, Blocks: blocks, MaxSeqs: 1024, TokenBudget: 8192, MaxPassed: 16,
		Step: 960 * time.Millisecond, PerToken: 320 * time.Microsecond,
	}
}

// TestCacheRates counts by hand what a small cache finds of three conversations: two share two blocks of 4 tokens, and
// all come again in a second turn.
func TestCacheRates(t *testing.T) {
	turn := func(parts ...Part) Turn { return Turn{[]Message{{"user", parts}}, 3} }
	shared := Part{Seed: 1, Tokens: 8}
	cs := []Conversation{
		{At: 0, Turns: []Turn{turn(shared, Part{Seed: 2, Tokens: 2}), turn(Part{Seed: 3, Tokens: 5})}},
		{At: time.Second, Turns: []Turn{turn(shared, Part{Seed: 4, Tokens: 2})}},
		{At: time.Minute, Turns: []Turn{turn(Part{Seed: 5, Tokens: 40})}},
		{At: time.Hour, Turns: []Turn{turn(shared, Part{Seed: 6, Tokens: 1})}},
	}
	o := CacheOptions{Step: 10 * time.Millisecond, BlockTokens: 4, MaxSeqs: 4, TokenBudget: 64}
	// The second turn of 10+3+5 tokens finds 12 that were computed; the second conversation 8; the last 8, unless the
	// third, which takes 11 blocks, drove them out.
	for blocks, want := range map[int]int{100: 12 + 8 + 8, 11: 12 + 8} {
		o.Blocks = blocks
		rep, err := SimulateCache(cs, o)
		if err != nil || rep.Cached != want || rep.Ideal != 28 || rep.Requests != 5 || rep.Prompt != 10+18+10+40+9 {
			t.Errorf("%d blocks: %+v, %v; want %d tokens cached", blocks, rep, err, want)
		}
		if rep.Time < time.Hour+30*time.Millisecond || rep.Time > time.Hour+40*time.Millisecond || rep.Unfilled <= 0 || rep.Unfilled > 0.3 {
			t.Errorf("%d blocks: %v, %v unfilled", blocks, rep.Time, rep.Unfilled)
		}
	}
	o.Blocks = 9
	if _, err := SimulateCache(cs, o); err == nil {
		t.Error("a prompt that does not fit is simulated")
	}
}

// TestMooncakeHits replays the reference trace: with memory enough the cache has what an ideal one would have, to
// within 2 points; with less, going by how often blocks are used finds more than going by when alone.
func TestMooncakeHits(t *testing.T) {
	cs := mooncake(t, 0)
	for _, c := range []struct {
		blocks     int
		lost, gain float64
	}{{200_000, 0.001, 0}, {50_000, 0.02, 0}, {10_000, 1, 0.005}} {
		rates := map[string]float64{}
		for _, eviction := range []string{"lru", "lfu"} {
			o := cluster(c.blocks)
			o.Evict = eviction
			rep, err := SimulateCache(cs, o)
			if err != nil {
				t.Fatal(err)
			}
			rates[eviction] = rep.HitRate()
			if rep.IdealRate() < 0.36 || rep.IdealRate()-rep.HitRate() > c.lost || rep.Unfilled > 0.04 {
				t.Errorf("%s, %d blocks: %+v", eviction, c.blocks, rep)
			}
			t.Logf("%s, %d blocks: %.2f%% of prompts found, %.2f%% could be; %.1f%% of what is held not filled", eviction, c.blocks,
				100*rep.HitRate(), 100*rep.IdealRate(), 100*rep.Unfilled)
		}
		if rates["lfu"] < rates["lru"]+c.gain {
			t.Errorf("%d blocks: lfu finds %v, lru %v", c.blocks, rates["lfu"], rates["lru"])
		}
	}
}
