package model

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
)

// Runner runs batches through a Model with a KV cache of its own. It is used by one goroutine at a time.
type Runner struct {
	m       *Model
	cache   compute.Cache
	program compute.Program
	limits  compute.Limits
	placed  []bool // by adapter slot; the first is no adapter
	last    compute.Step
}

// NewRunner makes a Runner for batches of up to rows tokens over a cache of blocks blocks of blockTokens tokens, with
// tables for slots sequences at once, and room for their recurrent state if the model has such.
func (m *Model) NewRunner(rows, blocks, blockTokens, slots int) (*Runner, error) {
	spec := m.Spec.Cache(blocks, blockTokens, slots)
	spec.Type = cmp.Or(m.KVType, m.dev.KVTypes()[0])
	cache, err := m.dev.Cache(spec)
	if err != nil {
		return nil, err
	}
	r := &Runner{m: m, cache: cache, limits: compute.Limits{Rows: rows, Slots: slots}, placed: make([]bool, m.slots+1)}
	if r.program, err = m.dev.Compile(m.Graph(m.Tap), cache, r.limits); err != nil {
		return nil, errors.Join(err, cache.Close())
	}
	return r, nil
}

// Workspace returns the bytes that a Runner takes on the device beside its cache.
func (m *Model) Workspace(rows, slots int) int64 {
	return m.dev.Workspace(m.Graph(nil), compute.Limits{Rows: rows, Slots: slots})
}

// Cache returns the Runner's KV cache.
func (r *Runner) Cache() compute.Cache { return r.cache }

// Pinned returns memory for a compute.Transfer that the device copies faster than other memory, nil if it has none.
func (r *Runner) Pinned(n int) []byte {
	if p, ok := r.program.(compute.Pinner); ok {
		return p.Pinned(n)
	}
	return nil
}

// Pin makes memory for compute.Transfers known to the device, which copies it faster then.
func (r *Runner) Pin(data []byte) error {
	if p, ok := r.program.(compute.Pinner); ok {
		return p.Pin(data)
	}
	return errors.ErrUnsupported
}

// Prepared says what the device made before the first step, "" if it made nothing.
func (r *Runner) Prepared() string {
	if p, ok := r.program.(compute.Prepared); ok {
		return p.Prepared()
	}
	return ""
}

// Stairs tells what steps of many rows take (compute.Stepped).
func (r *Runner) Stairs() []compute.Stair {
	if p, ok := r.program.(compute.Stepped); ok {
		return p.Stairs()
	}
	return nil
}

// BlockBytes returns the size of a block in a compute.Transfer.
func (r *Runner) BlockBytes() int { return r.program.BlockBytes() }

// Trees reports whether a batch may have Parents.
func (r *Runner) Trees() bool { return !r.m.Spec.Encoder && r.program.Trees() }

// Close waits for steps under way and frees the Runner's memory, the cache's too.
func (r *Runner) Close() error { return errors.Join(r.program.Close(), r.cache.Close()) }

// Start queues a batch (compute.Program). A batch that does not fit the Runner or contradicts itself is refused.
func (r *Runner) Start(b *compute.Batch) (compute.Step, error) {
	spec := r.m.Spec
	if err := r.checkAdapters(b); err != nil {
		return nil, err
	}
	if err := spec.checkEncoder(b); err != nil {
		return nil, err
	}
	for i := range b.Seqs {
		s := &b.Seqs[i]
		if err := spec.checkPosition(int(s.Start + s.Rows - 1)); err != nil {
			return nil, err
		}
		s.Long = s.Long || spec.Long(int(s.Start+s.Rows))
	}
	step, err := r.program.Start(b)
	if err == nil {
		for _, p := range b.Place {
			r.placed[p.Slot] = p.Low != nil
		}
	}
	return step, err
}

