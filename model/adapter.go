package model

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
)

// Adapter is a LoRA adapter (arXiv:2106.09685) in host memory, checked against the model that it was read for. It is
// immutable.
type Adapter struct {
	// ID is the SHA-256 of everything that the adapter changes: adapters with equal IDs compute the same.
	ID    [sha256.Size]byte
	Rank  int   // the largest of its matrices
	Bytes int64 // of its matrices in host memory

	changes []Change
}

// Change is what an adapter adds to one weight: Scale · B·(A·x).
type Change struct {
	To    *Target
	A, B  compute.Source // [rank, In], [Out, rank], with Adapter set
	Scale float32
}

// Target is a weight that adapters may change.
type Target struct {
	Slot    string // what it is in a layer, such as "q"
	Layer   int
	Out, In int
	number  int // compute.Product.Target
}

// Module is what an adapter can name: a weight, or several weights that a checkpoint may store as one tensor.
type Module struct {
	Slot    string
	Layer   int
	Targets []*Target
}

// Out returns the outputs of all the module's weights.
func (m *Module) Out() int {
	n := 0
	for _, t := range m.Targets {
		n += t.Out
	}
	return n
}

// Modules returns what adapters may change.
func (m *Model) Modules() []Module { return m.w.Modules }

// NewAdapter makes an adapter from its changes. It keeps and sorts them.
func NewAdapter(changes []Change) *Adapter {
	a := &Adapter{changes: changes}
	slices.SortFunc(changes, func(x, y Change) int {
		return cmp.Or(cmp.Compare(x.To.Layer, y.To.Layer), cmp.Compare(x.To.Slot, y.To.Slot))
	})
	h := sha256.New()
	for _, c := range changes {
		fmt.Fprintf(h, "%s %d %d %d %d %v %v\n", c.To.Slot, c.To.Layer, c.To.Out, c.To.In, c.A.Out, c.A.Type, c.B.Type)
		if c.B.Heads.Size > 0 {
			fmt.Fprintln(h, c.B.Heads)
		}
		h.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(c.Scale)))
		h.Write(c.A.Data)
		h.Write(c.B.Data)
		a.Rank = max(a.Rank, c.A.Out)
		a.Bytes += int64(len(c.A.Data) + len(c.B.Data))
	}
	h.Sum(a.ID[:0])
	return a
}

// MakeSlots makes room for n adapters on the device. It comes before NewRunner.
func (m *Model) MakeSlots(n int) { m.slots = n }
