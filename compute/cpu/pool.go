package cpu

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/guard"
)

// pool runs one job at a time on a fixed set of workers. The caller is worker 0; the others are goroutines, which
// spin for a bounded time after a job and then sleep, so that steps follow each other without system calls and an
// idle server uses no processor time. They have threads of their own only where these are bound to processors:
// whenever Go interrupts a goroutine, which it does every 10 ms, one with a thread of its own has to wait for two
// others to bring it back. Each worker has an equal share of a job's items, which follow one another, and takes from
// the ends of the others' when it has done its own. A job is done when its items are: a worker that is late, because
// it slept or another process has its processor, is not waited for unless it has taken an item.
type pool struct {
	workers []*worker
	spare   int // processors beside those of the workers
	job     func(worker, from, to int)
	one     func(worker, item int) // what job calls for each item, in run
	single  func(worker, from, to int)
	items   int64        // of the running job
	most    atomic.Int64 // items of it that a worker takes at once
	closing atomic.Bool
	ahead   atomic.Pointer[ahead] // what waiting workers fetch

	_    [64]byte // keeps what workers write off the cache line that they read
	done atomic.Int64
	_    [64]byte

	waiting  atomic.Bool // the caller sleeps until all items are done
	finished *sleeper
	fault    atomic.Pointer[fault]
}

// fault is a panic of a job.
type fault struct {
	value any
	stack []byte
}

type worker struct {
	id     int
	share  atomic.Uint64 // of the items of the running job: the end in the upper half, the next to take in the lower
	parked atomic.Bool
	bed    *sleeper
	_      [64]byte // keeps shares on cache lines of their own

	fetching *ahead // and what is left to fetch of it
	left     []byte

	jobs  int       // since the clock was read
	since time.Time // when it last let others have its processor
}

// turn is how long a worker computes before it lets others have its processor, while it holds no items. Go takes the
// processor away after 10 ms, with the items that the worker holds, for which all others then wait.
const turn = 5 * time.Millisecond

// jobsPerLook is how many jobs a worker does between two looks at the clock.
const jobsPerLook = 4

// yield lets others have the worker's processor if its turn is over.
func (w *worker) yield() {
	if w.jobs++; w.jobs < jobsPerLook {
		return
	}
	w.jobs = 0
	if time.Since(w.since) > turn {
		runtime.Gosched()
		w.rested()
	}
}

// rested begins the worker's turn anew: Go has just given it a processor.
func (w *worker) rested() { w.since = time.Now() }

// spins bounds the wait for the next job, in pauses of some 40 to 140 cycles: about 50 µs.
const spins = 1000

// newPool starts threads-1 workers. Each is bound to some processors, which several may share, if there are any in
// cpus.
func newPool(threads int, cpus [][]int) *pool {
	p := &pool{finished: newSleeper(), spare: max(0, defaultThreads()-threads)}
	p.single = func(worker, from, to int) {
		for i := from; i < to; i++ {
			p.one(worker, i)
		}
	}
	for id := range threads {
		p.workers = append(p.workers, &worker{id: id, bed: newSleeper()})
	}
	for _, w := range p.workers[1:] {
		guard.Go(func() error { p.loop(w, cpus); return nil }, p.fail)
	}
	return p
}

// fail makes a panic beside the jobs, on a goroutine that has ended with it, the fault of the next one. The other
// workers do the items of a worker that is gone.
func (p *pool) fail(err error) {
	if err != nil {
		p.fault.Store(&fault{value: err})
	}
}

// run calls job for every item below items, spread over the workers, and returns when all are done. A panic in a job
// ends its item and is returned as an error.
func (p *pool) run(items int, job func(worker, item int)) error {
	p.one = job
	return p.runs(items, 1, p.single)
}

// runs is run for jobs that take several items at once: up to most that follow one another, fewer towards the end.
func (p *pool) runs(items, most int, job func(worker, from, to int)) error {
	p.job, p.items = job, int64(items)
	if items == 1 {
		p.alone()
	} else {
		p.spread(items, most)
	}
	if f := p.fault.Swap(nil); f != nil {
		return fmt.Errorf("cpu: panic in a kernel: %v\n%s", f.value, f.stack)
	}
	return nil
}

// alone runs a job of one item on the caller's thread.
func (p *pool) alone() {
	defer p.rescue()
	p.job(0, 0, 1)
}

// spread runs the job on all workers.
func (p *pool) spread(items, most int) {
	p.most.Store(int64(most))
	p.done.Store(0)
	n := min(p.free(), items)
	for i, w := range p.workers[:n] {
		w.share.Store(shareOf(items*i/n, items*(i+1)/n))
	}
	for _, w := range p.workers[:n] {
		if w.parked.Load() && w.parked.CompareAndSwap(true, false) {
			w.bed.wake()
		}
	}
	p.takeAll(p.workers[0])
	p.await()
	p.workers[0].yield()
}

