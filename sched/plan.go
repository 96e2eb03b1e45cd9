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
	// Edits are what has changed in the block tables, by slot, since the plan before. They are to be made before the
	// step, in order.
	Edits []kv.Edit
	// Shifts are to be made before anything else, in order: they bring accepted tokens of trees together.
	Shifts []kv.Shift
	// Copies are to be made before the step, one after the other: what a block holds for others is to be changed for
	// one.
	Copies []kv.Copy
	// Moves are to be made before the step too: first those from the device, then Copies, then those to it.
	Moves []kv.Move

	parts   []part // of Seqs
	begun   bool
	pressed bool // it leaves tokens of prompts to later steps, not counting the background
	waits   bool // none is planned ahead of its Commit, since what it yields decides what is proposed
	spare   int  // rows for proposed and forced tokens
	kept    int  // rows for those that wait for the plan before to be committed: they will need them in the next

	left   float64 // microseconds for prompts; infinite if there is no target for the step
	least  int     // rows for prompts that may take slack more than left
	slack  float64
	filled int // rows whose time is not in left: of decoding sequences, and of prompts so far
	most   int // rows for prompts, so that those that there are fill stairs
	owed   int // rows for running sequences that come later, if there is a target or the policy is fair

	crowd     *tenant   // whose prompts come last; nil if there is none
	leading   bool      // there are prompts that lead
	lone      bool      // it computes these alone
	turns     bool      // the crowd takes them
	extra     float64   // microseconds that those may take beside left
	guest     *sequence // that waits and leads
	found     int       // of its tokens need not be computed
	saved     int       // rows for it
	savedTime float64   // microseconds for it
}

// part is whose a Work is.
type part struct {
	seq      *sequence
	recalled bool // what it yields does not count, nor what it computes beyond sure tokens
	sure     int
}

// Work is the part of one sequence in a step.
type Work struct {
	ID SeqID
	// Slot is whose block tables hold the tokens [0, Start+N), one for each group of layers: token t is in block
	// table[t/BlockTokens], slot t%BlockTokens. An entry of -1 lies before the group's window, and what comes after
	// those of the tokens means nothing. Slots are numbered from 0 to Config.MaxSeqs-1; each running sequence has one.
	Slot int32
	// Start and N: the tokens [Start, Start+N) of the sequence are computed, attending to all before them.
	Start, N int
	// From is the place, in the Seqs of the plan before, of the Work that yields the last of the tokens, as long as
	// that plan is not committed; -1: all are known.
	From  int32
	State int32 // slot of the recurrent state; -1: the model has none
	// Sample: the last of the tokens is the sequence's last, and yields the next one. Draft: so many of the N are
	// proposed ones, the first of those that Propose told, and each of them and the one before them yields what comes
	// after it.
	Sample bool
	Draft  int
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
	for i, e := range p.Edits {
		if i == 0 || p.Edits[i-1].Slot != e.Slot || p.Edits[i-1].Group != e.Group {
			fmt.Fprintf(&b, "\nslot %d, group %d:", e.Slot, e.Group)
		}
		fmt.Fprintf(&b, " [%d]=%d", e.At, e.Block)
	}
	for _, sh := range p.Shifts {
		fmt.Fprintf(&b, "\nslot %d of block %d is shifted to slot %d of block %d", sh.From.At, sh.From.Block, sh.To.At, sh.To.Block)
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
	s := fmt.Sprintf("seq %d: tokens [%d,%d) in slot %d", w.ID, w.Start, w.Start+w.N, w.Slot)
	if w.State >= 0 {
		s += fmt.Sprintf(", state %d", w.State)
	}
	if w.Cached > 0 {
		s += fmt.Sprintf(", %d cached", w.Cached)
	}
	if w.From >= 0 {
		s += fmt.Sprintf(", the last from %d", w.From)
	}
	if w.Draft > 0 {
		s += fmt.Sprintf(", %d proposed", w.Draft)
	}
	if w.Sample {
		s += ", samples"
	}
	return s
}

// drop takes out the work of some sequences.
func (p *Plan) drop(of func(part) bool) {
	n := 0
	for i, x := range p.parts {
		if of(x) {
			p.Rows -= p.Seqs[i].N
			continue
		}
		p.Seqs[n], p.parts[n] = p.Seqs[i], x
		x.seq.place = int32(n)
		n++
	}
	clear(p.Seqs[n:])
	clear(p.parts[n:])
	p.Seqs, p.parts = p.Seqs[:n], p.parts[:n]
}

// has reports whether a sequence is in the plan.
func (p *Plan) has(q *sequence) bool { return int(q.place) < len(p.parts) && p.parts[q.place].seq == q }

// yields returns how many tokens the plan is to add to a sequence at most.
func (p *Plan) yields(q *sequence) int {
	if !p.has(q) || !p.Seqs[q.place].Sample {
		return 0
	}
	return 1 + p.Seqs[q.place].Draft
}

// recall lets what a plan yields for a sequence not count. One that is not begun does not compute it.
func (p *Plan) recall(q *sequence) {
	for i := range p.parts {
		x, w := &p.parts[i], &p.Seqs[i]
		switch {
		case x.seq != q || x.recalled:
		case p.begun:
			x.recalled, x.sure = true, min(w.Start+w.N, q.known)
		case w.Start == q.known:
			p.drop(func(x part) bool { return x.seq == q })
			return
		default:
			p.Rows -= w.Draft
			w.N, w.Draft, w.Sample = w.N-w.Draft, 0, false
		}
	}
}

// samples reports whether the step yields a token.
func (p *Plan) samples() bool {
	return slices.ContainsFunc(p.Seqs, func(w Work) bool { return w.Sample })
}

// withdraw takes the work of a sequence out of a plan that is not begun.
func (p *Plan) withdraw(q *sequence) {
	i := slices.IndexFunc(p.parts, func(x part) bool { return x.seq == q })
	if i < 0 {
		return
	}
	if n := p.yields(q); n > 0 {
		q.length -= n
		q.drafted = false
	}
	p.drop(func(x part) bool { return x.seq == q })
}

// reset empties the plan.
func (p *Plan) reset() {
	clear(p.parts)
	p.Seqs, p.parts, p.Rows, p.begun, p.waits = p.Seqs[:0], p.parts[:0], 0, false, false
	p.Edits, p.Shifts, p.Copies, p.Moves, p.Preempted = p.Edits[:0], p.Shifts[:0], p.Copies[:0], p.Moves[:0], p.Preempted[:0]
}
