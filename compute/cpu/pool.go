package cpu

import (
	"fmt"
	"runtime"
	"sync/atomic"
)

// pool runs one job at a time on a fixed set of threads. The caller is worker 0; the others are goroutines bound to
// threads of their own, which spin for a bounded time after a job and then park, so that steps follow each other without
// system calls and an idle server uses no processor time.
type pool struct {
	workers []*worker // all but worker 0
	job     func(worker, item int)
	items   int32
	next    atomic.Int32 // the next item to take
	seq     atomic.Uint32
	closing bool

	running atomic.Int32 // workers still in the job
	waiting atomic.Bool  // the caller is parked until running is 0
	done    chan struct{}
	fault   atomic.Pointer[fault]
}

// fault is a panic of a job.
type fault struct {
	value any
	stack []byte
}

type worker struct {
	id     int
	parked atomic.Bool
	wake   chan struct{}
	_      [64]byte // keeps parked flags on cache lines of their own
}

// spins bounds the wait for the next job, in pauses of some 40 to 140 cycles: about 50 µs.
const spins = 1000

// newPool starts threads-1 workers. If pin is set, each is bound to a processor of its own where the system allows.
func newPool(threads int, pin bool) *pool {
	p := &pool{done: make(chan struct{}, 1)}
	for id := 1; id < threads; id++ {
		w := &worker{id: id, wake: make(chan struct{}, 1)}
		p.workers = append(p.workers, w)
		go p.loop(w, pin)
	}
	return p
}

// run calls job for every item below items, spread over the workers, and returns when all are done. Items are taken in
// order, one at a time. A panic in a job stops its worker's share and is returned as an error.
func (p *pool) run(items int, job func(worker, item int)) error {
	p.job, p.items = job, int32(items)
	p.next.Store(0)
	if items > 1 && len(p.workers) > 0 {
		p.running.Store(int32(len(p.workers)))
		p.seq.Add(1)
		for _, w := range p.workers {
			if w.parked.CompareAndSwap(true, false) {
				w.wake <- struct{}{}
			}
		}
		p.work(0)
		p.await()
	} else {
		p.work(0)
	}
	if f := p.fault.Swap(nil); f != nil {
		return fmt.Errorf("cpu: panic in a kernel: %v\n%s", f.value, f.stack)
	}
	return nil
}

// work takes items until none is left.
func (p *pool) work(id int) {
	defer p.recoverFault()
	for {
		item := p.next.Add(1) - 1
		if item >= p.items {
			return
		}
		p.job(id, int(item))
	}
}

func (p *pool) recoverFault() {
	if v := recover(); v != nil {
		stack := make([]byte, 4096)
		p.fault.Store(&fault{v, stack[:runtime.Stack(stack, false)]})
	}
}

// await returns when all workers have left the job.
func (p *pool) await() {
	for range spins {
		if p.running.Load() == 0 {
			return
		}
		pause()
	}
	for {
		p.waiting.Store(true)
		if p.running.Load() == 0 && p.waiting.CompareAndSwap(true, false) {
			return
		}
		<-p.done
		if p.running.Load() == 0 {
			return
		}
	}
}

// loop is the life of a worker.
func (p *pool) loop(w *worker, pin bool) {
	runtime.LockOSThread()
	if pin {
		pinThread(w.id)
	}
	seen := uint32(0)
	for {
		p.awaitJob(w, seen)
		seen = p.seq.Load()
		if p.closing {
			return
		}
		p.work(w.id)
		if p.running.Add(-1) == 0 && p.waiting.CompareAndSwap(true, false) {
			p.done <- struct{}{}
		}
	}
}

// awaitJob returns when the job number is no longer seen.
func (p *pool) awaitJob(w *worker, seen uint32) {
	for {
		for range spins {
			if p.seq.Load() != seen {
				return
			}
			pause()
		}
		w.parked.Store(true)
		if p.seq.Load() != seen && w.parked.CompareAndSwap(true, false) {
			return
		}
		<-w.wake // may be late, for a job that is done already
	}
}

// close ends the workers. The pool must be idle.
func (p *pool) close() {
	p.closing = true
	p.seq.Add(1)
	for _, w := range p.workers {
		if w.parked.CompareAndSwap(true, false) {
			w.wake <- struct{}{}
		}
	}
}
