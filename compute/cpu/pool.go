package cpu

import (
	"fmt"
	"runtime"
	"sync/atomic"
)

// pool runs one job at a time on a fixed set of threads. The caller is worker 0; the others are goroutines bound to
// threads of their own, which spin for a bounded time after a job and then park, so that steps follow each other without
// system calls and an idle server uses no processor time. A job is done when its items are: a worker that is late, because
// it slept or another process has its processor, is not waited for unless it has taken an item.
type pool struct {
	workers []*worker // all but worker 0
	job     func(worker, item int)
	work    atomic.Uint64 // of the running job: the number of items in the upper half, the next to take in the lower
	done    atomic.Int64  // items done
	closing atomic.Bool

	waiting  atomic.Bool // the caller is parked until all items are done
	finished chan struct{}
	fault    atomic.Pointer[fault]
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
	p := &pool{finished: make(chan struct{}, 1)}
	for id := 1; id < threads; id++ {
		w := &worker{id: id, wake: make(chan struct{}, 1)}
		p.workers = append(p.workers, w)
		go p.loop(w, pin)
	}
	return p
}

// run calls job for every item below items, spread over the workers, and returns when all are done. Items are taken in
// order, one at a time. A panic in a job ends its item and is returned as an error.
func (p *pool) run(items int, job func(worker, item int)) error {
	p.job = job
	p.done.Store(0)
	p.work.Store(uint64(items) << 32)
	for _, w := range p.workers[:min(len(p.workers), max(items-1, 0))] {
		if w.parked.CompareAndSwap(true, false) {
			w.wake <- struct{}{}
		}
	}
	p.takeAll(0)
	p.await(int64(items))
	if f := p.fault.Swap(nil); f != nil {
		return fmt.Errorf("cpu: panic in a kernel: %v\n%s", f.value, f.stack)
	}
	return nil
}

// left reports whether the running job has items that nobody has taken.
func (p *pool) left() bool {
	v := p.work.Load()
	return v&(1<<32-1) < v>>32
}

// takeAll takes items until none is left.
func (p *pool) takeAll(id int) {
	for p.left() {
		p.take(id)
	}
}

// take takes items until none is left or one panics. Whoever has an item has the job: it cannot end before the item does.
func (p *pool) take(id int) {
	var items int64
	defer func() {
		if v := recover(); v != nil {
			stack := make([]byte, 4096)
			p.fault.Store(&fault{v, stack[:runtime.Stack(stack, false)]})
			p.end(items)
		}
	}()
	for {
		v := p.work.Load()
		item := v & (1<<32 - 1)
		if item >= v>>32 {
			return
		}
		if p.work.CompareAndSwap(v, v+1) {
			items = int64(v >> 32)
			p.job(id, int(item))
			p.end(items)
		}
	}
}

// end counts an item of a job of so many items as done.
func (p *pool) end(items int64) {
	if p.done.Add(1) == items && p.waiting.CompareAndSwap(true, false) {
		p.finished <- struct{}{}
	}
}

// await returns when all items are done.
func (p *pool) await(items int64) {
	for range spins {
		if p.done.Load() == items {
			return
		}
		pause()
	}
	p.waiting.Store(true)
	if p.done.Load() == items && p.waiting.CompareAndSwap(true, false) {
		return
	}
	<-p.finished
}

// loop is the life of a worker.
func (p *pool) loop(w *worker, pin bool) {
	runtime.LockOSThread()
	if pin {
		pinThread(w.id)
	}
	for p.awaitWork(w) {
		p.takeAll(w.id)
	}
}

// awaitWork returns true when there are items to take, and false when the pool is closed.
func (p *pool) awaitWork(w *worker) bool {
	for {
		for range spins {
			if p.left() {
				return true
			}
			if p.closing.Load() {
				return false
			}
			pause()
		}
		w.parked.Store(true)
		if (p.left() || p.closing.Load()) && w.parked.CompareAndSwap(true, false) {
			continue
		}
		<-w.wake // may be late, for a job that is done already
	}
}

// close ends the workers. The pool must be idle.
func (p *pool) close() {
	p.closing.Store(true)
	for _, w := range p.workers {
		if w.parked.CompareAndSwap(true, false) {
			w.wake <- struct{}{}
		}
	}
}
