package kv

import (
	"fmt"
	"slices"
)

// Tier numbers a memory that holds blocks, the fastest first. The Pool's own blocks are on the Device; the tiers below,
// from 1 on, store copies of those that it evicts, from which they can come back: Config.Tiers says which there are.
type Tier int8

// Device is the tier of the Pool's own blocks.
const Device Tier = 0

// MaxTiers is how many tiers there may be, the device among them.
const MaxTiers = 8

// String returns "device", or the tier's number.
func (t Tier) String() string {
	if t == Device {
		return "device"
	}
	return fmt.Sprintf("tier %d", int8(t))
}

// TierConfig is what a Pool knows of a tier below the device.
type TierConfig struct {
	Slots int // blocks that it can store
	// Slow: it does not answer at once. What it holds must arrive before a plan moves it to the device: see
	// Pool.Expect.
	Slow bool
	// Durable: what it stores outlives the Pool. See Pool.Flush.
	Durable bool
	// Landing: blocks come to it from elsewhere, and stay from Land to Withdraw. What is evicted is not stored in it,
	// and what it holds is loaded whatever Measured says.
	Landing bool
}

// Name names what a lower tier stores: a block's contents for one group of layers. The zero Name names nothing.
type Name struct {
	Hash  Hash
	Group int8
}

// Place is a block of the device, or a slot of a lower tier.
type Place struct {
	Tier Tier
	At   int32
}

// Move says that the contents called Name are to be copied from one place to another before a step.
type Move struct {
	Name     Name
	From, To Place
}

// Rates are measured times, in nanoseconds, that tell loading from computing. 0 is not measured yet.
type Rates struct {
	Token int64           // to compute one token of a prompt
	Block [MaxTiers]int64 // to load one block from a tier
}

// Load reports whether to load blocks from a tier rather than to compute the tokens that they hold. What was not
// measured yet is tried.
func (r Rates) Load(t Tier, blocks, tokens int) bool {
	return r.Token == 0 || int64(blocks)*r.Block[t] <= int64(tokens)*r.Token
}

// TierStats are the counters of a lower tier.
type TierStats struct {
	Slots, Used int    // how many blocks it can hold, and holds
	Stored      uint64 // blocks that were stored in it
	Loaded      uint64 // blocks that were to come back from it
	Lost        uint64 // of those, blocks that were not as they had been stored
	Evicted     uint64 // blocks evicted to make room
}

// tierSlots is the index of a lower tier: which of its slots holds what. The least recently used slot is given away
// first.
type tierSlots struct {
	names      []Name // [slots]
	index      map[Name]int32
	prev, next []int32  // [slots+1] a ring in order of use, from and to the last element
	held       []uint64 // [slots] the round in which it was last moved from or to, and may not be given away
	written    []uint64 // [slots] the round in which it was last moved to, and cannot be loaded yet
	stats      TierStats
}

func newTierSlots(slots int) tierSlots {
	s := tierSlots{
		names: make([]Name, slots), index: make(map[Name]int32, slots), prev: make([]int32, slots+1), next: make([]int32, slots+1),
		held: make([]uint64, slots), written: make([]uint64, slots), stats: TierStats{Slots: slots},
	}
	for i := range s.next {
		s.next[i], s.prev[(i+1)%(slots+1)] = int32((i+1)%(slots+1)), int32(i)
	}
	return s
}

// oldest returns the least recently used slot.
func (s *tierSlots) oldest() int32 { return s.next[len(s.names)] }

// touch makes slot at the most recently used one.
func (s *tierSlots) touch(at int32) { s.insert(at, s.prev[len(s.names)]) }

// insert takes slot at out of the ring and puts it after another.
func (s *tierSlots) insert(at, after int32) {
	if at == after {
		return
	}
	s.next[s.prev[at]], s.prev[s.next[at]] = s.next[at], s.prev[at]
	next := s.next[after]
	s.prev[at], s.next[at] = after, next
	s.next[after], s.prev[next] = at, at
}

// put says that slot at holds name.
func (s *tierSlots) put(at int32, name Name) {
	s.names[at] = name
	s.index[name] = at
	s.stats.Used++
	s.touch(at)
}

// drop empties slot at.
func (s *tierSlots) drop(at int32) {
	delete(s.index, s.names[at])
	s.names[at] = Name{}
	s.stats.Used--
	s.insert(at, int32(len(s.names)))
}

// tiered reports whether there is a lower tier.
func (p *Pool) tiered() bool { return len(p.cfg.Tiers) > 0 }

// atOnce reports whether a tier answers at once.
func (p *Pool) atOnce(t Tier) bool { return !p.cfg.Tiers[t-1].Slow }

// slow reports whether there is a tier that does not answer at once.
func (p *Pool) slow() bool {
	return slices.ContainsFunc(p.cfg.Tiers, func(t TierConfig) bool { return t.Slow })
}

// Measured tells the pool what loading and computing take, by which it decides what is worth storing and loading.
func (p *Pool) Measured(r Rates) { p.rates = r }

// Round begins a plan: the moves that follow are made for it, all before its step. Moves from the device come first,
// then the Copies, then the moves to the device; each kind in order.
func (p *Pool) Round(moves *[]Move) {
	p.round++
	p.moves = moves
}

// Adopt tells that a lower tier holds a block from before. Slots that do not exist, and names that are stored already,
// are left alone.
func (p *Pool) Adopt(name Name, at Place) {
	s := &p.tiers[at.Tier]
	if int(at.At) >= len(s.names) || int(name.Group) >= p.Groups() || s.names[at.At] != (Name{}) {
		return
	}
	if _, ok := s.index[name]; !ok {
		s.put(at.At, name)
	}
}

