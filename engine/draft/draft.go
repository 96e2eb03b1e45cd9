// Package draft guesses what follows a sequence with a model of its own, which is smaller than the one that is served
// (engine.Drafter). It knows nothing of text, and nothing of whether its guesses are right. Read Model first.
package draft

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine"
)

// Runner computes steps, as model.Runner does. Nothing else may be under way on its device that waits for the loop.
type Runner interface {
	Start(b *compute.Batch) (compute.Step, error)
}

// Config says what a Model has of its device.
type Config struct {
	Context     int // tokens of a sequence at most
	Blocks      int // of the KV cache
	BlockTokens int
	Groups      int // of layers, each of which has blocks of its own
	Slots       int // sequences with blocks at once
	Logger      *slog.Logger
}

// catchUp is how many tokens that it does not know yet a Model computes before it guesses: others wait meanwhile. A
// longer prompt takes several calls.
const catchUp = 128

// Rows is how many rows the Runner must take, for so many sequences at once.
func Rows(slots int) int { return max(catchUp, slots) }

// Model proposes the tokens that a model finds likeliest. It is used by one goroutine at a time.
type Model struct {
	cfg    Config
	runner Runner
	seqs   map[uint64]*sequence
	blocks []int32 // free ones
	slots  []int32 // likewise
	calls  uint64
	batch  compute.Batch
	fresh  []compute.Chooser // of slots that begin
}

// sequence is what a Model has of one.
type sequence struct {
	slot   int32
	ids    []int32   // whose keys and values are in its blocks, guesses too
	tables [][]int32 // by group
	used   uint64    // the call
}

// greedy is how guesses are chosen.
var greedy = &compute.Choosing{TopP: 1, Repetition: 1}

// New makes a Model without a Runner, which guesses nothing.
func New() *Model { return &Model{} }

// Use gives a Model a Runner in place of the one before, whose memory is gone.
func (m *Model) Use(r Runner, cfg Config) {
	*m = Model{cfg: cfg, runner: r, seqs: map[uint64]*sequence{}}
	for i := range cfg.Blocks {
		m.blocks = append(m.blocks, int32(cfg.Blocks-1-i))
	}
	for i := range cfg.Slots {
		m.slots = append(m.slots, int32(cfg.Slots-1-i))
	}
}

// Forget implements engine.Drafter.
func (m *Model) Forget(id uint64) {
	if s := m.seqs[id]; s != nil {
		for _, t := range s.tables {
			m.blocks = append(m.blocks, t...)
		}
		m.slots = append(m.slots, s.slot)
		delete(m.seqs, id)
	}
}

// guess is a sequence that is being guessed at.
type guess struct {
	*sequence
	ask    *engine.Ask
	choice int // its number in the batch; -1: it computes nothing, or not all
}

// Draft implements engine.Drafter. A fault of the device leaves the asks without guesses.
func (m *Model) Draft(asks []engine.Ask) {
	m.calls++
	var all []guess
	for i := range asks {
		asks[i].Draft.Tokens, asks[i].Draft.Parents = nil, nil
		if s := m.prepare(&asks[i]); s != nil {
			all = append(all, guess{s, &asks[i], -1})
		}
	}
	left := catchUp
	for step := 0; ; step++ {
		m.batch.Choosers = append(m.batch.Choosers[:0], m.fresh...)
		m.fresh = m.fresh[:0]
		for i := range all {
			if g := &all[i]; step == 0 {
				left -= m.begin(g, left)
			} else if g.choice >= 0 {
				m.goOn(g)
			}
		}
		if m.batch.Rows() == 0 {
			return
		}
		if err := m.run(all); err != nil {
			for i := range all {
				asks[i].Draft.Tokens = nil
			}
			m.cfg.Logger.Error("guessing ahead failed", "error", err)
			m.Use(m.runner, m.cfg)
			return
		}
	}
}

// prepare finds what is known of a sequence, and gives it blocks for all its tokens and guesses; nil if there are none.
func (m *Model) prepare(a *engine.Ask) *sequence {
	whole := len(a.Tokens) + a.Most
	if m.runner == nil || a.Most < 1 || whole > m.cfg.Context {
		return nil
	}
	s := m.seqs[a.Sequence]
	if s == nil {
		if len(m.slots) == 0 && !m.evict() {
			return nil
		}
		last := len(m.slots) - 1
		s = &sequence{slot: m.slots[last], tables: make([][]int32, m.cfg.Groups)}
		m.slots = m.slots[:last]
		m.seqs[a.Sequence] = s
		m.fresh = append(m.fresh, compute.Chooser{Slot: s.slot, Choosing: greedy})
	}
	s.used = m.calls
	n := 0
	for n < min(len(s.ids), len(a.Tokens)-1) && s.ids[n] == a.Tokens[n] {
		n++
	}
	s.ids = s.ids[:n]
	for g := range s.tables {
		for len(s.tables[g])*m.cfg.BlockTokens < whole {
			if len(m.blocks) == 0 && !m.evict() {
				return nil
			}
			last := len(m.blocks) - 1
			b := m.blocks[last]
			m.batch.Edits = append(m.batch.Edits, compute.TableEdit{Slot: s.slot, Group: int32(g), At: int32(len(s.tables[g])), Block: b})
			s.tables[g], m.blocks = append(s.tables[g], b), m.blocks[:last]
		}
	}
	return s
}

// evict forgets the sequence that was not asked for longest, but none of this call.
func (m *Model) evict() bool {
	var oldest uint64
	found := false
	for id, s := range m.seqs {
		if s.used < m.calls && (!found || s.used < m.seqs[oldest].used) {
			oldest, found = id, true
		}
	}
	if found {
		m.Forget(oldest)
	}
	return found
}

// begin puts the tokens of a sequence that are not computed into the batch, at most so many, and returns how many.
func (m *Model) begin(g *guess, most int) int {
	ids := g.ask.Tokens[len(g.ids):]
	n := min(len(ids), most)
	if n == 0 {
		return 0
	}
	m.add(g, ids[:n], n == len(ids))
	return n
}

// goOn puts the last guess at a sequence into the batch, if more are wanted.
func (m *Model) goOn(g *guess) {
	g.choice = -1
	if all := g.ask.Draft.Tokens; len(all) < g.ask.Most {
		m.add(g, all[len(all)-1:], true)
	}
}

// add puts tokens of a sequence into the batch; the one after them is chosen, if it is to be.
func (m *Model) add(g *guess, ids []int32, choose bool) {
	b := &m.batch
	b.AppendSeq(compute.Seq{Start: int32(len(g.ids)), Slot: g.slot}, ids, len(ids))
	g.ids = append(g.ids, ids...)
	if choose {
		g.choice = len(b.Choose)
		c := b.Choice(b.Rows() - 1)
		c.Slot, c.Given, c.Top, c.After, c.Mask = g.slot, -1, -1, -1, -1
	}
}

// run computes the batch, and takes what it chose.
func (m *Model) run(all []guess) error {
	defer m.batch.Reset()
	s, err := m.runner.Start(&m.batch)
	if err == nil {
		err = s.Wait()
	}
	if err != nil {
		return fmt.Errorf("draft: %w", err)
	}
	for i := range all {
		g := &all[i]
		if g.choice < 0 {
			continue
		}
		c := s.Chosen(g.choice)
		if c.Err != nil {
			g.choice = -1
			continue
		}
		g.ask.Draft.Tokens = append(slices.Clip(g.ask.Draft.Tokens), c.Token)
	}
	return nil
}
