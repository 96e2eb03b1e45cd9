package cpu

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/choose"
	"github.com/kvasir-llm/kvasir/compute/kernel"
)

// step is a compute.Step.
type step struct {
	p      *program
	batch  *compute.Batch
	before *step
	seen   int64 // faults that were known when it was started
	ran    atomic.Bool
	waited bool
	resume chan struct{} // [1]
	done   chan struct{} // [1] for Done
	over   chan struct{} // [1] for Wait
	err    *compute.Fault

	chosen []compute.Chosen
	top    []compute.Candidate // of all chosen
	logits []float32           // [Read, outputs]
	hidden []float32           // [Hidden, width]
}

// finish ends a step.
func (s *step) finish(fault *compute.Fault) {
	s.err = fault
	s.ran.Store(true)
	for _, c := range []chan struct{}{s.done, s.over} {
		select {
		case c <- struct{}{}:
		default: // it still has that of the step that was here before
		}
	}
}

// Choose implements compute.Step.
func (s *step) Choose() { s.resume <- struct{}{} }

// Done implements compute.Step.
func (s *step) Done() <-chan struct{} { return s.done }

// Wait implements compute.Step.
func (s *step) Wait() error {
	if !s.waited {
		for !s.ran.Load() {
			<-s.over
		}
		if s.waited = true; s.err != nil && !s.err.Skipped {
			s.p.seen++
		}
	}
	if s.err != nil {
		return s.err
	}
	return nil
}

// Chosen implements compute.Step.
func (s *step) Chosen(i int) compute.Chosen { return s.chosen[i] }

// Logits implements compute.Step.
func (s *step) Logits(i int) []float32 {
	n := s.p.out.Logits.Cols
	return s.logits[i*n:][:n:n]
}

// Hidden implements compute.Step.
func (s *step) Hidden(i int) []float32 {
	n := s.p.out.Hidden.Cols
	return s.hidden[i*n:][:n:n]
}

// mustChoose is how many logits make more threads worth waking to choose from them.
const mustChoose = 1 << 17

// choose copies the rows that the host wants and chooses tokens: a chain of choices is an item.
func (s *step) choose() {
	p, d, b := s.p, s.p.d, s.batch
	s.hidden, s.logits = s.hidden[:0], s.logits[:0]
	for i := range b.Hidden {
		s.hidden = append(s.hidden, rowOf(p.tensor(p.out.Hidden), i)...)
	}
	if b.Hold {
		<-s.resume
	}
	if p.out.Logits.Buffer == 0 {
		return
	}
	for _, i := range b.Read {
		s.logits = append(s.logits, rowOf(p.tensor(p.out.Logits), int(i))...)
	}
	room := 0
	for i := range b.Choose {
		room += max(0, int(b.Choose[i].Top))
	}
	s.chosen, s.top = kernel.Grown(s.chosen, len(b.Choose)), kernel.Grown(s.top, room)
	d.chains, d.choosing = d.chains[:0], s
	room = 0
	for i := range b.Choose {
		if b.Choose[i].After < 0 {
			d.chains = append(d.chains, chain{i, room})
		}
		room += max(0, int(b.Choose[i].Top))
	}
	if len(b.Logits)*p.out.Logits.Cols < mustChoose {
		for i := range d.chains {
			d.chooseChain(0, i)
		}
		return
	}
	d.each(len(d.chains), d.jobs.choose)
}

// chain is a run of choices, each of which but the first is After another of them.
type chain struct {
	first int // of Batch.Choose
	top   int // where in step.top its alternatives begin
}

// chooseChain makes the choices of one chain. A panic is the fault of what it struck.
func (d *Device) chooseChain(worker, item int) {
	s, c := d.choosing, d.chains[item]
	b := s.batch
	for i, at := c.first, c.top; i < len(b.Choose) && (i == c.first || b.Choose[i].After >= 0); i++ {
		want := &b.Choose[i]
		s.chosen[i] = compute.Chosen{Token: -1}
		if want.After < 0 || s.chosen[want.After].Token == b.IDs[b.Logits[want.Row]] && s.chosen[want.After].Token >= 0 {
			s.chosen[i] = s.chooseOne(&d.scratch[worker].sampler, want)
		}
		n := copy(s.top[at:], s.chosen[i].Top)
		s.chosen[i].Top = s.top[at : at+n : at+n]
		at += max(0, int(want.Top))
	}
}

func (s *step) chooseOne(sampler *choose.Sampler, c *compute.Choice) (chosen compute.Chosen) {
	defer func() {
		if v := recover(); v != nil {
			chosen = compute.Chosen{Token: -1, Err: fmt.Errorf("choosing a token panicked: %v\n%s", v, debug.Stack())}
		}
	}()
	var state *choose.State
	if c.Given < 0 {
		state = &s.p.states[c.Slot]
	}
	var mask []uint32
	if c.Mask >= 0 {
		n := compute.MaskWords(s.p.out.Logits.Cols)
		mask = s.batch.Masks[int(c.Mask)*n:][:n]
	}
	return sampler.Choose(state, rowOf(s.p.tensor(s.p.out.Logits), int(c.Row)), *c, mask)
}