// Forward computes one batch and waits for it. The logits of all rows of b.Logits can be read if it chooses none.
func (r *Runner) Forward(b *compute.Batch) error {
	if b.Rows() == 0 || b.Rows() > r.limits.Rows {
		return fmt.Errorf("model: a batch of %d rows; want 1 to %d", b.Rows(), r.limits.Rows)
	}
	if len(b.Choose) == 0 {
		b.ReadAll()
	}
	step, err := r.Start(b)
	if err != nil {
		return err
	}
	r.last = step
	return step.Wait()
}

// Hidden returns the final hidden state [Hidden], after the last norm, of row b.Hidden[i] of the last Forward.
func (r *Runner) Hidden(i int) []float32 { return r.last.Hidden(i) }

// Logits returns the logits [Outputs] of row b.Logits[i] of the last Forward. They may be written to.
func (r *Runner) Logits(i int) []float32 { return r.last.Logits(i) }

// Place returns what puts an adapter into a slot, from 1 to those made by MakeSlots, as a part of a batch; a nil
// adapter empties it. Sequences name their adapter by its slot.
func (r *Runner) Place(slot int, a *Adapter) (compute.Placement, error) {
	if slot < 1 || slot >= len(r.placed) {
		return compute.Placement{}, fmt.Errorf("model: adapter slot %d; there are slots 1 to %d", slot, len(r.placed)-1)
	}
	p := compute.Placement{Slot: int32(slot)}
	if a == nil {
		return p, nil
	}
	p.Low = make([]compute.LowRank, r.m.targets)
	for i := range a.changes {
		c := &a.changes[i]
		low := &p.Low[c.To.number-1]
		var errA, errB error
		low.A, errA = r.m.dev.Matrix(c.A)
		low.B, errB = r.m.dev.Matrix(c.B)
		if err := errors.Join(errA, errB); err != nil {
			return p, err
		}
		low.Scale = c.Scale
	}
	return p, nil
}

// PlaceNow puts an adapter into a slot, or empties it, and waits until that is done.
func (r *Runner) PlaceNow(slot int, a *Adapter) error {
	p, err := r.Place(slot, a)
	if err != nil {
		return err
	}
	step, err := r.Start(&compute.Batch{Place: []compute.Placement{p}})
	if err != nil {
		return err
	}
	return step.Wait()
}

// checkAdapters reports a sequence whose adapter is in no slot once the batch's are placed.
func (r *Runner) checkAdapters(b *compute.Batch) error {
	for i := range b.Seqs {
		a := b.Seqs[i].Adapter
		if a == 0 {
			continue
		}
		placed := a > 0 && int(a) < len(r.placed) && r.placed[a]
		for _, p := range b.Place {
			if p.Slot == a {
				placed = p.Low != nil
			}
		}
		if !placed {
			return fmt.Errorf("model: sequence %d wants the adapter in slot %d, which is empty", i, a)
		}
	}
	return nil
}

// checkEncoder refuses a batch with what an encoder alone takes, or with a part of a sequence for one.
func (s *Spec) checkEncoder(b *compute.Batch) error {
	for r, t := range b.Types {
		if t < 0 || int(t) >= max(s.TokenTypes, 1) {
			return fmt.Errorf("model: row %d: token type %d; %s has %d", r, t, s.Family, s.TokenTypes)
		}
	}
	if len(b.Logits) > 0 && s.Outputs() == 0 {
		what := "an encoder without classes"
		if s.NoHead {
			what = "whose checkpoint has no head"
		}
		return fmt.Errorf("model: logits are wanted of %s, %s", s.Family, what)
	}
	for i, q := range b.Seqs {
		if s.Encoder && len(b.Parents) > 0 {
			return fmt.Errorf("model: sequence %d is a tree; %s is an encoder, whose tokens attend to all", i, s.Family)
		}
		if s.Encoder && q.Start != 0 {
			return fmt.Errorf("model: sequence %d: tokens from position %d on; %s is an encoder, and takes a sequence whole", i, q.Start, s.Family)
		}
	}
	return nil
}
