// Package compute is the contract between models and the machines that run them: a Graph of operations as data, packed
// batches, and Device, which compiles a Graph to a Program and runs it step after step. It knows nothing of models,
// requests or scheduling. Read Graph first, then Device and Program.
package compute

import (
	"errors"
	"slices"

	"github.com/kvasir-llm/kvasir/quant"
)

// Device is a machine with memory of its own. It loads weights, holds KV caches and compiles graphs. Its methods may be
// called from one goroutine at a time; a Program's Start and a Step's methods may run beside them.
type Device interface {
	// Name describes the device in a few words, for people.
	Name() string
	// Memory returns the bytes that the device has and the bytes of them that are free now.
	Memory() (free, total int64, err error)
	// KVTypes returns the types that a cache can have, the default first.
	KVTypes() []quant.Type

	// Matrix loads a weight, in the layout that the device reads best. src.Data and src.Row are not used after the
	// call, unless src.Keep allows it.
	Matrix(src Source) (Matrix, error)
	// Vector loads a float32 vector: a gain, a bias, a table of frequencies.
	Vector(v []float32) (Vector, error)
	// Cache makes a paged KV cache, zeroed, of CacheBytes(spec) bytes.
	Cache(spec CacheSpec) (Cache, error)
	CacheBytes(spec CacheSpec) int64

	// Compile makes a Program of a graph over a cache, with all the memory that steps within the limits need. It
	// refuses an operation that the device cannot do by name.
	Compile(g *Graph, c Cache, l Limits) (Program, error)
	// Workspace returns the bytes that Compile takes beside weights and cache.
	Workspace(g *Graph, l Limits) int64
	// StepRows is how many rows a step should have at most for a device of this kind to be fast: where nobody says
	// otherwise, larger prompts are cut.
	StepRows() int

	// Close closes the programs that are still open and frees all memory and threads.
	Close() error
}

// ErrUnsupported is wrapped by the errors of a device that lacks what a model needs: another device may have it.
var ErrUnsupported = errors.New("it is not supported")

// Limits bound the steps of a Program.
type Limits struct {
	Rows  int // rows of a batch
	Slots int // sequences that have a block table and a Choosing on the device at once: Seq.Slot is below
}

// Program is a compiled Graph with the memory of its steps: activations, block tables and what each slot chooses by.
// Steps run in the order in which they were started. Two steps may be under way.
type Program interface {
	// Start queues a step and returns. It refuses a batch that contradicts itself or the limits, and queues nothing
	// then. The batch belongs to the Program until the Step's Wait returns; of one that did not fail, Shifts, Out,
	// Copies and In are empty then. What the step before the one before returned is lost.
	Start(b *Batch) (Step, error)
	// BlockBytes is the length of a Transfer's Data: one block in the device's own layout.
	BlockBytes() int
	// Trees reports whether a batch may have Parents. Start refuses one that must not with ErrUnsupported.
	Trees() bool
	// Close waits for the steps under way and frees the Program's memory.
	Close() error
}

// Pinner is a Program that copies Transfers faster whose memory it knows. One goroutine at a time calls these methods,
// and none of the Device meanwhile.
type Pinner interface {
	// Pinned returns such memory, until the Program is closed. nil: there is no more.
	Pinned(n int) []byte
	// Pin makes the caller's memory such memory, until the Program is closed. errors.ErrUnsupported: the device knows
	// no difference.
	Pin(data []byte) error
}

// Prepared is a Program that says what it made before its first step, for a log.
type Prepared interface{ Prepared() string }

// Stepped is a Program that tells what steps of many rows take.
type Stepped interface {
	// Stairs are numbers of rows, rising: what products of up to so many rows take, they take of that many. Work is
	// in a unit of the device's. None say that rows take equally long, or that it is not known.
	Stairs() []Stair
}

// Stair is what a step of up to so many rows takes.
type Stair struct {
	Rows int
	Work float64
}

