package sched

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvasir-llm/kvasir/kv"
)

// TestRandomBeams runs searches whose beams branch and die at random, among other sequences, in any configuration: all
// come to their end, whatever is dropped or cancelled, and leave nothing.
func TestRandomBeams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const depth, width, prompt = 6, 4, 7
		cfg := Config{
			BlockTokens: rapid.IntRange(1, 5).Draw(t, "block tokens"), MaxSeqs: rapid.IntRange(1, 6).Draw(t, "max seqs"),
			TokenBudget: rapid.IntRange(1, 16).Draw(t, "budget"), PrefixCache: rapid.Bool().Draw(t, "cache"),
			Policy: rapid.SampledFrom(Policies()).Draw(t, "policy"), Batch: Batch(rapid.SampledFrom(Batches()).Draw(t, "batch")),
			Allocation: Allocation(rapid.SampledFrom(Allocations()).Draw(t, "allocation")), MaxPassed: rapid.IntRange(0, 2).Draw(t, "passed"),
			Interval: rapid.IntRange(0, 2).Draw(t, "interval"), MaxWaiting: 6, Groups: []kv.Group{{}},
		}
		switch rapid.IntRange(0, 4).Draw(t, "layers") {
		case 0:
			cfg.Groups = append(cfg.Groups, kv.Group{Window: 3})
		case 1:
			cfg.States = 2
		}
		longest := kv.Config{BlockTokens: cfg.BlockTokens, Groups: cfg.Groups}.Most(prompt+2*depth, cfg.TokenBudget)
		cfg.Blocks = longest + rapid.IntRange(0, 2*longest).Draw(t, "more blocks")
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		check := func() {
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
		}
		prompts, searches, next := map[SeqID][]int32{}, map[SeqID]int{}, SeqID(0)
		add := func(r Request) bool {
			next++
			r.ID = next
			if err := s.Add(r); err != nil {
				if !errors.Is(err, ErrQueueFull) || r.Parent > 0 {
					t.Fatal(err)
				}
				return false
			}
			prompts[r.ID] = r.Prompt
			return true
		}
		type group struct{ waits, there []SeqID }
		groups := map[int]*group{}
		begin := func(i int) {
			p := make([]int32, prompt)
			for k := range p {
				p[k] = int32(1 + i%2*k)
			}
			if i%3 == 2 {
				add(Request{Prompt: p, MaxTokens: 2 * depth})
			} else if add(Request{Prompt: p, MaxTokens: 1, Hold: true}) {
				groups[i], searches[next] = &group{waits: []SeqID{next}}, i
			}
		}
		// branch goes on with what a group has, once all of it is there.
		branch := func(i int, g *group) {
			over := len(prompts[g.there[0]]) == prompt+depth
			old := g.there
			g.there = nil
			var from []SeqID
			for range rapid.IntRange(1, width).Draw(t, "beams") {
				from = append(from, rapid.SampledFrom(old).Draw(t, "from"))
			}
			for _, id := range old {
				if over || !slices.Contains(from, id) {
					s.Cancel(id)
				}
			}
			for k, id := range from {
				if !over && add(Request{Prompt: append(slices.Clone(prompts[id]), int32(k)), MaxTokens: 1, Hold: true, Parent: id, Heir: !slices.Contains(from[k+1:], id)}) {
					g.waits, searches[next] = append(g.waits, next), i
				}
				check()
			}
			if over {
				delete(groups, i)
			}
		}
		var plans []*Plan
		for i, steps := 0, 0; i < 9 || len(s.byID) > 0; steps++ {
			if steps > 5000 {
				t.Fatalf("no end:\n%v", s.Stats())
			}
			if i < 9 && rapid.IntRange(0, 3).Draw(t, "begin") == 0 {
				begin(i)
				i++
			}
			if g := groups[i-1]; g != nil && rapid.IntRange(0, 20).Draw(t, "cancel") == 0 {
				for _, id := range slices.Concat(g.waits, g.there) {
					s.Cancel(id)
				}
				delete(groups, i-1)
			}
			if len(plans) == 1 && !plans[0].begun {
				s.Begin(plans[0])
			}
			if p := s.Next(); p != nil {
				plans = append(plans, p)
				if rapid.Bool().Draw(t, "begin") {
					s.Begin(p)
				}
			} else if len(plans) == 0 && s.waiting.n+s.running.n > 0 {
				t.Fatalf("nothing to do:\n%v", s.Stats())
			}
			check()
			if len(plans) == 0 || len(plans) < 2 && rapid.Bool().Draw(t, "two plans") {
				continue
			}
			p := plans[0]
			plans = plans[1:]
			var sampled []SeqID
			for _, w := range p.Seqs {
				if w.Sample {
					sampled = append(sampled, w.ID)
				}
			}
			s.Commit(p, zeros(len(p.Seqs)))
			check()
			for _, id := range sampled {
				g := groups[searches[id]]
				if g == nil || !slices.Contains(g.waits, id) {
					continue
				}
				g.waits, g.there = slices.DeleteFunc(g.waits, func(o SeqID) bool { return o == id }), append(g.there, id)
				if len(g.waits) == 0 {
					branch(searches[id], g)
				}
			}
			check()
		}
		if err := s.CheckClosed(); err != nil || s.held.n != 0 {
			t.Fatalf("all have ended, but %d are held: %v", s.held.n, err)
		}
	})
}
