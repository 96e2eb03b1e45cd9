package kv

import "iter"

// tree is the prefix index: the contents that blocks hold, found by name, and from each the contents that follow it.
type tree struct {
	nodes  []node
	blocks []BlockID // [nodes, groups] which block holds a node's contents for each group; none
	tokens []int32   // [nodes, blockTokens]
	groups int
	size   int   // tokens of a block
	free   int32 // links unused nodes along next
	index  index
	roots  map[Keys]int32 // the first of the nodes that start a sequence under these keys
}

// node is the contents of a full block. What is read of those that are followed comes first, in one cache line.
type node struct {
	name       Hash
	parent     int32  // none: it is a root; lost: its parent was evicted
	child      int32  // the youngest of those that follow it
	prev, next int32  // its siblings, the younger and the older
	held       int32  // blocks that hold it
	uses       int32  // sequences that computed or found it
	since      uint64 // the pool's time when it got the last block of a group without a window
	before     Hash   // the name of the block before it in every sequence; zero: it starts one
	born, last int64  // when it got its name, and when it was used last, in ticks
	keep       Retention
	keys       Keys // of the sequence that named it
}

// lost stands for a parent that was evicted before its child, which can happen where no group keeps all tokens. The
// child can be found by its name, but not by its first tokens.
const lost = -2

func newTree(blocks, groups, size int) tree {
	t := tree{
		nodes: make([]node, blocks), blocks: make([]BlockID, blocks*groups), tokens: make([]int32, blocks*size),
		groups: groups, size: size, free: none, index: newIndex(blocks), roots: make(map[Keys]int32),
	}
	for i := range t.blocks {
		t.blocks[i] = none
	}
	for n := int32(blocks - 1); n >= 0; n-- {
		t.nodes[n].next = t.free
		t.free = n
	}
	return t
}

// find returns the node of a name, or none.
func (t *tree) find(name Hash) int32 { return t.index.find(&name, t.nodes) }

// named yields the nodes that bear a name, by number.
func (t *tree) named() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for n := range t.nodes {
			if t.nodes[n].held > 0 && !yield(int32(n)) {
				return
			}
		}
	}
}

// block returns which block holds node n for a group, or none.
func (t *tree) block(n int32, group int) BlockID { return t.blocks[int(n)*t.groups+group] }

// contents returns the tokens of node n.
func (t *tree) contents(n int32) []int32 { return t.tokens[int(n)*t.size:][:t.size] }

// add makes a node. There are as many as blocks, and each has one, so there is room for it.
func (t *tree) add(name Hash, keys Keys, parent int32, tokens []int32, now int64) int32 {
	n := t.free
	x := &t.nodes[n]
	t.free = x.next
	*x = node{name: name, keys: keys, parent: lost, child: none, prev: none, next: none, born: now, last: now}
	t.index.add(&x.name, n)
	copy(t.contents(n), tokens)
	t.link(n, parent, keys)
	return n
}

// link makes a lost node the youngest child of parent; keys are those of a root.
func (t *tree) link(n, parent int32, keys Keys) {
	x := &t.nodes[n]
	x.parent = parent
	switch parent {
	case lost:
		return
	case none:
		x.keys = keys
		x.next = t.root(keys)
		t.roots[keys] = n
	default:
		x.next = t.nodes[parent].child
		t.nodes[parent].child = n
	}
	if x.next != none {
		t.nodes[x.next].prev = n
	}
}

// root returns the first of the nodes that start a sequence, or none.
func (t *tree) root(keys Keys) int32 {
	if n, ok := t.roots[keys]; ok {
		return n
	}
	return none
}

// remove frees a node that no block holds.
func (t *tree) remove(n int32) {
	x := &t.nodes[n]
	for c := x.child; c != none; {
		y := &t.nodes[c]
		c = y.next
		y.parent, y.prev, y.next = lost, none, none
	}
	switch {
	case x.parent == lost:
	case x.prev != none:
		t.nodes[x.prev].next = x.next
	case x.parent != none:
		t.nodes[x.parent].child = x.next
	case x.next != none:
		t.roots[x.keys] = x.next
	default:
		delete(t.roots, x.keys)
	}
	if x.next != none {
		t.nodes[x.next].prev = x.prev
	}
	t.index.remove(&x.name, n)
	*x = node{next: t.free}
	t.free = n
}

// maxSiblings is how many of the nodes that follow another are looked at for the tokens that they share with a
// sequence, the youngest first.
const maxSiblings = 32

// common returns, of the nodes that follow parent (none: roots under keys) and that ok accepts, the one that begins
// with the most of tokens, and with how many.
func (t *tree) common(parent int32, keys Keys, tokens []int32, ok func(n int32) bool) (best int32, shared int) {
	best = none
	c := none
	if parent == none {
		c = int(t.root(keys))
	} else {
		c = int(t.nodes[parent].child)
	}
	for range maxSiblings {
		if c == none || shared == min(len(tokens), t.size) {
			break
		}
		i, all := 0, t.contents(int32(c))
		for i < len(tokens) && i < len(all) && tokens[i] == all[i] {
			i++
		}
		if i > shared && ok(int32(c)) {
			best, shared = int32(c), i
		}
		c = int(t.nodes[c].next)
	}
	return best, shared
}

// attach makes block b what holds node n for a group.
func (p *Pool) attach(b BlockID, n int32, group int) {
	t := &p.tree
	t.blocks[int(n)*t.groups+group] = b
	t.nodes[n].held++
	p.blocks[b].node, p.blocks[b].group = n, int8(group)
	if p.cfg.Groups[group].Window == 0 {
		p.time++
		t.nodes[n].since = p.time
	}
	if up := p.before(b); up != none {
		p.blocks[up].kids++
	}
	p.stored(n, group)
}

// unname takes the name from block b.
func (p *Pool) unname(b BlockID) {
	t := &p.tree
	n := p.blocks[b].node
	if up := p.before(b); up != none {
		if p.blocks[up].kids--; p.blocks[up].kids == 0 && p.blocks[up].refs == 0 {
			p.leaves.push(up)
		}
	}
	p.removed(n, int(p.blocks[b].group))
	t.blocks[int(n)*t.groups+int(p.blocks[b].group)] = none
	p.blocks[b].node = none
	if t.nodes[n].held--; t.nodes[n].held == 0 {
		t.remove(n)
	}
}

// before returns the block that must outlive b: the one before it, if its group keeps all tokens; else none.
func (p *Pool) before(b BlockID) BlockID {
	parent := p.tree.nodes[p.blocks[b].node].parent
	if parent < 0 || p.cfg.Groups[p.blocks[b].group].Window > 0 {
		return none
	}
	return p.tree.block(parent, int(p.blocks[b].group))
}
