package kv

// Prefix is the beginning of a sequence that match found in the cache. It is valid until anything takes or gives back
// blocks, but worth keeping for the next match for the same sequence.
type Prefix struct {
	Tokens int     // found
	blocks int     // full ones
	after  int32   // 1 + the node whose first tokens are the rest; 0: there is none
	path   []int32 // nodes of the sequence's first blocks, at least of those found; none: there was no such node
	time   uint64  // the pool's as of then
}

// match brings m up to date: the longest prefix that a sequence can continue. names are those of its full blocks,
// tokens its first ones, of which all may be found. Groups with full attention must have all its blocks, groups with a
// window those of the last window. The block after that may begin like one that goes on differently: its first tokens
// count too. A sequence with recurrent state finds nothing, since the state after the prefix is not in blocks.
func (p *Pool) match(m *Prefix, names []Hash, keys Keys, tokens []int32) {
	m.Tokens, m.blocks, m.after = 0, 0, 0
	if p.cfg.States > 0 {
		return
	}
	m.path = p.walk(m, names[:min(len(names), len(tokens)/p.cfg.BlockTokens)])
	m.time = p.time
	m.blocks = p.reach(m.path)
	m.Tokens = m.blocks * p.cfg.BlockTokens
	parent := int32(none)
	if m.blocks > 0 {
		parent = m.path[m.blocks-1]
	}
	rest := tokens[m.Tokens:]
	next, shared := p.tree.common(parent, keys, rest[:min(len(rest), p.cfg.BlockTokens-1)], func(n int32) bool {
		for g := range p.cfg.Groups {
			if b := p.tree.block(n, g); b == none || p.round > 0 && p.blocks[b].loaded == p.round { // a copy would come before the move
				return false
			}
		}
		return true
	})
	m.after = 1 + next
	m.Tokens += shared
}

// walk returns the nodes of a sequence's blocks, up to the first that a group with full attention lacks. It looks only
// at what has changed: of those groups a chain is evicted from its end, so if the last node of a path has been there
// since, so have all before it.
func (p *Pool) walk(m *Prefix, names []Hash) []int32 {
	old, n := m.path, 0
	if p.full > 0 {
		for n = min(len(old), len(names)); n > 0; n-- {
			x := &p.tree.nodes[old[n-1]]
			if x.name == names[n-1] && x.since <= m.time && p.complete(old[n-1]) {
				break
			}
		}
	}
	path := old[:n]
	for i := n; i < len(names); i++ {
		at := int32(none)
		if p.full == 0 && i < len(old) && old[i] != none && p.tree.nodes[old[i]].name == names[i] {
			at = old[i]
		} else {
			at = p.tree.find(names[i])
		}
		if p.full > 0 && (at == none || !p.complete(at)) {
			break
		}
		path = append(path, at)
	}
	return path
}

// complete reports whether all groups with full attention have a block of node n.
func (p *Pool) complete(n int32) bool {
	for g, group := range p.cfg.Groups {
		if group.Window == 0 && p.tree.block(n, g) == none {
			return false
		}
	}
	return true
}

// reach returns after how many of the blocks of a path all groups have what a sequence needs to go on.
func (p *Pool) reach(path []int32) int {
	if p.full == len(p.cfg.Groups) {
		return len(path)
	}
	reached := 0
	var run [maxGroups]int // blocks that each group has without a gap, up to here
	for i, n := range path {
		ok := true
		for g := range p.cfg.Groups {
			if n != none && p.tree.block(n, g) != none {
				run[g]++
			} else {
				run[g] = 0
			}
			ok = ok && run[g] >= i+1-p.first(g, (i+1)*p.cfg.BlockTokens)
		}
		if ok {
			reached = i + 1
		}
	}
	return reached
}

// first returns the first block that a group needs to compute the token at a position and those after it.
func (p *Pool) first(group, position int) int {
	w := p.cfg.Groups[group].Window
	if w == 0 {
		return 0
	}
	return max(0, position-w+1) / p.cfg.BlockTokens
}

// cut leaves the block out of which only the first tokens were found, if there is one.
func (p *Pool) cut(m *Prefix) bool {
	cut := m.after != 0
	m.Tokens, m.after = m.blocks*p.cfg.BlockTokens, 0
	return cut
}

// partial returns the node whose first tokens a prefix ends with, or none.
func (m *Prefix) partial() int32 { return m.after - 1 }

// share lets an empty table hold the blocks of a prefix that match found for a sequence of n tokens, and counts the
// query and its hits.
func (p *Pool) share(t *Table, m *Prefix, n int) {
	p.hold(t, m)
	p.stats.Queries += uint64(n)
	p.stats.Hits += uint64(m.Tokens)
	p.stats.Partial += uint64(m.Tokens - m.blocks*p.cfg.BlockTokens)
}

// hold lets an empty table hold the blocks of a prefix.
func (p *Pool) hold(t *Table, m *Prefix) {
	for g := range t.Blocks {
		first := p.first(g, m.Tokens)
		for i := range m.blocks {
			b := BlockID(none)
			if i >= first {
				b = p.tree.block(m.path[i], g)
				p.retain(b)
			}
			t.Blocks[g] = append(t.Blocks[g], b)
		}
		t.gone[g] = int32(min(first, m.blocks))
		if m.after != 0 {
			b := p.tree.block(m.partial(), g)
			p.retain(b)
			t.Blocks[g] = append(t.Blocks[g], b)
		}
	}
	for _, n := range m.path[:m.blocks] {
		if n != none {
			p.use(n, t.keep)
		}
	}
	if m.after != 0 {
		p.use(m.partial(), t.keep)
	}
	t.count()
	t.Named = int32(m.blocks)
}

// use notes that a sequence found node n.
func (p *Pool) use(n int32, keep Retention) {
	x := &p.tree.nodes[n]
	p.stats.Reuse.add(p.now - x.last)
	x.last = p.now
	x.uses++
	x.keep.join(keep)
}
