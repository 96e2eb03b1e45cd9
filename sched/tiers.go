package sched

import (
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/named"
)

// Preempt says how a preempted sequence comes back, if there are lower tiers: they may hold what it had computed. Its
// last, half full block is stored when it gives up its blocks, the others when they are evicted.
type Preempt string

const (
	// Auto loads what by measurement takes less time than computing it. It is the default.
	Auto Preempt = "auto"
	// Swap loads all there is, and stores all that is evicted.
	Swap Preempt = "swap"
	// Recompute loads nothing.
	Recompute Preempt = "recompute"
)

// preempts are all there are.
var preempts = named.Plain(
	named.Value[Preempt]{Is: Auto, Help: "what is measured to be faster"},
	named.Value[Preempt]{Is: Swap, Help: "loaded from memory or disk"},
	named.Value[Preempt]{Is: Recompute},
)

// Preempts returns the names that Config.Preempt takes, the default first.
func Preempts() []string { return preempts.Names() }

// PreemptHelp says what they mean, as part of a sentence.
func PreemptHelp() string { return preempts.Help() }

func (c *Config) checkTiers() (err error) {
	if c.Preempt, err = preempts.Find("sched: config: Preempt", string(c.Preempt)); err != nil {
		return err
	}
	if len(c.Tiers) > 0 && !c.PrefixCache {
		return fmt.Errorf("sched: config: %d lower tiers without a prefix cache, which finds blocks in them", len(c.Tiers))
	}
	return nil
}

// Measured tells what loading and computing take.
func (s *Scheduler) Measured(r kv.Rates) {
	s.pool.Measured(r)
}

// Adopt tells that a lower tier holds a block from before.
func (s *Scheduler) Adopt(name kv.Name, at kv.Place) { s.pool.Adopt(name, at) }

// Land gives a block that comes from elsewhere a slot of a tier that is Landing, and Withdraw empties that: see
// kv.Pool.Land. Sequences that look for the block load it from there.
func (s *Scheduler) Land(name kv.Name, t kv.Tier) (kv.Place, bool) { return s.pool.Land(name, t) }

// Withdraw undoes Land.
func (s *Scheduler) Withdraw(name kv.Name, at kv.Place) { s.pool.Withdraw(name, at) }

// Fetches appends to list what the tiers that do not answer at once are asked for since it was called last: see
// kv.Pool.Fetches. A sequence that waits for these blocks lets others pass, like one that lacks blocks.
func (s *Scheduler) Fetches(list []kv.Move) []kv.Move { return s.pool.Fetches(list) }

// Arrived tells that what Fetches asked for is there. It returns false if no sequence waits for it any more.
func (s *Scheduler) Arrived(m kv.Move) bool {
	expected := s.pool.Arrived(m)
	s.verify()
	return expected
}

// Expected reports whether a sequence waits for a block that Fetches asked for. What has arrived is to be kept as long,
// and until the plan is begun that moves it to the device.
func (s *Scheduler) Expected(n kv.Name) bool { return s.pool.Expected(n) }

// Lost tells that a move of the plan p cannot be made, or was not. If it is one to the device, p must not be begun: the
// sequences that were to use the block wait again, and their work leaves the plan, where they are listed as preempted.
// For one of Fetches, p is nil: the sequences that wait for the block compute its tokens.
func (s *Scheduler) Lost(p *Plan, m kv.Move) {
	if p == nil {
		s.pool.Lost(m)
		s.verify()
		return
	}
	if m.To.Tier == kv.Device && p.begun {
		panic("sched: a move to the device is lost, but its plan is begun")
	}
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
	s.verify()
}

// swapOut stores what the last, half full block of a sequence that is about to be preempted holds, if that is worth it.
func (s *Scheduler) swapOut(p *Plan, q *sequence) {
	size := s.cfg.BlockTokens
	i, tail := q.done/size, q.done%size
	if q.swapped = 0; tail == 0 || !q.lookup || s.cfg.Preempt == Recompute {
		return
	}
	for _, table := range q.table.Blocks {
		if slices.ContainsFunc(p.Copies, func(c kv.Copy) bool { return c.To == table[i] }) {
			return // it is not copied yet
		}
	}
	parent, keys := s.root, q.keys
	if i > 0 {
		parent, keys = q.names[i-1], kv.Keys{}
	}
	name := kv.HashBlock(parent, q.All()[i*size:q.done], keys)
	if s.pool.SwapOut(&q.table, i, tail, name) {
		q.swapped, q.tail = q.done, name
	}
}

// Flush lists the moves that store in a durable tier what is only in faster ones, and what is to be shifted on the
// device before. It is for when no more plans will be made.
func (s *Scheduler) Flush() (shifts []kv.Shift, moves []kv.Move) {
	s.pool.Flush(&moves)
	return s.shifts, moves
}
