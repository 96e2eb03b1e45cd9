// Package kv decides which block of the KV cache holds which tokens. A block is a fixed number of consecutive tokens of
// one sequence; this package counts who uses each block, finds blocks that already hold a wanted prefix, and chooses
// which ones to evict. It knows nothing of the memory behind a block, of devices, of clocks, or of when a sequence
// runs: it deals in block numbers. Read Pool first, then Table.
package kv

import (
	"fmt"
	"math"
)

// BlockID numbers a block of a Pool, from 0. It is the index of the block in the device's cache memory.
type BlockID = int32

// none stands for no block, and for no node.
const none = -1

// Config is what a Pool is made for.
type Config struct {
	Blocks      int // how many there are
	BlockTokens int // tokens that a block holds
	// Groups are the groups of layers that have block tables of their own; a block belongs to one group at a time. None
	// is one group of full attention.
	Groups []Group
	// States is how many slots there are for the recurrent state of sequences; 0: the model has none.
	States int
	// Policy says which cached block to evict first, by one of the names that Policies returns; "" is lru.
	Policy string
	// Events collects what happens to the contents of the cache; see Pool.Events. Without it that costs nothing.
	Events bool
	// Tiers are those below the device, the fastest first. StoreAll: evicted blocks are stored whatever Measured says.
	Tiers    []TierConfig
	StoreAll bool
}

// Group is a group of layers that keep the same tokens.
type Group struct {
	Window int // they attend to the last Window tokens, the own one included; 0: to all
}

// block is what a pool knows of one, in one cache line.
type block struct {
	refs   int32   // held by tables
	node   int32   // what it holds; none: it is unnamed
	kids   int32   // blocks of the same group that follow this one, if the group has no window
	next   BlockID // links the stack of free blocks
	rank   int64   // of a cached block: the lowest is evicted first
	stamp  uint64  // of blocks of the same rank, the lowest first: when it was released
	due    int64   // of a cached block: when it loses its priority; 0: never
	loaded uint64  // the round in which a move to it was planned
	group  int8    // of a named block
	_      [15]byte
}

// Pool keeps the books of a fixed number of blocks. Each block is in one of three states:
//
//   - used: at least one Table holds a reference;
//   - cached: no sequence holds it, but it bears a name (see Hash) and its contents can be found again;
//   - free: neither.
//
// A block gets its name once its tokens are all computed, and keeps it until it is evicted: when no block is free, a
// cached one is taken, which one is up to a policy. What has a name is a node of a tree: the contents of a block, with
// a block for each group that holds them and the nodes that follow it as children.
//
// Whoever holds a named block of a group with full attention also holds those before it, and of these groups a block is
// evicted only after those that follow it. So a chain is always evicted from its end, and every named block can be
// reached from the start of its chain. Blocks of groups with a window are of use without those before them.
//
// The pool keeps plain numbers in slices, and no operation allocates once the index has its size, but that one
// for each new salt. A Pool is used by one goroutine at a time. Wrong use (naming a block that is not held, a window in
// use given back) is a bug of the caller and panics.
type Pool struct {
	cfg    Config
	full   int // groups without a window
	policy policy
	now    int64 // what Tick said last

	blocks []block
	free   BlockID // the top of the stack of free blocks, or none

	releases uint64 // so far
	time     uint64 // how often what can be found became more
	age      int64  // the rank of the last block evicted
	leaves   *order // the cached blocks that may be evicted
	expiring *order // the cached blocks that will lose their priority

	tree   tree
	states []int32 // free slots for recurrent state
	pins   map[Hash]*Table
	live   int // tables that were not released
	events events
	edits  []Edit        // of bound tables, since Edits was called
	told   [][][]BlockID // by slot and group: what Edits has told so far, or will next, but for entries of the slot's table

	tiers    []tierSlots // by Tier; the first is not used
	rates    Rates
	round    uint64  // plans so far
	moves    *[]Move // of this plan
	lastLoad uint64  // the last round in which one was

	arrivals map[Name]*arrival // of slow tiers, that sequences wait for
	underway int               // of these, how many are not here
	fetches  []Move            // of these, what Fetches has not told yet

	stats Stats
}

// Stats are a pool's counters. Used, Cached and Free add up to Blocks.
type Stats struct {
	Blocks, Used, Cached, Free int
	Pinned                     int    // references that pins hold
	Queries                    uint64 // tokens of the sequences that looked for a cached prefix
	Hits                       uint64 // of those, tokens found
	Partial                    uint64 // of those, tokens found in blocks that went on differently
	Evictions                  uint64 // cached blocks evicted to make room
	Copies                     uint64 // blocks copied before they were written to

	Tiers [MaxTiers]TierStats // of the lower ones

	Lifetime Spans // of evicted blocks, from their naming to their eviction
	Idle     Spans // of evicted blocks, from their last use to their eviction
	Reuse    Spans // from one use of a block's contents to the next
}

// String prints the counters in a fixed order.
func (s Stats) String() string {
	return fmt.Sprintf("blocks: %d used, %d cached, %d free; prefix: %d of %d tokens; evictions: %d",
		s.Used, s.Cached, s.Free, s.Hits, s.Queries, s.Evictions)
}

// maxGroups is how many groups a Pool may have.
const maxGroups = math.MaxInt8

