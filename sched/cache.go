package sched

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/kv"
)

// Pin keeps what the cache has of the beginning of a sequence from being evicted until Unpin, and returns how many
// tokens that is. It refuses to leave fewer blocks than a sequence of the greatest length needs.
func (s *Scheduler) Pin(tokens []int32, keys kv.Keys) (int, error) {
	n, err := s.pool.Pin(s.namesOf(tokens, keys), keys, tokens, s.cfg.Blocks-s.pool.Most(min(s.cfg.MaxLen, s.fit), s.cfg.MaxChunk))
	if err != nil {
		return 0, fmt.Errorf("sched: %w, so that a sequence of %d tokens finds place", err, s.MaxLen())
	}
	return n, nil
}

// Unpin undoes Pin, and returns how many tokens are not pinned any more.
func (s *Scheduler) Unpin(tokens []int32, keys kv.Keys) int {
	return s.pool.Unpin(s.namesOf(tokens, keys))
}

// ResetCache evicts all cached blocks that no sequence uses, and returns how many there were.
func (s *Scheduler) ResetCache() int { return s.pool.Reset() }

// Inspect returns what the cache can be searched for, in no order.
func (s *Scheduler) Inspect() []kv.Contents { return s.pool.Inspect() }

// Events returns what has happened to the contents of the cache since it was called last, if Config.Events is set. It
// is valid until the scheduler's next change.
func (s *Scheduler) Events() []kv.Event { return s.pool.Events() }

// Snapshot returns the events that tell a newcomer what the cache can be searched for.
func (s *Scheduler) Snapshot() []kv.Event { return s.pool.Snapshot() }

// Retains reports whether a Request may ask to Keep its blocks.
func (s *Scheduler) Retains() bool { return s.pool.Retains() }

// namesOf returns the names of the blocks that tokens fill.
func (s *Scheduler) namesOf(tokens []int32, keys kv.Keys) []kv.Hash {
	return kv.Names(s.root, tokens, s.cfg.BlockTokens, keys)
}

// root returns what stands before every first block.
func (c *Config) root() kv.Hash { return kv.Root(cmp.Or(c.HashSeed, "0")) }

// Names returns the names of the full blocks of a sequence that begins with tokens.
func (c *Config) Names(tokens []int32, keys kv.Keys) []kv.Hash {
	return kv.Names(c.root(), tokens, c.BlockTokens, keys)
}

// Reach returns how many of the first blocks of a sequence need not be computed. names are those of tokens.
func (s *Scheduler) Reach(names []kv.Hash, tokens []int32, keys kv.Keys) int {
	return s.pool.Reach(names, keys, tokens)
}

// Read lists where the device has what another engine needs of the blocks of a sequence, from number from on and below
// to, up to the first in which the next plan shifts something. names are those of tokens. No plan may be outstanding.
func (s *Scheduler) Read(names []kv.Hash, tokens []int32, keys kv.Keys, from, to int) []kv.Move {
	list := s.pool.Read(names, keys, tokens, from, to)
	shifted := slices.IndexFunc(list, func(m kv.Move) bool {
		return slices.ContainsFunc(s.shifts, func(sh kv.Shift) bool { return sh.From.Block == m.From.At || sh.To.Block == m.From.At })
	})
	if shifted >= 0 {
		list = list[:shifted]
	}
	return list
}
