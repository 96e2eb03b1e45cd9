package kv

import "slices"

// prefetch brings back what lower tiers hold of the blocks of an offer, so that its prefix has them: it gives them
// names now and adds moves to the plan.
//
// Who holds or copies from such a block in the same plan has to give up if the move cannot be made; see Discard.
func (p *Pool) prefetch(o *Offer) {
	w, m, size := &o.want, &o.prefix, p.cfg.BlockTokens
	names := w.Names[:o.blocks]
	t := p.newTable(o.blocks*size, w.Keys, Retention{})
	p.holdAll(&t, names, w.Always)
	for i := range names {
		for g := range t.Blocks {
			if t.Blocks[g][i] != none || i < int(t.gone[g]) {
				continue
			}
			name := Name{names[i], int8(g)}
			from, _ := p.whence(name, w.Always)
			b := p.take()
			p.attach(b, p.nodeOf(names, i, 0, w.Keys, w.Tokens[i*size:(i+1)*size]), g)
			p.load(name, from, b)
			t.Blocks[g][i] = b
		}
	}
	m.path = m.path[:0]
	for _, name := range names {
		m.path = append(m.path, p.tree.find(name))
	}
	m.blocks, m.Tokens = o.blocks, o.blocks*size
	p.Release(&t)
}

// reachBelow returns after how many of a sequence's blocks all groups have what it needs to go on, with what lower
// tiers hold.
func (p *Pool) reachBelow(m *Prefix, names []Hash, always bool) int {
	reached := m.blocks
	var run [maxGroups]int // blocks that each group has without a gap, up to here
	for g := range p.cfg.Groups {
		run[g] = m.blocks - min(m.blocks, p.first(g, m.blocks*p.cfg.BlockTokens))
	}
	for i := m.blocks; i < len(names); i++ {
		n, all := p.tree.find(names[i]), true
		for g := range p.cfg.Groups {
			have := n != none && p.tree.block(n, g) != none
			if !have {
				_, have = p.whence(Name{names[i], int8(g)}, always)
			}
			if run[g]++; !have {
				run[g] = 0
			}
			all = all && run[g] >= i+1-p.first(g, (i+1)*p.cfg.BlockTokens)
			if !have && p.cfg.Groups[g].Window == 0 {
				return reached
			}
		}
		if all {
			reached = i + 1
		}
	}
	return reached
}

// holdAll lets an empty table hold what the device has of the blocks that a sequence needs to go on after them, and
// keeps what the lower tiers have of the others. Their entries are none.
func (p *Pool) holdAll(t *Table, names []Hash, always bool) {
	for g := range t.Blocks {
		first := p.first(g, len(names)*p.cfg.BlockTokens)
		t.gone[g] = int32(first)
		for i, name := range names {
			b := BlockID(none)
			if n := p.tree.find(name); i >= first && n != none {
				b = p.tree.block(n, g)
			}
			if b != none {
				p.retain(b)
			} else if i >= first {
				at, _ := p.whence(Name{name, int8(g)}, always)
				p.keep(at)
			}
			t.Blocks[g] = append(t.Blocks[g], b)
		}
	}
}

// Discard evicts block b, if it has a name, and the blocks that follow it: its contents were lost on the way. No one
// may hold it but pins, which are undone.
func (p *Pool) Discard(b BlockID) {
	n, group := p.blocks[b].node, int(p.blocks[b].group)
	if n == none {
		return
	}
	for _, name := range p.pinned() {
		t := p.pins[name]
		if slices.ContainsFunc(t.Blocks, func(blocks []BlockID) bool { return slices.Contains(blocks, b) }) {
			p.unpin(name, t)
		}
	}
	if p.cfg.Groups[group].Window == 0 {
		for c := p.tree.nodes[n].child; c != none; {
			next := p.tree.nodes[c].next
			if kid := p.tree.block(c, group); kid != none {
				p.Discard(kid)
			}
			c = next
		}
	}
	p.evict(b)
	p.pushFree(b)
}

// SwapOut stores what a table's blocks with index i hold of tokens that do not fill them, under a name of their own. It
// returns false if no tier is worth the way there and back.
func (p *Pool) SwapOut(t *Table, i, tokens int, name Hash) bool {
	if !p.tiered() {
		return false
	}
	for g := range t.Blocks {
		n := Name{name, int8(g)}
		p.store(n, Place{Device, t.Blocks[g][i]}, Device, 2*p.Groups(), tokens)
		if !p.anywhere(n) {
			return false
		}
	}
	return true
}

func (p *Pool) anywhere(n Name) bool {
	for t := Device + 1; int(t) < len(p.tiers); t++ {
		if _, ok := p.tiers[t].index[n]; ok {
			return true
		}
	}
	return false
}

// swappedOut reports whether what was swapped out under a name can be loaded in this round for all groups.
func (p *Pool) swappedOut(name Hash) bool {
	for g := range p.cfg.Groups {
		if _, ok := p.whence(Name{name, int8(g)}, true); !ok {
			return false
		}
	}
	return true
}

// keepTail keeps what was swapped out under a name until it is swapped in.
func (p *Pool) keepTail(name Hash) {
	for g := range p.cfg.Groups {
		at, _ := p.whence(Name{name, int8(g)}, true)
		p.keep(at)
	}
}

// swapIn moves what was swapped out under a name to a table's own blocks with index i.
func (p *Pool) swapIn(t *Table, i int, name Hash) {
	for g := range t.Blocks {
		n := Name{name, int8(g)}
		at, _ := p.whence(n, true)
		p.load(n, at, t.Blocks[g][i])
	}
}
