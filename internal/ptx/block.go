package ptx

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// launch is a kernel that is running.
type launch struct {
	Launch
	program *program
	atomics sync.Mutex // held by what changes global memory atomically
	fences  atomic.Int64
}

// cluster is the blocks that run together: those of a cluster, or just one.
type cluster struct {
	launch  *launch
	blocks  []*block
	pending []func() error

	unwritten []byte // shared memory before it is written: NaN, as a number, so that reading it shows
}

// block is a thread block that is running.
type block struct {
	cluster  *cluster
	index    [3]int // in the grid
	rank     int    // in the cluster
	shared   []byte // from address sharedBase on
	warps    []*warp
	barriers [16]barrier
	hopper   hopperBlock
}

// barrier is one of a block's barriers.
type barrier struct {
	arrived  int // warps
	expected int // threads; 0 for all warps that have not ended
}

// later makes f happen as late as possible: when no warp of the cluster can go on without it, or at the end.
func (c *cluster) later(f func() error) { c.pending = append(c.pending, f) }

// thread returns the coordinates of a block's thread.
func (l *launch) thread(n int) [3]int {
	return [3]int{n % l.Block[0], n / l.Block[0] % l.Block[1], n / l.Block[0] / l.Block[1]}
}

// volume is how many a grid, a cluster or a block has.
func volume(d [3]int) int { return d[0] * d[1] * d[2] }

// newCluster returns memory and registers for one cluster after another.
func newCluster(l *launch) *cluster {
	c := &cluster{launch: l, unwritten: bytes.Repeat([]byte{0xff}, l.program.shared+l.Shared)}
	threads := volume(l.Block)
	for rank := range volume(l.Cluster) {
		b := &block{cluster: c, rank: rank, shared: make([]byte, l.program.shared+l.Shared)}
		for first := 0; first < threads; first += len(lanes{}) {
			w := &warp{
				block: b,
				index: len(b.warps),
				regs:  make([]lanes, l.program.registers),
				preds: make([]uint32, l.program.predicates),
				near:  make([]window, l.program.sites),
				local: make([]byte, l.program.local*len(lanes{})),
			}
			w.preds[always] = everyone
			for _, constant := range l.program.constants {
				w.fill(constant.register, constant.value)
			}
			b.warps = append(b.warps, w)
		}
		c.blocks = append(c.blocks, b)
	}
	return c
}

// fill gives all lanes of a register a value.
func (w *warp) fill(register int, value uint64) {
	r := &w.regs[register]
	for i := range r {
		r[i] = value
	}
}

// start makes the cluster be the nth one of the grid.
func (c *cluster) start(n int) {
	l := c.launch
	c.pending = c.pending[:0]
	across := [3]int{l.Grid[0] / l.Cluster[0], l.Grid[1] / l.Cluster[1], l.Grid[2] / l.Cluster[2]}
	at := [3]int{n % across[0], n / across[0] % across[1], n / across[0] / across[1]}
	for _, b := range c.blocks {
		within := [3]int{
			b.rank % l.Cluster[0], b.rank / l.Cluster[0] % l.Cluster[1], b.rank / l.Cluster[0] / l.Cluster[1],
		}
		for i := range b.index {
			b.index[i] = at[i]*l.Cluster[i] + within[i]
		}
		b.barriers = [16]barrier{}
		b.hopper.start(b)
		copy(b.shared, c.unwritten)
		for _, w := range b.warps {
			w.start()
		}
	}
}

// start makes a warp begin the kernel.
func (w *warp) start() {
	l := w.block.cluster.launch
	threads := volume(l.Block) - w.index*len(lanes{})
	w.live = everyone
	if threads < len(lanes{}) {
		w.live = 1<<threads - 1
	}
	w.pc, w.active, w.others, w.limit, w.barred = 0, w.live, w.others[:0], int(^uint(0)>>1), 0
	w.copies.all, w.copies.committed = w.copies.all[:0], [32]int{}
	w.hopper.start()
	for s, r := range l.program.specials {
		if r < 0 {
			continue
		}
		for lane := range w.regs[r] {
			w.regs[r][lane] = uint64(w.special(s, lane))
		}
	}
}

// special returns what a lane has in a special register.
func (w *warp) special(n, lane int) int {
	l := w.block.cluster.launch
	axis := n % 3
	switch n / 3 {
	case 0: // tid
		return l.thread(w.index*len(lanes{}) + lane)[axis]
	case 1: // ntid
		return l.Block[axis]
	case 2: // ctaid
		return w.block.index[axis]
	case 3: // nctaid
		return l.Grid[axis]
	}
	return [3]int{lane, w.block.rank, len(w.block.cluster.blocks)}[axis]
}

// run runs the cluster to its end. Warps take turns in an order that changes from round to round, the last one first in
// the first round: a barrier that is missing shows rather if not the first warp is always ahead. Some turns are short.
func (c *cluster) run() error {
	code := c.launch.program.code
	for round := 0; ; round++ {
		moved, ended := false, true
		for _, b := range c.blocks {
			for i := range b.warps {
				if round%2 == 0 {
					i = len(b.warps) - 1 - i
				}
				w, share := b.warps[i], turnShare
				if (round+i)%3 == 1 {
					share = shortShare
				}
				if w.live == 0 {
					continue
				}
				ended = false
				if w.barred != 0 {
					continue
				}
				if w.turn(code, share) {
					moved = true
				}
				if w.err != nil {
					return c.wrap(w)
				}
				if w.live == 0 {
					if err := w.end(); err != nil {
						return fmt.Errorf("ptx: %s: block %v, %w", c.launch.program.name, b.index, err)
					}
					for n := range b.barriers {
						b.settle(n)
					}
				}
			}
		}
		if moved {
			continue
		}
		if len(c.pending) > 0 {
			f := c.pending[len(c.pending)-1] // the newest: no order is promised
			c.pending = c.pending[:len(c.pending)-1]
			if err := f(); err != nil {
				return fmt.Errorf("ptx: %s: %w", c.launch.program.name, err)
			}
			continue
		}
		if ended {
			return nil
		}
		return c.deadlock()
	}
}

// wrap says where a warp failed.
func (c *cluster) wrap(w *warp) error {
	s := c.launch.program.code[w.pc].statement
	return fmt.Errorf("ptx: %s: line %d: %s: block %v, %w", c.launch.program.name, s.line, s.name, w.block.index, w.err)
}

// deadlock says where all warps wait.
func (c *cluster) deadlock() error {
	var text strings.Builder
	code := c.launch.program.code
	for _, b := range c.blocks {
		for _, w := range b.warps {
			if w.barred != 0 {
				s := code[w.pc-1].statement
				fmt.Fprintf(&text, "\n\tblock %v, warp %d: at barrier %d, line %d", b.index, w.index, w.barred-1, s.line)
				continue
			}
			for _, g := range w.others {
				s := code[g.pc].statement
				fmt.Fprintf(&text, "\n\tblock %v, warp %d, lanes %#08x: at %s, line %d%s", b.index, w.index, g.lanes, s.name, s.line, w.hopper.waits(s))
			}
		}
	}
	return fmt.Errorf("ptx: %s: all threads wait:%s", c.launch.program.name, text.String())
}
