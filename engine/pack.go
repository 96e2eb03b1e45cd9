package engine

import (
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/sched"
)

// pack makes the batch of a step whose plan follows that of the step before, nil if all of that one's tokens are known.
func (t *stepper) pack(s, before *step) {
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
	s.entries = slices.Grow(s.entries[:0], len(s.plan.Seqs))[:len(s.plan.Seqs)]
	for i := range s.plan.Seqs {
		w, x := &s.plan.Seqs[i], &s.entries[i]
		q := t.of(w)
		if x.begin(q, w); q == nil {
			continue
		}
		if !q.ran {
			t.first(q, w)
		}
		t.packWork(s, x, w, before != nil)
		s.report.Seqs++
	}
	s.report.Rows = b.Rows()
}

// first notes that a sequence is in a step for the first time.
func (t *stepper) first(q *sequence, w *sched.Work) {
	q.ran, q.scheduled, q.cached = true, t.now().Sub(t.epoch), min(w.Cached, q.prompt) // an answer that was begun may be cached, too
	if q.adapter != nil {
		q.adapter.running.Add(1)
	}
}

// shiftsOf appends a plan's shifts to those of a batch.
func shiftsOf(all []kv.Shift, to []compute.Shift) []compute.Shift {
	for _, s := range all {
		to = append(to, compute.Shift{Group: s.Group, From: s.From.Block, FromAt: s.From.At, To: s.To.Block, ToAt: s.To.At})
	}
	return to
}

// packWork puts the part of one sequence into a step's batch. ahead: the step before is under way.
func (t *stepper) packWork(s *step, x *entry, w *sched.Work, ahead bool) {
	q, b := x.seq, &s.batch
	row := b.Rows()
	x.choice = int32(len(b.Choose))
	var ids []int32
	if w.N > 1 || w.From < 0 || !ahead {
		ids = q.from(w.Start, w.N-w.Draft)
	}
	seq := b.Sequence(w.Start, ids, w.N)
	if seq.Slot, seq.State, seq.Long = w.Slot, max(0, w.State), q.long; !q.plain {
		seq.Adapter = q.adapter.on()
	}
	x.packTokens(b, w, ahead)
	if len(b.Types) > 0 || !q.plain {
		packTypes(b, q, w.Start, w.N)
	}
	if q.plain && w.Sample || !q.plain && x.packOdd(s, w, row) {
		t.packChoices(b, x, w)
		if !q.plain && q.wide {
			s.rareOf(x).read = int32(len(b.Read))
			b.Read = append(b.Read, b.Choose[x.choice+x.scored].Row)
		}
	}
}

// packOdd asks for what sequences want that are not plain, and reports whether a token is to be chosen.
func (x *entry) packOdd(s *step, w *sched.Work, row int) (choose bool) {
	q, b := x.seq, &s.batch
	if q.pools {
		x.pack(s, w, row)
		return false
	}
	if q.scores != nil {
		// Position p scores token p+1. Those scored before a preemption are not scored again.
		from := max(w.Start, len(q.scores)-1)
		s.rareOf(x).from = int32(from)
		for p := from; p < min(w.Start+w.N, q.prompt-1); p++ {
			x.scored++
			describe(b, row+p-w.Start, q.req.Prompt[p+1], q.req.PromptLogprobs).Rank = true
		}
	}
	if w.Sample && q.search != nil {
		describe(b, b.Rows()-1, 0, q.req.Logprobs)
	}
	return w.Sample && q.search == nil
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
func (x *entry) packTokens(b *compute.Batch, w *sched.Work, ahead bool) {
	if w.Draft > 0 {
		d := x.seq.drafting.Cut(w.Draft)
		if copy(b.IDs[len(b.IDs)-w.Draft:], d.Tokens); d.Parents != nil {
			b.Tree(d.Parents)
		}
	}
	if w.From < 0 || !ahead {
		return
	}
	for len(b.From) < len(b.IDs) {
		b.From = append(b.From, -1)
	}
	b.From[len(b.IDs)-1] = x.seq.choice
}

// packChoices asks for the tokens of a sequence: the one after its last known token, and those after proposed ones.
func (t *stepper) packChoices(b *compute.Batch, x *entry, w *sched.Work) {
	q := x.seq
	if t.owners[w.Slot] != q {
		t.owners[w.Slot] = q
		q.choosing.Output = q.known()[q.prompt:]
		b.Choosers = append(b.Choosers, compute.Chooser{Slot: w.Slot, Choosing: q.choosing})
	}
	if !q.plain && q.constraint != nil {
		x.mask = int32(len(b.Masks) / t.words)
		b.Masks = append(b.Masks, make([]uint32, t.words)...)
		b.Hold = true
	}
	first := int32(len(b.Choose))
	q.choice = first
	for k := range w.Draft + 1 {
		row, after := b.Rows()-1-w.Draft+k, int32(-1)
		if k > 0 {
			after = first + int32(1+q.drafting.Parent(k-1))
		}
		n := int(b.Pos[row]) + 1 - q.prompt // tokens of the output before this one
		c := b.Choice(row)
		c.Slot, c.N, c.Given, c.Top, c.After, c.Mask, c.Ban = w.Slot, uint64(n), -1, int32(q.logprobs), after, x.mask, n < int(q.minTokens)
	}
}

// describe asks for what the model thinks of a given token after a row, and of as many alternatives.
func describe(b *compute.Batch, row int, given int32, top int) *compute.Choice {
	c := b.Choice(row)
	c.Given, c.Top, c.Slot, c.After, c.Mask = given, int32(top), -1, -1, -1
	return c
}

// restart packs and starts a step again that was not run, since the one before it failed. All of its tokens are known
// now.
func (t *stepper) restart(s *step) {
	t.repack(s)
	for i := range s.plan.Seqs {
		if x := &s.entries[i]; x.seq == nil || x.seq.ended {
			*x = entry{}
			x.begin(nil, &s.plan.Seqs[i])
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
	q := x.seq
	*x = entry{recalled: x.recalled}
	x.begin(q, w)
	t.owners[w.Slot] = nil
	t.packWork(s, x, w, false)
}

// move moves blocks and changes tables as a failed step was to, whatever becomes of its entries: the plans after it
// build on that.
func (t *stepper) move(s *step) error {
	t.repack(s)
	return t.again(s)
}

// alone computes one entry of a step that failed for all together.
func (t *stepper) alone(s *step, i int) error {
	t.repack(s)
	t.packAgain(s, i)
	return t.again(s)
}

// again starts a packed step that failed, and waits for it.
func (t *stepper) again(s *step) error {
	if t.start(s, false); s.handle == nil {
		return s.fault
	}
	return s.handle.Wait()
}
