package ptx

import (
	"math/bits"
	"strings"
)

// copies are the cp.async of a warp that have not happened. They happen as late as they may: when a thread waits for
// them, so that a wait that is missing shows.
type copies struct {
	all       []copying
	committed [32]int // groups, by lane
	near      window
}

// copying is one of them.
type copying struct {
	to, from []byte // what from lacks becomes 0
	lane     int
	group    int
}

func (c copying) happen() { clear(c.to[copy(c.to, c.from):]) }

// copyAsync compiles cp.async [to], [from], size[, bytes of it that are read][, policy].
func copyAsync(c *compiler, s *statement) action {
	least := 3
	if strings.HasSuffix(s.name, cacheHint) {
		least++
	}
	ops := s.operands
	if len(ops) != least {
		ops = c.operands(least + 1)
	}
	ops = ops[:len(ops)-(least-3)]
	to, from := c.address(ops[0], shared), c.address(ops[1], global)
	size := int(ops[2].value)
	if ops[2].kind != immediate || size != 4 && size != 8 && size != 16 {
		c.fail("the size is not 4, 8 or 16")
	}
	read := c.reg(ops[len(ops)-1])
	return func(w *warp, mask uint32) result {
		for ; mask != 0; mask &= mask - 1 {
			lane := bits.TrailingZeros32(mask) & 31
			n := int(w.regs[read][lane])
			if n > size {
				return w.fail(lane, "it reads %d of %d bytes", n, size)
			}
			p := w.at(shared, nil, lane, w.regs[to.base][lane]+to.offset, size)
			if p == nil {
				return fault
			}
			job := copying{to: p, lane: lane, group: w.copies.committed[lane]}
			if n > 0 {
				at := w.regs[from.base][lane] + from.offset
				if at&uint64(size-1) != 0 {
					return w.fail(lane, "address %#x is not aligned to %d bytes", at, size)
				}
				if job.from = w.reach(global, &w.copies.near, lane, at, n); job.from == nil {
					return fault
				}
			}
			w.copies.all = append(w.copies.all, job)
		}
		return next
	}
}

func commitCopies(c *compiler, _ *statement) action {
	c.operands(0)
	return func(w *warp, mask uint32) result {
		for ; mask != 0; mask &= mask - 1 {
			w.copies.committed[bits.TrailingZeros32(mask)]++
		}
		return next
	}
}

// waitCopies compiles cp.async.wait_group n: all but the latest n groups happen.
func waitCopies(c *compiler, _ *statement) action {
	n := int(c.numbers(0, 1)[0])
	return func(w *warp, mask uint32) result {
		left := w.copies.all[:0]
		for _, job := range w.copies.all {
			if mask>>job.lane&1 == 0 || job.group >= w.copies.committed[job.lane]-n {
				left = append(left, job)
				continue
			}
			job.happen()
		}
		clear(w.copies.all[len(left):])
		w.copies.all = left
		return next
	}
}

// arriveCopied compiles cp.async.mbarrier.arrive.noinc: each lane arrives when its copies so far have happened, which
// is as late as it may be. cp.async.wait_group does not wait for these any more.
func arriveCopied(c *compiler, _ *statement) action {
	at := c.address(c.operands(1)[0], shared)
	return func(w *warp, mask uint32) result {
		var barriers []*mbarrier
		if r := each(mask, func(lane int) result {
			b, r := w.mbarrierAt(lane, at.of(w, lane))
			barriers = append(barriers, b)
			return r
		}); r != next {
			return r
		}
		var own []copying
		left := w.copies.all[:0]
		for _, job := range w.copies.all {
			if mask>>job.lane&1 == 0 {
				left = append(left, job)
			} else {
				own = append(own, job)
			}
		}
		clear(w.copies.all[len(left):])
		w.copies.all = left
		w.block.cluster.later(func() error {
			for _, job := range own {
				job.happen()
			}
			for _, b := range barriers {
				if err := b.arrive(0); err != nil {
					return err
				}
			}
			return nil
		})
		return next
	}
}
