package sched

import (
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/kv"
)

// verifyMoves checks that each move to the device finds its source, and lets some fail.
func (m *machine) verifyMoves(st *step) {
	st.moves = slices.Clone(st.plan.Moves)
	for _, mv := range st.moves {
		if mv.To.Tier != kv.Device {
			continue
		}
		if m.stored[mv.From].name != mv.Name {
			m.t.Fatalf("%v is to be loaded, but %v %d holds %v", mv.Name.Hash, mv.From.Tier, mv.From.At, m.stored[mv.From].name.Hash)
		}
		if m.loads++; m.spoil > 0 && m.loads*2654435761>>7%m.spoil == 0 {
			m.lose(st, mv)
		}
	}
}

// lose lets a move fail.
func (m *machine) lose(st *step, mv kv.Move) {
	m.lost++
	delete(m.stored, mv.From)
	known := len(st.plan.Preempted)
	works := slices.Clone(st.plan.Seqs)
	m.s.Lost(st.plan, mv)
	for _, id := range st.plan.Preempted[known:] {
		q := m.find(id)
		q.running, q.computed = false, 0
		m.preemptions++
		for _, w := range works {
			if w.ID == id && w.Sample {
				q.pending--
			}
		}
	}
}

// store makes a step's moves from the device and between lower tiers.
func (m *machine) store(st *step) {
	for _, mv := range st.moves {
		switch {
		case mv.To.Tier == kv.Device:
		case mv.From.Tier != kv.Device:
			m.stored[mv.To] = m.stored[mv.From]
		default:
			c := content{name: mv.Name}
			for i := range m.cfg.BlockTokens {
				c.data = append(c.data, m.memory[slot{mv.From.At, i}])
			}
			m.stored[mv.To] = c
		}
	}
}

// load makes those to the device. What was lost leaves rubbish.
func (m *machine) load(st *step) {
	for _, mv := range st.moves {
		if mv.To.Tier != kv.Device {
			continue
		}
		data := append(m.stored[mv.From].data, make([]uint64, m.cfg.BlockTokens)...)
		for i := range m.cfg.BlockTokens {
			m.memory[slot{mv.To.At, i}] = data[i]
		}
	}
}

// A history in which conversations come back after others took their blocks, over tiers and ways to preempt.
func TestTiers(t *testing.T) {
	for _, preempt := range Preempts() {
		for _, spoil := range []uint64{0, 5} {
			m := newMachine(t, Config{
				BlockTokens: 4, Blocks: 24, MaxSeqs: 6, TokenBudget: 24, MaxChunk: 7, PrefixCache: true, MaxPassed: 3,
				Groups: []kv.Group{{}, {Window: 9}}, Slots: [kv.Tiers]int{kv.Host: 10, kv.Disk: 200}, Preempt: preempt,
			})
			m.spoil = spoil
			for i := range 600 {
				if m.s.Stats().Waiting < 4 {
					prompt := make([]int32, 10+i%5*3)
					for j := range prompt {
						prompt[j] = int32(1 + (i%9>>(j%4))&1)
					}
					m.add(Request{ID: SeqID(i), Prompt: prompt, MaxTokens: 1 + i*7%20})
				}
				m.next()
				if len(m.plans) == 2 || i%3 == 0 {
					m.commit()
				}
				m.check()
			}
			m.drain()
			st := m.s.Stats()
			if m.loads == 0 || st.Preemptions == 0 || (spoil > 0) != (m.lost > 0) {
				t.Errorf("%s: %d loads, %d lost and %d preemptions show little", preempt, m.loads, m.lost, st.Preemptions)
			}
			for tier := kv.Host; tier < kv.Tiers; tier++ {
				t.Logf("%s, %v: %+v", preempt, tier, st.KV.Tiers[tier])
			}
		}
	}
}
