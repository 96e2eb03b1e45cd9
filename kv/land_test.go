package kv

import "testing"

// TestLand checks that what lands has a slot until it is withdrawn, that nothing evicts it, and that it is found.
func TestLand(t *testing.T) {
	p, err := New(Config{Blocks: 8, BlockTokens: 2, Tiers: []TierConfig{{Slots: 2, Landing: true}}, StoreAll: true})
	if err != nil {
		t.Fatal(err)
	}
	var moves []Move
	p.Round(&moves)
	tokens := []int32{1, 2, 3, 4, 5, 6, 7}
	names := Names(Root("0"), tokens, 2, Keys{})
	if len(names) != 3 || names[1] != HashBlock(names[0], tokens[2:4], Keys{}) {
		t.Fatalf("names %v", names)
	}
	if n := p.Reach(names, Keys{}, tokens); n != 0 {
		t.Errorf("%d blocks of an empty pool", n)
	}
	var at []Place
	for i, name := range names {
		place, ok := p.Land(Name{Hash: name}, 1)
		if at = append(at, place); ok != (i < 2) {
			t.Errorf("block %d lands: %v", i, ok)
		}
	}
	if again, ok := p.Land(Name{Hash: names[0]}, 1); !ok || again.At != none {
		t.Errorf("what is there lands again at %v, %v", again, ok)
	}
	if n := p.Reach(names, Keys{}, tokens); n != 2 {
		t.Errorf("%d blocks are found of 2", n)
	}
	p.Measured(Rates{Token: 1, Block: [MaxTiers]int64{1: 1 << 40}})
	var o Offer
	p.Offer(&o, Want{Length: 7, Rows: 3, Room: 7, Lookup: true, Names: names, Tokens: tokens[:6], Stored: true})
	if o.Found != 4 {
		t.Fatalf("%d tokens are offered of 4 that landed, whatever loading takes", o.Found)
	}
	table := p.Accept(&o, new([]Copy))
	if len(moves) != 2 || moves[0].From != at[0] || moves[1].From != at[1] {
		t.Errorf("moves %v", moves)
	}
	p.Withdraw(Name{Hash: names[1]}, at[0]) // which holds another
	p.Withdraw(Name{Hash: names[0]}, at[0])
	p.Withdraw(Name{Hash: names[0]}, at[0])
	if st := p.Stats().Tiers[1]; st.Used != 1 || st.Stored != 2 || st.Loaded != 2 {
		t.Errorf("%+v", st)
	}
	if place, ok := p.Land(Name{Hash: names[2]}, 1); !ok || place != at[0] {
		t.Errorf("the free slot is not given: %v, %v", place, ok)
	}
	if got := p.Read(names, Keys{}, tokens, 1, 9); len(got) != 1 || got[0].Name.Hash != names[1] || got[0].From.Tier != Device {
		t.Errorf("read %v", got)
	}
	p.Release(&table)
	p.Round(&moves)
	moves = moves[:0]
	big := p.newTable(16, Keys{}, Retention{})
	if !p.Grow(&big, 0, 16, 16, new([]Copy)) {
		t.Fatal("the pool is full")
	}
	if len(moves) != 0 {
		t.Errorf("evicted blocks are stored where others land: %v", moves)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}
