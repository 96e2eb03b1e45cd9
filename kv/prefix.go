package kv

import "sort"

// Prefix is the beginning of a sequence that Match found in the cache. It is valid until anything takes or gives back
// blocks, but worth keeping for the next Match for the same sequence.
type Prefix struct {
	Tokens int     // found
	blocks int     // full ones
	after  int32   // 1 + the node whose first tokens are the rest; 0: there is none
	path   []int32 // nodes of the sequence's first blocks, at least of those found; none: there was no such node
	time   uint64  // the pool's as of then
}

// Match brings m up to date: the longest prefix that a sequence can continue. names are those of its full blocks, tokens
// its first ones, of which all may be found. Groups with full attention must have all its blocks, groups with a window
// those of the last window. The block after that may begin like one that goes on differently: its first tokens count too.
// A sequence with recurrent state finds nothing, since the state after the prefix is not in blocks.
func (p *Pool) Match(m *Prefix, names []Hash, keys Keys, tokens []int32) {
	m.Tokens, m.blocks, m.after = 0, 0, 0
	if p.cfg.States > 0 {
		return
	}
	m.path = p.walk(m, names[:min(len(names), len(tokens)/p.cfg.BlockTokens)], keys)
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
			if b := p.tree.block(n, g); b == none || p.round > 0 && p.loaded[b] == p.round { // a copy would come before the move
				return false
			}
		}
		return true
	})
	m.after = 1 + next
	m.Tokens += shared
}

// walk returns the nodes of a sequence's blocks, up to the first that a group with full attention lacks. It looks only at
// what has changed: of those groups a chain is evicted from its end, so if the last node of a path has been there since,
// so have all before it.
func (p *Pool) walk(m *Prefix, names []Hash, keys Keys) []int32 {
	old, n, adapted := m.path, 0, keys.Adapter != ""
	if p.full > 0 {
		for n = min(len(old), len(names)); n > 0; n-- {
			x := &p.tree.nodes[old[n-1]]
			if x.key == (key{names[n-1], adapted}) && x.since <= m.time && p.complete(old[n-1]) {
				break
			}
		}
	}
	path := old[:n]
	for i := n; i < len(names); i++ {
		at := int32(none)
		if p.full == 0 && i < len(old) && old[i] != none && p.tree.nodes[old[i]].key == (key{names[i], adapted}) {
			at = old[i]
		} else {
			at = p.tree.find(names[i], keys)
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

// Cut leaves the block out of which only the first tokens were found, if there is one.
func (p *Pool) Cut(m *Prefix) bool {
	cut := m.after != 0
	m.Tokens, m.after = m.blocks*p.cfg.BlockTokens, 0
	return cut
}

// partial returns the node whose first tokens a prefix ends with, or none.
func (m *Prefix) partial() int32 { return m.after - 1 }

// Clone returns a copy of m.
func (m Prefix) Clone() Prefix {
	m.path = append([]int32(nil), m.path...)
	return m
}

// Kept returns how many blocks of a prefix a sequence holds that starts from it, not counting one that it has to copy.
func (p *Pool) Kept(m *Prefix) int {
	n := 0
	for g := range p.cfg.Groups {
		n += m.blocks - min(m.blocks, p.first(g, m.Tokens))
	}
	return n
}

// Cost returns how many blocks a sequence takes that starts from a prefix and has blocks for n tokens, and in groups without
// a window for reserve tokens: need new ones, and the unused ones of the prefix, which are not available any more.
func (p *Pool) Cost(m *Prefix, n, reserve int) (need, unused int) {
	for g, group := range p.cfg.Groups {
		need += p.wanted(g, n, reserve) - m.blocks
		if m.after != 0 && p.refs[p.tree.block(m.partial(), g)] == 0 {
			unused++ // until it is copied
		}
		if group.Window == 0 { // who holds a block also holds those before it
			unused += m.blocks - sort.Search(m.blocks, func(i int) bool { return p.refs[p.tree.block(m.path[i], g)] == 0 })
			continue
		}
		for i := p.first(g, m.Tokens); i < m.blocks; i++ {
			if p.refs[p.tree.block(m.path[i], g)] == 0 {
				unused++
			}
		}
	}
	return need, unused
}

// Share lets an empty table hold the blocks of a prefix that Match found for a sequence of n tokens, and counts the query
// and its hits.
func (p *Pool) Share(t *Table, m *Prefix, n int) {
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
	t.Named = m.blocks
}

// use notes that a sequence found node n.
func (p *Pool) use(n int32, keep Retention) {
	x := &p.tree.nodes[n]
	p.stats.Reuse.add(p.now - x.last)
	x.last = p.now
	x.uses++
	x.keep.join(keep)
}

// Full returns how many full blocks a prefix has.
func (m *Prefix) Full() int { return m.blocks }
