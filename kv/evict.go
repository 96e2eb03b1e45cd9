package kv

import (
	"fmt"
	"math/bits"
	"strings"
)

// policy is an order of cached blocks: the one of the lowest rank is evicted first, and of those of the same rank the one
// that was released first. The rank is that of the moment when a block is released.
type policy struct {
	name string
	rank func(p *Pool, n *node) int64
	// retains tells that a Retention counts.
	retains bool
}

// policies are all there are; the first is the default.
var policies = []policy{
	// The least recently used first.
	{name: "lru", rank: func(*Pool, *node) int64 { return 0 }},
	// The least frequently used first, with dynamic ageing: what is used now starts from the rank of what was evicted last,
	// so that old fame fades (LFUDA: Arlitt et al., Evaluating Content Management Techniques for Web Proxy Caches, 1999).
	{name: "lfu", rank: func(p *Pool, n *node) int64 { return p.age + int64(n.uses) }},
	// The lowest priority first; see Retention.
	{name: "priority", rank: func(_ *Pool, n *node) int64 { return int64(n.keep.Priority) }, retains: true},
}

// Policies returns the names that Config.Policy takes, the default first.
func Policies() []string {
	var names []string
	for _, p := range policies {
		names = append(names, p.name)
	}
	return names
}

func findPolicy(name string) (policy, error) {
	if name == "" {
		return policies[0], nil
	}
	for _, p := range policies {
		if p.name == name {
			return p, nil
		}
	}
	return policy{}, fmt.Errorf("kv: eviction policy %q; want one of %s", name, strings.Join(Policies(), ", "))
}

// Retention is what a sequence asks for its blocks under the policy priority. Of several sequences' wishes for a block the
// highest priority counts, and of these the longest time.
type Retention struct {
	Priority int   // those of a lower one are evicted first; 0 is the usual
	TTL      int64 // how long after its last use a block keeps the priority, in ticks; 0: as long as it is there
}

// join makes r what both ask for.
func (r *Retention) join(o Retention) {
	switch {
	case o.Priority > r.Priority:
		*r = o
	case o.Priority == r.Priority && (o.TTL == 0 || r.TTL != 0 && o.TTL > r.TTL):
		r.TTL = o.TTL
	}
}

// Retains reports whether the pool's policy makes use of a Retention.
func (p *Pool) Retains() bool { return p.policy.retains }

// Tick tells the time, in a unit of the caller's choice. Blocks whose time is over lose their priority.
func (p *Pool) Tick(now int64) {
	p.now = now
	for len(p.expiring.heap) > 0 && p.due[p.expiring.heap[0]] <= now {
		b := p.expiring.heap[0]
		p.expiring.remove(b)
		n := &p.tree.nodes[p.node[b]]
		n.keep = Retention{}
		p.due[b], p.rank[b] = 0, p.policy.rank(p, n)
		p.leaves.fix(b)
	}
}

// pushCached lets b, which has a name, be found and evicted.
func (p *Pool) pushCached(b BlockID) {
	n := &p.tree.nodes[p.node[b]]
	n.last = p.now
	p.releases++
	p.stamp[b], p.rank[b], p.due[b] = p.releases, p.policy.rank(p, n), 0
	if p.policy.retains && n.keep.TTL > 0 {
		p.due[b] = p.now + n.keep.TTL
		p.expiring.push(b)
	}
	p.stats.Cached++
	if p.kids[b] == 0 {
		p.leaves.push(b)
	}
}

// evict forgets the first cached block and returns it, in no list.
func (p *Pool) evict() BlockID {
	b := p.leaves.heap[0]
	p.storeEvicted(b)
	n := &p.tree.nodes[p.node[b]]
	p.age = p.rank[b]
	p.stats.Evictions++
	p.stats.Lifetime.add(p.now - n.born)
	p.stats.Idle.add(p.now - n.last)
	p.forget(b)
	return b
}

// forget takes the name from a cached leaf, which is then in no list.
func (p *Pool) forget(b BlockID) {
	p.leaves.remove(b)
	p.expiring.remove(b)
	p.stats.Cached--
	p.unname(b)
}

// Reset forgets all cached blocks and what lower tiers hold: what nobody uses now is computed anew. It returns how many
// cached ones there were.
func (p *Pool) Reset() int {
	n, first := p.stats.Cached, len(p.events.list)
	for len(p.leaves.heap) > 0 {
		b := p.leaves.heap[0]
		p.forget(b)
		p.pushFree(b)
	}
	p.cleared(first)
	for t := Host; t < Tiers; t++ {
		s := &p.shelves[t]
		for at, name := range s.names {
			if name != (Name{}) {
				s.drop(int32(at))
			}
		}
	}
	return n
}

// Spans counts lengths of time, in ticks. Log2[i] of them were shorter than 2^i, but not shorter than 2^(i-1).
type Spans struct {
	Count, Sum uint64
	Log2       [32]uint64
}

func (s *Spans) add(d int64) {
	v := uint64(max(0, d))
	s.Count++
	s.Sum += v
	s.Log2[min(bits.Len64(v), len(s.Log2)-1)]++
}

// order is a binary heap of blocks, each of which knows its place, so that one can leave from the middle.
type order struct {
	heap []BlockID
	at   []int32 // [blocks] none: not in it
	less func(a, b BlockID) bool
}

func newOrder(blocks int, less func(a, b BlockID) bool) order {
	o := order{heap: make([]BlockID, 0, blocks), at: make([]int32, blocks), less: less}
	for b := range o.at {
		o.at[b] = none
	}
	return o
}

func (o *order) push(b BlockID) {
	o.at[b] = int32(len(o.heap))
	o.heap = append(o.heap, b)
	o.fix(b)
}

// remove takes b out, if it is in.
func (o *order) remove(b BlockID) {
	at := o.at[b]
	if at == none {
		return
	}
	last := len(o.heap) - 1
	moved := o.heap[last]
	o.heap[at], o.at[moved] = moved, at
	o.heap, o.at[b] = o.heap[:last], none
	o.fix(moved)
}

// fix restores the order after b has changed, if it is in.
func (o *order) fix(b BlockID) {
	at := int(o.at[b])
	if at == none {
		return
	}
	for at > 0 && o.less(b, o.heap[(at-1)/2]) {
		o.put(at, o.heap[(at-1)/2])
		at = (at - 1) / 2
	}
	for {
		kid := 2*at + 1
		if kid >= len(o.heap) {
			break
		}
		if kid+1 < len(o.heap) && o.less(o.heap[kid+1], o.heap[kid]) {
			kid++
		}
		if !o.less(o.heap[kid], b) {
			break
		}
		o.put(at, o.heap[kid])
		at = kid
	}
	o.put(at, b)
}

func (o *order) put(at int, b BlockID) { o.heap[at], o.at[b] = b, int32(at) }
