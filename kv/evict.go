package kv

import (
	"math/bits"

	"github.com/kvasir-llm/kvasir/heap"
	"github.com/kvasir-llm/kvasir/named"
)

// policy is an order of cached blocks: the one of the lowest rank is evicted first, and of those of the same rank the
// one that was released first. The rank is that of the moment when a block is released.
type policy struct {
	rank func(p *Pool, n *node) int64
	// retains tells that a Retention counts.
	retains bool
}

// policies are all there are; the first is the default.
var policies = named.List[policy]{
	{Name: "lru", Help: "the least recently used", Is: policy{rank: func(*Pool, *node) int64 { return 0 }}},
	// What is used now starts from the rank of what was evicted last, so that old fame fades (LFUDA: Arlitt et al.,
	// Evaluating Content Management Techniques for Web Proxy Caches, 1999).
	{Name: "lfu", Help: "the least often, with ageing", Is: policy{
		rank: func(p *Pool, n *node) int64 { return p.age + int64(n.uses) },
	}},
	// The lowest priority first; see Retention.
	{Name: "priority", Help: "as requests ask", Is: policy{
		rank: func(_ *Pool, n *node) int64 { return int64(n.keep.Priority) }, retains: true,
	}},
}

// Policies returns the names that Config.Policy takes, the default first.
func Policies() []string { return policies.Names() }

// PolicyHelp says what they mean, as part of a sentence.
func PolicyHelp() string { return policies.Help() }

// Retention is what a sequence asks for its blocks under the policy priority. Of several sequences' wishes for a block
// the highest priority counts, and of these the longest time.
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
	for p.expiring.heap.Len() > 0 && p.blocks[p.expiring.heap.First()].due <= now {
		b := p.expiring.heap.First()
		p.expiring.remove(b)
		n := &p.tree.nodes[p.blocks[b].node]
		n.keep = Retention{}
		p.blocks[b].due, p.blocks[b].rank = 0, p.policy.rank(p, n)
		p.leaves.fix(b)
	}
}

// pushCached lets b, which has a name, be found and evicted.
func (p *Pool) pushCached(b BlockID) {
	n := &p.tree.nodes[p.blocks[b].node]
	n.last = p.now
	p.releases++
	p.blocks[b].stamp, p.blocks[b].rank, p.blocks[b].due = p.releases, p.policy.rank(p, n), 0
	if p.policy.retains && n.keep.TTL > 0 {
		p.blocks[b].due = p.now + n.keep.TTL
		p.expiring.push(b)
	}
	p.stats.Cached++
	if p.blocks[b].kids == 0 {
		p.leaves.push(b)
	}
}

// evictNext evicts the first cached block and returns it, in no list.
func (p *Pool) evictNext() BlockID {
	b := p.leaves.heap.First()
	p.storeEvicted(b)
	n := &p.tree.nodes[p.blocks[b].node]
	p.age = p.blocks[b].rank
	p.stats.Evictions++
	p.stats.Lifetime.add(p.now - n.born)
	p.stats.Idle.add(p.now - n.last)
	p.evict(b)
	return b
}

// evict takes the name from a cached leaf, which is then in no list.
func (p *Pool) evict(b BlockID) {
	p.leaves.remove(b)
	p.expiring.remove(b)
	p.stats.Cached--
	p.unname(b)
}

// Reset evicts all cached blocks and what lower tiers hold, but for what a sequence waits for: what nobody uses now is
// computed anew. It returns how many cached ones there were.
func (p *Pool) Reset() int {
	n, first := p.stats.Cached, len(p.events.list)
	for p.leaves.heap.Len() > 0 {
		b := p.leaves.heap.First()
		p.evict(b)
		p.pushFree(b)
	}
	p.cleared(first)
	for t := Device + 1; int(t) < len(p.tiers); t++ {
		s := &p.tiers[t]
		for at, name := range s.names {
			if name != (Name{}) && !p.awaited(Place{t, int32(at)}) {
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

// order is a heap of blocks, some of which are in it.
type order struct {
	heap heap.Heap[BlockID]
	at   []int32 // [blocks] none: not in it
}

func newOrder(blocks int, before func(a, b BlockID) bool) *order {
	o := &order{at: make([]int32, blocks)}
	for b := range o.at {
		o.at[b] = none
	}
	o.heap = heap.New(before, func(b BlockID, at int) { o.at[b] = int32(at) })
	return o
}

func (o *order) push(b BlockID) { o.heap.Push(b) }

// remove takes b out, if it is in.
func (o *order) remove(b BlockID) {
	if at := o.at[b]; at != none {
		o.heap.Remove(int(at))
	}
}

// fix restores the order after b has changed, if it is in.
func (o *order) fix(b BlockID) {
	if at := o.at[b]; at != none {
		o.heap.Fix(int(at))
	}
}
