package sched

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/kv"
)

// Plan says what one step computes. It is valid until its Commit; the scheduler reuses its memory.
type Plan struct {
	Seqs      []Work
	Rows      int     // tokens to compute, the sum of all N
	Preempted []SeqID // sequences that gave up their blocks for this plan
	// Copies are to be made before the step, one after the other: what a block holds for others is to be changed for one.
	Copies []kv.Copy
	// Moves are to be made before the step too: first those from the device, then Copies, then those to it.
	Moves []kv.Move

	owners []*sequence    // of Seqs
	tables [][]kv.BlockID // where Seqs have theirs
}

// Work is the part of one sequence in a step.
type Work struct {
	ID SeqID
	// Start and N: the tokens [Start, Start+N) of the sequence are computed, attending to all before them.
	Start, N int
	// Tables holds the tokens [0, Start+N) for each group of layers: token t is in block Tables[group][t/BlockTokens], slot
	// t%BlockTokens. An entry of -1 lies before the group's window.
	Tables [][]kv.BlockID
	State  int32 // slot of the recurrent state; -1: the model has none
	// Sample: the last of the tokens is the sequence's last, and yields the next one.
	Sample bool
	// Cached is how many of the sequence's tokens the prefix cache held. It is set in the first Work of an admission.
	Cached int
}

// String prints the plan with a line for each sequence.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rows", p.Rows)
	if len(p.Preempted) > 0 {
		fmt.Fprintf(&b, ", preempted %v", p.Preempted)
	}
	for _, w := range p.Seqs {
		fmt.Fprintf(&b, "\n%v", w)
	}
	for _, c := range p.Copies {
		fmt.Fprintf(&b, "\nblock %d is copied to %d", c.From, c.To)
	}
	for _, m := range p.Moves {
		fmt.Fprintf(&b, "\n%v: %v %d moves to %v %d", m.Name.Hash, m.From.Tier, m.From.At, m.To.Tier, m.To.At)
	}
	return b.String()
}

// String prints the work in one line.
func (w Work) String() string {
	s := fmt.Sprintf("seq %d: tokens [%d,%d) in blocks", w.ID, w.Start, w.Start+w.N)
	for _, table := range w.Tables {
		s += fmt.Sprintf(" %v", table)
	}
	if w.State >= 0 {
		s += fmt.Sprintf(", state %d", w.State)
	}
	if w.Cached > 0 {
		s += fmt.Sprintf(", %d cached", w.Cached)
	}
	if w.Sample {
		s += ", samples"
	}
	return s
}

// dropEnded removes the work of sequences that have ended.
func (p *Plan) dropEnded() {
	n := 0
	for i, q := range p.owners {
		if q.ended {
			p.Rows -= p.Seqs[i].N
			continue
		}
		p.Seqs[n], p.owners[n] = p.Seqs[i], q
		n++
	}
	clear(p.Seqs[n:])
	clear(p.owners[n:])
	p.Seqs, p.owners = p.Seqs[:n], p.owners[:n]
}

// samples reports whether the step yields a token.
func (p *Plan) samples() bool {
	return slices.ContainsFunc(p.Seqs, func(w Work) bool { return w.Sample })
}

// withdraw takes the work of a sequence out of a plan that is being made.
func (p *Plan) withdraw(q *sequence) {
	i := slices.Index(p.owners, q)
	if i < 0 {
		return
	}
	if p.Seqs[i].Sample {
		q.length--
	}
	p.Rows -= p.Seqs[i].N
	p.Seqs = slices.Delete(p.Seqs, i, i+1)
	p.owners = slices.Delete(p.owners, i, i+1)
}

// reset empties the plan.
func (p *Plan) reset() {
	clear(p.Seqs)
	clear(p.owners)
	clear(p.tables)
	p.Seqs, p.owners, p.tables = p.Seqs[:0], p.owners[:0], p.tables[:0]
	p.Copies, p.Moves, p.Preempted, p.Rows = p.Copies[:0], p.Moves[:0], p.Preempted[:0], 0
}