// Step is a batch that is being computed. What it returns is valid until the next Start but one, and may be written.
type Step interface {
	// Choose lets a step of a batch with Hold set go on to choose tokens. Batch.Masks may be written before.
	Choose()
	// Done receives a value once, when the step is done: then Wait does not block. One goroutine may receive it.
	Done() <-chan struct{}
	// Wait returns when the step is done. An error is a *Fault. After a fault, steps that were started later do not
	// run: their Wait returns a Fault with Skipped set, and whoever started them starts them again.
	Wait() error
	// Chosen returns what entry i of Batch.Choose yields.
	Chosen(i int) Chosen
	// Logits returns the logits [outputs] of row Batch.Logits[Batch.Read[i]].
	Logits(i int) []float32
	// Hidden returns the final hidden state [width] of row Batch.Hidden[i].
	Hidden(i int) []float32
}

// Fault says why a step yields nothing and how much is lost with it. Faults of single sequences are in Chosen.Err.
type Fault struct {
	Err error
	// Lost: the device is lost, with all it held. Else only the step is, and may be computed again in smaller parts.
	Lost bool
	// Skipped: nothing of the step was done, because a step before it failed.
	Skipped bool
}

func (f *Fault) Error() string { return f.Err.Error() }
func (f *Fault) Unwrap() error { return f.Err }

// Matrix is a weight on a device.
type Matrix interface {
	Dims() (out, in int)
	Type() quant.Type
	Bytes() int64 // size on the device
}

// Vector is a float32 vector on a device.
type Vector interface{ Len() int }

// LowRank is what an adapter adds to a product of x: Scale · B·(A·x) (LoRA, arXiv:2106.09685). A nil A adds nothing.
type LowRank struct {
	A     Matrix // [rank, In], of F32, F16 or BF16 and from a Source with Adapter set, as is B
	B     Matrix // [Out, rank]
	Scale float32
}

// CacheSpec is the shape of a paged KV cache: Blocks blocks of BlockTokens tokens, and States slots for the recurrent
// state of a sequence.
type CacheSpec struct {
	Blocks, BlockTokens int
	States              int
	Type                quant.Type // of keys and values, one of Device.KVTypes; 0 is F32
	Layers              []CacheLayer
}

// CacheLayer is what one layer keeps: of each token, a key of KDim and a value of VDim for each KV head; or, if State
// is not 0, nothing of a token but State numbers of a sequence, in float32.
type CacheLayer struct {
	// Group says whose block table the layer uses. Groups are numbered from 0. A block belongs to one group at a
	// time, and the first layers of all groups share its memory, as do the second, and so on: groups should be of
	// equal size.
	Group               int
	KVHeads, KDim, VDim int
	// Latent: the value is the first VDim numbers of the key, and only the key is kept.
	Latent bool
	State  int
}

// Groups returns the number of groups of layers that keep tokens.
func (s CacheSpec) Groups() int {
	n := 0
	for _, l := range s.Layers {
		if l.State == 0 {
			n = max(n, l.Group+1)
		}
	}
	return n
}

// Spread turns a table of one sequence into tables for all groups of layers, for callers without a block pool: each
// block of the table becomes as many neighbouring blocks as there are groups.
func (s CacheSpec) Spread(table []int32) [][]int32 {
	groups := s.Groups()
	tables := make([][]int32, groups)
	for g := range tables {
		for _, b := range table {
			tables[g] = append(tables[g], b*int32(groups)+int32(g))
		}
	}
	return tables
}

// Cache is a paged KV cache on a device.
type Cache interface {
	Spec() CacheSpec
	Bytes() int64
	// Close frees its memory. The programs over it are closed.
	Close() error
}

// Sleeper is a Device whose weights can leave its memory for the host's and come back, in place. No program and no
// cache is open meanwhile. What adapters have is freed.
type Sleeper interface {
	Sleep() error
	Wake() error // after an error it sleeps on
}

// ServedKV returns what type keys and values have in a served model if nobody says: bfloat16 if it is among a device's
// types, which hold twice as many tokens as float32, and else the first.
func ServedKV(types []quant.Type) quant.Type {
	if slices.Contains(types, quant.BF16) {
		return quant.BF16
	}
	return types[0]
}