// New makes a pool of free blocks.
func New(cfg Config) (*Pool, error) {
	if cfg.Blocks < 1 || cfg.Blocks > math.MaxInt32 || cfg.BlockTokens < 1 || cfg.BlockTokens > math.MaxInt32 {
		return nil, fmt.Errorf("kv: a pool of %d blocks of %d tokens", cfg.Blocks, cfg.BlockTokens)
	}
	if cfg.States < 0 || len(cfg.Groups) > maxGroups {
		return nil, fmt.Errorf("kv: a pool of %d slots for states and %d groups of layers", cfg.States, len(cfg.Groups))
	}
	policy, err := policies.Find("kv: the eviction policy", cfg.Policy)
	if err != nil {
		return nil, err
	}
	if len(cfg.Groups) == 0 {
		cfg.Groups = []Group{{}}
	}
	n := cfg.Blocks
	p := &Pool{
		cfg: cfg, policy: policy, free: none,
		blocks: make([]block, n),
		tree:   newTree(n, len(cfg.Groups), cfg.BlockTokens), pins: make(map[Hash]*Table),
		arrivals: make(map[Name]*arrival),
		stats:    Stats{Blocks: n},
	}
	if len(cfg.Tiers) >= MaxTiers {
		return nil, fmt.Errorf("kv: %d tiers below the device; want at most %d", len(cfg.Tiers), MaxTiers-1)
	}
	p.tiers = make([]tierSlots, 1+len(cfg.Tiers))
	for i, t := range cfg.Tiers {
		if t.Slots < 0 || t.Slots > math.MaxInt32-1 || t.Slots > 0 && cfg.States > 0 {
			return nil, fmt.Errorf("kv: %d slots of %v, with %d slots for recurrent states, which are not stored", t.Slots, Tier(i+1), cfg.States)
		}
		p.tiers[i+1] = newTierSlots(t.Slots)
	}
	for i, g := range cfg.Groups {
		if g.Window < 0 {
			return nil, fmt.Errorf("kv: group %d of layers has a window of %d tokens", i, g.Window)
		}
		if g.Window == 0 {
			p.full++
		}
	}
	p.leaves = newOrder(n, func(a, b BlockID) bool {
		return p.blocks[a].rank < p.blocks[b].rank || p.blocks[a].rank == p.blocks[b].rank && p.blocks[a].stamp < p.blocks[b].stamp
	})
	p.expiring = newOrder(n, func(a, b BlockID) bool { return p.blocks[a].due < p.blocks[b].due })
	for b := BlockID(n - 1); b >= 0; b-- { // so that block 0 is handed out first
		p.blocks[b].node = none
		p.pushFree(b)
	}
	for s := int32(cfg.States - 1); s >= 0; s-- {
		p.states = append(p.states, s)
	}
	return p, nil
}

// BlocksFor returns the number of blocks of one group that hold n tokens.
func (p *Pool) BlocksFor(n int) int { return (n + p.cfg.BlockTokens - 1) / p.cfg.BlockTokens }

// Most returns how many blocks of all groups a sequence of n tokens may hold at once, if it computes up to chunk of
// them in a step and two steps are under way.
func (p *Pool) Most(n, chunk int) int { return p.cfg.Most(n, chunk) }

// Most is a Pool's.
func (c Config) Most(n, chunk int) int {
	blocks := func(n int) int { return (n + c.BlockTokens - 1) / c.BlockTokens }
	if len(c.Groups) == 0 {
		return blocks(n)
	}
	most := 0
	for _, g := range c.Groups {
		if g.Window == 0 {
			most += blocks(n)
		} else {
			most += min(blocks(n), blocks(g.Window-1+2*min(chunk, n))+1)
		}
	}
	return most
}

// Groups returns the number of groups of layers.
func (p *Pool) Groups() int { return len(p.cfg.Groups) }

// Available returns how many blocks can be handed out: the free and the cached ones.
func (p *Pool) Available() int { return p.stats.Free + p.stats.Cached }

// AvailableStates returns how many sequences could get a slot for their recurrent state; any number, if they need none.
func (p *Pool) AvailableStates() int {
	if p.cfg.States == 0 {
		return math.MaxInt
	}
	return len(p.states)
}

// Stats returns the counters.
func (p *Pool) Stats() Stats {
	s := p.stats
	for t := Device + 1; int(t) < len(p.tiers); t++ {
		s.Tiers[t] = p.tiers[t].stats
	}
	return s
}

// take returns a block with one reference, a free one if there is any. The caller knows that one is available.
func (p *Pool) take() BlockID {
	b := p.free
	if b != none {
		p.free = p.blocks[b].next
		p.stats.Free--
	} else {
		b = p.evictNext()
	}
	p.blocks[b].refs = 1
	p.stats.Used++
	return b
}

func (p *Pool) retain(b BlockID) {
	if p.blocks[b].refs == 0 {
		if p.blocks[b].node == none {
			panic(fmt.Sprintf("kv: block %d is free and cannot be shared", b))
		}
		p.leaves.remove(b)
		p.expiring.remove(b)
		p.stats.Cached--
		p.stats.Used++
	}
	p.blocks[b].refs++
}

func (p *Pool) release(b BlockID) {
	if p.blocks[b].refs == 0 {
		panic(fmt.Sprintf("kv: block %d is released but nobody holds it", b))
	}
	p.blocks[b].refs--
	if p.blocks[b].refs > 0 {
		return
	}
	p.stats.Used--
	if p.blocks[b].node == none {
		p.pushFree(b)
	} else {
		p.pushCached(b)
	}
}

func (p *Pool) pushFree(b BlockID) {
	p.blocks[b].next = p.free
	p.free = b
	p.stats.Free++
}
