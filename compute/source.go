package compute

import (
	"fmt"
	"slices"
	"sort"

	"github.com/kvasir-llm/kvasir/quant"
)

// Source is a weight as a checkpoint stores it: Out rows of In values, row-major, in blocks of Type.
type Source struct {
	Name    string // for errors
	Type    quant.Type
	Out, In int
	Data    []byte
	// Keep, if not nil, lets a device read Data after Matrix has returned, until it calls release, which it does once.
	// A nil release: it may not.
	Keep func() (release func())
	// Read, if not nil, copies part of Data in less time than reading it takes. A device may call it from several
	// goroutines at once.
	Read func(dst, data []byte)
	// Row, if not nil, writes row n in place of Data. A device may call it from several goroutines at once.
	Row func(dst []byte, n int)
	// Run, if not nil, writes n rows from row from on, in less time than as many calls of Row.
	Run func(dst []byte, from, n int)

	// Heads says in which order Data, Scales, Row and Run have the rows.
	Heads Heads

	// Adapter says that the weight is an A or B of a LowRank.
	Adapter bool
	// Scales multiply the values of F8_E4M3, each those of Group inputs of a row: [Out, ⌈In/Group⌉].
	Scales []float32
	Group  int
	// Order, if not nil, says that value k of each row belongs to input Order[k]. It is the same for all weights of a
	// MatMulHeads.
	Order []int32
}

// Heads are runs of Size rows of a weight that are stored in another order: the halves of the first Turned rows of each
// alternate. Row i of one half is stored at 2i, that of the other at 2i + 1. Size 0 is the weight's own order.
type Heads struct{ Size, Turned int }

// Stored returns where row n of the weight is stored.
func (h Heads) Stored(n int) int {
	if h.Size == 0 || n%h.Size >= h.Turned {
		return n
	}
	i, half := n%h.Size, h.Turned/2
	return n - i + i%half*2 + i/half
}

// Check makes sure that out rows are whole heads.
func (h Heads) Check(out int) error {
	if h != (Heads{}) && (h.Size < 1 || out%h.Size != 0 || h.Turned < 0 || h.Turned > h.Size || h.Turned%2 != 0) {
		return fmt.Errorf("%d rows in heads of %d, of which the halves of %d alternate; want whole heads and halves", out, h.Size, h.Turned)
	}
	return nil
}

// Rows returns the weight of n of the outputs, starting at output from. Both ends have to be ends of Heads.
func (s Source) Rows(from, n int) Source {
	data, scales, row, run := len(s.Data)/s.Out, len(s.Scales)/s.Out, s.Row, s.Run
	if row != nil {
		s.Row = func(dst []byte, i int) { row(dst, from+i) }
	}
	if run != nil {
		s.Run = func(dst []byte, first, n int) { run(dst, from+first, n) }
	}
	s.Data, s.Scales, s.Out = s.Data[from*data:][:n*data], s.Scales[from*scales:][:n*scales], n
	return s
}

// Inputs returns the weight of n of the inputs, starting at input from: the products of parts of x add up to that of
// x. It copies stored data. Both ends have to be ends of blocks of the type, and of groups of Scales.
func (s Source) Inputs(from, n int) (Source, error) {
	block, end := s.Type.BlockValues(), from+n
	whole := func(size int) bool { return from%size == 0 && (end%size == 0 || end == s.In) }
	switch {
	case from < 0 || n < 1 || end > s.In:
		return s, fmt.Errorf("compute: weight %q: inputs %d to %d of %d", s.Name, from, end, s.In)
	case s.Order != nil:
		return s, fmt.Errorf("compute: weight %q: its inputs are stored in another order; it cannot be divided by inputs", s.Name)
	case !whole(block) || n%block != 0:
		return s, fmt.Errorf("compute: weight %q: inputs %d to %d are not whole blocks of %d values of %v", s.Name, from, end, block, s.Type)
	case s.Scales != nil && s.Group < s.In && !whole(s.Group):
		return s, fmt.Errorf("compute: weight %q: inputs %d to %d are not whole groups of %d, which share a scale", s.Name, from, end, s.Group)
	}
	all, err := s.Type.RowBytes(s.In)
	if err != nil {
		return s, fmt.Errorf("compute: weight %q: %w", s.Name, err)
	}
	s.Run = nil
	at, size := from/block*s.Type.BlockBytes(), n/block*s.Type.BlockBytes()
	if row := s.Row; row != nil {
		s.Row = func(dst []byte, i int) {
			line := make([]byte, all)
			row(line, i)
			copy(dst, line[at:][:size])
		}
	} else {
		data := make([]byte, 0, s.Out*size)
		for o := range s.Out {
			data = append(data, s.Data[o*all+at:][:size]...)
		}
		s.Data = data
	}
	if s.Scales != nil && s.Group < s.In {
		groups, scales := len(s.Scales)/s.Out, []float32(nil)
		for o := range s.Out {
			scales = append(scales, s.Scales[o*groups:][from/s.Group:(end+s.Group-1)/s.Group]...)
		}
		s.Scales = scales
	} else if s.Scales != nil {
		s.Group = n
	}
	s.In = n
	return s, nil
}

// Stack returns the weight whose outputs are those of some weights, one after the other: of queries, keys and values,
// or of experts, which may be of several checkpoints. They have the same inputs, in the same order, one type and one
// kind of Heads. Rows takes them apart again. Only what has Scales is copied.
func Stack(name string, parts ...Source) (Source, error) {
	if len(parts) == 0 {
		return Source{}, fmt.Errorf("compute: weight %q is a stack of none", name)
	}
	s := parts[0]
	s.Name, s.Out, s.Data, s.Scales, s.Run = name, 0, nil, nil, nil
	ends := make([]int, len(parts)) // the output after each part's
	for i, p := range parts {
		if f := &parts[0]; p.In != f.In || p.Type != f.Type || p.Group != f.Group || p.Adapter != f.Adapter || p.Heads != f.Heads ||
			(p.Scales == nil) != (f.Scales == nil) || !slices.Equal(p.Order, f.Order) {
			return s, fmt.Errorf("compute: weight %q: %q, of %d inputs in %v, cannot be stacked with %q, of %d in %v: want the same inputs, type, groups and heads",
				name, p.Name, p.In, p.Type, f.Name, f.In, f.Type)
		}
		s.Out += p.Out
		ends[i] = s.Out
		if s.Scales = append(s.Scales, p.Scales...); p.Scales != nil {
			s.Data = append(s.Data, p.Data...)
		}
	}
	if s.Scales != nil {
		return s, nil
	}
	size, err := s.Type.RowBytes(s.In)
	if err != nil {
		return s, fmt.Errorf("compute: weight %q: %w", name, err)
	}
	s.Row = func(dst []byte, n int) {
		i := sort.SearchInts(ends, n+1)
		p := &parts[i]
		if n -= ends[i] - p.Out; p.Row != nil {
			p.Row(dst, n)
		} else {
			copy(dst, p.Data[n*size:][:size])
		}
	}
	return s, nil
}
