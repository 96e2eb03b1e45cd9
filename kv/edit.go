package kv

import "slices"

// Edit says that from now on, entry At of the block table for Group in slot Slot is Block; -1: it was given back.
type Edit struct {
	Slot, Group, At int32
	Block           BlockID
}

// Bind gives a table a slot. What the table holds, where that is not what Edits has told of the slot before, and each
// change to it from now on, is told by Edits. So a sequence that begins like the one that had the slot before, as beams
// do, is told by what differs.
func (p *Pool) Bind(t *Table, slot int32) {
	t.slot = slot
	for len(p.told) <= int(slot) {
		p.told = append(p.told, make([][]BlockID, p.Groups()))
	}
	for g, blocks := range t.Blocks {
		told := &p.told[slot][g]
		*told = slices.Grow(*told, max(0, cap(blocks)-len(*told)))
		for i, b := range blocks {
			if i >= len(*told) || (*told)[i] != b {
				p.edited(t, g, i, b)
			}
		}
	}
}

// Unbind takes a table's slot. What changes from now on is not told.
func (p *Pool) Unbind(t *Table) {
	p.remember(t, 0)
	t.slot = none
}

// remember notes what Edits has told of a bound table, from entry from on. Until then the table itself says it.
func (p *Pool) remember(t *Table, from int) {
	for g, blocks := range t.Blocks {
		if told := &p.told[t.slot][g]; from < len(blocks) {
			at := min(from, len(*told))
			n := copy((*told)[at:], blocks[at:])
			*told = append(*told, blocks[at+n:]...)
		}
	}
}

// edited notes that an entry of a table has changed.
func (p *Pool) edited(t *Table, group, at int, b BlockID) {
	if t.slot != none {
		p.edits = append(p.edits, Edit{t.slot, int32(group), int32(at), b})
	}
}

// Edits appends to list what has changed in bound tables since it was called last, in order. Entries past a table's end
// keep their last value: a table that gets shorter is not told.
func (p *Pool) Edits(list []Edit) []Edit {
	list = append(list, p.edits...)
	p.edits = p.edits[:0]
	return list
}

// Truncate gives back the blocks of a table beyond its first n tokens. None of those may bear a name.
func (p *Pool) Truncate(t *Table, n int) {
	keep := p.BlocksFor(n)
	if int(t.Named) > keep {
		panic("kv: a named block is to be truncated")
	}
	if t.slot != none {
		p.remember(t, keep)
	}
	for g, blocks := range t.Blocks {
		for i := len(blocks) - 1; i >= keep; i-- {
			p.release(blocks[i])
		}
		t.Blocks[g] = blocks[:min(len(blocks), keep)]
	}
	t.ready = int32(min(int(t.ready), keep*p.cfg.BlockTokens))
	t.count()
}
