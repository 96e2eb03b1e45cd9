// Package kv decides which block of the KV cache holds which tokens. A block is a fixed number of consecutive tokens of
// one sequence; this package counts who uses each block, finds blocks that already hold a wanted prefix, and chooses
// which ones to forget. It knows nothing of the memory behind a block, of devices, or of when a sequence runs: it deals
// in block numbers. Read Pool first.
package kv

import (
	"fmt"
	"sort"
)

// BlockID numbers a block of a Pool, from 0. It is the index of the block in the device's cache memory.
type BlockID = int32

// none stands for no block.
const none BlockID = -1

// Pool keeps the books of a fixed number of blocks. Each block is in one of three states:
//
//   - used: at least one sequence holds a reference;
//   - cached: no one holds it, but it bears a name (see Hash) and its contents can be found again;
//   - free: neither.
//
// A block gets its name once its tokens are all computed, and keeps it until it is evicted: when no block is free, the
// least recently used cached one is taken. Whoever holds a named block also holds the blocks before it, and blocks are
// released from the end of a sequence to its start, so the least recently used cached block never has a cached successor:
// a chain is always evicted from its end, and every named block can be reached from the start of its chain.
//
// Per block the pool keeps plain numbers in parallel slices, and no operation allocates once the index has its size. A
// Pool is used by one goroutine at a time. Wrong use (releasing a block nobody holds, naming it twice) is a bug of the
// caller and panics.
type Pool struct {
	blockTokens int

	refs   []int32   // [blocks] references held by sequences
	name   []Hash    // [blocks] zero: unnamed
	since  []uint64  // [blocks] when a named block got its name, in names given
	parent []BlockID // [blocks] the named block before a named one; none: it starts a chain, or is unnamed

	// Links of the list a block is in: free blocks form a stack from free along next; cached blocks form a ring through
	// the sentinel, whose next is the least recently used. A used block is in neither.
	prev, next []BlockID // [blocks+1] the last element is the sentinel
	free       BlockID   // top of the stack of free blocks, or none

	index map[Hash]BlockID
	given uint64 // names given so far
	stats Stats
}

// Stats are a pool's counters. Used, Cached and Free add up to Blocks.
type Stats struct {
	Blocks, Used, Cached, Free int
	Queries                    uint64 // tokens of the sequences that looked for a cached prefix
	Hits                       uint64 // of those, tokens found
	Evictions                  uint64 // cached blocks forgotten to make room
}

// String prints the counters in a fixed order.
func (s Stats) String() string {
	return fmt.Sprintf("blocks: %d used, %d cached, %d free; prefix: %d of %d tokens; evictions: %d",
		s.Used, s.Cached, s.Free, s.Hits, s.Queries, s.Evictions)
}

// NewPool makes a pool of free blocks of blockTokens tokens each. Both must be positive.
func NewPool(blocks, blockTokens int) *Pool {
	if blocks < 1 || blockTokens < 1 {
		panic(fmt.Sprintf("kv: a pool of %d blocks of %d tokens", blocks, blockTokens))
	}
	p := &Pool{
		blockTokens: blockTokens,
		refs:        make([]int32, blocks),
		name:        make([]Hash, blocks),
		since:       make([]uint64, blocks),
		parent:      make([]BlockID, blocks),
		prev:        make([]BlockID, blocks+1),
		next:        make([]BlockID, blocks+1),
		free:        none,
		index:       make(map[Hash]BlockID, blocks),
		stats:       Stats{Blocks: blocks},
	}
	sentinel := BlockID(blocks)
	p.prev[sentinel], p.next[sentinel] = sentinel, sentinel
	for b := BlockID(blocks - 1); b >= 0; b-- { // so that block 0 is handed out first
		p.parent[b] = none
		p.pushFree(b)
	}
	return p
}

// BlockTokens returns the number of tokens that a block holds.
func (p *Pool) BlockTokens() int { return p.blockTokens }

// BlocksFor returns the number of blocks that hold n tokens.
func (p *Pool) BlocksFor(n int) int { return (n + p.blockTokens - 1) / p.blockTokens }

// Available returns how many blocks Alloc can hand out: the free and the cached ones.
func (p *Pool) Available() int { return p.stats.Free + p.stats.Cached }

// Refs returns how many references to b are held.
func (p *Pool) Refs(b BlockID) int { return int(p.refs[b]) }

// Stats returns the counters.
func (p *Pool) Stats() Stats { return p.stats }

// Alloc appends n blocks with one reference each to table, taking free blocks first and evicting cached ones after. If
// fewer are available it changes nothing and returns false.
func (p *Pool) Alloc(table []BlockID, n int) ([]BlockID, bool) {
	if n > p.Available() {
		return table, false
	}
	for range n {
		b := p.free
		if b != none {
			p.free = p.next[b]
			p.stats.Free--
		} else {
			b = p.evict()
		}
		p.refs[b] = 1
		p.stats.Used++
		table = append(table, b)
	}
	return table, true
}

