package kv

import (
	"fmt"
	"maps"
	"slices"
)

// Check verifies every invariant of the pool and names the first that is broken. It is meant for tests; it looks at
// every block.
func (p *Pool) Check() error {
	if err := p.checkLists(); err != nil {
		return err
	}
	if err := p.checkTree(); err != nil {
		return err
	}
	if err := p.checkArrivals(); err != nil {
		return err
	}
	for t := Device + 1; int(t) < len(p.tiers); t++ {
		if err := p.tiers[t].check(); err != nil {
			return fmt.Errorf("kv: %v: %w", t, err)
		}
	}
	kids, held := make([]int32, len(p.blocks)), make([]int32, len(p.blocks)) // of each block, over those that follow it
	for i := range p.blocks {
		n := p.blocks[i].node
		if n == none {
			continue
		}
		b, group := BlockID(i), int(p.blocks[i].group)
		if at := p.tree.block(n, group); at != b {
			return fmt.Errorf("kv: block %d is named %v, which the index gives to block %d", b, p.tree.nodes[n].name, at)
		}
		if up := p.before(b); up != none {
			kids[up]++
			held[up] += p.blocks[b].refs
		} else if p.cfg.Groups[group].Window == 0 && p.tree.nodes[n].parent != none {
			return fmt.Errorf("kv: block %d follows one that was evicted", b)
		}
	}
	for b := range p.blocks {
		if kids[b] != p.blocks[b].kids || held[b] > p.blocks[b].refs {
			return fmt.Errorf("kv: block %d is held %d times and says that %d follow it; %d do, held %d times",
				b, p.blocks[b].refs, p.blocks[b].kids, kids[b], held[b])
		}
	}
	return nil
}

// CheckTables verifies that these tables, which are all but those of pins, hold what the pool says that they hold.
func (p *Pool) CheckTables(tables []*Table) error {
	refs := make([]int, len(p.blocks))
	for _, t := range slices.AppendSeq(slices.Clone(tables), maps.Values(p.pins)) {
		if n := t.refer(refs); n != t.Held() {
			return fmt.Errorf("kv: a table holds %d blocks, and says %d", n, t.held)
		}
	}
	for b, n := range refs {
		if int(p.blocks[b].refs) != n {
			return fmt.Errorf("kv: block %d is in %d tables, the pool counts %d", b, n, p.blocks[b].refs)
		}
	}
	return nil
}

// refer adds to refs, which has an element for each block, the references that a table holds, and returns how many
// those are.
func (t *Table) refer(refs []int) (n int) {
	for _, blocks := range t.Blocks {
		for _, b := range blocks {
			if b != none {
				refs[b]++
				n++
			}
		}
	}
	return n
}

// CheckReady verifies that a sequence whose next token to compute is at position next may write where Grow takes it for
// granted.
func (p *Pool) CheckReady(t *Table, next int) error {
	for ; next < int(t.ready); next++ {
		for g := range t.Blocks {
			if b := p.written(t, g, next); b != none || next/p.cfg.BlockTokens >= len(t.Blocks[g]) {
				return fmt.Errorf("kv: block %d (-1: none) of group %d, for position %d, is not to be written", b, g, next)
			}
		}
	}
	return nil
}

// CheckClosed names what was not given back, once no sequence is left: tables, slots for states or pins. It is meant
// for tests.
func (p *Pool) CheckClosed() error {
	if p.live > 0 || p.stats.Used > 0 || len(p.states) != p.cfg.States {
		return fmt.Errorf("kv: not given back: %d tables (%d of them pins), which hold %d blocks, and %d slots for states",
			p.live, len(p.pins), p.stats.Used, p.cfg.States-len(p.states))
	}
	if len(p.arrivals) > 0 {
		return fmt.Errorf("kv: %d blocks of lower tiers are expected by no sequence", len(p.arrivals))
	}
	return nil
}

