package cpu

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/choose"
	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/guard"
)

// program is a compute.Program. A goroutine of its own runs the steps, one after the other; two may be under way, in
// the two places of a ring.
type program struct {
	d       *Device
	g       *compute.Graph
	cache   *cache
	limits  compute.Limits
	buffers []buffer
	routes  []*routes
	lora    [][]compute.LowRank // [targets][adapters+1]
	tables  tables
	states  []choose.State // [slots]
	code    []instruction
	out     compute.Choose // the graph's last operation

	ring    [2]step
	started int
	queue   chan *step
	running *step // the last one of queue that work took
	rested  bool  // work waited for it
	ended   chan struct{}
	closing sync.Once
	faults  atomic.Int64 // steps that failed
	seen    int64        // those of them whose Wait has returned; the starter's own
	rows    [3]int       // of the running step, by domain

	kept     compute.Batch // what Keep leaves of the running step, and which rows
	keptRows []int32
}

// buffer is the memory of a compute.Buffer.
type buffer struct {
	compute.Buffer
	host []float32
}

// instruction is an operation with its operands bound.
type instruction struct {
	domain compute.Domain
	run    func()
}

// Compile implements compute.Device.
func (d *Device) Compile(g *compute.Graph, c compute.Cache, l compute.Limits) (compute.Program, error) {
	if l.Rows < 1 || l.Slots < 1 {
		return nil, fmt.Errorf("cpu: limits of %d rows and %d slots; want at least 1", l.Rows, l.Slots)
	}
	p := &program{d: d, g: g, cache: c.(*cache), limits: l, states: make([]choose.State, l.Slots)}
	for _, b := range g.Buffers {
		rows := l.Rows
		if b.Domain != compute.AllRows {
			rows = 1 // and more when a step wants more
		}
		p.buffers = append(p.buffers, buffer{b, kernel.View[float32](aligned(rows * b.Width * 4))})
	}
	for _, r := range g.Routings {
		t, err := newRoutes(l.Rows, r.Experts, r.Chosen)
		if err != nil {
			return nil, err
		}
		p.routes = append(p.routes, t)
	}
	p.lora = make([][]compute.LowRank, g.Targets)
	for i := range p.lora {
		p.lora[i] = make([]compute.LowRank, g.Adapters+1)
	}
	for i, op := range g.Ops {
		in, err := p.compile(op)
		if err != nil {
			return nil, fmt.Errorf("cpu: operation %d, %T: %w", i, op, err)
		}
		p.code = append(p.code, in)
	}
	for i := range p.ring {
		p.ring[i] = step{p: p, resume: make(chan struct{}, 1), done: make(chan struct{}, 1), over: make(chan struct{}, 1)}
	}
	p.queue, p.ended = make(chan *step, len(p.ring)), make(chan struct{})
	d.programs = append(d.programs, p)
	guard.Go(p.work, p.over)
	return p, nil
}

// Workspace implements compute.Device.
func (d *Device) Workspace(g *compute.Graph, l compute.Limits) int64 {
	n := int64(0)
	for _, b := range g.Buffers {
		rows := int64(l.Rows)
		if b.Domain == compute.LogitRows {
			rows = int64(min(l.Rows, l.Slots))
		}
		n += 4 * rows * int64(b.Width)
	}
	return n
}

// BlockBytes implements compute.Program.
func (p *program) BlockBytes() int { return p.cache.blockBytes() }

// Trees implements compute.Program.
func (p *program) Trees() bool { return p.cache.spec.States == 0 }

// Start implements compute.Program.
func (p *program) Start(b *compute.Batch) (compute.Step, error) {
	if err := b.Check(p.g.Vocab, p.cache.spec, p.limits); err != nil {
		return nil, err
	}
	size := p.BlockBytes()
	for _, all := range [][]compute.Transfer{b.Out, b.In} {
		for _, t := range all {
			if len(t.Data) != size {
				return nil, fmt.Errorf("cpu: block %d is moved to or from %d bytes; a block has %d", t.Block, len(t.Data), size)
			}
		}
	}
	for _, place := range b.Place {
		if place.Slot < 1 || int(place.Slot) > p.g.Adapters || place.Low != nil && len(place.Low) != p.g.Targets {
			return nil, fmt.Errorf("cpu: an adapter of %d weights for slot %d; there are %d weights and slots 1 to %d",
				len(place.Low), place.Slot, p.g.Targets, p.g.Adapters)
		}
	}
	s := &p.ring[p.started%len(p.ring)]
	if s.batch != nil && !s.waited {
		return nil, errors.New("cpu: two steps are under way")
	}
	before := &p.ring[(p.started+1)%len(p.ring)]
	for _, c := range []chan struct{}{s.done, s.resume} {
		select {
		case <-c: // of the step that was here before
		default:
		}
	}
	s.batch, s.before, s.seen, s.err, s.waited = b, before, p.seen, nil, false
	s.ran.Store(false)
	p.started++
	p.queue <- s
	return s, nil
}

