package kv

import "slices"

// Revive brings back what lower tiers hold of a sequence after the prefix that Match found, as cached blocks, so that the
// next Match finds them too: it gives them names now and adds moves to the plan. always: whatever Measured says. It
// returns false if it changed nothing.
//
// Who holds or copies from such a block in the same plan has to give up if the move cannot be made; see Discard.
func (p *Pool) Revive(m *Prefix, names []Hash, keys Keys, tokens []int32, always bool) bool {
	size := p.cfg.BlockTokens
	if !p.tiered() || p.cfg.States > 0 {
		return false
	}
	to := p.reachBelow(m, names[:min(len(names), len(tokens)/size)], keys, always)
	if to == m.blocks {
		return false
	}
	t := p.NewTable(to*size, keys, Retention{})
	loads := p.holdAll(&t, m, names[:to], always)
	ok := loads <= p.Available()
	for i := 0; i < to && ok; i++ {
		for g := range t.Blocks {
			if t.Blocks[g][i] != none || i < int(t.gone[g]) {
				continue
			}
			name := Name{names[i], int8(g), keys.Adapter != ""}
			from, _ := p.whence(name, always)
			b := p.take()
			p.attach(b, p.nodeOf(names, i, keys, tokens[i*size:(i+1)*size]), g)
			p.load(name, from, b)
			t.Blocks[g][i] = b
		}
	}
	p.Release(&t)
	return ok
}

// reachBelow returns after how many of a sequence's blocks all groups have what it needs to go on, with what lower tiers
// hold.
func (p *Pool) reachBelow(m *Prefix, names []Hash, keys Keys, always bool) int {
	reached := m.blocks
	var run [maxGroups]int // blocks that each group has without a gap, up to here
	for g := range p.cfg.Groups {
		run[g] = m.blocks - min(m.blocks, p.first(g, m.blocks*p.cfg.BlockTokens))
	}
	for i := m.blocks; i < len(names); i++ {
		n, all := p.tree.find(names[i], keys), true
		for g := range p.cfg.Groups {
			have := n != none && p.tree.block(n, g) != none
			if !have {
				_, have = p.whence(Name{names[i], int8(g), keys.Adapter != ""}, always)
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

// holdAll lets an empty table hold what the device has of the blocks that a sequence needs to go on after them, and keeps
// what the lower tiers have of the others, whose number it returns. Their entries are none.
func (p *Pool) holdAll(t *Table, m *Prefix, names []Hash, always bool) (loads int) {
	for g := range t.Blocks {
		first := p.first(g, len(names)*p.cfg.BlockTokens)
		t.gone[g] = int32(first)
		for i, name := range names {
			b := BlockID(none)
			if n := p.tree.find(name, t.keys); i >= first && n != none {
				b = p.tree.block(n, g)
			}
			if b != none {
				p.retain(b)
			} else if i >= first {
				at, _ := p.whence(Name{name, int8(g), t.keys.Adapter != ""}, always)
				p.keep(at)
				loads++
			}
			t.Blocks[g] = append(t.Blocks[g], b)
		}
	}
	return loads
}

// Discard forgets block b, if it has a name, and the blocks that follow it: its contents were lost on the way. No one may
// hold it but pins, which are undone.
func (p *Pool) Discard(b BlockID) {
	n, group := p.node[b], int(p.group[b])
	if n == none {
		return
	}
	for name, t := range p.pins {
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
	p.forget(b)
	p.pushFree(b)
}

// Stow stores what a table's blocks with index i hold of tokens that do not fill them, under a name of their own. It
// returns false if no tier is worth the way there and back.
func (p *Pool) Stow(t *Table, i, tokens int, name Hash) bool {
	if !p.tiered() {
		return false
	}
	for g := range t.Blocks {
		n := Name{name, int8(g), t.keys.Adapter != ""}
		p.store(n, Place{Device, t.Blocks[g][i]}, Device, 2*p.Groups(), tokens)
		if !p.anywhere(n) {
			return false
		}
	}
	return true
}

func (p *Pool) anywhere(n Name) bool {
	for t := Host; t < Tiers; t++ {
		if _, ok := p.shelves[t].index[n]; ok {
			return true
		}
	}
	return false
}

// Stowed reports whether what was stowed under a name can be loaded in this round for all groups, and keeps it until then.
func (p *Pool) Stowed(name Hash, keys Keys) bool {
	for g := range p.cfg.Groups {
		at, ok := p.whence(Name{name, int8(g), keys.Adapter != ""}, true)
		if !ok {
			return false
		}
		p.keep(at)
	}
	return true
}

// Unstow moves what was stowed under a name to a table's own blocks with index i, if Stowed.
func (p *Pool) Unstow(t *Table, i int, name Hash) {
	for g := range t.Blocks {
		n := Name{name, int8(g), t.keys.Adapter != ""}
		at, _ := p.whence(n, true)
		p.load(n, at, t.Blocks[g][i])
	}
}

// Found counts tokens that a sequence found beside those of its Share.
func (p *Pool) Found(tokens int) { p.stats.Hits += uint64(tokens) }
