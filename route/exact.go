package route

// Exact knows what the prefix caches of endpoints hold, from the events that engines publish. Engines name blocks as
// they like, and need not agree: an event brings the block's tokens, from which the block gets the name that
// TokenBlocks gives it.
type Exact struct {
	held  *table   // for each block the set of endpoints that hold it
	words int      // of a set
	names []*table // of each endpoint: the name of a block here, by the engine's name
}

// Block is a block that an engine says it holds.
type Block struct {
	Name   uint64 // the engine's
	Parent uint64 // the engine's name of the block before it; 0 for the first one of a prompt
	Seed   uint64 // of the first block of a prompt; see TokenBlocks. Of others, what else sets them apart; 0 is nothing
	Tokens []int32
}

// NewExact makes one for endpoints with the numbers 0 to endpoints-1.
func NewExact(endpoints int) *Exact {
	words := wordsFor(endpoints)
	x := &Exact{held: newTable(words), words: words, names: make([]*table, endpoints)}
	for i := range x.names {
		x.names[i] = newTable(1)
	}
	return x
}

// Held returns how many blocks an endpoint holds, as it told.
func (x *Exact) Held(endpoint int) int { return x.names[endpoint].len() }

// Store says that an endpoint holds a block from now on. It returns false if the endpoint never told of the block's
// parent: an event was missed, and the block cannot be found.
func (x *Exact) Store(endpoint int, b Block) bool {
	names, before := x.names[endpoint], b.Seed
	if b.Parent != 0 {
		parent := names.get(b.Parent)
		if parent == nil {
			return false
		}
		if before = parent[0]; b.Seed != 0 {
			before = chain(before, b.Seed)
		}
	}
	name := chain(before, tokensSum(b.Tokens))
	if own := names.put(b.Name); own[0] != name {
		if own[0] != 0 { // the engine gave the name to another block
			x.drop(endpoint, own[0])
		}
		own[0] = name
	}
	x.held.put(name)[endpoint/64] |= 1 << (endpoint % 64)
	return true
}

// Remove says that an endpoint does not hold a block any more, by the engine's name.
func (x *Exact) Remove(endpoint int, name uint64) {
	if own := x.names[endpoint].get(name); own != nil {
		x.drop(endpoint, own[0])
		x.names[endpoint].remove(name)
	}
}

// Clear says that an endpoint holds nothing.
func (x *Exact) Clear(endpoint int) {
	x.names[endpoint].all(func(_ uint64, own []uint64) { x.drop(endpoint, own[0]) })
	x.names[endpoint] = newTable(1)
}

func (x *Exact) drop(endpoint int, name uint64) {
	w := x.held.get(name)
	if w == nil {
		return
	}
	w[endpoint/64] &^= 1 << (endpoint % 64)
	for _, rest := range w {
		if rest != 0 {
			return
		}
	}
	x.held.remove(name)
}

// Match sets depth[e] to how many leading blocks of a prompt endpoint e holds.
func (x *Exact) Match(blocks []uint64, depth []int) { x.held.match(blocks, depth) }
