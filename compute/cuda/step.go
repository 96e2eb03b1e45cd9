package cuda

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/guard"
)

// step is one batch under way.
type step struct {
	p     *program
	r     *ring
	b     *compute.Batch
	epoch int

	choose   chan struct{} // closed by Choose
	finished chan struct{} // closed when the step is done, or failed, or skipped
	done     chan struct{} // receives a value then
	err      error         // why it failed
	skip     bool

	onHost     []int            // entries of Choose that the host answers
	more       more             // those that take more than a draw
	results    []compute.Chosen // of all entries
	logits     [][]float32      // rows of Read, then of onHost
	hidden     [][]float32
	hiddenRaw  rows
	chosenDone bool
}

// Start queues a batch.
func (p *program) Start(b *compute.Batch) (compute.Step, error) {
	if err := b.Check(p.graph.Vocab, p.cache.spec, p.limits); err != nil {
		return nil, err
	}
	if len(b.Parents)+len(b.Shifts) > 0 {
		return nil, fmt.Errorf("cuda: a batch with a tree of rows: %w", compute.ErrUnsupported)
	}
	if err := errors.Join(p.checkPlace(b), p.checkRows(b)); err != nil {
		return nil, err
	}
	for _, c := range b.Choosers {
		if c.Slot < 0 || int(c.Slot) >= p.limits.Slots {
			return nil, fmt.Errorf("cuda: a chooser for slot %d; there are %d", c.Slot, p.limits.Slots)
		}
	}
	r := &p.rings[p.started%2]
	p.started++
	s := &r.step
	*s = step{p: p, r: r, b: b, choose: make(chan struct{}), finished: make(chan struct{}), done: make(chan struct{}, 1),
		onHost: s.onHost[:0], more: s.more, results: s.results[:0], logits: s.logits[:0], hidden: s.hidden[:0]}
	s.more.reset()
	if !b.Hold {
		close(s.choose)
	}
	p.mu.Lock()
	s.epoch = p.epoch
	p.mu.Unlock()
	p.queue <- s
	return s, nil
}

// checkRows refuses what this device has no memory for.
func (p *program) checkRows(b *compute.Batch) error {
	if len(b.Choose) > roundUp(p.limits.Rows, rowMultiple) {
		return fmt.Errorf("cuda: %d tokens are to be chosen; want at most %d", len(b.Choose), p.limits.Rows)
	}
	for i, c := range b.Choose {
		if c.After >= 0 && c.Given < 0 && b.Choose[c.After].Given < 0 && b.Choose[c.After].Slot != c.Slot {
			return fmt.Errorf("cuda: choice %d by slot %d comes after one by slot %d", i, c.Slot, b.Choose[c.After].Slot)
		}
	}
	for _, t := range append(append([]compute.Transfer(nil), b.Out...), b.In...) {
		if len(t.Data) != p.BlockBytes() {
			return fmt.Errorf("cuda: %d bytes for block %d; want %d", len(t.Data), t.Block, p.BlockBytes())
		}
	}
	return nil
}

// Choose lets a held step go on.
func (s *step) Choose() {
	if s.b.Hold {
		close(s.choose)
	}
}

// Done receives a value when the step is done.
func (s *step) Done() <-chan struct{} { return s.done }

// Wait waits for the step. A failure is reported, and what was started meanwhile skipped.
func (s *step) Wait() error {
	<-s.finished
	p := s.p
	if s.err == nil && !s.skip {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.skip {
		return &compute.Fault{Err: errBehind, Skipped: true, Lost: p.lost != nil}
	}
	if p.failed < s.epoch {
		p.failed = s.epoch
	}
	if p.epoch == s.epoch {
		p.epoch++
	}
	if isLost(s.err) {
		p.lost = s.err
	}
	return &compute.Fault{Err: s.err, Lost: p.lost != nil}
}

// isLost reports whether an error leaves no context to go on with: faults of kernels and of the device, and panics,
// which may have left a step half queued.
func isLost(err error) bool {
	var e *driverError
	var panicked *guard.Panic
	return errors.As(err, &panicked) || errors.As(err, &e) && code(e.Code).spoils()
}

// collect makes results of what the device wrote to pinned memory.
func (s *step) collect() {
	s.chosenDone = true
	s.collectMore()
	for i, token := range view[int32](s.r.chosen, 0, len(s.b.Choose)) {
		if i >= len(s.results) {
			s.results = append(s.results, compute.Chosen{})
		}
		if s.results[i].Token == pending {
			s.results[i] = chosenOf(token)
		}
	}
	width := int(s.hiddenRaw.ld)
	for i := range s.b.Hidden {
		row := make([]float32, s.p.choose.Hidden.Cols)
		if s.hiddenRaw.wide == 1 {
			copy(row, view[float32](s.r.hidden, 4*i*width, len(row)))
		} else {
			for k, v := range view[uint16](s.r.hidden, 2*i*width, len(row)) {
				row[k] = bf16ToF32(v)
			}
		}
		s.hidden = append(s.hidden, row)
	}
}

// Chosen returns a token.
func (s *step) Chosen(i int) compute.Chosen { return s.results[i] }

// Logits returns a row of logits.
func (s *step) Logits(i int) []float32 { return s.logits[i] }

// Hidden returns a hidden state.
func (s *step) Hidden(i int) []float32 { return s.hidden[i] }

// work queues steps in the order in which they were started, on a thread of its own.
func (p *program) work() error {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	bound := p.g.try(cuCtxSetCurrent, []uintptr{p.g.ctx}, "choosing device %d", p.g.ordinal)
	for s := range p.queue {
		p.mu.Lock()
		s.skip = p.failed >= s.epoch || p.lost != nil
		p.mu.Unlock()
		if !s.skip {
			if s.err = bound; s.err == nil {
				s.err = guard.Try(func() error { return p.queueStep(s) })
			}
			if errors.Is(s.err, errBehind) {
				s.skip, s.err = true, nil
			}
			if s.err != nil {
				p.fail(s)
			}
		}
		p.queued <- s
	}
	return nil
}

// fail says that steps that were started before the failure of s is reported are skipped.
func (p *program) fail(s *step) {
	if isLost(s.err) {
		p.d.lost.Store(true)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = max(p.failed, s.epoch)
	select {
	case p.alarm <- struct{}{}:
	default: // it is raised
	}
}

// finish waits for queued steps, one after the other, on a thread of its own. Its calls return through memory of g.
func (p *program) finish(g *gpu) error {
	runtime.LockOSThread()
	bound := g.try(cuCtxSetCurrent, []uintptr{g.ctx}, "choosing device %d", g.ordinal)
	for s := range p.queued {
		if s.err == nil && !s.skip {
			if s.err = bound; s.err == nil {
				s.err = guard.Try(func() error { return s.await(g) })
			}
			if s.err != nil {
				p.fail(s)
			}
		}
		done := s.done // the step may be used again once it is finished
		close(s.finished)
		done <- struct{}{}
	}
	return nil
}

// await waits for a queued step and collects what it yields.
func (s *step) await(g *gpu) error {
	if !s.chosenDone {
		if err := g.try(cuEventSynchronize, []uintptr{s.r.event.handle}, "waiting for a step"); err != nil {
			return err
		}
		s.collect()
	}
	if err := s.r.transit.deliver(g); err != nil {
		return err
	}
	s.b.Out, s.b.Copies, s.b.In = s.b.Out[:0], s.b.Copies[:0], s.b.In[:0] // what is done
	return nil
}
