// Package tier stores blocks of the KV cache below the device: in a piece of memory (host), in a file (disk), or in
// whatever else registers a Kind. A tier has slots of equal size. Which block is in which slot is the scheduler's
// business; a tier makes sure that a slot yields what was stored in it under a name, or an error. Read Tier first. A
// Writer sends blocks to another engine.
package tier

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/kv"
)

// Tier stores blocks. Its methods are called by one goroutine at a time. But for Sync and Close, none waits for
// anything slow.
type Tier interface {
	// Slots returns how many blocks it can store.
	Slots() int
	// Names returns what is in the slots; the zero Name is nothing.
	Names() []kv.Name
	// Put stores a copy of a block in a slot, at once or later, in place of what is there. false: it is not taken, and
	// the slot holds nothing.
	Put(slot int32, name kv.Name, data []byte) bool
	// Get asks for the block that a slot holds under a name; what was in a file is verified. On a Hit, dst
	// [Options.Block] has it. Pending: done is called once, on any goroutine, when dst has it, or with why not; took is
	// what reading it took, without the wait for others. It is not called after Close. On a Miss, the error says why.
	Get(slot int32, name kv.Name, dst []byte, done func(took time.Duration, err error)) (Answer, error)
	// Sync waits until all that was Put is stored. The error says why nothing is stored any more.
	Sync() error
	Close() error
}

// Memory is a Tier whose slots are memory of the host, which a device may read and write where it is.
type Memory interface {
	Tier
	// Memory returns a slot's memory, and the piece that it is part of: pieces of all slots do not overlap. Put and Get
	// leave a block where it is if data or dst is the slot's memory.
	Memory(slot int32) (data, piece []byte)
	// Vacate says that a slot's memory is about to be written: it holds nothing until the next Put.
	Vacate(slot int32)
}

// Answer is what Get returns.
type Answer uint8

const (
	Miss Answer = iota
	Hit
	Pending
)

// Kind is a kind of tier. A room that implements one registers it in an init function.
type Kind struct {
	Name string
	// Slow: Get may answer Pending. Of a tier that is not slow, Pending counts as a Miss.
	Slow bool
	// Durable: what it stores outlives the process.
	Durable bool
	// Landing: it holds what comes from other engines until that is loaded.
	Landing bool
	// Open makes a tier of at least one slot.
	Open func(Options) (Tier, error)
}

// Spec asks for a tier.
type Spec struct {
	Kind  string // by name
	Where string // a directory, an address; "" for kinds that have no such
	Bytes int64  // of all blocks
}

// Options are what a tier is opened with.
type Options struct {
	Spec
	Block int // bytes of a block as the device packs it
	// Layouts say, by group of layers, where everything is in such a block; none: only the device knows. A durable tier
	// stores blocks in the canonical form then, for other devices to read.
	Layouts []compute.Layout
	// Model says what the contents of blocks depend on beside their names: weights, types, shapes, and without Layouts
	// the kind of device.
	Model string
	Log   *slog.Logger
}

var kinds = map[string]Kind{}

// Register makes a kind of tier known.
func Register(k Kind) { kinds[k.Name] = k }

// KindOf returns the kind that a Spec names.
func KindOf(s Spec) (Kind, error) {
	k, ok := kinds[s.Kind]
	if !ok {
		var names []string
		for name := range kinds {
			names = append(names, name)
		}
		slices.Sort(names)
		return k, fmt.Errorf("tier: no kind of tier is called %q; want one of %q", s.Kind, names)
	}
	return k, nil
}
