package sched

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvasir-llm/kvasir/kv"
)

// TestRandomHistories runs random histories on random configurations, many of them far too small, against a simulated
// machine whose memory shows whether each sequence reads its own context (see machine), and drains what is left: every
// sequence must end with the tokens that it yields when it runs alone.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			BlockTokens: rapid.SampledFrom([]int{1, 2, 3, 16}).Draw(t, "block tokens"),
			Blocks:      rapid.IntRange(1, 24).Draw(t, "blocks"),
			MaxSeqs:     rapid.IntRange(1, 6).Draw(t, "max seqs"),
			TokenBudget: rapid.SampledFrom([]int{1, 2, 3, 5, 8, 64}).Draw(t, "budget"),
			MaxChunk:    rapid.SampledFrom([]int{0, 1, 2, 5}).Draw(t, "chunk"),
			MaxLen:      rapid.SampledFrom([]int{0, 0, 5, 30}).Draw(t, "max len"),
			MaxWaiting:  rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "max waiting"),
			PrefixCache: rapid.Bool().Draw(t, "cache"),
			Groups: rapid.SampledFrom([][]kv.Group{
				nil, nil, {{Window: 1}}, {{Window: 5}}, {{}, {Window: 4}}, {{Window: 3}, {}, {Window: 3}}, {{}, {}},
			}).Draw(t, "groups"),
			States:      rapid.SampledFrom([]int{0, 0, 0, 1, 3}).Draw(t, "states"),
			Evict:       rapid.SampledFrom(kv.Policies()).Draw(t, "evict"),
			Policy:      rapid.SampledFrom(Policies()).Draw(t, "policy"),
			Batch:       Batch(rapid.SampledFrom(Batches()).Draw(t, "batch")),
			MaxPassed:   rapid.SampledFrom([]int{0, 1, 4}).Draw(t, "max passed"),
			Interval:    rapid.SampledFrom([]int{0, 1, 2, 5}).Draw(t, "interval"),
			Allocation:  Allocation(rapid.SampledFrom(Allocations()).Draw(t, "allocation")),
			MaxAdapters: rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "max adapters"),
			StepTarget:  rapid.SampledFrom([]int64{0, 0, 50, 300}).Draw(t, "target"),
			Stairs:      rapid.SampledFrom([][]Stair{nil, {{1, 1}, {3, 2}, {4, 8}}, {{4, 1}, {8, 2}, {16, 3}}}).Draw(t, "stairs"),
		}
		if cfg.PrefixCache && cfg.States == 0 {
			cfg.Tiers = tiers(rapid.SampledFrom([]int{0, 1, 5, 40}).Draw(t, "host slots"), rapid.SampledFrom([]int{0, 3, 60}).Draw(t, "disk slots"))
			if n := rapid.SampledFrom([]int{0, 0, 20}).Draw(t, "remote slots"); n > 0 {
				cfg.Tiers = append(cfg.Tiers, kv.TierConfig{Slots: n, Slow: true})
			}
			cfg.Preempt = Preempt(rapid.SampledFrom(Preempts()).Draw(t, "preempt"))
		}
		if cfg.Batch == Static {
			cfg.Window = rapid.SampledFrom([]int64{0, 3}).Draw(t, "window")
		}
		cfg.Blocks += cfg.Blocks * len(cfg.Groups) // so that something fits
		m := newMachine(t, cfg)
		m.s.Measured(kv.Rates{
			Token: rapid.Int64Range(0, 3).Draw(t, "ns for a token"),
			Block: [kv.MaxTiers]int64{0, rapid.Int64Range(0, 9).Draw(t, "ns for a block of the host"), rapid.Int64Range(0, 9).Draw(t, "of the disk"), 4},
		})
		m.pace = pacing{rapid.Int64Range(0, 100).Draw(t, "us of a step"), rapid.Int64Range(0, 20).Draw(t, "us of a row")}
		m.spoil = rapid.SampledFrom([]uint64{0, 0, 2, 10}).Draw(t, "one of so many loads fails")
		var pinned [][]int32
		ops := rapid.SampledFrom([]string{"commit", "commit", "commit", "next", "next", "next", "add", "add", "cancel", "pin",
			"begin", "propose", "propose", "propose", "force", "alone", "pause", "arrive", "arrive"})
		for _, op := range rapid.SliceOfN(ops, 100, 200).Draw(t, "history") {
			switch op {
			case "add":
				m.add(request(t, m))
			case "next":
				m.next()
			case "commit":
				m.commit()
			case "pin":
				prompt := request(t, m).Prompt
				if rapid.IntRange(0, 9).Draw(t, "reset") == 0 {
					m.s.ResetCache()
				} else if m.s.Unpin(prompt, kv.Keys{}) == 0 {
					m.s.Pin(prompt, kv.Keys{})
					pinned = append(pinned, prompt)
				}
			case "begin":
				m.begin()
			case "arrive":
				m.arrive(rapid.IntRange(0, 5).Draw(t, "which"))
			case "propose":
				n := rapid.IntRange(1, 5).Draw(t, "proposed")
				for _, q := range slices.Clone(m.live) {
					m.propose(q, n, rapid.IntRange(0, n).Draw(t, "right"), rapid.Bool().Draw(t, "a tree"))
				}
			case "force":
				if len(m.live) > 0 {
					m.force(rapid.SampledFrom(m.live).Draw(t, "whom"), rapid.SliceOfN(rapid.Int32Range(1, 2), 1, 6).Draw(t, "tokens"))
				}
			case "alone":
				if len(m.live) > 0 {
					q := rapid.SampledFrom(m.live).Draw(t, "whom")
					q.alone = !q.alone
					m.s.PlanAhead(q.id, !q.alone)
				}
			case "pause":
				if len(m.live) > 0 {
					q := rapid.SampledFrom(m.live).Draw(t, "whom")
					q.paused = rapid.Bool().Draw(t, "paused")
					m.s.Pause(q.id, q.paused)
				}
			case "cancel":
				if len(m.live) > 0 {
					m.cancel(rapid.SampledFrom(m.live).Draw(t, "whom").id)
				}
			}
			m.check()
		}
		for _, q := range m.live {
			q.paused = false
			m.s.Pause(q.id, false)
		}
		for _, prompt := range pinned {
			for m.s.Unpin(prompt, kv.Keys{}) > 0 {
			}
		}
		m.drain()
	})
}

