package kv

import (
	"testing"

	"pgregory.net/rapid"
)

// TestMovesFollowTheIndex carries out random plans, each many times as large as some of the tiers: whatever a move is
// to bring is there when its turn comes, and each slot holds what the index says.
func TestMovesFollowTheIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Blocks: 9, BlockTokens: 1, StoreAll: true}
		for range rapid.IntRange(1, 3).Draw(t, "tiers") {
			cfg.Tiers = append(cfg.Tiers, TierConfig{Slots: rapid.IntRange(0, 3).Draw(t, "slots"), Slow: rapid.Bool().Draw(t, "slow")})
		}
		p, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		contents := map[Place]Name{}
		for range rapid.IntRange(1, 5).Draw(t, "plans") {
			var moves []Move
			p.Round(&moves)
			for b := range BlockID(cfg.Blocks) {
				name := Name{Hash: Hash{1 + byte(rapid.IntRange(0, 12).Draw(t, "name"))}}
				from, stored := p.whence(name, true)
				if stored && p.atOnce(from.Tier) && rapid.Bool().Draw(t, "load") {
					p.keep(from)
					p.load(name, from, b)
					continue
				}
				contents[Place{Device, b}] = name
				p.store(name, Place{Device, b}, Device, 1, 1)
			}
			for _, loads := range []bool{false, true} { // these come last
				for _, m := range moves {
					if loads != (m.To.Tier == Device) {
						continue
					}
					if contents[m.From] != m.Name {
						t.Fatalf("%v is to be moved from %v, which holds %v:\n%v", m.Name, m.From, contents[m.From], moves)
					}
					contents[m.To] = m.Name
				}
			}
			for tier := range p.tiers {
				for at, name := range p.tiers[tier].names {
					if place := (Place{Tier(tier), int32(at)}); name != (Name{}) && contents[place] != name {
						t.Fatalf("%v is to hold %v, and holds %v:\n%v", place, name, contents[place], moves)
					}
				}
			}
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// waiting returns a pool with a slow tier of two slots, of which the first holds a block that a sequence waits for.
func waiting(t *testing.T) (p *Pool, waits *Arrivals, asked Move) {
	p, err := New(Config{Blocks: 4, BlockTokens: 1, Tiers: []TierConfig{{Slots: 2, Slow: true}}})
	if err != nil {
		t.Fatal(err)
	}
	tokens := []int32{1}
	name := Name{Hash: HashBlock(Root("0"), tokens, Keys{})}
	asked = Move{name, Place{1, 0}, Place{Device, none}}
	p.Adopt(name, asked.From)
	p.Round(&[]Move{})
	var o Offer
	waits = &Arrivals{}
	p.Offer(&o, Want{Length: 2, Rows: 2, Room: 2, Lookup: true, Names: []Hash{name.Hash}, Tokens: tokens, Stored: true, Always: true})
	if p.Expect(waits, &o) || !waits.Pending() || !p.Awaits(asked) {
		t.Fatalf("an offer of %d tokens waits for nothing", o.Found)
	}
	return p, waits, asked
}

// What a sequence waits for stays in its slot, also when the others are emptied.
func TestResetLeavesWhatIsExpected(t *testing.T) {
	p, waits, asked := waiting(t)
	other := Name{Hash: Hash{1}}
	p.Adopt(other, Place{1, 1})
	p.Reset()
	var moves []Move
	p.Round(&moves)
	for b := range BlockID(4) {
		p.store(Name{Hash: Hash{2 + byte(b)}}, Place{Device, b}, Device, 1, 1)
	}
	if names := p.tiers[1].names; names[0] != asked.Name || names[1].Hash != (Hash{5}) {
		t.Errorf("the slots hold %v", names)
	}
	p.Forget(waits)
	if p.Reset(); p.Stats().Tiers[1].Used != 0 {
		t.Errorf("the slots hold %v", p.tiers[1].names)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}

// A block that cannot be read is not asked for again, also if the sequence has ended that waited for it. If its slot
// holds another meanwhile, that stays.
func TestLostBlocksLeaveTheirSlots(t *testing.T) {
	for _, given := range []bool{false, true} {
		p, waits, asked := waiting(t)
		p.Forget(waits)
		if given {
			p.Reset()
			p.Adopt(Name{Hash: Hash{1}}, asked.From)
		}
		p.Lost(asked)
		st := p.Stats().Tiers[1]
		if want := (TierStats{Slots: 2, Loaded: 1, Lost: 1}); !given && st != want {
			t.Errorf("%+v; want %+v", st, want)
		}
		if want := (TierStats{Slots: 2, Used: 1, Loaded: 1}); given && st != want {
			t.Errorf("%+v; want %+v", st, want)
		}
		if err := p.Check(); err != nil {
			t.Error(err)
		}
	}
}
