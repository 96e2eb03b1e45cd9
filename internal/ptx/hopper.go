package ptx

import (
	"encoding/binary"
	"math/bits"
)

// each calls f for the lanes of a mask until one of them does not succeed.
func each(mask uint32, f func(lane int) result) result {
	for ; mask != 0; mask &= mask - 1 {
		if r := f(bits.TrailingZeros32(mask)); r != next {
			return r
		}
	}
	return next
}

// mbarrierInit: registers have the address and the count.
func mbarrierInit(at place, count int32) action {
	return func(w *warp, mask uint32) result {
		return each(mask, func(lane int) result {
			b, local, r := w.owner(lane, at.of(w, lane))
			if r != next {
				return r
			}
			if err := b.hopper.mbarriers.init(b.shared, local, int(uint32(w.regs[count][lane]))); err != nil {
				return w.fail(lane, "%v", err)
			}
			return next
		})
	}
}

// of returns the address in shared memory that a lane means.
func (p place) of(w *warp, lane int) uint32 { return uint32(w.regs[p.base][lane] + p.offset) }

// mbarrierArrive arrives, after the bytes that a register has, if it is not -1, are announced.
func mbarrierArrive(at place, bytes int32) action {
	return func(w *warp, mask uint32) result {
		return each(mask, func(lane int) result {
			b, r := w.mbarrierAt(lane, at.of(w, lane))
			if r != next {
				return r
			}
			n := 0
			if bytes >= 0 {
				n = int(uint32(w.regs[bytes][lane]))
			}
			if err := b.arrive(n); err != nil {
				return w.fail(lane, "%v", err)
			}
			return next
		})
	}
}

// mbarrierWait waits until the phase of a parity has ended for some lane, and tells each whether its has.
func mbarrierWait(p int32, at place, parity int32) action {
	return func(w *warp, mask uint32) result {
		var done uint32
		var last *mbarrier
		lastAt, lastParity := uint32(0), uint32(0)
		if r := each(mask, func(lane int) (r result) {
			a, par := at.of(w, lane), uint32(w.regs[parity][lane])
			if last == nil || a != lastAt {
				if last, r = w.mbarrierAt(lane, a); r != next {
					return r
				}
			}
			lastAt, lastParity = a, par
			if last.ended(lastParity) {
				done |= 1 << lane
			}
			return next
		}); r != next {
			return r
		}
		if done == 0 {
			w.hopper.at = last
			return again
		}
		set(&w.preds[p], done, mask)
		return next
	}
}

// storeMatrix stores n matrices of 8 rows of 16 bytes: lane i names the place of row i%8 of matrix i/8. Lane 4g+t has
// numbers 2t and 2t+1 of row g of each, or, across, numbers g of rows 2t and 2t+1.
func storeMatrix(at place, from []int32, across bool) action {
	return func(w *warp, mask uint32) result {
		if r := w.whole(mask); r != next {
			return r
		}
		w.block.hopper.unfenced.wrote(w, uint32(uint64(1)<<(8*len(from))-1), at)
		for i, r := range from {
			var rows [8][]byte
			for g := range rows {
				lane := 8*i + g
				a := at.of(w, lane)
				if rows[g] = within(w.block.shared, a, 16); rows[g] == nil || a%16 != 0 {
					return w.fail(lane, "a row of a matrix at %#x of shared memory, which is no multiple of 16 or beyond its end, %#x", a, endOf(w.block.shared))
				}
			}
			for lane, v := range w.regs[r] {
				g, t := lane/4, lane%4
				if across {
					binary.LittleEndian.PutUint16(rows[2*t][2*g:], uint16(v))
					binary.LittleEndian.PutUint16(rows[2*t+1][2*g:], uint16(v>>16))
				} else {
					binary.LittleEndian.PutUint32(rows[g][4*t:], uint32(v))
				}
			}
		}
		return next
	}
}

// mapShared makes the address of what another block of the cluster has at an address.
func mapShared(d, at, rank int32) action {
	return func(w *warp, mask uint32) result {
		return each(mask, func(lane int) result {
			a, r := uint32(w.regs[at][lane]), uint32(w.regs[rank][lane])
			if r >= uint32(len(w.block.cluster.blocks)) || a>>24 != 0 {
				return w.fail(lane, "address %#x of block %d of a cluster of %d", a, r, len(w.block.cluster.blocks))
			}
			w.regs[d][lane] = uint64((r+1)<<24 | a)
			return next
		})
	}
}

// clusterArrive arrives at the cluster's barrier.
func clusterArrive(w *warp, mask uint32) result {
	h := &w.hopper
	if !w.together(everyone, mask) {
		return again
	}
	if h.arrivals != h.waited {
		return w.fail(0, "the warp arrives at the cluster's barrier again before it has waited for it")
	}
	h.arrivals++
	return next
}

// clusterWait waits until all threads of the cluster that have not returned have arrived.
func clusterWait(w *warp, mask uint32) result {
	h := &w.hopper
	if !w.together(everyone, mask) {
		return again
	}
	if h.arrivals == h.waited {
		return w.fail(0, "the warp waits at the cluster's barrier before it has arrived there")
	}
	for _, b := range w.block.cluster.blocks {
		for _, o := range b.warps {
			if o.live != 0 && o.hopper.arrivals < h.arrivals {
				return again
			}
		}
	}
	h.waited = h.arrivals
	return next
}
