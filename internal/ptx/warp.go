package ptx

import (
	"fmt"
	"math"
	"math/bits"
)

// lanes is one register of the 32 threads of a warp. Values of fewer than 64 bits are zero-extended.
type lanes [32]uint64

// everyone is the mask of a whole warp.
const everyone uint32 = math.MaxUint32

// result is what became of an instruction.
type result uint8

const (
	next  result = iota // the instruction is done, and the warp goes on
	again               // it cannot be done yet: these lanes try again after others had a turn
	stop                // it is done, and the warp's turn ends: it waits for others, or no lane is left
	fault               // see warp.err
)

// action executes an instruction for the lanes of a mask, which is never empty.
type action func(w *warp, mask uint32) result

// kind selects how an instruction runs. All but acts are here for speed.
type kind uint8

const (
	computes kind = iota // compute
	compares             // compare: writes predicate d
	selects              // choose: a where predicate c is set, otherwise b
	branches             // to statement d
	acts                 // act
)

// instr is a compiled instruction. Registers are numbers of warp.regs; immediates and special registers are there too.
type instr struct {
	kind       kind
	not        bool
	guard      int32 // a predicate, or -1
	d, a, b, c int32
	compute    func(d, a, b, c *lanes)
	compare    func(a, b *lanes) uint32
	act        action
	statement  *statement
}

// group is lanes of a warp that are at the same instruction.
type group struct {
	pc     int
	lanes  uint32
	parked bool // its instruction could not be done in this turn
}

// warp is 32 threads that share an instruction stream. Lanes that branch apart become groups; the group that is least
// advanced in the code runs, until it meets another one and joins it.
type warp struct {
	block *block
	index int // in the block
	regs  []lanes
	preds []uint32 // one bit a lane

	pc     int    // of the group that runs
	active uint32 // its lanes
	others []group
	limit  int    // the group that runs ends at this pc: there is, or might be, another one
	live   uint32 // lanes that have not returned
	barred int    // the barrier that the warp waits at, and 1; 0 if it waits at none

	local   []byte // of lane after lane
	near    []window
	copies  copies
	hopper  hopperWarp
	scratch lanes
	err     error
}

// fail records what went wrong with a lane.
func (w *warp) fail(lane int, format string, args ...any) result {
	thread := w.block.cluster.launch.thread(w.index*32 + lane)
	w.err = fmt.Errorf("thread %v: %s", thread, fmt.Sprintf(format, args...))
	return fault
}

// Shares of instructions: enough to keep a warp's registers in the cache for a while, and a short one.
const turnShare, shortShare = 1 << 14, 50

// turn executes instructions until the warp waits, ends or has had its share, and says whether it executed any.
func (w *warp) turn(code []instr, share int) (moved bool) {
	for i := range w.others {
		w.others[i].parked = false
	}
	if !w.choose() {
		return false
	}
	for range share {
		in := &code[w.pc]
		mask := w.active
		if in.guard >= 0 {
			if in.not {
				mask &^= w.preds[in.guard]
			} else {
				mask &= w.preds[in.guard]
			}
		}
		switch in.kind {
		case computes:
			d, a, b, c := &w.regs[in.d], &w.regs[in.a], &w.regs[in.b], &w.regs[in.c]
			if mask == everyone {
				in.compute(d, a, b, c)
			} else if mask != 0 {
				in.compute(&w.scratch, a, b, c)
				blend(d, &w.scratch, mask)
			}
			w.pc++
		case compares:
			if mask != 0 {
				set(&w.preds[in.d], in.compare(&w.regs[in.a], &w.regs[in.b]), mask)
			}
			w.pc++
		case selects:
			pick(&w.regs[in.d], &w.regs[in.a], &w.regs[in.b], w.preds[in.c], mask)
			w.pc++
		case branches:
			switch mask {
			case 0:
				w.pc++
			case w.active:
				w.pc = int(in.d)
			default:
				w.others = append(w.others, group{pc: int(in.d), lanes: mask})
				w.active &^= mask
				w.pc++
				w.choose()
			}
		case acts:
			if mask == 0 {
				w.pc++
				break
			}
			switch in.act(w, mask) {
			case next:
				w.pc++
			case again:
				w.others = append(w.others, group{pc: w.pc, lanes: w.active, parked: true})
				w.active = 0
				if !w.choose() {
					return moved
				}
				continue
			case stop:
				return true
			case fault:
				return true
			}
		}
		moved = true
		if w.pc >= w.limit && !w.choose() {
			return true
		}
	}
	return true
}

// choose joins groups that are at the same instruction, and makes the least advanced one that is not parked the one
// that runs. It says whether there is one.
func (w *warp) choose() bool {
	if w.active != 0 {
		w.others = append(w.others, group{pc: w.pc, lanes: w.active})
		w.active = 0
	}
	for i := 0; i < len(w.others); i++ {
		for j := len(w.others) - 1; j > i; j-- {
			if w.others[j].pc == w.others[i].pc {
				w.others[i].lanes |= w.others[j].lanes
				w.others[i].parked = w.others[i].parked && w.others[j].parked
				w.others = append(w.others[:j], w.others[j+1:]...)
			}
		}
	}
	least := -1
	for i, g := range w.others {
		if !g.parked && (least < 0 || g.pc < w.others[least].pc) {
			least = i
		}
	}
	if least < 0 {
		return false
	}
	w.pc, w.active = w.others[least].pc, w.others[least].lanes
	w.others = append(w.others[:least], w.others[least+1:]...)
	w.limit = math.MaxInt
	for _, g := range w.others {
		if g.parked {
			w.limit = 0 // it may be anywhere: look after each instruction
		}
		w.limit = min(w.limit, g.pc)
	}
	return true
}

// blend copies the lanes of a mask.
func blend(d, s *lanes, mask uint32) {
	for ; mask != 0; mask &= mask - 1 {
		i := bits.TrailingZeros32(mask) & 31
		d[i] = s[i]
	}
}

// set gives the lanes of a mask their value of a predicate.
func set(p *uint32, value, mask uint32) { *p = *p&^mask | value&mask }

// pick writes a where p is set, and b elsewhere, to the lanes of a mask.
func pick(d, a, b *lanes, p, mask uint32) {
	for i := range d {
		v := b[i]
		if p>>i&1 != 0 {
			v = a[i]
		}
		if mask>>i&1 != 0 {
			d[i] = v
		}
	}
}
