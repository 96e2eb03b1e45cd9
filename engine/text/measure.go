package text

import (
	"errors"
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/kv"
)

// measure runs a step at the largest batch, over a cache of no more than that, and puts what it takes of the device in
// place of what is reckoned, if it is more: a driver has memory of its own for kernels and graphs. The logits of all
// rows, which only prompts with log probabilities want, are not among it: they take of what --gpu-memory leaves free.
func (m *Model) measure(n *memory, o Options, dev compute.Device) error {
	b, blocks := m.largestBatch(o)
	before, _, err := dev.Memory()
	if err != nil {
		return err
	}
	r, err := m.loaded.Load().NewRunner(o.TokenBudget, blocks, o.BlockTokens, o.MaxSeqs)
	if err != nil {
		return fmt.Errorf("text: %s: a step of %d tokens: %w", o.Name, o.TokenBudget, err)
	}
	step, err := r.Start(b)
	if err == nil {
		err = step.Wait()
	}
	after, _, e := dev.Memory()
	cache := r.Cache().Bytes()
	if err = errors.Join(err, e, r.Close()); err != nil {
		return fmt.Errorf("text: %s: a step of %d tokens: %w", o.Name, o.TokenBudget, err)
	}
	n.steps, n.logits = max(n.steps, before-after-cache), 0
	return nil
}

// largestBatch returns a batch of all tokens of a step, in as many sequences as there may be, each of which chooses a
// token, and how many blocks of the cache it has.
func (m *Model) largestBatch(o Options) (b *compute.Batch, blocks int) {
	seqs := max(1, min(o.MaxSeqs, o.TokenBudget))
	b = new(compute.Batch)
	shape := kv.Config{BlockTokens: o.BlockTokens, Groups: groups(m.Spec)}
	choosing := &compute.Choosing{TopP: 1, Repetition: 1}
	for i := range seqs {
		n := min(o.TokenBudget*(i+1)/seqs-o.TokenBudget*i/seqs, m.Spec.Context)
		seq := compute.Seq{Slot: int32(i)}
		if m.Spec.Recurrent() {
			seq.State = int32(i)
		}
		b.AppendSeq(seq, make([]int32, n), n)
		for g := range shape.Groups {
			for at := range (n + o.BlockTokens - 1) / o.BlockTokens {
				b.Edits = append(b.Edits, compute.TableEdit{Slot: int32(i), Group: int32(g), At: int32(at), Block: int32(blocks)})
				blocks++
			}
		}
		last := int32(b.Rows() - 1)
		if m.Spec.Generates() {
			b.Choosers = append(b.Choosers, compute.Chooser{Slot: int32(i), Choosing: choosing})
			b.Choose = append(b.Choose, compute.Choice{Row: int32(len(b.Logits)), Slot: int32(i), Given: -1, Top: -1, After: -1, Mask: -1})
			b.Logits = append(b.Logits, last)
		} else {
			b.Hidden = append(b.Hidden, last)
		}
	}
	return b, max(blocks, 1)
}
