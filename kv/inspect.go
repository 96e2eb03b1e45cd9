package kv

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
)

// Pin keeps the longest cached prefix of a sequence from being evicted until Unpin, as if a sequence held it. names are
// those of the sequence's full blocks. It returns how many tokens are pinned. Pins may hold most references to blocks
// in all; Pin refuses more.
func (p *Pool) Pin(names []Hash, keys Keys, tokens []int32, most int) (int, error) {
	var m Prefix
	p.match(&m, names, keys, tokens)
	p.cut(&m)
	if m.blocks == 0 || p.pins[names[m.blocks-1]] != nil {
		return m.Tokens, nil
	}
	need := 0
	for g := range p.cfg.Groups {
		need += m.blocks - p.first(g, m.Tokens)
	}
	if p.stats.Pinned+need > most {
		return 0, fmt.Errorf("kv: %d tokens need %d blocks to be pinned; %d are pinned already, and at most %d may be",
			m.Tokens, need, p.stats.Pinned, most)
	}
	t := p.newTable(m.Tokens, keys, Retention{})
	p.hold(&t, &m)
	p.pins[names[m.blocks-1]] = &t
	p.stats.Pinned += need
	return m.Tokens, nil
}

// Unpin undoes the Pin of the same sequence. If that pinned fewer blocks than there are names, it looks for the longest
// prefix that is pinned. It returns how many tokens are not pinned any more.
func (p *Pool) Unpin(names []Hash) int {
	for i := len(names) - 1; i >= 0; i-- {
		if t := p.pins[names[i]]; t != nil {
			p.unpin(names[i], t)
			return (i + 1) * p.cfg.BlockTokens
		}
	}
	return 0
}

// unpin undoes one Pin, named by its last block.
func (p *Pool) unpin(name Hash, t *Table) {
	p.stats.Pinned -= t.Held()
	p.Release(t)
	delete(p.pins, name)
}

// pinned returns the names of the pins, in order.
func (p *Pool) pinned() []Hash {
	return slices.SortedFunc(maps.Keys(p.pins), func(a, b Hash) int { return bytes.Compare(a[:], b[:]) })
}

// Contents tells what is known of the contents of one or more blocks, one for each group of layers that holds them.
type Contents struct {
	Name, Parent Hash // Parent is zero where a sequence starts, and where the parent was evicted
	Tokens       []int32
	Refs         int   // the most that any of its blocks has
	Blocks       int   // blocks that hold it
	Uses         int   // sequences that computed or found it
	Named, Used  int64 // when it got its name, and when it was used last, in ticks
	Priority     int
}

// Inspect returns a snapshot of all that the cache can be searched for, in no order.
func (p *Pool) Inspect() []Contents {
	var all []Contents
	for n := range p.tree.named() {
		x := &p.tree.nodes[n]
		c := Contents{
			Name: x.name, Tokens: append([]int32(nil), p.tree.contents(n)...), Blocks: int(x.held), Uses: int(x.uses),
			Named: x.born, Used: x.last, Priority: x.keep.Priority,
		}
		if x.parent >= 0 {
			c.Parent = p.tree.nodes[x.parent].name
		}
		for g := range p.cfg.Groups {
			if b := p.tree.block(n, g); b != none {
				c.Refs = max(c.Refs, int(p.blocks[b].refs))
			}
		}
		all = append(all, c)
	}
	return all
}
