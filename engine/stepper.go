package engine

import (
	"errors"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/sched"
)

// stepper takes plans to the Runner and what steps yield back: it packs a plan into a batch, starts it, waits for it
// and starts it again after a fault. Two steps are under way, oldest first, so that the device never waits for the
// host. The stepper knows sequences, but not what becomes of them: see Engine.finish.
type stepper struct {
	runner Runner
	tiers  *tiers
	adapt  *adapters
	now    func() time.Time
	epoch  time.Time

	ring   [2]step
	oldest int
	n      int // steps under way
	seqs   map[sched.SeqID]*sequence
	owners []*sequence // by slot: the sequence whose Choosing the device has
	words  int         // of a mask
	ended  time.Time   // when the step before was done
}

// step is a plan on its way through the device.
type step struct {
	plan    *sched.Plan
	batch   compute.Batch
	entries []entry // what the step does for plan.Seqs, one each
	tokens  []brief // what it chose, and only the ids of these
	ids     []int32
	path    []int32 // which of the proposed tokens of trees are among them
	rare    []rare
	moves   transfers
	handle  compute.Step // nil: there is nothing to compute, or it could not be started
	fault   error        // why it yields nothing, if that is known already
	held    bool         // it waits for its masks
	started time.Time
	report  StepDone
}

// use takes a Runner in place of the one before, whose memory is gone.
func (t *stepper) use(r Runner) {
	t.runner = r
	t.tiers.use(r)
	for i := range t.ring {
		m := &t.ring[i].moves
		m.buffers, m.used = nil, 0
		m.pinner, _ = r.(compute.Pinner)
	}
}

// newest returns the step that was started last, nil if none is under way.
func (t *stepper) newest() *step {
	if t.n == 0 {
		return nil
	}
	return &t.ring[(t.oldest+t.n-1)%2]
}

// free returns the place of the ring for the next step.
func (t *stepper) free() *step { return &t.ring[(t.oldest+t.n)%2] }

// push packs a plan into the free place and starts it.
func (t *stepper) push(p *sched.Plan) {
	before, s := t.newest(), t.free()
	t.n++
	s.plan = p
	t.pack(s, before)
	t.tiers.measure(s, t.runner, before == nil)
	t.start(s, before != nil)
}

// start starts a packed step. Masks of a step that has none before it can be filled at once.
func (t *stepper) start(s *step, later bool) {
	b := &s.batch
	s.handle, s.fault, s.held, s.started = nil, nil, false, t.now()
	for len(b.From) > 0 && len(b.From) < b.Rows() {
		b.From = append(b.From, -1)
	}
	if len(b.Parents) > 0 {
		b.EndTrees()
	}
	if b.Rows()+len(b.Shifts)+len(b.Out)+len(b.In)+len(b.Copies)+len(b.Place)+len(b.Edits) == 0 {
		return
	}
	handle, err := t.runner.Start(b)
	if err != nil {
		s.fault = err
		return
	}
	s.handle, s.held = handle, b.Hold
	if !later {
		t.release(s)
	}
}

// settle waits for the steps after the oldest, which failed: they are not run.
func (t *stepper) settle() {
	for i := 1; i < t.n; i++ {
		s := &t.ring[(t.oldest+i)%2]
		if s.handle != nil {
			s.fault, s.handle, s.held = s.handle.Wait(), nil, false
		}
	}
}

// drop waits for all steps under way, whatever they yield, and returns their sequences.
func (t *stepper) drop() (all []*sequence) {
	for ; t.n > 0; t.pop() {
		s := &t.ring[t.oldest]
		if s.held {
			s.handle.Choose()
		}
		if s.handle != nil {
			s.handle.Wait()
		}
		for i := range s.entries {
			if q := s.entries[i].seq; q != nil {
				all = append(all, q)
			}
		}
	}
	clear(t.owners)
	return all
}

// recall notes that what a step under way yields for a sequence does not count. The device does not know the tokens
// that were forced.
func (t *stepper) recall(q *sequence) {
	for i := 1; i < t.n; i++ {
		s := &t.ring[(t.oldest+i)%2]
		for j := range s.entries {
			if x := &s.entries[j]; x.seq == q {
				x.recalled = true
			}
		}
	}
	t.disown(q)
}

// disown forgets that the device has the Choosing of a sequence.
func (t *stepper) disown(q *sequence) {
	for slot, owner := range t.owners {
		if owner == q {
			t.owners[slot] = nil
		}
	}
}

// of returns whose work w is, nil if that sequence has ended.
func (t *stepper) of(w *sched.Work) *sequence {
	if q := t.owners[w.Slot]; q != nil && q.id == w.ID && !q.ended {
		return q
	}
	return t.seqs[w.ID]
}

// release fills the masks of a step whose sequences' tokens are all known, and lets it choose.
func (t *stepper) release(s *step) {
	if s == nil || !s.held {
		return
	}
	for i := range s.entries {
		if x := &s.entries[i]; x.mask >= 0 && !x.seq.ended && !x.recalled {
			began := t.now()
			x.fill(s, s.batch.Masks[int(x.mask)*t.words:][:t.words])
			x.seq.asking += t.now().Sub(began)
		}
	}
	s.held = false
	s.handle.Choose()
}

// pop takes the oldest step, which is done, out of the ring.
func (t *stepper) pop() {
	s := &t.ring[t.oldest]
	clear(s.entries)
	clear(s.tokens)
	clear(s.rare)
	s.entries, s.tokens, s.ids, s.path, s.rare = s.entries[:0], s.tokens[:0], s.ids[:0], s.path[:0], s.rare[:0]
	s.plan, s.handle, s.fault = nil, nil, nil
	t.oldest = 1 - t.oldest
	t.n--
}

// observe notes how long a step took: from its start, or from the end of the one before, whichever was later.
func (t *stepper) observe(s *step, done time.Time) {
	begin := s.started
	if t.ended.After(begin) {
		begin = t.ended
	}
	s.report.Duration = done.Sub(begin)
	t.ended = done
	t.tiers.computed(s, s.report.Duration)
}

// skipped reports whether nothing of a step was done, because one before it failed.
func skipped(err error) bool {
	var f *compute.Fault
	return errors.As(err, &f) && f.Skipped
}

// lost reports whether a fault took the device with it.
func lost(err error) bool {
	var f *compute.Fault
	return errors.As(err, &f) && f.Lost
}
