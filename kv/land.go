package kv

// Names returns the names of the full blocks of a sequence that begins with tokens. root is what Root returns.
func Names(root Hash, tokens []int32, blockTokens int, keys Keys) []Hash {
	names := make([]Hash, 0, len(tokens)/blockTokens)
	for parent := root; len(tokens) >= blockTokens; tokens = tokens[blockTokens:] {
		parent = HashBlock(parent, tokens[:blockTokens], keys)
		names, keys = append(names, parent), Keys{}
	}
	return names
}

// Land gives a block that comes from elsewhere a slot of a tier that is Landing; At is -1 if the tier holds the block
// already. It returns false if there is no free slot.
func (p *Pool) Land(name Name, t Tier) (Place, bool) {
	s := &p.tiers[t]
	if _, ok := s.index[name]; ok {
		return Place{t, none}, true
	}
	at := s.oldest() // empty ones are in front
	if len(s.names) == 0 || s.names[at] != (Name{}) {
		return Place{}, false
	}
	s.put(at, name)
	s.stats.Stored++
	return Place{t, at}, true
}

// Withdraw empties the slot that Land has given a block, if it still holds it. A plan that has not begun and is to load
// it loses it.
func (p *Pool) Withdraw(name Name, at Place) {
	if s := &p.tiers[at.Tier]; s.names[at.At] == name {
		s.drop(at.At)
	}
}

// Reach returns how many of the first blocks of a sequence need not be computed, as an offer to it would find them.
// names are those of the full blocks of tokens.
func (p *Pool) Reach(names []Hash, keys Keys, tokens []int32) int {
	var o Offer
	p.Offer(&o, Want{Keys: keys, Length: len(tokens) + 1, Rows: 1, Lookup: true, Names: names, Tokens: tokens, Stored: true})
	return o.blocks
}

// Read lists where the device has what another pool needs to go on after the first blocks of a sequence, of which it
// has some: of the blocks from number from on, and below to. names are those of the full blocks of tokens.
func (p *Pool) Read(names []Hash, keys Keys, tokens []int32, from, to int) (list []Move) {
	var m Prefix
	p.match(&m, names, keys, tokens)
	for i := from; i < min(m.blocks, to); i++ {
		for g := range p.cfg.Groups {
			if i >= p.first(g, m.blocks*p.cfg.BlockTokens) {
				list = append(list, Move{Name: Name{names[i], int8(g)}, From: Place{Device, p.tree.block(m.path[i], g)}})
			}
		}
	}
	return list
}
