package sched

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/kv"
)

// Preempt says how a preempted sequence comes back, if there are lower tiers: they may hold what it had computed. Its last,
// half full block is stored when it gives up its blocks, the others when they are evicted.
type Preempt string

const (
	// Auto loads what by measurement takes less time than computing it. It is the default.
	Auto Preempt = "auto"
	// Swap loads all there is, and stores all that is evicted.
	Swap Preempt = "swap"
	// Recompute loads nothing.
	Recompute Preempt = "recompute"
)

// Preempts returns what Config.Preempt may be, the default first.
func Preempts() []Preempt { return []Preempt{Auto, Swap, Recompute} }

func (c *Config) checkTiers() error {
	c.Preempt = cmp.Or(c.Preempt, Auto)
	if !slices.Contains(Preempts(), c.Preempt) {
		return fmt.Errorf("sched: config: Preempt is %q; want one of %v", c.Preempt, Preempts())
	}
	if c.Slots != [kv.Tiers]int{} && !c.PrefixCache {
		return fmt.Errorf("sched: config: lower tiers of %v slots without a prefix cache, which finds blocks in them", c.Slots)
	}
	return nil
}

// Measured tells what loading and computing take.
func (s *Scheduler) Measured(r kv.Rates) {
	s.pool.Measured(r)
}

// Adopt tells that a lower tier holds a block from before.
func (s *Scheduler) Adopt(name kv.Name, at kv.Place) { s.pool.Adopt(name, at) }

// Lost tells that a move of the plan p cannot be made. If it is one to the device, p must be the only outstanding plan and
// not begun: the sequences that were to use the block wait again, and their work leaves the plan, where they are listed as
// preempted.
func (s *Scheduler) Lost(p *Plan, m kv.Move) {
	if s.pool.Lost(m); m.To.Tier != kv.Device {
		return
	}
	for q := s.running.front; q != nil; {
		next := q.next
		if slices.ContainsFunc(q.table.Blocks, func(t []kv.BlockID) bool { return slices.Contains(t, m.To.At) }) {
			s.preempt(p, q)
		}
		q = next
	}
	s.pool.Discard(m.To.At)
}

// revive looks in the lower tiers for what follows the prefix of a sequence that fits, and returns how many tokens are
// found in all, and of how many the contents are there before p is carried out. It returns false if the sequence does not
// fit any more.
func (s *Scheduler) revive(p *Plan, q *sequence) (found, ready int, ok bool) {
	m := &q.prefix
	found, ready = m.Tokens, m.Tokens
	if !q.lookup || s.cfg.Slots == [kv.Tiers]int{} || q.charged && s.cfg.Preempt == Recompute {
		q.stowed = 0
		return found, ready, true
	}
	size, all := s.cfg.BlockTokens, q.charged && s.cfg.Preempt == Swap
	if s.pool.Revive(m, q.names, q.keys, q.tokens[:q.length-1], all) {
		ready = min(ready, m.Full()*size)
		s.pool.Match(m, q.names, q.keys, q.tokens[:q.length-1])
		if !s.fitsAfter(p, q) && (!s.pool.Cut(m) || !s.fitsAfter(p, q)) {
			return 0, 0, false
		}
		found = m.Tokens
	}
	if q.stowed > found && q.stowed/size == m.Full() && q.stowed < q.length && s.pool.Stowed(q.tail, q.keys) {
		if ready = min(ready, m.Full()*size); s.pool.Cut(m) && !s.fitsAfter(p, q) {
			return 0, 0, false
		}
		return q.stowed, ready, true
	}
	q.stowed = 0
	return found, ready, true
}

// stow stores what the last, half full block of a sequence that is about to be preempted holds, if that is worth it.
func (s *Scheduler) stow(p *Plan, q *sequence) {
	size := s.cfg.BlockTokens
	i, tail := q.done/size, q.done%size
	if q.stowed = 0; tail == 0 || !q.lookup || s.cfg.Preempt == Recompute {
		return
	}
	for _, table := range q.table.Blocks {
		if slices.ContainsFunc(p.Copies, func(c kv.Copy) bool { return c.To == table[i] }) {
			return // it is not copied yet
		}
	}
	parent, keys := s.root, q.keys
	if i > 0 {
		parent, keys.Salt = q.names[i-1], ""
	}
	name := kv.HashBlock(parent, q.tokens[i*size:q.done], keys)
	if s.pool.Stow(&q.table, i, tail, name) {
		q.stowed, q.tail = q.done, name
	}
}

// unstow loads the last, half full block of a sequence that revive found.
func (s *Scheduler) unstow(q *sequence) {
	if q.stowed > 0 {
		s.pool.Unstow(&q.table, q.stowed/s.cfg.BlockTokens, q.tail)
		s.pool.Found(q.stowed - q.prefix.Tokens)
		q.stowed = 0
	}
}

// Flush lists the moves that store on the disk what is only in faster tiers. It is for when no more plans will be made.
func (s *Scheduler) Flush() (moves []kv.Move) {
	s.pool.Flush(&moves)
	return moves
}
