package cpu

import (
	"runtime"
	"sync/atomic"
)

// The system clears memory when it is first written. A step that does so waits: for some milliseconds wherever new blocks reach
// another huge page of each layer. So a thread of low priority has memory ready for the blocks that come next, which is
// never more than runwayBytes, or a quarter of the cache, ahead of those that were used: blocks that nobody ever used come in order.

// runwayBytes is how much memory is held ready ahead of use.
const runwayBytes = 256 << 20

// runway is what has memory ready for a cache.
type runway struct {
	slabs []slab
	ahead int           // blocks to hold ready
	used  atomic.Int64  // blocks below this have been used
	ready int           // and those below this have memory
	more  chan struct{} // tells that blocks have been used
}

// newRunway returns a runway for the slabs of a cache of so many blocks and bytes, nil where it would not pay.
func newRunway(slabs []slab, blocks int, bytes int64) *runway {
	ahead := int64(blocks) * min(runwayBytes, bytes/4) / max(bytes, 1)
	if bytes < 32*hugePage || !canPopulate() {
		return nil
	}
	return &runway{slabs: slabs, ahead: int(ahead), more: make(chan struct{}, 1)}
}

// use says that a block is being used.
func (r *runway) use(block int32) {
	if n := int64(block) + 1; n > r.used.Load() {
		r.used.Store(n) // by the thread that runs operations, and no other
		select {
		case r.more <- struct{}{}:
		default:
		}
	}
}

// run has memory ready until done is closed.
func (r *runway) run(done <-chan struct{}) {
	runtime.LockOSThread() // and never unlocked: the thread ends with its priority
	lowerPriority()
	for {
		for r.extend() {
			select {
			case <-done:
				return
			default:
			}
		}
		select {
		case <-r.more:
		case <-done:
			return
		}
	}
}

// extend has memory ready for the next blocks, about a huge page of each slab, and reports whether there was something to do.
func (r *runway) extend() bool {
	from, did := r.ready, false
	to := from
	for i := range r.slabs {
		s := &r.slabs[i]
		end := min(len(s.data)/s.size, int(r.used.Load())+r.ahead)
		if to == from {
			to = min(end, from+max(1, hugePage/s.size))
		}
		if to > from {
			populate(s.data[from*s.size : to*s.size])
			did = true
		}
	}
	r.ready = max(to, from)
	return did
}
