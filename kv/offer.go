package kv

import (
	"fmt"
	"sort"
)

// Want is what a sequence asks for that is to be admitted.
type Want struct {
	Keys   Keys
	Keep   Retention
	Length int // tokens that it has; in groups without a window it gets blocks for all
	Rows   int // as many of those that are not found are computed first
	Room   int // tokens that its table is to have room for

	// Lookup: the cache is searched for Tokens, the first ones of the sequence, of which all may be found. Names are
	// those of its full blocks, at least of those of Tokens.
	Lookup bool
	Names  []Hash
	Tokens []int32

	// Parent is the table of a sequence, if any, with which this one has the first Common tokens in common, all of them
	// computed: they may share its blocks, the last too, until one of them writes to it.
	Parent *Table
	Common int
	// Ends is a table, if any, that is released once the sequence holds what it shares: it goes on in its place.
	Ends *Table

	// Stored: the lower tiers are searched, too. Always: and all is loaded that is there, whatever Measured says. Tail
	// is the name, if Tokens before it are found as full blocks, of what SwapOut stored of those up to TailTokens; 0:
	// nothing.
	Stored, Always bool
	Tail           Hash
	TailTokens     int
}

// Offer is what a pool has for a sequence that is to be admitted, and what that costs. It holds until anything takes or
// gives back blocks. Worth keeping for the next Offer to the same sequence: that looks only at what has changed.
type Offer struct {
	Found  int // tokens that need not be computed
	Ready  int // of these, the first ones that others may share and copy before this plan's moves are made
	Need   int // blocks that it takes beside those found
	Unused int // found blocks that no one holds, and those to be loaded: they are not available any more if it is accepted
	Kept   int // found blocks that it need not copy

	want   Want
	prefix Prefix // what the device has
	blocks int    // full blocks found, with those to be loaded
	fork   bool   // it shares Parent's blocks instead
	tail   bool   // and the block of TailTokens is loaded
}

// Offer brings o up to date with what w asks for: a fork, if its parent has more than the cache, else what the cache
// has and what can be loaded to follow that.
func (p *Pool) Offer(o *Offer, w Want) {
	o.want, o.fork, o.tail = w, false, false
	m := &o.prefix
	if w.Lookup {
		p.match(m, w.Names, w.Keys, w.Tokens)
	}
	o.blocks = m.blocks
	if w.Parent != nil && w.Common > m.Tokens && p.canFork(w.Parent, w.Common) {
		o.fork = true
	} else if w.Lookup && w.Stored && p.tiered() {
		o.blocks = p.reachBelow(m, w.Names[:min(len(w.Names), len(w.Tokens)/p.cfg.BlockTokens)], w.Always)
		found := m.Tokens
		if o.blocks > m.blocks {
			found = o.blocks * p.cfg.BlockTokens
		}
		o.tail = w.TailTokens > found && w.TailTokens/p.cfg.BlockTokens == o.blocks && w.TailTokens <= len(w.Tokens) &&
			p.swappedOut(w.Tail)
		if o.tail || o.blocks > m.blocks {
			p.cut(m)
		}
	}
	p.price(o)
}

// Less makes an offer that costs less: without a copy of the block that begins alike, then without what is to be
// loaded. It returns false if there is none.
func (p *Pool) Less(o *Offer) bool {
	switch {
	case o.fork:
		return false
	case o.prefix.after != 0:
		p.cut(&o.prefix)
	case o.tail:
		o.tail = false
	case o.blocks > o.prefix.blocks:
		o.blocks = o.prefix.blocks
	default:
		return false
	}
	p.price(o)
	return true
}

// held returns how many tokens the blocks of an offer hold.
func (p *Pool) held(o *Offer) int {
	if o.blocks > o.prefix.blocks {
		return o.blocks * p.cfg.BlockTokens
	}
	return o.prefix.Tokens
}

