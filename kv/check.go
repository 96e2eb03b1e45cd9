package kv

import "fmt"

// Check verifies every invariant of the pool and names the first that is broken. It is meant for tests; it looks at
// every block.
func (p *Pool) Check() error {
	if err := p.checkLists(); err != nil {
		return err
	}
	if err := p.checkTree(); err != nil {
		return err
	}
	for t := Host; t < Tiers; t++ {
		if err := p.shelves[t].check(); err != nil {
			return fmt.Errorf("kv: the %v: %w", t, err)
		}
	}
	kids, held := make([]int32, len(p.refs)), make([]int32, len(p.refs)) // of each block, over those that follow it
	for i, n := range p.node {
		if n == none {
			continue
		}
		b, group := BlockID(i), int(p.group[i])
		if at := p.tree.block(n, group); at != b {
			return fmt.Errorf("kv: block %d is named %v, which the index gives to block %d", b, p.tree.nodes[n].name, at)
		}
		if up := p.before(b); up != none {
			kids[up]++
			held[up] += p.refs[b]
		} else if p.cfg.Groups[group].Window == 0 && p.tree.nodes[n].parent != none {
			return fmt.Errorf("kv: block %d follows one that was forgotten", b)
		}
	}
	for b := range p.refs {
		if kids[b] != p.kids[b] || held[b] > p.refs[b] {
			return fmt.Errorf("kv: block %d is held %d times and says that %d follow it; %d do, held %d times",
				b, p.refs[b], p.kids[b], kids[b], held[b])
		}
	}
	return nil
}

// checkLists verifies that every block is in the list of its state and in no other, and that the counters say so too.
func (p *Pool) checkLists() error {
	free := make([]bool, len(p.refs))
	n := Stats{Blocks: len(p.refs)}
	for b := p.free; b != none; b = p.next[b] {
		if free[b] || p.refs[b] != 0 || p.node[b] != none {
			return fmt.Errorf("kv: block %d is listed as free (again: %v), has %d references and node %d", b, free[b], p.refs[b], p.node[b])
		}
		free[b] = true
		n.Free++
	}
	for i, refs := range p.refs {
		b := BlockID(i)
		leaf, expires := p.leaves.at[b] != none, p.expiring.at[b] != none
		cached := refs == 0 && p.node[b] != none
		switch {
		case refs < 0 || refs == 0 && !cached && !free[b]:
			return fmt.Errorf("kv: block %d has %d references, is not cached and not listed as free", b, refs)
		case leaf != (cached && p.kids[b] == 0):
			return fmt.Errorf("kv: block %d can be evicted (%v): cached %v, followed by %d", b, leaf, cached, p.kids[b])
		case expires != (cached && p.due[b] != 0):
			return fmt.Errorf("kv: block %d loses its priority (%v): cached %v, due at %d", b, expires, cached, p.due[b])
		case cached:
			n.Cached++
		case refs > 0:
			n.Used++
		}
	}
	for _, o := range []*order{&p.leaves, &p.expiring} {
		for at, b := range o.heap {
			if o.at[b] != int32(at) || at > 0 && o.less(b, o.heap[(at-1)/2]) {
				return fmt.Errorf("kv: block %d is in place %d of an order, says %d", b, at, o.at[b])
			}
		}
	}
	pinned := make([]int, len(p.refs))
	p.PinnedRefs(pinned)
	for b, k := range pinned {
		if n.Pinned += k; k > int(p.refs[b]) {
			return fmt.Errorf("kv: block %d is pinned %d times and held %d times", b, k, p.refs[b])
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
		if n := int32(i / t.groups); p.node[b] != n || int(p.group[b]) != i%t.groups {
			return fmt.Errorf("kv: block %d is said to hold node %d for group %d; it says %d, %d", b, n, i%t.groups, p.node[b], p.group[b])
		}
		held[i/t.groups]++
	}
	family := func(first, parent int32) error {
		older := int32(none)
		for n := first; n != none; n = t.nodes[n].next {
			if x := &t.nodes[n]; x.parent != parent || x.prev != older || t.index[x.key] != n {
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
	for k, n := range t.index {
		x := &t.nodes[n]
		if x.key != k || x.held == 0 || x.held != held[n] {
			return fmt.Errorf("kv: the index gives %v to node %d, which is %v in %d blocks; counted %d", k.name, n, x.name, x.held, held[n])
		}
		if x.parent == lost {
			children++
		}
		if err := family(x.child, n); err != nil {
			return err
		}
	}
	if children != len(t.index) {
		return fmt.Errorf("kv: the index holds %d names, families %d", len(t.index), children)
	}
	unused := len(t.nodes) - len(t.index)
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
func (s *shelf) check() error {
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
