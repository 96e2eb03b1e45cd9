package kv

import "fmt"

// arrival is a block that a tier is asked for that does not answer at once. Until every sequence that waits for it is
// admitted or has ended, its slot is not given away.
type arrival struct {
	from    Place
	here    bool
	waiting []*Arrivals
}

// Arrivals are the blocks that one waiting sequence has asked slow tiers for. The zero value is none.
type Arrivals struct {
	of      map[Name]*arrival
	missing int // of these, how many are not here
}

// Pending reports whether some of the blocks are still on their way.
func (a *Arrivals) Pending() bool { return a.missing > 0 }

// Expect reports whether all that an offer loads can be loaded by the plan that accepts it: what slow tiers hold must
// have arrived. It asks them for what has not; see Fetches.
func (p *Pool) Expect(a *Arrivals, o *Offer) bool {
	if !p.slow() {
		return true
	}
	p.loads(o, func(name Name, from Place) {
		if p.atOnce(from.Tier) || a.of[name] != nil {
			return
		}
		x := p.arrivals[name]
		if x == nil {
			x = &arrival{from: from}
			p.arrivals[name] = x
			p.underway++
			p.fetches = append(p.fetches, Move{name, from, Place{Device, none}})
			p.tiers[from.Tier].stats.Loaded++
		}
		if a.of == nil {
			a.of = make(map[Name]*arrival)
		}
		a.of[name] = x
		x.waiting = append(x.waiting, a)
		if !x.here {
			a.missing++
		}
	})
	return a.missing == 0
}

// CanExpect reports whether what an offer loads may be asked for: no more blocks are expected at once than the device
// has, but by the only sequences that have asked already.
func (p *Pool) CanExpect(a *Arrivals, o *Offer) bool {
	if len(p.arrivals) == 0 || len(a.of) > 0 {
		return true
	}
	more := 0
	p.loads(o, func(name Name, from Place) {
		if !p.atOnce(from.Tier) && p.arrivals[name] == nil {
			more++
		}
	})
	return more == 0 || len(p.arrivals)+more <= p.cfg.Blocks
}

// loads calls f for all that an offer loads.
func (p *Pool) loads(o *Offer, f func(name Name, from Place)) {
	w := &o.want
	for g := range p.cfg.Groups {
		if !o.fork && o.blocks > o.prefix.blocks {
			for i := p.first(g, o.blocks*p.cfg.BlockTokens); i < o.blocks; i++ {
				if p.found(o, g, i) == none {
					from, _ := p.whence(Name{w.Names[i], int8(g)}, w.Always)
					f(Name{w.Names[i], int8(g)}, from)
				}
			}
		}
		if o.tail {
			from, _ := p.whence(Name{w.Tail, int8(g)}, true)
			f(Name{w.Tail, int8(g)}, from)
		}
	}
}

// Fetches appends to list what slow tiers are asked for since it was called last: moves to the device, whose block,
// -1, is not known yet. Each is to be answered with Arrived or Lost, in any order. A plan that moves one of these
// blocks to the device is made after its arrival.
func (p *Pool) Fetches(list []Move) []Move {
	list = append(list, p.fetches...)
	p.fetches = p.fetches[:0]
	return list
}

// Arrived tells that a slow tier has answered: the contents are kept by the caller as long as they are Expected. It
// returns false if they are not.
func (p *Pool) Arrived(m Move) bool {
	x := p.arrivals[m.Name]
	if x == nil {
		return false
	}
	if !x.here {
		x.here = true
		p.underway--
		for _, a := range x.waiting {
			a.missing--
		}
	}
	return true
}

// Expected reports whether a sequence waits for a block of a slow tier, arrived or not.
func (p *Pool) Expected(n Name) bool { return p.arrivals[n] != nil }

// Awaits reports whether a sequence waits for the answer to one of Fetches.
func (p *Pool) Awaits(m Move) bool {
	x := p.arrivals[m.Name]
	return x != nil && !x.here && x.from == m.From
}

// Underway returns how many blocks slow tiers are asked for and have not answered.
func (p *Pool) Underway() int { return p.underway }

// missed lets the sequences that wait for a block do without it.
func (p *Pool) missed(m Move) {
	if !p.Awaits(m) {
		return
	}
	x := p.arrivals[m.Name]
	for _, a := range x.waiting {
		a.missing--
		delete(a.of, m.Name)
	}
	p.underway--
	delete(p.arrivals, m.Name)
}

// Forget tells that a sequence waits for nothing any more.
func (p *Pool) Forget(a *Arrivals) {
	for name, x := range a.of {
		n := 0
		for _, w := range x.waiting {
			if w != a {
				x.waiting[n] = w
				n++
			}
		}
		if x.waiting = x.waiting[:n]; n > 0 {
			continue
		}
		if !x.here {
			p.underway--
		}
		delete(p.arrivals, name)
	}
	*a = Arrivals{}
}

// awaited reports whether a slot's contents are expected.
func (p *Pool) awaited(at Place) bool {
	if len(p.arrivals) == 0 {
		return false
	}
	x := p.arrivals[p.tiers[at.Tier].names[at.At]]
	return x != nil && x.from == at
}

// checkArrivals verifies that the sequences that wait and what they wait for agree.
func (p *Pool) checkArrivals() error {
	underway, missing := 0, map[*Arrivals]int{}
	for name, x := range p.arrivals {
		if !x.here {
			underway++
		}
		for _, a := range x.waiting {
			if a.of[name] != x {
				return fmt.Errorf("kv: %v is expected by a sequence that does not know", name)
			}
			if missing[a] += 0; !x.here {
				missing[a]++
			}
		}
		if len(x.waiting) == 0 {
			return fmt.Errorf("kv: %v is expected by no sequence", name)
		}
	}
	for a, n := range missing {
		if a.missing != n {
			return fmt.Errorf("kv: a sequence says that %d blocks are missing; counted %d", a.missing, n)
		}
	}
	if underway != p.underway {
		return fmt.Errorf("kv: %d blocks are under way; counted %d", p.underway, underway)
	}
	return nil
}
