package weights

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/quant"
)

// maxName bounds the names of tensors and the keys of GGUF metadata, in bytes.
const maxName = 1<<16 - 1

// checkedMul multiplies numbers that are not negative and reports whether the product fits an int.
func checkedMul(a, b int) (int, bool) {
	if a != 0 && b > math.MaxInt/a {
		return 0, false
	}
	return a * b, true
}

// byteSize returns the bytes that a tensor of the given shape takes. With wholeRows every row must consist of whole
// blocks; otherwise it is enough that the tensor does.
func byteSize(t quant.Type, shape []int, wholeRows bool) (int64, error) {
	values, ok := 1, true
	for _, d := range shape {
		if values, ok = checkedMul(values, d); !ok {
			return 0, fmt.Errorf("shape %v has more values than can be counted", shape)
		}
	}
	if wholeRows {
		row := 1
		if len(shape) > 0 {
			row = shape[len(shape)-1]
		}
		if row%t.BlockValues() != 0 {
			return 0, fmt.Errorf("shape %v has rows of %d values, which do not fill whole %v blocks of %d",
				shape, row, t, t.BlockValues())
		}
	}
	n, err := t.RowBytes(values)
	if err != nil {
		return 0, fmt.Errorf("shape %v: %w", shape, err)
	}
	return int64(n), nil
}

// checkExtents sorts infos by offset and makes sure that they lie inside the file of the given size and do not
// overlap. With exact, they must also cover all bytes from start to the file's end.
func checkExtents(infos []Info, start, fileSize int64, exact bool) error {
	slices.SortStableFunc(infos, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Size, b.Size))
	})
	end, before := start, -1
	for i, t := range infos {
		switch {
		case t.Offset > fileSize || t.Size > fileSize-t.Offset:
			return fmt.Errorf("tensor %q at byte %d with %d bytes ends at byte %d, past the file's end %d",
				t.Name, t.Offset, t.Size, uint64(t.Offset)+uint64(t.Size), fileSize)
		case t.Size == 0 && !exact:
			continue
		case t.Offset < end && before >= 0:
			return fmt.Errorf("tensor %q at bytes %d to %d overlaps tensor %q, which ends at byte %d",
				t.Name, t.Offset, t.Offset+t.Size, infos[before].Name, end)
		case t.Offset > end && exact:
			return fmt.Errorf("bytes %d to %d, before tensor %q, belong to no tensor", end, t.Offset, t.Name)
		}
		end, before = t.Offset+t.Size, i
	}
	if exact && end != fileSize {
		return fmt.Errorf("the last tensor ends at byte %d, but the file at byte %d", end, fileSize)
	}
	return nil
}
