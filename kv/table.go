package kv

import (
	"fmt"
	"math"
)

// Table is what one sequence holds of a Pool. Its methods are the Pool's. What every step asks is here, in 24 bytes;
// the rest, which a released table has not, is apart.
type Table struct {
	*tableRest
	Named int32 // how many blocks of each group bear a name, or did before they were given back
	State int32 // the slot of its recurrent state; -1: it has none
	ready int32 // tokens before this one, from the next that is written on, have blocks of their own
	held  int32 // blocks
}

// tableRest is what a step asks of a table only if that grows, or if a block of it is full.
type tableRest struct {
	slot int32 // for Edits; -1: it is not bound
	slid int   // entries given back
	tip  int32 // the node that Register named last, if that is still there

	// Blocks are the block tables of the groups of layers: token t of the sequence is in block
	// Blocks[group][t/BlockTokens], slot t%BlockTokens. An entry of -1 was given back, since it lies before every
	// window.
	Blocks [][]BlockID

	keep Retention
	keys Keys
	gone []int32 // [groups] entries given back, the first ones
}

// mangled stands in the memory of tables that were released.
const mangled = -1 << 31

// Copy says that what block From holds is to be copied to block To before a step.
type Copy struct{ From, To BlockID }

// Empty reports whether a table holds nothing: it is the zero Table, or was released.
func (t *Table) Empty() bool { return t.tableRest == nil }

// Held returns how many blocks a table holds.
func (t *Table) Held() int { return int(t.held) }

// Gone returns how many of a table's entries were given back: none, but in groups with a window.
func (p *Pool) Gone(t *Table) int {
	if p.full == len(p.cfg.Groups) {
		return 0
	}
	return t.slid
}

// count brings held and slid up to date.
func (t *Table) count() {
	t.held, t.slid = 0, 0
	for g, blocks := range t.Blocks {
		t.held += int32(len(blocks)) - t.gone[g]
		t.slid += int(t.gone[g])
	}
}

// newTable makes an empty table with room for n tokens, for a sequence whose contents depend on keys.
func (p *Pool) newTable(n int, keys Keys, keep Retention) Table {
	p.live++
	groups, room := len(p.cfg.Groups), p.BlocksFor(n)
	all := make([]int32, groups*(room+1))
	t := Table{State: -1, tableRest: &tableRest{
		Blocks: make([][]BlockID, groups), slot: none, keys: keys, keep: keep, gone: all[groups*room:],
	}}
	for g := range t.Blocks {
		t.Blocks[g] = all[g*room : g*room : (g+1)*room]
	}
	return t
}

// addState gives the table a slot for recurrent state, if the model has any; false: there is none left.
func (p *Pool) addState(t *Table) bool {
	last := len(p.states) - 1
	if p.cfg.States > 0 && last < 0 {
		return false
	}
	if p.cfg.States > 0 {
		t.State = p.states[last]
		p.states = p.states[:last]
	}
	return true
}

// Ready reports whether Grow to n tokens has nothing to do.
func (p *Pool) Ready(t *Table, n int) bool { return n <= int(t.ready) }

// Grow gives a table blocks for a sequence's first n tokens, of which those from position from on are about to be
// written, and in groups without a window blocks for reserve tokens, if that is more. A block that is to be written but
// belongs to others too, or has a name, is replaced by a copy of its own, which is added to copies. If there are too
// few blocks, Grow changes nothing and returns false.
func (p *Pool) Grow(t *Table, from, n, reserve int, copies *[]Copy) bool {
	if p.Ready(t, max(n, reserve)) {
		return true
	}
	need := 0
	for g := range t.Blocks {
		need += max(0, p.wanted(g, n, reserve)-len(t.Blocks[g]))
		if b := p.written(t, g, from); b != none && p.blocks[b].refs > 1 {
			need++
		}
	}
	if need > p.Available() {
		return false
	}
	for g := range t.Blocks {
		for want := p.wanted(g, n, reserve); len(t.Blocks[g]) < want; {
			t.Blocks[g] = append(t.Blocks[g], p.take())
			t.held++
			p.edited(t, g, len(t.Blocks[g])-1, t.Blocks[g][len(t.Blocks[g])-1])
		}
	}
	for _, shared := range []bool{true, false} { // first those that cannot do without
		for g := range t.Blocks {
			if b := p.written(t, g, from); b != none && p.blocks[b].refs > 1 == shared {
				p.own(t, g, from, copies)
			}
		}
	}
	ready := math.MaxInt32
	for _, blocks := range t.Blocks {
		ready = min(ready, len(blocks)*p.cfg.BlockTokens)
	}
	t.ready = int32(ready)
	return true
}

// wanted returns how many blocks a group's table is to have.
func (p *Pool) wanted(group, n, reserve int) int {
	if p.cfg.Groups[group].Window == 0 {
		n = max(n, reserve)
	}
	return p.BlocksFor(n)
}

// written returns the block that a sequence may not write to at a position, but has to replace; none: it may.
func (p *Pool) written(t *Table, group, position int) BlockID {
	i := position / p.cfg.BlockTokens
	if i >= len(t.Blocks[group]) {
		return none
	}
	if b := t.Blocks[group][i]; p.blocks[b].refs > 1 || p.blocks[b].node != none {
		return b
	}
	return none
}

