package kv

// What a step does with a table lies in as many cache lines and pages as there are tables, and blocks, that it does it
// with. Read one after the other, each when it is needed, they take most of the time. The functions here read a line
// or two each, of a table, so that a caller with many tables can read all that it needs first: then none of these
// reads waits for another. What they return means nothing, but that it must be used.

// Touch reads the end of a table, which Grow reads and writes.
func (p *Pool) Touch(t *Table) (n int) {
	for _, blocks := range t.Blocks {
		if last := len(blocks) - 1; last >= 0 {
			n += int(blocks[last])
		}
	}
	return n
}

// TouchNext reads what Register reads of a table.
func (p *Pool) TouchNext(t *Table) (n int) {
	n = int(p.tree.nodes[t.tip].name[0]) + int(p.tree.nodes[t.tip].before[0])
	for g := range t.Blocks {
		n += int(p.next(t, g)) + int(p.tree.block(t.tip, g))
	}
	return n
}

// TouchName reads what Register reads to find a name and to give it to a block. TouchNext comes before.
func (p *Pool) TouchName(t *Table, name Hash) (n int) {
	n = int(p.tree.index.touch(&name))
	for g := range t.Blocks {
		for _, b := range [2]BlockID{p.next(t, g), p.tree.block(t.tip, g)} {
			if b >= 0 {
				n += int(p.blocks[b].refs)
			}
		}
	}
	return n
}

// next returns the block of a group that Register names, or none.
func (p *Pool) next(t *Table, group int) BlockID {
	if int(t.Named) >= len(t.Blocks[group]) {
		return none
	}
	return t.Blocks[group][t.Named]
}

// touch reads where find begins to look for a name.
func (x *index) touch(name *Hash) int32 { return x.entries[x.hash(name)&x.mask].node }
