package kv

import "fmt"

// Check verifies every invariant of the pool and names the first that is broken. It is meant for tests; it looks at
// every block.
func (p *Pool) Check() error {
	age, err := p.checkLists()
	if err != nil {
		return err
	}
	named := 0
	for i := range p.refs {
		b := BlockID(i)
		if p.name[b] == (Hash{}) {
			if p.parent[b] != none {
				return fmt.Errorf("kv: block %d has no name but a parent, block %d", b, p.parent[b])
			}
			continue
		}
		named++
		if at, ok := p.index[p.name[b]]; !ok || at != b {
			return fmt.Errorf("kv: block %d is named %v, which the index gives to block %d (%v)", b, p.name[b], at, ok)
		}
		if err := p.checkParent(b, age); err != nil {
			return err
		}
	}
	if named != len(p.index) {
		return fmt.Errorf("kv: %d blocks bear a name, the index holds %d", named, len(p.index))
	}
	return nil
}

// checkLists verifies that every block is in the list of its state and in no other, that the counters say so too, and
// returns the place of each cached block in the order of eviction (0: not cached).
func (p *Pool) checkLists() (age []int, err error) {
	n := len(p.refs)
	age = make([]int, n)
	listed := make([]bool, n)
	free, cached, used := 0, 0, 0
	for b := p.free; b != none; b = p.next[b] {
		if listed[b] || p.refs[b] != 0 || p.name[b] != (Hash{}) {
			return nil, fmt.Errorf("kv: block %d is listed as free (again: %v), has %d references and name %v",
				b, listed[b], p.refs[b], p.name[b])
		}
		listed[b] = true
		free++
	}
	for b := p.next[n]; b != BlockID(n); b = p.next[b] {
		if listed[b] || p.refs[b] != 0 || p.name[b] == (Hash{}) || p.prev[p.next[b]] != b {
			return nil, fmt.Errorf("kv: block %d is listed as cached (again: %v), has %d references and name %v",
				b, listed[b], p.refs[b], p.name[b])
		}
		listed[b] = true
		cached++
		age[b] = cached
	}
	for b, refs := range p.refs {
		if refs < 0 || (refs == 0) != listed[b] {
			return nil, fmt.Errorf("kv: block %d has %d references, listed as free or cached: %v", b, refs, listed[b])
		}
		if refs > 0 {
			used++
		}
		if refs > 1 && p.name[b] == (Hash{}) {
			return nil, fmt.Errorf("kv: block %d has no name but is shared by %d", b, refs)
		}
	}
	s := p.stats
	if s.Blocks != n || s.Used != used || s.Cached != cached || s.Free != free || s.Hits > s.Queries {
		return nil, fmt.Errorf("kv: counters say %v; counted %d used, %d cached, %d free", s, used, cached, free)
	}
	return age, nil
}

// checkParent verifies that the named block b can be reached from the start of its chain and is evicted before its
// parent.
func (p *Pool) checkParent(b BlockID, age []int) error {
	parent := p.parent[b]
	switch {
	case parent == none:
		return nil
	case p.name[parent] == (Hash{}):
		return fmt.Errorf("kv: block %d follows block %d, which was forgotten", b, parent)
	case p.refs[parent] < p.refs[b]:
		return fmt.Errorf("kv: block %d is held %d times, block %d before it only %d times",
			b, p.refs[b], parent, p.refs[parent])
	case p.refs[parent] == 0 && age[parent] < age[b]:
		return fmt.Errorf("kv: block %d would be evicted before block %d that follows it", parent, b)
	}
	return nil
}