// own replaces the block that is about to be written by a copy. The only holder of a named block takes that, if there
// is no other.
func (p *Pool) own(t *Table, group, from int, copies *[]Copy) {
	i := from / p.cfg.BlockTokens
	b := t.Blocks[group][i]
	if p.Available() == 0 {
		if p.blocks[b].refs != 1 || p.blocks[b].kids != 0 {
			panic(fmt.Sprintf("kv: block %d, held %d times, is to be written", b, p.blocks[b].refs))
		}
		p.unname(b)
		return
	}
	t.Blocks[group][i] = p.take()
	p.edited(t, group, i, t.Blocks[group][i])
	*copies = append(*copies, Copy{b, t.Blocks[group][i]})
	p.stats.Copies++
	p.release(b)
}

// Register names the first of the table's blocks without a name, whose tokens are now all computed, so that an Offer
// finds it. names are those of the sequence's full blocks, this one included. Where an equal block bears the name
// already, the table goes on with that one, and releases its own.
func (p *Pool) Register(t *Table, names []Hash, tokens []int32) {
	i := int(t.Named)
	if len(tokens) != p.cfg.BlockTokens || names[i] == (Hash{}) {
		panic(fmt.Sprintf("kv: a block of %d tokens is to be named %v", len(tokens), names[i]))
	}
	n := p.nodeOf(names, i, t.tip, t.keys, tokens)
	t.tip = n
	if p.tree.nodes[n].held == 0 {
		p.tree.nodes[n].keep = t.keep
	}
	p.tree.nodes[n].keep.join(t.keep)
	for g := range t.Blocks {
		b, equal := t.Blocks[g][i], p.tree.block(n, g)
		switch {
		case p.blocks[b].refs == 0 || p.blocks[b].node != none:
			panic(fmt.Sprintf("kv: block %d (%d references) cannot be named %v", b, p.blocks[b].refs, names[i]))
		case equal == none:
			p.attach(b, n, g)
		default:
			p.retain(equal)
			p.release(b)
			t.Blocks[g][i] = equal
			p.edited(t, g, i, equal)
		}
	}
	p.tree.nodes[n].uses++
	t.Named++
}

// nodeOf returns the node of a sequence's block i, which holds tokens and most likely follows the node tip. A new one
// has to get a block at once.
func (p *Pool) nodeOf(names []Hash, i int, tip int32, keys Keys, tokens []int32) int32 {
	parent := int32(none)
	if i > 0 {
		if parent = tip; p.tree.nodes[tip].name != names[i-1] {
			parent = p.tree.find(names[i-1])
		}
		if parent == none {
			parent = lost
		}
	}
	n := p.tree.find(names[i])
	if n == none {
		n = p.tree.add(names[i], keys, parent, tokens, p.now)
		if i > 0 {
			p.tree.nodes[n].before = names[i-1]
		}
		return n
	}
	if p.tree.nodes[n].parent == lost && parent != lost {
		p.tree.link(n, parent, keys)
	}
	return n
}

// Slide gives back the blocks before the windows of a sequence whose next token to compute is at position next.
func (p *Pool) Slide(t *Table, next int) {
	if p.full == len(p.cfg.Groups) {
		return
	}
	for g, gone := range t.gone {
		first := min(p.first(g, next), len(t.Blocks[g]))
		for i := int(gone); i < first; i++ {
			p.release(t.Blocks[g][i])
			t.Blocks[g][i] = none
			p.edited(t, g, i, none)
		}
		t.gone[g] = max(gone, int32(first))
	}
	t.count()
}

// Release gives back all that a table holds, from its last blocks to its first, and empties it.
func (p *Pool) Release(t *Table) {
	if t.Empty() {
		return
	}
	longest := 0
	for _, blocks := range t.Blocks {
		longest = max(longest, len(blocks))
	}
	for i := longest - 1; i >= 0; i-- {
		for _, blocks := range t.Blocks {
			if i < len(blocks) && blocks[i] != none {
				p.release(blocks[i])
			}
		}
	}
	if t.State >= 0 {
		p.states = append(p.states, t.State)
	}
	if invariants {
		for _, blocks := range t.Blocks {
			for i := range blocks[:cap(blocks)] {
				blocks[:cap(blocks)][i] = mangled
			}
		}
	}
	p.live--
	*t = Table{State: -1}
}

// canFork reports whether a table still has all that a sequence needs to go on after its first n tokens. A sequence
// with recurrent state never does.
func (p *Pool) canFork(t *Table, n int) bool {
	for g, gone := range t.gone {
		if p.first(g, n) < min(int(gone), p.BlocksFor(n)) {
			return false
		}
	}
	return p.cfg.States == 0
}

// fork lets an empty table hold the blocks of another's first n tokens, if canFork. Whoever of the two writes to the
// last of them first gets a copy; see Grow. It counts as a query for length tokens that found n.
func (p *Pool) fork(to, from *Table, n, length int) {
	p.stats.Queries += uint64(length)
	p.stats.Hits += uint64(n)
	blocks := p.BlocksFor(n)
	for g := range to.Blocks {
		for _, b := range from.Blocks[g][:blocks] {
			if b != none {
				p.blocks[b].refs++
			}
			to.Blocks[g] = append(to.Blocks[g], b)
		}
		to.gone[g] = min(from.gone[g], int32(blocks))
	}
	from.ready = 0 // its last block may be shared now
	to.count()
	to.Named = min(from.Named, int32(n/p.cfg.BlockTokens))
}
