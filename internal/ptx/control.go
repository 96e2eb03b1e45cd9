package ptx

import "math/bits"

// leave ends the threads of a mask.
func leave(*compiler, *statement) action {
	return func(w *warp, mask uint32) result {
		w.live &^= mask
		w.active &^= mask
		if w.active != 0 {
			return next
		}
		if w.choose() {
			w.pc-- // the turn goes on with the instruction after this one
			return next
		}
		return stop
	}
}

// blockBarrier compiles bar.sync barrier[, threads].
func blockBarrier(c *compiler, s *statement) action {
	ops := s.operands
	if len(ops) != 2 {
		ops = c.operands(1)
	}
	c.width = 32
	id := c.reg(ops[0])
	count := int32(-1)
	if len(ops) == 2 {
		count = c.reg(ops[1])
	}
	return func(w *warp, mask uint32) result {
		if !w.together(everyone, mask) {
			return again
		}
		lane := bits.TrailingZeros32(mask)
		n, expected := w.regs[id][lane], 0
		if n >= uint64(len(w.block.barriers)) {
			return w.fail(lane, "no barrier %d", n)
		}
		if count >= 0 {
			expected = int(w.regs[count][lane])
			if expected <= 0 || expected%32 != 0 {
				return w.fail(lane, "a barrier of %d threads, want a multiple of 32", expected)
			}
		}
		b := &w.block.barriers[n]
		if b.arrived > 0 && b.expected != expected {
			return w.fail(lane, "barrier %d is for %d threads, others say %d", n, expected, b.expected)
		}
		b.expected = expected
		b.arrived++
		w.barred = int(n) + 1
		w.pc++
		w.block.settle(int(n))
		return stop
	}
}

// settle lets the warps at a barrier go on if all are there.
func (b *block) settle(n int) {
	at := &b.barriers[n]
	expected := at.expected / 32
	if at.expected == 0 {
		for _, w := range b.warps {
			if w.live != 0 {
				expected++
			}
		}
	}
	if at.arrived == 0 || at.arrived < expected {
		return
	}
	at.arrived = 0
	for _, w := range b.warps {
		if w.barred == n+1 {
			w.barred = 0
		}
	}
}

// logic compiles an operation on predicates.
func logic(f func(a, b uint32) uint32) builder {
	return func(c *compiler, s *statement) action {
		ops := s.operands
		if len(ops) != 2 {
			ops = c.operands(3)
		}
		d, a, b := c.pred(ops[0]), c.pred(ops[1]), c.pred(ops[len(ops)-1])
		return func(w *warp, mask uint32) result {
			set(&w.preds[d], f(w.preds[a], w.preds[b]), mask)
			return next
		}
	}
}

// pack compiles mov between a register and a vector of its parts, the lowest first.
func pack(c *compiler, _ *statement) action {
	ops := c.operands(2)
	d, a := ops[0], ops[1]
	if (d.kind == vector) == (a.kind == vector) {
		c.fail("one of the operands has to be a vector")
		return nil
	}
	n := max(len(d.list), len(a.list), 1)
	to, from := c.regs(d, max(len(d.list), 1)), c.regs(a, max(len(a.list), 1))
	width := int(c.width) / n
	part := uint64(1)<<width - 1
	return func(w *warp, mask uint32) result {
		for ; mask != 0; mask &= mask - 1 {
			lane := bits.TrailingZeros32(mask) & 31
			if len(to) > 1 {
				v := w.regs[from[0]][lane]
				for i, r := range to {
					w.regs[r][lane] = v >> (i * width) & part
				}
				continue
			}
			var v uint64
			for i, r := range from {
				v |= w.regs[r][lane] & part << (i * width)
			}
			w.regs[to[0]][lane] = v
		}
		return next
	}
}

// nothing compiles hints.
func hint(*compiler, *statement) action {
	return func(*warp, uint32) result { return next }
}

var control = map[string]builder{
	"ret":      leave,
	"bar.sync": blockBarrier,
	"mov.b32":  pack,
	"mov.b64":  pack,
	"mov.pred": logic(func(a, _ uint32) uint32 { return a }),
	"not.pred": logic(func(a, _ uint32) uint32 { return ^a }),
	"and.pred": logic(func(a, b uint32) uint32 { return a & b }),
	"or.pred":  logic(func(a, b uint32) uint32 { return a | b }),
	"xor.pred": logic(func(a, b uint32) uint32 { return a ^ b }),

	"ld": load, "st": store, "atom": atom, "membar.gl": fence, "prefetch.global.L2": hint, "prefetch.tensormap": hint,

	"cp.async.cg.shared.global": copyAsync, "cp.async.ca.shared.global": copyAsync,
	"cp.async.commit_group": commitCopies, "cp.async.wait_group": waitCopies,

	"ldmatrix.sync.aligned.m8n8.x4.shared.b16": loadMatrix(false), "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16": loadMatrix(true),

	"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": multiply(unpackBF16),
	"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32":   multiply(unpackF16),
}

// builders are all instructions that do more than compute.
var builders = union(control, crossing, hopperBuilders)
