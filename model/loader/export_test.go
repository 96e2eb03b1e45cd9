package loader

import "github.com/kvasir-llm/kvasir/compute"

// Expanded and Gather are for tests of package loader_test.
var (
	Expanded = expanded
	Gather   = gather[float32]
)

// Stored finds the weight of a slot as it is stored.
func (r *Reader) Stored(slot string, i, out, in int) compute.Source {
	return r.stored(r.slots.Name(slot, i), out, in)
}