// free returns how many workers get a share of a job. The others sleep, as many as there are processors that work on
// large requests: a worker that waits for its processor holds up all others.
func (p *pool) free() int { return max(1, len(p.workers)-max(0, guard.Heavy()-p.spare)) }

// rescue, deferred, keeps a panic as the job's fault.
func (p *pool) rescue() {
	if v := recover(); v != nil {
		stack := make([]byte, 4096)
		p.fault.Store(&fault{v, stack[:runtime.Stack(stack, false)]})
	}
}

func shareOf(next, end int) uint64 { return uint64(end)<<32 | uint64(next) }

// left returns the items of a share that nobody has taken.
func left(share uint64) (next, end int) { return int(share & (1<<32 - 1)), int(share >> 32) }

// has reports whether there are items in the worker's share.
func (w *worker) has() bool {
	next, end := left(w.share.Load())
	return next < end
}

// takeAll takes items until none is left: first of the worker's own share, then of the others'.
func (p *pool) takeAll(w *worker) {
	for i := range p.workers {
		for v := p.workers[(w.id+i)%len(p.workers)]; v.has(); {
			p.take(w, v)
		}
	}
}

// take takes items of v's share until none is left or one panics: the owner from the beginning, others from the end.
// Whoever has an item has the job: it cannot end before the item does.
func (p *pool) take(w, v *worker) {
	taken := 0
	defer func() { p.end(taken) }() // of the items that a panic ended
	defer p.rescue()
	for {
		share := v.share.Load()
		next, end := left(share)
		if next >= end {
			return
		}
		n := min(max((end-next)/4, 1), int(p.most.Load()))
		from, rest := next, shareOf(next+n, end)
		if w != v {
			from, rest = end-n, shareOf(next, end-n)
		}
		if v.share.CompareAndSwap(share, rest) {
			taken = n
			p.job(w.id, from, from+n)
			taken = 0
			p.end(n)
		}
	}
}

// end counts n items as done.
func (p *pool) end(n int) {
	if n == 0 {
		return
	}
	if items := p.items; p.done.Add(int64(n)) == items && p.waiting.CompareAndSwap(true, false) {
		p.finished.wake()
	}
}

// await returns when all items are done.
func (p *pool) await() {
	for range spins {
		if p.done.Load() == p.items {
			return
		}
		p.rest(p.workers[0])
	}
	for {
		wakes := p.finished.count()
		p.waiting.Store(true)
		if p.done.Load() == p.items && p.waiting.CompareAndSwap(true, false) {
			return
		}
		p.finished.sleep(wakes)
		if p.done.Load() == p.items { // else it was late, from the job before
			return
		}
	}
}

// loop is the life of a worker.
func (p *pool) loop(w *worker, cpus [][]int) {
	if len(cpus) > 0 {
		runtime.LockOSThread()
		bindThread(cpus[w.id%len(cpus)]...)
	}
	for p.awaitWork(w) {
		p.takeAll(w)
		if len(cpus) == 0 {
			w.yield()
		}
	}
}

// awaitWork returns true when there are items to take, and false when the pool is closed.
func (p *pool) awaitWork(w *worker) bool {
	for {
		for range spins {
			if w.has() {
				return true
			}
			if p.closing.Load() {
				return false
			}
			p.rest(w)
		}
		wakes := w.bed.count()
		w.parked.Store(true)
		if (w.has() || p.closing.Load()) && w.parked.CompareAndSwap(true, false) {
			continue
		}
		w.bed.sleep(wakes) // may be late, for a job that is done already
	}
}

// ahead is what the workers will read next: while they have nothing else to do, each fetches its part into its own
// cache.
type ahead struct {
	of    *matrix  // the first of the weights
	parts [][]byte // of each worker
}

// fetchBytes are fetched at a time, between two looks for work.
const fetchBytes = 1 << 10

// rest passes the time of some dozens of cycles.
func (p *pool) rest(w *worker) {
	if a := p.ahead.Load(); a != w.fetching {
		w.fetching, w.left = a, a.parts[w.id]
	}
	if len(w.left) == 0 {
		kernel.Pause()
		return
	}
	n := min(len(w.left), fetchBytes)
	kernel.Fetch(&w.left[0], n)
	w.left = w.left[n:]
}

// close ends the workers. The pool must be idle.
func (p *pool) close() {
	p.closing.Store(true)
	for _, w := range p.workers[1:] {
		if w.parked.CompareAndSwap(true, false) {
			w.bed.wake()
		}
	}
}
