package cpu

import "github.com/kvasir-llm/kvasir/compute"

// Tensor is an activation buffer in memory, [Rows, Cols], row-major. Rows is its capacity; operations use as many
// rows as the batch has.
type Tensor struct {
	Rows, Cols int
	Host       []float32
}

// Product is a compute.Product with its operands in memory.
type Product struct {
	Dst      Tensor
	W        compute.Matrix
	Bias     compute.Vector
	Adapters []compute.LowRank // by Seq.Adapter; the first adds nothing. nil is none
}

// expertProduct is a compute.ExpertProduct with its operands in memory.
type expertProduct struct {
	Dst  Tensor
	W    []compute.Matrix
	Bias []compute.Vector
}

// tables are the block tables of sequences: [slot][group].
type tables [][][]int32

// edit applies edits in order.
func (t *tables) edit(edits []compute.TableEdit) {
	for _, e := range edits {
		for int(e.Slot) >= len(*t) {
			*t = append(*t, nil)
		}
		slot := &(*t)[e.Slot]
		for int(e.Group) >= len(*slot) {
			*slot = append(*slot, nil)
		}
		table := &(*slot)[e.Group]
		for int(e.At) >= len(*table) {
			*table = append(*table, -1)
		}
		(*table)[e.At] = e.Block
	}
}

// table returns the block table of a sequence for a group of layers.
func (d *Device) table(s *compute.Seq, group int) []int32 { return (*d.tables)[s.Slot][group] }
