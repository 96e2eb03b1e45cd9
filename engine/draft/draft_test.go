package draft

import (
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine"
)

// counter is a Runner of a model that counts: after a token n comes n+1. It checks that each row attends to the tokens
// that come before it, as its block tables say.
type counter struct {
	t      *testing.T
	size   int32
	memory map[[2]int32]int32 // tokens, by block and place
	tables map[int32][]int32  // by slot
	rows   []int              // of the steps
	fail   error
}

type counted struct {
	compute.Step
	chosen []int32
	err    error
}

func (c counted) Wait() error                 { return c.err }
func (c counted) Chosen(i int) compute.Chosen { return compute.Chosen{Token: c.chosen[i]} }

func (c *counter) Start(b *compute.Batch) (compute.Step, error) {
	c.rows = append(c.rows, b.Rows())
	for _, e := range b.Edits {
		for len(c.tables[e.Slot]) <= int(e.At) {
			c.tables[e.Slot] = append(c.tables[e.Slot], -1)
		}
		c.tables[e.Slot][e.At] = e.Block
	}
	for _, s := range b.Seqs {
		at := func(p int32) [2]int32 { return [2]int32{c.tables[s.Slot][p/c.size], p % c.size} }
		for r := range s.Rows {
			c.memory[at(s.Start+r)] = b.IDs[s.Row+r]
		}
		for p := range s.Start + s.Rows - 1 {
			if before, id := c.memory[at(p)], c.memory[at(p+1)]; id != before+1 && id%1000 != 500 {
				c.t.Errorf("slot %d: token %d follows token %d", s.Slot, id, before)
			}
		}
	}
	var out counted
	for _, choice := range b.Choose {
		out.chosen = append(out.chosen, b.IDs[b.Logits[choice.Row]]+1)
	}
	out.err = c.fail
	return out, nil
}

func run(from, n int32) (ids []int32) {
	for i := range n {
		ids = append(ids, from+i)
	}
	return ids
}

// TestModel guesses at more sequences than there are blocks and slots for, whose guesses are right or wrong, and which
// come in turns: what is guessed goes on from all tokens.
func TestModel(t *testing.T) {
	c := &counter{t: t, size: 4, memory: map[[2]int32]int32{}, tables: map[int32][]int32{}}
	m := New()
	asks := []engine.Ask{{Sequence: 1, Tokens: run(1000, 5), Most: 3}}
	if m.Draft(asks); asks[0].Draft.Tokens != nil {
		t.Error("it guesses without a Runner")
	}
	m.Use(c, Config{Context: 40, Blocks: 16, BlockTokens: 4, Groups: 1, Slots: 3, Logger: slog.New(slog.DiscardHandler)})
	length := map[uint64]int32{1: 5, 2: 9, 3: 1, 4: 20}
	guessed := 0
	for turn := range 30 {
		asks = asks[:0]
		for id := uint64(1); id <= 4; id++ {
			if (turn+int(id))%3 > 0 {
				asks = append(asks, engine.Ask{Sequence: id, Tokens: run(int32(id)*1000, length[id]), Most: 1 + turn%4})
			}
		}
		m.Draft(asks)
		for _, a := range asks {
			n := int32(len(a.Tokens))
			want := run(a.Tokens[0]+n, int32(a.Most))
			if got := a.Draft.Tokens; got != nil && !slices.Equal(got, want) {
				t.Errorf("turn %d: after %v it guesses %v", turn, a.Tokens, got)
			} else if got != nil {
				guessed++
			} else if len(asks) == 1 {
				t.Errorf("turn %d: nothing is guessed after %v", turn, a.Tokens)
			}
			if length[a.Sequence] = n + int32(turn%3); length[a.Sequence] > 32 {
				m.Forget(a.Sequence)
				length[a.Sequence] = 2
			}
		}
	}
	if guessed < 30 {
		t.Errorf("%d times something was guessed", guessed)
	}
	for id := range uint64(5) {
		m.Forget(id)
	}
	if len(m.blocks) != 16 || len(m.slots) != 3 {
		t.Errorf("%d blocks of 16 and %d slots of 3 are free", len(m.blocks), len(m.slots))
	}
}

// TestCatchUp holds that a long prompt is computed in several calls, and that one beyond the context is left alone.
func TestCatchUp(t *testing.T) {
	c := &counter{t: t, size: 16, memory: map[[2]int32]int32{}, tables: map[int32][]int32{}}
	m := New()
	m.Use(c, Config{Context: 1000, Blocks: 100, BlockTokens: 16, Groups: 1, Slots: 2, Logger: slog.New(slog.DiscardHandler)})
	asks := []engine.Ask{{Sequence: 1, Tokens: run(1000, 300), Most: 2}, {Sequence: 2, Tokens: run(5000, 999), Most: 2}}
	for range 3 {
		if asks[0].Draft.Tokens != nil {
			t.Errorf("it guesses %v after %v steps", asks[0].Draft.Tokens, c.rows)
		}
		m.Draft(asks)
	}
	if !slices.Equal(c.rows, []int{128, 128, 44, 1}) || !slices.Equal(asks[0].Draft.Tokens, []int32{1300, 1301}) || asks[1].Draft.Tokens != nil {
		t.Errorf("steps of %v rows; guesses %v and %v", c.rows, asks[0].Draft.Tokens, asks[1].Draft.Tokens)
	}
	// A wrong guess is computed again, and nothing else.
	asks = []engine.Ask{{Sequence: 1, Tokens: append(run(1000, 300), 1500), Most: 1}}
	if m.Draft(asks); !slices.Equal(asks[0].Draft.Tokens, []int32{1501}) || c.rows[len(c.rows)-1] != 1 {
		t.Errorf("steps of %v rows; guess %v", c.rows, asks[0].Draft.Tokens)
	}
	// A fault leaves no guess, and nothing of what it may have spoilt is used again.
	c.fail = errors.New("the device is on fire")
	if m.Draft(asks); asks[0].Draft.Tokens != nil {
		t.Errorf("it guesses %v after a fault", asks[0].Draft.Tokens)
	}
	c.fail, c.rows = nil, nil
	for range 3 {
		m.Draft(asks)
	}
	if !slices.Equal(c.rows, []int{128, 128, 45}) || !slices.Equal(asks[0].Draft.Tokens, []int32{1501}) {
		t.Errorf("after a fault: steps of %v rows; guess %v", c.rows, asks[0].Draft.Tokens)
	}
}