// request draws a request. Prompts begin alike more often than not.
func request(t *rapid.T, m *machine) Request {
	prompt := rapid.SliceOfN(rapid.Int32Range(1, 2), 1, 12).Draw(t, "prompt")
	if rapid.Bool().Draw(t, "a common beginning") {
		prompt = append([]int32{1, 2, 1, 1, 2, 2, 1}, prompt...)
	}
	salt := rapid.SampledFrom([]string{"", "", "x"}).Draw(t, "salt")
	var parent SeqID
	if len(m.live) > 0 && rapid.IntRange(0, 2).Draw(t, "a parent") == 0 {
		q := rapid.SampledFrom(m.live).Draw(t, "whose")
		parent, salt = q.id, q.salt
		prompt = append(slices.Clone(q.tokens[:rapid.IntRange(0, len(q.tokens)).Draw(t, "common")]), prompt[:1]...)
	}
	id := SeqID(rapid.IntRange(1, 20).Draw(t, "id"))
	return Request{
		ID: id, Prompt: prompt,
		MaxTokens:  rapid.IntRange(1, 20).Draw(t, "max tokens"),
		Keys:       kv.Keys{Salt: salt},
		Parent:     parent,
		NoCache:    rapid.IntRange(0, 5).Draw(t, "no cache") == 0,
		Priority:   rapid.IntRange(-1, 1).Draw(t, "priority"),
		Background: rapid.IntRange(0, 3).Draw(t, "background") == 0,
		Tenant:     rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "tenant"),
		Adapter:    rapid.SampledFrom([]uint64{0, 0, 1, 2, 3}).Draw(t, "adapter"),
		Deadline:   rapid.Int64Range(0, 9).Draw(t, "deadline"),
		Interval:   rapid.Int64Range(0, 2).Draw(t, "interval"),
	}
}

// A long history of the kind that a server sees, with the pool always under pressure, under each policy.
func TestLongHistory(t *testing.T) {
	for _, policy := range Policies() {
		for _, allocation := range []Allocation{OnDemand, Preallocate, Learned} {
			t.Run(policy+","+string(allocation), func(t *testing.T) { longHistory(t, policy, allocation) })
		}
	}
}

func longHistory(t *testing.T, policy string, allocation Allocation) {
	m := newMachine(t, Config{
		BlockTokens: 4, Blocks: 40, MaxSeqs: 16, TokenBudget: 24, MaxChunk: 7, PrefixCache: true, Policy: policy, MaxPassed: 3,
		Allocation: allocation,
	})
	seed := uint64(1)
	draw := func(n int) int {
		seed = seed*6364136223846793005 + 1442695040888963407
		return int(seed>>33) % n
	}
	for i := range 3000 {
		if m.s.Stats().Waiting < 8 {
			prompt := make([]int32, 1+draw(40))
			for i := range prompt {
				prompt[i] = int32(1 + draw(2)*draw(2)*draw(2))
			}
			m.add(Request{ID: SeqID(i), Prompt: prompt, MaxTokens: 1 + draw(40), Priority: draw(3), Tenant: string(rune('a' + draw(5))),
				Deadline: int64(1 + i + draw(100)), Interval: int64(draw(3))})
		}
		m.next()
		if draw(9) == 0 && len(m.live) > 0 {
			m.cancel(m.live[draw(len(m.live))].id)
		}
		if draw(2) == 0 {
			m.begin()
		}
		if len(m.plans) == 2 || draw(4) == 0 {
			m.commit()
		}
		for _, q := range slices.Clone(m.live) {
			if q.alone = q.id%2 == 0; !q.alone {
				continue
			}
			m.s.PlanAhead(q.id, false)
			if draw(4) > 0 {
				m.propose(q, 3, draw(4), draw(2) == 0)
			} else if draw(20) == 0 {
				m.force(q, []int32{1, 2, 1, 1}[:1+draw(4)])
			}
		}
		m.check()
	}
	m.drain()
	stats := m.s.Stats()
	if (stats.Preemptions == 0) != (allocation == Preallocate) || stats.KV.Hits == 0 || stats.KV.Evictions == 0 {
		t.Errorf("a history without preemption, hits or evictions shows little:\n%v", stats)
	}
	if m.accepted == 0 || m.rejected == 0 || m.forced == 0 || m.shifted == 0 {
		t.Errorf("%d tokens were accepted, %d rejected, %d forced and %d shifted: that shows little", m.accepted, m.rejected, m.forced, m.shifted)
	}
	t.Logf("%d sequences ended, %d proposed tokens were accepted, %d rejected, %d forced\n%v", m.finished, m.accepted, m.rejected, m.forced, stats)
}
