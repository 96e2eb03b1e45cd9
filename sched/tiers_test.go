package sched

import (
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/kv"
)

// The tiers of these tests: one that answers at once, and one that does not and outlives the scheduler.
const host, disk = kv.Tier(1), kv.Tier(2)

// tiers returns them with so many slots, nil if they have none.
func tiers(hostSlots, diskSlots int) []kv.TierConfig {
	if hostSlots+diskSlots == 0 {
		return nil
	}
	return []kv.TierConfig{{Slots: hostSlots}, {Slots: diskSlots, Slow: true, Durable: true}}
}

// slow reports whether a tier does not answer at once.
func (m *machine) slow(t kv.Tier) bool { return m.cfg.Tiers[t-1].Slow }

// reading is a block that a slow tier is asked for. The tier answers once the steps are computed that were outstanding
// then, which may store it.
type reading struct {
	move  kv.Move
	after []*step
}

// fetch hears what slow tiers are asked for.
func (m *machine) fetch() {
	for _, mv := range m.s.Fetches(nil) {
		m.reading = append(m.reading, reading{mv, slices.Clone(m.plans)})
	}
}

// computed lets slow tiers answer what waits for a step.
func (m *machine) computed(st *step) {
	for i := range m.reading {
		r := &m.reading[i]
		r.after = slices.DeleteFunc(r.after, func(o *step) bool { return o == st })
	}
}

// arrive lets a slow tier answer one of the reads that it can, which one is up to n. Some fail.
func (m *machine) arrive(n int) {
	var ready []int
	for i, r := range m.reading {
		if len(r.after) == 0 {
			ready = append(ready, i)
		}
	}
	if len(ready) == 0 {
		return
	}
	i := ready[n%len(ready)]
	mv := m.reading[i].move
	m.reading = slices.Delete(m.reading, i, i+1)
	expected, there := m.s.Expected(mv.Name), m.stored[mv.From].name == mv.Name
	if !there && m.s.pool.Awaits(mv) {
		m.t.Fatalf("%v is to be fetched, but %v holds %v", mv.Name, mv.From, m.stored[mv.From].name)
	}
	if m.loads++; !there || m.spoil > 0 && m.loads*2654435761>>7%m.spoil == 0 {
		if there { // else it was forgotten, and its slot given away
			m.lost++
			delete(m.stored, mv.From)
		}
		m.s.Lost(nil, mv)
		return
	}
	m.came++
	if m.s.Arrived(mv) != expected {
		m.t.Fatalf("%v is expected: %v", mv.Name.Hash, expected)
	}
	if expected {
		m.arrived[mv.Name] = slices.Clone(m.stored[mv.From].data)
	}
}

// take returns what a plan moves of what has arrived.
func (m *machine) take(p *Plan) map[kv.Name][]uint64 {
	fetched := map[kv.Name][]uint64{}
	for _, mv := range p.Moves {
		if mv.To.Tier == kv.Device && m.slow(mv.From.Tier) {
			if fetched[mv.Name] = m.arrived[mv.Name]; fetched[mv.Name] == nil {
				m.t.Fatalf("%v is to be loaded, and has not arrived", mv.Name.Hash)
			}
		}
	}
	return fetched
}

// sweep forgets what no sequence waits for, but for what a plan moves.
func (m *machine) sweep(p *Plan) {
	for name := range m.arrived {
		moved := p != nil && slices.ContainsFunc(p.Moves, func(mv kv.Move) bool { return mv.Name == name })
		if !moved && !m.s.Expected(name) {
			delete(m.arrived, name)
		}
	}
}

// storing reports whether the newest of two plans moves what the one before it is yet to store in a lower tier.
func (m *machine) storing() bool {
	return len(m.plans) == 2 && slices.ContainsFunc(m.plans[1].plan.Moves, func(mv kv.Move) bool {
		return slices.ContainsFunc(m.plans[0].moves, func(o kv.Move) bool { return o.To == mv.From })
	})
}

// verifyMoves checks that each move to the device finds its source, and lets some fail.
func (m *machine) verifyMoves(st *step) {
	st.moves = slices.Clone(st.plan.Moves)
	for _, mv := range st.moves {
		if mv.To.Tier != kv.Device {
			continue
		}
		if m.slow(mv.From.Tier) {
			continue // it has arrived
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
		q.running, q.computed, q.draft, q.drafted = false, 0, Draft{}, false
		m.preemptions++
		for _, w := range works {
			if w.ID == id && w.Sample {
				q.pending -= 1 + w.Draft
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
			c := m.stored[mv.From]
			if c.name != mv.Name && c.name != (kv.Name{}) { // nothing: it was lost
				m.t.Fatalf("%v is to be moved from %v to %v, but there is %v", mv.Name, mv.From, mv.To, c.name)
			}
			m.stored[mv.To] = c
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
		data := m.stored[mv.From].data
		if m.slow(mv.From.Tier) {
			data = st.fetched[mv.Name]
		}
		data = append(data, make([]uint64, m.cfg.BlockTokens)...)
		for i := range m.cfg.BlockTokens {
			m.memory[slot{mv.To.At, i}] = data[i]
		}
	}
}

// A history in which conversations come back after others took their blocks, over tiers and ways to preempt.
func TestTiers(t *testing.T) {
	for _, preempt := range []Preempt{Auto, Swap, Recompute} {
		for _, spoil := range []uint64{0, 5} {
			m := newMachine(t, Config{
				BlockTokens: 4, Blocks: 24, MaxSeqs: 6, TokenBudget: 24, MaxChunk: 7, PrefixCache: true, MaxPassed: 3,
				Groups: []kv.Group{{}, {Window: 9}}, Tiers: tiers(10, 200), Preempt: preempt,
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
				m.arrive(i)
				m.check()
			}
			m.drain()
			st := m.s.Stats()
			if m.loads == 0 || m.came == 0 || st.Preemptions == 0 || (spoil > 0) != (m.lost > 0) {
				t.Errorf("%s: %d loads, %d lost and %d preemptions show little", preempt, m.loads, m.lost, st.Preemptions)
			}
			for _, tier := range []kv.Tier{host, disk} {
				t.Logf("%s, %v: %+v", preempt, tier, st.KV.Tiers[tier])
			}
		}
	}
}
