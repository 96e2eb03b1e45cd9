package ptx

import "math/bits"

// together says whether the lanes that an instruction wants, as far as they live, are there. It is another turn's
// otherwise: they may come.
func (w *warp) together(want, mask uint32) bool { return want&w.live&^mask == 0 }

// members compiles the operand that names the lanes of a .sync instruction, and returns what says, for a mask that
// executes it, whether all of them are there.
func (c *compiler) members(o operand) func(w *warp, mask uint32) bool {
	width := c.width
	c.width = 32
	r := c.reg(o)
	c.width = width
	return func(w *warp, mask uint32) bool {
		return w.together(uint32(w.regs[r][bits.TrailingZeros32(mask)]), mask)
	}
}

func warpBarrier(c *compiler, _ *statement) action {
	here := c.members(c.operands(1)[0])
	return func(w *warp, mask uint32) result {
		if !here(w, mask) {
			return again
		}
		return next
	}
}

// ballot compiles vote.sync.ballot d, p, members.
func ballot(c *compiler, _ *statement) action {
	ops := c.operands(3)
	d, p, here := c.reg(ops[0]), c.pred(ops[1]), c.members(ops[2])
	return func(w *warp, mask uint32) result {
		if !here(w, mask) {
			return again
		}
		v := uint64(w.preds[p] & mask)
		for m := mask; m != 0; m &= m - 1 {
			w.regs[d][bits.TrailingZeros32(m)] = v
		}
		return next
	}
}

// voteAny compiles vote.sync.any d, p, members.
func voteAny(c *compiler, _ *statement) action {
	ops := c.operands(3)
	d, p, here := c.pred(ops[0]), c.pred(ops[1]), c.members(ops[2])
	return func(w *warp, mask uint32) result {
		if !here(w, mask) {
			return again
		}
		v := uint32(never)
		if w.preds[p]&mask != 0 {
			v = everyone
		}
		set(&w.preds[d], v, mask)
		return next
	}
}

// elect compiles elect.sync d|p, members. PTX does not say which lane it elects: here the last one, so that no test
// counts on the first.
func elect(c *compiler, _ *statement) action {
	ops := c.operands(2)
	to := ops[0]
	if to.kind != pair {
		c.fail("the result is no pair")
		return nil
	}
	d, p, here := c.reg(to.list[0]), c.pred(to.list[1]), c.members(ops[1])
	return func(w *warp, mask uint32) result {
		if !here(w, mask) {
			return again
		}
		leader := bits.Len32(mask) - 1
		for m := mask; m != 0; m &= m - 1 {
			w.regs[d][bits.TrailingZeros32(m)] = uint64(leader)
		}
		set(&w.preds[p], 1<<leader, mask)
		return next
	}
}

// redux compiles redux.sync.operation d, a, members.
func redux(f func(a, b int32) int32) builder {
	return func(c *compiler, _ *statement) action {
		ops := c.operands(3)
		d, a, here := c.reg(ops[0]), c.reg(ops[1]), c.members(ops[2])
		return func(w *warp, mask uint32) result {
			if !here(w, mask) {
				return again
			}
			v := int32(w.regs[a][bits.TrailingZeros32(mask)])
			for m := mask & (mask - 1); m != 0; m &= m - 1 {
				v = f(v, int32(w.regs[a][bits.TrailingZeros32(m)]))
			}
			for m := mask; m != 0; m &= m - 1 {
				w.regs[d][bits.TrailingZeros32(m)] = u32(v)
			}
			return next
		}
	}
}

// shuffle compiles shfl.sync.mode d|p, a, b, c, members. The function says from where a lane reads, and whether that
// is within the limit: the lane itself is read otherwise. Lanes that agree in the bits of segment are among themselves.
func shuffle(from func(lane, b, segment, limit int) (int, bool)) builder {
	return func(c *compiler, _ *statement) action {
		ops := c.operands(5)
		to := ops[0]
		if to.kind != pair {
			c.fail("the result is no pair")
			return nil
		}
		d, p := c.reg(to.list[0]), c.pred(to.list[1])
		a, b, bounds, here := c.reg(ops[1]), c.reg(ops[2]), c.reg(ops[3]), c.members(ops[4])
		return func(w *warp, mask uint32) result {
			if !here(w, mask) {
				return again
			}
			var valid uint32
			values := w.regs[a]
			for m := mask; m != 0; m &= m - 1 {
				lane := bits.TrailingZeros32(m) & 31
				clamp, segment := int(w.regs[bounds][lane]&31), int(w.regs[bounds][lane]>>8&31)
				source, ok := from(lane, int(w.regs[b][lane]&31), segment, lane&segment|clamp&^segment)
				if !ok {
					source = lane
				} else {
					valid |= 1 << lane
				}
				if mask>>source&1 == 0 {
					return w.fail(lane, "it reads lane %d, which does not take part", source)
				}
				w.regs[d][lane] = values[source]
			}
			set(&w.preds[p], valid, mask)
			return next
		}
	}
}

var crossing = map[string]builder{
	"bar.warp.sync":        warpBarrier,
	"vote.sync.ballot.b32": ballot,
	"vote.sync.any.pred":   voteAny,
	"elect.sync":           elect,
	"redux.sync.add.s32":   redux(func(a, b int32) int32 { return a + b }),
	"redux.sync.min.s32":   redux(func(a, b int32) int32 { return min(a, b) }),
	"redux.sync.max.s32":   redux(func(a, b int32) int32 { return max(a, b) }),
	"shfl.sync.up.b32":     shuffle(func(lane, b, _, limit int) (int, bool) { return lane - b, lane-b >= limit }),
	"shfl.sync.bfly.b32":   shuffle(func(lane, b, _, limit int) (int, bool) { return lane ^ b, lane^b <= limit }),
	"shfl.sync.idx.b32": shuffle(func(lane, b, segment, limit int) (int, bool) {
		from := lane&segment | b&^segment
		return from, from <= limit
	}),
}
