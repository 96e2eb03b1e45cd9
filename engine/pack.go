package engine

import (
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/sched"
)

// pack makes the batch of a step whose plan follows that of the step before, nil if all of that one's tokens are known.
func (t *stepper) pack(s, before *step) {
	now := t.now()
	b := &s.batch
	b.Reset()
	b.Place = t.adapt.placements(b.Place)
	s.moves.pack(b)
	s.report = StepDone{Gaps: s.report.Gaps[:0], FirstTokens: s.report.FirstTokens[:0], Preempted: len(s.plan.Preempted)}
	for _, id := range s.plan.Preempted {
		if q := t.seqs[id]; q != nil {
			q.owner().preempted++
		}
	}
	b.Shifts = shiftsOf(s.plan.Shifts, b.Shifts)
	for _, c := range s.plan.Copies {
		b.Copies = append(b.Copies, [2]int32{c.From, c.To})
	}
	for _, e := range s.plan.Edits {
		b.Edits = append(b.Edits, compute.TableEdit{Slot: e.Slot, Group: e.Group, At: e.At, Block: e.Block})
	}
	s.entries = s.entries[:0]
	for i := range s.plan.Seqs {
		w := &s.plan.Seqs[i]
		q := t.of(w)
		s.entries = append(s.entries, newEntry(q, w))
		x := &s.entries[i]
		if q == nil {
			continue
		}
		if q.scheduled.IsZero() {
			q.scheduled, q.cached = now, w.Cached
			if q.adapter != nil {
				q.adapter.running.Add(1)
			}
		}
		t.packWork(b, x, w, before)
		s.report.Seqs++
	}
	s.report.Rows = b.Rows()
}

// shiftsOf appends a plan's shifts to those of a batch.
func shiftsOf(all []kv.Shift, to []compute.Shift) []compute.Shift {
	for _, s := range all {
		to = append(to, compute.Shift{Group: s.Group, From: s.From.Block, FromAt: s.From.At, To: s.To.Block, ToAt: s.To.At})
	}
	return to
}

// newEntry makes the part of a sequence in a step.
func newEntry(q *sequence, w *sched.Work) entry {
	return entry{seq: q, sample: w.Sample, draft: int32(w.Draft), mask: -1}
}

// packWork puts the part of one sequence into a batch.
func (t *stepper) packWork(b *compute.Batch, x *entry, w *sched.Work, before *step) {
	q, row := x.seq, b.Rows()
	x.choice = int32(len(b.Choose))
	b.AppendSeq(compute.Seq{
		Start: int32(w.Start), Slot: w.Slot, State: max(0, w.State), Long: q.long, Adapter: q.adapter.on(),
	}, q.from(w.Start, w.N-w.Draft), w.N)
	t.packTokens(b, x, w, before)
	packTypes(b, q, w.Start, w.N)
	if q.pools {
		x.pack(b, w, row)
		return
	}
	if q.scores != nil {
		// Position p scores token p+1. Those scored before a preemption are not scored again.
		x.from = int32(max(w.Start, len(q.scores)-1))
		for p := int(x.from); p < min(w.Start+w.N, q.prompt-1); p++ {
			x.scored++
			describe(b, row+p-w.Start, compute.Choice{Given: q.req.Prompt[p+1], Rank: true, Slot: -1, Top: int32(q.req.PromptLogprobs)})
		}
	}
	if !w.Sample {
		return
	}
	if q.search != nil {
		describe(b, b.Rows()-1, compute.Choice{Given: 0, Slot: -1, Top: int32(q.req.Logprobs)})
		return
	}
	t.packChoices(b, x, w)
}

// from returns the tokens from a position on, at most n and only those known.
func (q *sequence) from(position, n int) []int32 {
	if position >= q.tokens.Len() {
		return nil
	}
	ids := q.tokens.All()[position:]
	return ids[:min(n, len(ids))]
}

