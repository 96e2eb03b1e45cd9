package kv

// Slot is where a block holds one token.
type Slot struct {
	Block BlockID
	At    int32
}

// Shift says that what a group of layers keeps of one token is to be copied.
type Shift struct {
	Group    int32
	From, To Slot
}

// Shift appends to list what brings token from of a table to the place of token to, in every group.
func (p *Pool) Shift(t *Table, from, to int, list []Shift) []Shift {
	size := p.cfg.BlockTokens
	slot := func(blocks []BlockID, token int) Slot { return Slot{blocks[token/size], int32(token % size)} }
	for g, blocks := range t.Blocks {
		list = append(list, Shift{int32(g), slot(blocks, from), slot(blocks, to)})
	}
	return list
}
