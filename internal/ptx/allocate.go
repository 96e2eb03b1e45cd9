package ptx

import (
	"container/heap"
	"math/bits"
	"slices"
	"strings"
)

// A kernel names thousands of registers and needs some hundreds at a time, which stay in the processor's cache.

// note collects the registers, other than predicates, of a statement: those that it writes whatever they hold, and
// those that it reads, or may leave.
func (f *flat) note(o *operand, writes bool) {
	if o.kind == register {
		r := o.number + int32(f.frame.registers)
		if writes {
			f.writes = append(f.writes, r)
		} else {
			f.reads = append(f.reads, r)
		}
	}
	for i := range o.list {
		f.note(&o.list[i], writes && o.kind != address)
	}
}

// registerSet is a set of small integers.
type registerSet []uint64

func (s registerSet) add(i int32)    { s[i/64] |= 1 << (i % 64) }
func (s registerSet) remove(i int32) { s[i/64] &^= 1 << (i % 64) }

// each visits the members.
func (s registerSet) each(f func(i int)) {
	for at, word := range s {
		for ; word != 0; word &= word - 1 {
			f(at*64 + bits.TrailingZeros64(word))
		}
	}
}

// span is the statements between which a register holds a value that is still read, both included.
type span struct{ register, first, last int }

func (s *span) widen(to int) { s.first, s.last = min(s.first, to), max(s.last, to) }

// spans returns those of all registers that statements name.
func (c *compiler) spans() []span {
	// Statements fall into runs that are entered at their beginning only.
	entered := make([]bool, len(c.flats)+1)
	entered[0] = true
	for i := range c.flats {
		if f := &c.flats[i]; f.target >= 0 {
			entered[i+1], entered[f.target] = true, true
		}
	}
	var runs []int // where they begin
	run := make([]int, len(c.flats)+1)
	for i := range c.flats {
		if entered[i] {
			runs = append(runs, i)
		}
		run[i] = len(runs) - 1
	}
	// What is needed at the beginning of each run grows until nothing changes.
	words := (c.registers + 63) / 64
	needed := make([]registerSet, len(runs))
	for i := range needed {
		needed[i] = make(registerSet, words)
	}
	all := make([]span, c.registers)
	for i := range all {
		all[i] = span{i, len(c.flats), -1}
	}
	live := make(registerSet, words)
	for changed := true; changed; {
		changed = false
		end := len(c.flats)
		for b := len(runs) - 1; b >= 0; b-- {
			clear(live)
			last := &c.flats[end-1]
			if last.target >= 0 {
				copy(live, needed[run[last.target]])
			}
			if !last.leaves() && end < len(c.flats) {
				for i, v := range needed[b+1] {
					live[i] |= v
				}
			}
			live.each(func(r int) { all[r].widen(end - 1) })
			for i := end - 1; i >= runs[b]; i-- {
				for _, r := range c.flats[i].writes {
					all[r].widen(i)
					live.remove(r)
				}
				for _, r := range c.flats[i].reads {
					all[r].widen(i)
					live.add(r)
				}
			}
			live.each(func(r int) { all[r].widen(runs[b]) })
			if !slices.Equal(live, needed[b]) {
				copy(needed[b], live)
				changed = true
			}
			end = runs[b]
		}
	}
	return all
}

// busy is spans by their ends, the earliest first; their registers are places.
type busy []span

func (b busy) Len() int           { return len(b) }
func (b busy) Less(i, j int) bool { return b[i].last < b[j].last }
func (b busy) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *busy) Push(v any)        { *b = append(*b, v.(span)) }
func (b *busy) Pop() any {
	v := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return v
}

// allocate gives registers their places: those whose spans do not meet may share one. Those of products of a warpgroup
// share none, for these go on behind what the statements say.
func (c *compiler) allocate() {
	for i := range c.flats {
		f := &c.flats[i]
		writes := f.guard < 0 && !strings.HasPrefix(f.name, "bar.") && !strings.HasPrefix(f.name, "wgmma.")
		for k := range f.operands {
			f.note(&f.operands[k], writes && k == 0)
		}
	}
	spans := c.spans()
	for i := range c.flats {
		if strings.HasPrefix(c.flats[i].name, "wgmma.mma_async") {
			for _, r := range c.flats[i].reads {
				spans[r].first, spans[r].last = 0, len(c.flats)
			}
		}
	}
	slices.SortStableFunc(spans, func(a, b span) int { return a.first - b.first })
	c.assigned = make([]int32, c.registers)
	c.registers = 0
	var taken busy
	var free []int
	for _, s := range spans {
		if s.last < 0 {
			continue
		}
		for len(taken) > 0 && taken[0].last < s.first {
			free = append(free, heap.Pop(&taken).(span).register)
		}
		if len(free) == 0 {
			free = append(free, c.registers)
			c.registers++
		}
		place := free[len(free)-1]
		free = free[:len(free)-1]
		c.assigned[s.register] = int32(place)
		heap.Push(&taken, span{place, s.first, s.last})
	}
}