// Lost tells that a move cannot be made: a lower tier does not hold what it should, or could not take it. A sequence
// that waits for it goes on without.
func (p *Pool) Lost(m Move) {
	at := m.To
	if at == (Place{Device, none}) {
		p.missed(m)
	}
	if at.Tier == Device {
		at = m.From
	}
	s := &p.tiers[at.Tier]
	if s.names[at.At] != m.Name {
		return // the slot was given away meanwhile
	}
	if s.drop(at.At); m.To.Tier == Device {
		s.stats.Lost++
	}
}

// store copies what a place holds to the first tier below another that takes it: where loading so many blocks is faster
// than computing so many tokens.
func (p *Pool) store(name Name, from Place, below Tier, loads, tokens int) {
	for t := below + 1; int(t) < len(p.tiers); t++ {
		s := &p.tiers[t]
		if len(s.names) == 0 || p.cfg.Tiers[t-1].Landing || !p.cfg.StoreAll && !p.rates.Load(t, loads, tokens) {
			continue
		}
		if at, ok := s.index[name]; ok {
			s.touch(at)
			return
		}
		at := s.oldest()
		for range s.names { // those behind were used later
			if !p.awaited(Place{t, at}) {
				break
			}
			s.touch(at)
			at = s.oldest()
		}
		if p.awaited(Place{t, at}) {
			continue
		}
		old, oldFrom := s.names[at], Place{t, at}
		if s.held[at] == p.round { // this plan uses all: what it stored first makes room
			if s.written[at] != p.round {
				continue
			}
			oldFrom = p.cancel(oldFrom)
		}
		if old != (Name{}) {
			if p.readable(oldFrom) {
				p.store(old, oldFrom, t, p.Groups(), p.cfg.BlockTokens)
			}
			s.stats.Evicted++
			s.drop(at)
		}
		s.put(at, name)
		s.stats.Stored++
		s.held[at], s.written[at] = p.round, p.round
		*p.moves = append(*p.moves, Move{name, from, Place{t, at}})
		return
	}
}

// readable reports whether the plan's next move finds in a place what that held before the plan: no move of the plan
// writes there first, and no slow tier keeps it waiting. The device is written only after all moves from it.
func (p *Pool) readable(at Place) bool {
	return at.Tier == Device || p.atOnce(at.Tier) && p.tiers[at.Tier].written[at.At] != p.round
}

// cancel takes the move to a place out of the plan, and returns where it came from.
func (p *Pool) cancel(to Place) (from Place) {
	i := slices.IndexFunc(*p.moves, func(m Move) bool { return m.To == to })
	from = (*p.moves)[i].From
	*p.moves = slices.Delete(*p.moves, i, i+1)
	return from
}

// whence returns where name can be loaded from, and keeps that from being given away in this round.
func (p *Pool) whence(name Name, always bool) (Place, bool) {
	for t := Device + 1; int(t) < len(p.tiers); t++ {
		s := &p.tiers[t]
		at, ok := s.index[name]
		always := always || p.cfg.Tiers[t-1].Landing
		if ok && s.written[at] != p.round && (always || p.rates.Load(t, p.Groups(), p.cfg.BlockTokens)) {
			return Place{t, at}, true
		}
	}
	return Place{}, false
}

// keep keeps what a place holds until the plan is carried out.
func (p *Pool) keep(at Place) {
	s := &p.tiers[at.Tier]
	s.touch(at.At)
	s.held[at.At] = p.round
}

// load moves what a place holds to block b.
func (p *Pool) load(name Name, from Place, b BlockID) {
	if p.atOnce(from.Tier) {
		p.tiers[from.Tier].stats.Loaded++
	}
	p.blocks[b].loaded, p.lastLoad = p.round, p.round
	*p.moves = append(*p.moves, Move{name, from, Place{Device, b}})
}

// storeEvicted stores what block b holds, which is about to be evicted.
func (p *Pool) storeEvicted(b BlockID) {
	if !p.tiered() || p.moves == nil {
		return
	}
	n := &p.tree.nodes[p.blocks[b].node]
	if p.blocks[b].loaded == p.round { // it is not there yet, and still below
		p.cancel(Place{Device, b})
		p.blocks[b].loaded = 0
		return
	}
	p.store(Name{n.name, p.blocks[b].group}, Place{Device, b}, Device, p.Groups(), p.cfg.BlockTokens)
}

// String returns the name's first digits.
func (n Name) String() string { return n.Hash.String() }

// Flush lists the moves that store in a durable tier what is only in faster ones, if there is such a tier.
func (p *Pool) Flush(moves *[]Move) {
	durable := slices.IndexFunc(p.cfg.Tiers, func(t TierConfig) bool { return t.Durable })
	if durable < 0 {
		return
	}
	last, above := p.round, Tier(durable)
	p.Round(moves)
	for t := Device + 1; t <= above; t++ {
		for s, at := &p.tiers[t], p.tiers[t].oldest(); int(at) != len(s.names); at = s.next[at] {
			if s.names[at] != (Name{}) {
				p.store(s.names[at], Place{t, at}, above, p.Groups(), p.cfg.BlockTokens)
			}
		}
	}
	for i := range p.blocks {
		if n := p.blocks[i].node; n != none && p.blocks[i].loaded != last { // a plan that loads may not be carried out any more
			x := &p.tree.nodes[n]
			p.store(Name{x.name, p.blocks[i].group}, Place{Device, BlockID(i)}, above, p.Groups(), p.cfg.BlockTokens)
		}
	}
}