// checkLists verifies that every block is in the list of its state and in no other, and that the counters say so too.
func (p *Pool) checkLists() error {
	free := make([]bool, len(p.blocks))
	n := Stats{Blocks: len(p.blocks)}
	for b := p.free; b != none; b = p.blocks[b].next {
		if free[b] || p.blocks[b].refs != 0 || p.blocks[b].node != none {
			return fmt.Errorf("kv: block %d is listed as free (again: %v), has %d references and node %d", b, free[b], p.blocks[b].refs, p.blocks[b].node)
		}
		free[b] = true
		n.Free++
	}
	for i := range p.blocks {
		b, refs := BlockID(i), p.blocks[i].refs
		leaf, expires := p.leaves.at[b] != none, p.expiring.at[b] != none
		cached := refs == 0 && p.blocks[b].node != none
		switch {
		case refs < 0 || refs == 0 && !cached && !free[b]:
			return fmt.Errorf("kv: block %d has %d references, is not cached and not listed as free", b, refs)
		case leaf != (cached && p.blocks[b].kids == 0):
			return fmt.Errorf("kv: block %d can be evicted (%v): cached %v, followed by %d", b, leaf, cached, p.blocks[b].kids)
		case expires != (cached && p.blocks[b].due != 0):
			return fmt.Errorf("kv: block %d loses its priority (%v): cached %v, due at %d", b, expires, cached, p.blocks[b].due)
		case cached:
			n.Cached++
		case refs > 0:
			n.Used++
		}
	}
	for _, o := range []*order{p.leaves, p.expiring} {
		if b, wrong := o.heap.Check(func(b BlockID) int { return int(o.at[b]) }); wrong {
			return fmt.Errorf("kv: block %d is not in its place of an order, says %d", b, o.at[b])
		}
	}
	pinned := make([]int, len(p.blocks))
	for _, t := range p.pins {
		t.refer(pinned)
	}
	for b, k := range pinned {
		if n.Pinned += k; k > int(p.blocks[b].refs) {
			return fmt.Errorf("kv: block %d is pinned %d times and held %d times", b, k, p.blocks[b].refs)
		}
	}
	s := p.stats
	if s.Blocks != n.Blocks || s.Used != n.Used || s.Cached != n.Cached || s.Free != n.Free || s.Pinned != n.Pinned ||
		s.Hits > s.Queries || s.Partial > s.Hits || s.Evictions != s.Lifetime.Count || s.Evictions != s.Idle.Count {
		return fmt.Errorf("kv: counters say %v; counted %v", s, n)
	}
	return nil
}

// checkTree verifies that the index, the nodes and their families agree.
func (p *Pool) checkTree() error {
	t := &p.tree
	held, children := make([]int32, len(t.nodes)), 0
	for i, b := range t.blocks {
		if b == none {
			continue
		}
		if n := int32(i / t.groups); p.blocks[b].node != n || int(p.blocks[b].group) != i%t.groups {
			return fmt.Errorf("kv: block %d is said to hold node %d for group %d; it says %d, %d", b, n, i%t.groups, p.blocks[b].node, p.blocks[b].group)
		}
		held[i/t.groups]++
	}
	family := func(first, parent int32) error {
		older := int32(none)
		for n := first; n != none; n = t.nodes[n].next {
			if x := &t.nodes[n]; x.parent != parent || x.prev != older || t.find(x.name) != n {
				return fmt.Errorf("kv: %v is listed as a child of node %d; its parent is %d", x.name, parent, x.parent)
			}
			older = n
			children++
		}
		return nil
	}
	for keys, n := range t.roots {
		if t.nodes[n].keys != keys {
			return fmt.Errorf("kv: %v starts sequences of %v; it is listed under %v", t.nodes[n].name, t.nodes[n].keys, keys)
		}
		if err := family(n, none); err != nil {
			return err
		}
	}
	names := 0
	for n := range t.named() {
		x := &t.nodes[n]
		if at := t.find(x.name); at != n || x.held != held[n] {
			return fmt.Errorf("kv: node %d is %v in %d blocks; counted %d, and the index has node %d for that name", n, x.name, x.held, held[n], at)
		}
		names++
		if x.parent == lost {
			children++
		}
		if err := family(x.child, n); err != nil {
			return err
		}
	}
	if children != names || t.index.n != names {
		return fmt.Errorf("kv: the index holds %d names, families %d, and nodes %d", t.index.n, children, names)
	}
	unused := len(t.nodes) - names
	for n := t.free; n != none; n = t.nodes[n].next {
		if unused--; held[n] != 0 || t.nodes[n].held != 0 {
			return fmt.Errorf("kv: node %d is unused, but %d blocks hold it", n, held[n])
		}
	}
	if unused != 0 {
		return fmt.Errorf("kv: %d nodes are neither used nor unused", unused)
	}
	return nil
}

// check verifies that the index, the slots and their order agree.
func (s *tierSlots) check() error {
	used := 0
	for at, name := range s.names {
		if found, ok := s.index[name]; name != (Name{}) && (!ok || int(found) != at) {
			return fmt.Errorf("slot %d holds %v, which the index gives to %d", at, name.Hash, found)
		} else if name != (Name{}) {
			used++
		}
	}
	n := 0
	for at := s.oldest(); int(at) != len(s.names); at = s.next[at] {
		if n++; s.prev[s.next[at]] != at || n > len(s.names) {
			return fmt.Errorf("slot %d is not where it should be in the order of use", at)
		}
	}
	if n != len(s.names) || used != len(s.index) || used != s.stats.Used {
		return fmt.Errorf("%d of %d slots are in the order of use; %d hold names, the index has %d, the counters say %d",
			n, len(s.names), used, len(s.index), s.stats.Used)
	}
	return nil
}
