package sched

import (
	"math"
	"testing"
)

// TestPrices holds that prices follow what steps took: a row costs little beside a step that takes long whatever its
// rows, much where rows are all that it takes, and no token pays that is less likely than its price.
func TestPrices(t *testing.T) {
	for _, c := range []struct {
		name      string
		base, row int64 // microseconds
		seqs      int
		prompts   []int   // of those before, which only have a prompt
		low, high float64 // the chance from which on a token pays
	}{
		{"memory is the limit", 40_000, 2_000, 1, []int{300, 100, 30, 10, 3}, 0.03, 0.07},
		{"arithmetic is the limit", 1_000, 2_000, 1, []int{300, 100, 30, 10, 3}, 0.55, 0.75},
		{"a small batch", 40_000, 2_000, 8, []int{300, 100, 30, 10, 3}, 0.22, 0.35},
		{"a large batch", 40_000, 2_000, 200, []int{300, 100, 30, 10, 3}, 0.85, 0.97},
		{"only one kind of step is known", 40_000, 2_000, 1, nil, 0.24, 0.26},
	} {
		s, err := New(Config{Blocks: 4000, BlockTokens: 4, MaxSeqs: 256, TokenBudget: 512})
		if err != nil {
			t.Fatal(err)
		}
		if p := s.Prices(); p.Step != 0 || p.Chance(0) <= 1 {
			t.Errorf("%s: before any step: %+v", c.name, p)
		}
		id := SeqID(0)
		add := func(prompt, most int) {
			id++
			if err := s.Add(Request{ID: id, Prompt: make([]int32, prompt), MaxTokens: most}); err != nil {
				t.Fatal(err)
			}
		}
		step := func() {
			p := s.Next()
			s.Begin(p)
			results := make([]Result, len(p.Seqs))
			for i := range results {
				results[i].Tokens = []int32{1}
			}
			s.Took(p, c.base+c.row*int64(p.Rows))
			s.Commit(p, results)
		}
		for _, n := range c.prompts {
			add(n, 1)
			step()
		}
		for range c.seqs {
			add(1, 40)
		}
		for range 20 {
			step()
		}
		p := s.Prices()
		if got := p.Chance(20); got < c.low || got > c.high {
			t.Errorf("%s: a token pays from the chance %v on; want %v to %v (%+v)", c.name, got, c.low, c.high, p)
		}
		if want := float64(c.base + c.row*int64(c.seqs)); p.Rows != c.seqs || math.Abs(p.Step-want) > want/10 {
			t.Errorf("%s: %+v; want %d rows and a step of %v", c.name, p, c.seqs, want)
		}
	}
}