// Close implements compute.Program.
func (p *program) Close() error {
	p.closing.Do(func() {
		close(p.queue)
		p.d.programs = slices.DeleteFunc(p.d.programs, func(o *program) bool { return o == p })
	})
	<-p.ended
	return nil
}

// work runs steps until the program is closed. It has a thread of its own, which waits for nothing but steps.
func (p *program) work() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for p.next() {
		p.running.finish(p.execute(p.running))
	}
	return nil
}

// next waits for the next step to run, and returns false when the program is closed.
func (p *program) next() (ok bool) {
	select {
	case p.running, ok = <-p.queue:
	default:
		p.running, ok = <-p.queue
		p.rested = true
	}
	return ok
}

// over ends what work left after a panic that is no step's fault: the device is lost.
func (p *program) over(err error) {
	if err != nil {
		lost := &compute.Fault{Err: fmt.Errorf("cpu: the goroutine of steps has ended: %w", err), Lost: true}
		if p.running != nil {
			p.running.finish(lost)
		}
		for s := range p.queue {
			s.finish(lost)
		}
	}
	close(p.ended)
}

// execute runs one step. A panic is the step's fault.
func (p *program) execute(s *step) (fault *compute.Fault) {
	if s.seen != p.faults.Load() {
		return &compute.Fault{Err: errors.New("cpu: the step before failed"), Skipped: true}
	}
	d := p.d
	d.busy.Lock()
	defer d.busy.Unlock()
	guard.Computing.Begin()
	defer guard.Computing.End()
	if p.rested {
		p.rested = false
		d.pool.workers[0].rested() // a turn that ends within a step holds up the others
	}
	defer func() {
		if v := recover(); v != nil {
			d.waiting, d.err = d.waiting[:0], nil
			fault = &compute.Fault{Err: fmt.Errorf("cpu: the step panicked: %v\n%s", v, debug.Stack())}
		}
		if fault != nil {
			p.faults.Add(1)
		}
	}()
	b := s.batch
	d.flush()
	p.prepare(s)
	d.begin(b, &p.tables)
	if err := p.checkTables(b); err != nil {
		return &compute.Fault{Err: err}
	}
	p.rows = [3]int{b.Rows(), len(b.Logits), len(b.Hidden)}
	p.grow()
	for i := range p.code {
		in := &p.code[i]
		if n := p.rows[in.domain]; n > 0 {
			if n != d.rows {
				d.flush()
				d.rows = n
			}
			in.run()
		}
	}
	if err := d.Sync(); err != nil {
		return &compute.Fault{Err: err}
	}
	s.choose()
	if err := d.Sync(); err != nil {
		return &compute.Fault{Err: err}
	}
	return nil
}

// checkTables reports the first sequence whose table has not enough blocks.
func (p *program) checkTables(b *compute.Batch) error {
	size, groups := int32(p.cache.spec.BlockTokens), p.cache.spec.Groups()
	for i := range b.Seqs {
		s := &b.Seqs[i]
		need := int((s.Start + s.Rows + size - 1) / size)
		for group := range groups {
			have := 0
			if int(s.Slot) < len(p.tables) && group < len(p.tables[s.Slot]) {
				have = len(p.tables[s.Slot][group])
			}
			if have < need {
				return fmt.Errorf("cpu: sequence %d: %d tokens need %d blocks, table %d of slot %d has %d", i, s.Start+s.Rows, need, group, s.Slot, have)
			}
		}
	}
	return nil
}

// prepare moves blocks, takes in tokens of the step before and changes what slots hold. What is done leaves the
// batch, so that a batch that is started again after a fault does not move blocks twice.
func (p *program) prepare(s *step) {
	b := s.batch
	for _, t := range b.Shifts {
		p.cache.shift(t)
	}
	b.Shifts = b.Shifts[:0]
	for _, t := range b.Out {
		p.cache.packBlock(t.Block, t.Data)
	}
	b.Out = b.Out[:0]
	for _, c := range b.Copies {
		p.cache.copyBlock(c[0], c[1])
	}
	b.Copies = b.Copies[:0]
	for _, t := range b.In {
		p.cache.unpackBlock(t.Block, t.Data)
	}
	b.In = b.In[:0]
	for r, k := range b.From {
		if k >= 0 {
			b.IDs[r] = max(0, s.before.chosen[k].Token) // of one that failed, nothing counts that follows
		}
	}
	for _, c := range b.Choosers {
		p.states[c.Slot].Reset(c.Choosing)
	}
	for _, place := range b.Place {
		for i := range p.lora {
			if p.lora[i][place.Slot] = (compute.LowRank{}); place.Low != nil {
				p.lora[i][place.Slot] = place.Low[i]
			}
		}
	}
}

// grow gives buffers of wanted rows room for those of the step.
func (p *program) grow() {
	for i := range p.buffers {
		b := &p.buffers[i]
		if n := p.rows[b.Domain] * b.Width; b.Domain != compute.AllRows && n > len(b.host) {
			b.host = kernel.View[float32](aligned(4 * (n + n/4)))
		}
	}
}
