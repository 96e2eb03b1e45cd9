package cuda

import "unsafe"

// tensorMap is a CUtensorMap: where the boxes of a matrix lie that a kernel fetches in the background.
type tensorMap [16]uint64

// boxes is what describing them takes, on the heap.
type boxes struct {
	room             [24]uint64 // for a map, at a multiple of 64 bytes
	size, pitch      [2]uint64
	box, elementStep [2]uint32
}

// boxInputs is the inputs of a box.
const boxInputs = 64

// mapRows describes boxes of boxInputs numbers by boxRows rows of a matrix of bfloat16, [rows, width], of whose rows
// each begins ld numbers after the one before. In shared memory, units of 16 bytes of a row are swizzled as wgmma
// reads them; rows that there are not are zeros.
func (g *gpu) mapRows(at pointer, width, rows, ld, boxRows int) (tensorMap, error) {
	const bfloat16, noInterleave, swizzle128, promote256, zeros = 9, 0, 3, 3, 0
	b := &g.boxes
	b.size, b.pitch = [2]uint64{uint64(width), uint64(rows)}, [2]uint64{uint64(2 * ld)}
	b.box, b.elementStep = [2]uint32{boxInputs, uint32(boxRows)}, [2]uint32{1, 1}
	to := (*tensorMap)(unsafe.Pointer(&b.room[(64-address(&b.room[0])%64)%64/8]))
	err := g.try(cuTensorMapEncodeTiled, []uintptr{address(to), bfloat16, 2, uintptr(at), address(&b.size[0]), address(&b.pitch[0]),
		address(&b.box[0]), address(&b.elementStep[0]), noInterleave, swizzle128, promote256, zeros},
		"describing %d rows of %d numbers", rows, width)
	return *to, err
}