// price computes what an offer finds and costs.
func (p *Pool) price(o *Offer) {
	w, m := &o.want, &o.prefix
	o.Need, o.Unused, o.Kept = 0, 0, 0
	if o.fork {
		o.Found, o.Ready = w.Common, w.Common
		full := o.Found / p.cfg.BlockTokens
		for g, gone := range w.Parent.gone {
			o.Need += p.wanted(g, min(w.Length, o.Found+w.Rows), w.Length) - full
			o.Kept += full - min(int(gone), full)
		}
		return
	}
	held := p.held(o)
	if o.Found = held; o.tail {
		o.Found = w.TailTokens
	}
	for g, group := range p.cfg.Groups {
		first := min(p.first(g, held), o.blocks)
		o.Need += p.wanted(g, min(w.Length, o.Found+w.Rows), w.Length) - o.blocks
		o.Kept += o.blocks - first
		if m.after != 0 && p.blocks[p.tree.block(m.partial(), g)].refs == 0 {
			o.Unused++ // until it is copied
		}
		if group.Window == 0 { // who holds a block also holds those before it
			o.Unused += m.blocks - sort.Search(m.blocks, func(i int) bool { return p.blocks[p.tree.block(m.path[i], g)].refs == 0 })
			first = m.blocks
		}
		for i := first; i < o.blocks; i++ {
			if b := p.found(o, g, i); b == none || p.blocks[b].refs == 0 {
				o.Unused++
			}
		}
	}
	o.Ready = p.ready(o)
}

// found returns the device's block i of an offer for a group, or none if it is to be loaded.
func (p *Pool) found(o *Offer, group, i int) BlockID {
	n := int32(none)
	if i < o.prefix.blocks {
		n = o.prefix.path[i]
	} else {
		n = p.tree.find(o.want.Names[i])
	}
	if n == none {
		return none
	}
	return p.tree.block(n, group)
}

// ready returns how many of an offer's tokens are there before the plan's moves are made.
func (p *Pool) ready(o *Offer) int {
	path := o.prefix.path[:o.prefix.blocks]
	if p.lastLoad != p.round {
		path = nil // none of them is loaded
	}
	for i, n := range path {
		for g := range p.cfg.Groups {
			if n != none && p.tree.block(n, g) != none && p.blocks[p.tree.block(n, g)].loaded == p.round {
				return i * p.cfg.BlockTokens
			}
		}
	}
	if o.tail || o.blocks > o.prefix.blocks {
		return o.prefix.blocks * p.cfg.BlockTokens
	}
	return o.Found
}

// Accept gives a sequence what it was offered: the table that it begins with, and to copies what is to be copied for
// it. Nothing may have taken or given back blocks since the offer was made, and there must be the blocks that it costs.
func (p *Pool) Accept(o *Offer, copies *[]Copy) Table {
	w := &o.want
	t := p.newTable(w.Room, w.Keys, w.Keep)
	if !p.addState(&t) {
		panic("kv: an offer is accepted, but there is no slot for its state")
	}
	if o.tail {
		p.keepTail(w.Tail)
	}
	switch {
	case o.fork:
		p.fork(&t, w.Parent, o.Found, w.Length)
	case w.Lookup:
		if o.blocks > o.prefix.blocks {
			p.prefetch(o)
		}
		p.share(&t, &o.prefix, w.Length)
	}
	if w.Ends != nil {
		p.Release(w.Ends)
	}
	if !p.Grow(&t, o.Found, min(w.Length, o.Found+w.Rows), w.Length, copies) {
		panic(fmt.Sprintf("kv: an offer of %d blocks is accepted, and %d are available", o.Need+o.Unused, p.Available()))
	}
	if o.tail {
		p.swapIn(&t, w.TailTokens/p.cfg.BlockTokens, w.Tail)
		p.stats.Hits += uint64(o.Found - o.prefix.Tokens)
	}
	*o = Offer{Found: o.Found, Ready: o.Ready, Kept: o.Kept}
	return t
}

// Clone returns a copy of o.
func (o Offer) Clone() Offer {
	o.prefix.path = append([]int32(nil), o.prefix.path...)
	return o
}
