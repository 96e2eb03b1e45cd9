package sched

import (
	"slices"
	"testing"
)

// TestFewAtOnce holds that none of ten prompts are refused that the next step can admit, whatever came before: one
// prompt at a time, each while a step was under way that could not have admitted it, or more than there was room for.
func TestFewAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		seqs, arrivals, most int
		rest                 float64 // microseconds before the ten come
	}{
		"one at a time": {64, 1, 60, 0},
		"too many":      {2, 20, 200, 10e6},
	} {
		m := newSimulated(t, Config{MaxSeqs: c.seqs, StepTarget: 50_000, MaxQueueTime: 2000})
		m.take = func(p *Plan) float64 { return 20_000 + 100*float64(p.Rows) }
		id := SeqID(0)
		ask := func(words, most int) error {
			id++
			return m.s.Add(Request{ID: id, Prompt: slices.Repeat([]int32{int32(id)}, words), MaxTokens: most})
		}
		steps := 0
		m.arrive = func() {
			if steps++; steps%20 < 2 {
				for range c.arrivals {
					if ask(2, c.most) != nil && c.arrivals == 1 {
						t.Error(name, "refused before the ten come")
					}
				}
			}
		}
		for m.arrive(); steps < 2000; {
			if !m.step() {
				m.arrive()
			}
		}
		m.arrive = nil
		for m.step() {
		}
		m.micros += c.rest
		m.s.Tick(int64(m.micros))
		for i := range 10 {
			if err := ask(20, 1); err != nil {
				t.Errorf("%s: %d of ten is refused: %v", name, i+1, err)
			}
		}
	}
}