// packTokens sets the last rows of a sequence to what is not in its tokens yet: proposed ones, and the one that the
// step before chooses.
func (t *stepper) packTokens(b *compute.Batch, x *entry, w *sched.Work, before *step) {
	if w.Draft > 0 {
		d := x.seq.draft.Cut(w.Draft)
		if copy(b.IDs[len(b.IDs)-w.Draft:], d.Tokens); d.Parents != nil {
			b.Tree(d.Parents)
		}
	}
	if w.From < 0 || before == nil {
		return
	}
	from := &before.entries[w.From]
	for len(b.From) < len(b.IDs) {
		b.From = append(b.From, -1)
	}
	b.From[len(b.IDs)-1] = from.choice + from.scored
}

// packChoices asks for the tokens of a sequence: the one after its last known token, and those after proposed ones.
func (t *stepper) packChoices(b *compute.Batch, x *entry, w *sched.Work) {
	q := x.seq
	if t.owners[w.Slot] != q {
		t.owners[w.Slot] = q
		q.choosing.Output = q.known()[q.prompt:]
		b.Choosers = append(b.Choosers, compute.Chooser{Slot: w.Slot, Choosing: q.choosing})
	}
	if q.constraint != nil {
		x.mask = int32(len(b.Masks) / t.words)
		b.Masks = append(b.Masks, make([]uint32, t.words)...)
		b.Hold = true
	}
	first := int32(len(b.Choose))
	for k := range w.Draft + 1 {
		row, after := b.Rows()-1-w.Draft+k, int32(-1)
		if k > 0 {
			after = first + int32(1+q.draft.Parent(k-1))
		}
		n := int(b.Pos[row]) + 1 - q.prompt // tokens of the output before this one
		c := compute.Choice{
			Slot: w.Slot, N: uint64(n), Given: -1, Top: q.logprobs, After: after, Mask: x.mask, Ban: n < q.minTokens,
		}
		c.Row = int32(len(b.Logits))
		b.Logits, b.Choose = append(b.Logits, int32(row)), append(b.Choose, c)
	}
}

// describe asks for what the model thinks of a given token after a row.
func describe(b *compute.Batch, row int, c compute.Choice) {
	c.Row, c.After, c.Mask = int32(len(b.Logits)), -1, -1
	b.Logits, b.Choose = append(b.Logits, int32(row)), append(b.Choose, c)
}

// restart packs and starts a step again that was not run, since the one before it failed. All of its tokens are known
// now.
func (t *stepper) restart(s *step) {
	t.repack(s)
	for i := range s.plan.Seqs {
		if x := &s.entries[i]; x.seq == nil || x.seq.ended {
			*x = newEntry(nil, &s.plan.Seqs[i])
		} else {
			t.packAgain(s, i)
		}
	}
	t.start(s, false)
}

// repack empties the batch of a step but for what moves blocks and changes tables.
func (t *stepper) repack(s *step) {
	b := &s.batch
	left := *b
	*b = compute.Batch{
		IDs: b.IDs[:0], From: b.From[:0], Pos: b.Pos[:0], Parents: b.Parents[:0], Seqs: b.Seqs[:0], Types: b.Types[:0], Logits: b.Logits[:0],
		Hidden: b.Hidden[:0], Choose: b.Choose[:0], Read: b.Read[:0], Masks: b.Masks[:0], Choosers: b.Choosers[:0],
	}
	b.Edits, b.Place, b.Shifts, b.Out, b.Copies, b.In = left.Edits, left.Place, left.Shifts, left.Out, left.Copies, left.In
	for i := range s.entries {
		s.entries[i].mask = -1
	}
}

// packAgain packs one sequence of a step again. The device may have counted tokens for its penalties that do not count.
func (t *stepper) packAgain(s *step, i int) {
	x, w := &s.entries[i], &s.plan.Seqs[i]
	recalled := x.recalled
	*x = newEntry(x.seq, w)
	x.recalled = recalled
	t.owners[w.Slot] = nil
	t.packWork(&s.batch, x, w, nil)
}

// alone computes one entry of a step that failed for all together.
func (t *stepper) alone(s *step, i int) error {
	t.repack(s)
	t.packAgain(s, i)
	t.start(s, false)
	if s.handle == nil {
		return s.fault
	}
	return s.handle.Wait()
}