// Release gives back one reference to each block of a sequence's table, from the last block to the first.
func (p *Pool) Release(table []BlockID) {
	for i := len(table) - 1; i >= 0; i-- {
		p.release(table[i])
	}
}

// Match appends to chain the cached or used blocks that bear the longest possible prefix of names, which are the names
// of consecutive blocks from the start of a sequence. It takes no references: see Share.
func (p *Pool) Match(chain []BlockID, names []Hash) []BlockID {
	for _, h := range names {
		b, ok := p.index[h]
		if !ok {
			break
		}
		chain = append(chain, b)
	}
	return chain
}

// Rematch brings a chain that Match or Rematch found for a beginning of names up to date and returns it and the time, which
// the next Rematch wants to know; 0 is that of an empty chain. It looks only at what has changed: a chain is evicted from
// its end, so if its last block still bears the name from then, so do all before it.
func (p *Pool) Rematch(chain []BlockID, names []Hash, time uint64) ([]BlockID, uint64) {
	n := min(len(chain), len(names))
	for ; n > 0; n-- {
		if b := chain[n-1]; p.name[b] == names[n-1] && p.since[b] <= time {
			break
		}
	}
	return p.Match(chain[:n], names[n:]), p.given
}

// Unused returns how many blocks of a chain nobody holds. Sharing the chain makes that many fewer available. Who holds a
// block also holds those before it, so they are its last ones.
func (p *Pool) Unused(chain []BlockID) int {
	return len(chain) - sort.Search(len(chain), func(i int) bool { return p.refs[chain[i]] == 0 })
}

// Share takes a reference to each block of a chain that Match found for a sequence of tokens tokens, and counts the
// query and its hits.
func (p *Pool) Share(chain []BlockID, tokens int) {
	for _, b := range chain {
		p.retain(b)
	}
	p.stats.Queries += uint64(tokens)
	p.stats.Hits += uint64(len(chain) * p.blockTokens)
}

// Register names block b, whose tokens are now all computed, so that Match finds it. before is the part of the sequence's
// table that precedes b; all of it must be named and held. The result is the block that the sequence holds from now on:
// b, or, if an equal block already bears the name, that one, with b released in its favour.
func (p *Pool) Register(before []BlockID, b BlockID, h Hash) BlockID {
	parent := none
	if len(before) > 0 {
		parent = before[len(before)-1]
	}
	if p.refs[b] != 1 || p.name[b] != (Hash{}) || h == (Hash{}) {
		panic(fmt.Sprintf("kv: block %d (%d references, name %v) cannot be named %v", b, p.refs[b], p.name[b], h))
	}
	if parent != none && (p.refs[parent] == 0 || p.name[parent] == (Hash{})) {
		panic(fmt.Sprintf("kv: block %d follows block %d, which is unused or has no name", b, parent))
	}
	if equal, ok := p.index[h]; ok {
		p.retain(equal)
		p.release(b)
		return equal
	}
	p.given++
	p.name[b], p.parent[b], p.since[b] = h, parent, p.given
	p.index[h] = b
	return b
}

func (p *Pool) retain(b BlockID) {
	if p.refs[b] == 0 {
		if p.name[b] == (Hash{}) {
			panic(fmt.Sprintf("kv: block %d is free and cannot be shared", b))
		}
		p.unlink(b)
		p.stats.Used++
	}
	p.refs[b]++
}

func (p *Pool) release(b BlockID) {
	if p.refs[b] == 0 {
		panic(fmt.Sprintf("kv: block %d is released but nobody holds it", b))
	}
	p.refs[b]--
	if p.refs[b] > 0 {
		return
	}
	p.stats.Used--
	if p.name[b] == (Hash{}) {
		p.pushFree(b)
	} else {
		p.pushCached(b)
	}
}

// evict forgets the least recently used cached block and returns it, in no list.
func (p *Pool) evict() BlockID {
	b := p.next[len(p.refs)]
	p.unlink(b)
	delete(p.index, p.name[b])
	p.name[b], p.parent[b] = Hash{}, none
	p.stats.Evictions++
	return b
}

func (p *Pool) pushFree(b BlockID) {
	p.next[b] = p.free
	p.free = b
	p.stats.Free++
}

// pushCached makes b the most recently used cached block.
func (p *Pool) pushCached(b BlockID) {
	sentinel := BlockID(len(p.refs))
	last := p.prev[sentinel]
	p.prev[b], p.next[b] = last, sentinel
	p.next[last], p.prev[sentinel] = b, b
	p.stats.Cached++
}

// unlink takes b out of the ring of cached blocks.
func (p *Pool) unlink(b BlockID) {
	p.next[p.prev[b]] = p.next[b]
	p.prev[p.next[b]] = p.prev[b]
	p.stats.Cached--
}
