package cpu

import (
	"sync"
	"sync/atomic"
	"time"
)

// The system clears memory when it is first written. A step that does so waits: for some milliseconds wherever new
// blocks reach another huge page of each layer. So a thread beside the steps has memory ready for the blocks that
// come next, which is never more than prefaultBytes, or a quarter of the cache, ahead of those that were used: blocks
// that nobody ever used come in order.
//
// It takes a tenth of a processor's time, by resting, not by a low priority: while it asks for memory it holds a lock
// of the process, so that all would wait for it where it had to wait for other processes.

// prefaultBytes is how much memory is held ready ahead of use.
const prefaultBytes = 256 << 20

// prefault is what has memory ready for a cache.
type prefault struct {
	slabs []slab
	ahead int           // blocks to hold ready
	used  atomic.Int64  // blocks below this have been used
	ready int           // and those below this have memory
	more  chan struct{} // tells that blocks have been used
	gone  chan struct{} // closed with the cache
	once  sync.Once
}

// stop lets go of the cache's memory.
func (r *prefault) stop() { r.once.Do(func() { close(r.gone) }) }

// newPrefault returns a prefault for the slabs of a cache of so many blocks and bytes, nil where it would not pay.
func newPrefault(slabs []slab, blocks int, bytes int64) *prefault {
	ahead := int64(blocks) * min(prefaultBytes, bytes/4) / max(bytes, 1)
	if bytes < 32*hugePage || !canPopulate() {
		return nil
	}
	return &prefault{slabs: slabs, ahead: int(ahead), more: make(chan struct{}, 1), gone: make(chan struct{})}
}

// use says that a block is being used.
func (r *prefault) use(block int32) {
	if n := int64(block) + 1; n > r.used.Load() {
		r.used.Store(n) // by the thread that runs operations, and no other
		select {
		case r.more <- struct{}{}:
		default:
		}
	}
}

// run has memory ready until done is closed, or the cache.
func (r *prefault) run(done <-chan struct{}) {
	rest := func(worked time.Duration) {
		select {
		case <-time.After(min(9*worked, time.Second)):
		case <-done:
		case <-r.gone:
		}
	}
	for {
		for r.extend(rest) {
			select {
			case <-done:
				return
			case <-r.gone:
				return
			default:
			}
		}
		select {
		case <-r.more:
		case <-done:
			return
		case <-r.gone:
			return
		}
	}
}

// extend has memory ready for the next blocks, about a huge page of each slab, and reports whether there was
// something to do. It calls rest with the time that each slab took.
func (r *prefault) extend(rest func(time.Duration)) bool {
	from, blocks := r.ready, len(r.slabs[0].data)/r.slabs[0].size
	to := min(blocks, int(r.used.Load())+r.ahead, from+max(1, hugePage/r.slabs[0].size))
	if to <= from {
		return false
	}
	for i := range r.slabs {
		s, begin := &r.slabs[i], time.Now()
		_ = populate(s.data[from*s.size : to*s.size]) // where it fails, steps wait
		rest(time.Since(begin))
	}
	r.ready = to
	return true
}
