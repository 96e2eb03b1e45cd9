package cuda

import "unsafe"

// tensorMap is a CUtensorMap: it tells the copy engine where the boxes of a matrix lie that a kernel fetches or stores.
type tensorMap [16]uint64

// boxes is memory for the call that makes a tensorMap, on the heap.
type boxes struct {
	room             [24]uint64 // for a map, at a multiple of 64 bytes
	size             [5]uint64
	pitch            [4]uint64
	box, elementStep [5]uint32
}

// boxInputs is the inputs of a box.
const boxInputs = 64

// mapRows describes boxes of boxInputs numbers by boxRows rows by boxSteps steps of a matrix of bfloat16, [rows,
// width], in memory for a multiple of rowMultiple rows. Each row begins ld numbers after the one before; a step is
// boxInputs of the width, a multiple of it. In shared memory, the rows of a step follow those of the step before, and
// units of 16 bytes of a row are swizzled as wgmma reads them. Rows past the matrix's are whatever is there, which no
// result depends on: the copy engine takes longer to fill in zeros beyond a map than to fetch.
func (g *gpu) mapRows(at pointer, width, rows, ld, boxRows, boxSteps int) (tensorMap, error) {
	b := &g.boxes
	b.size, b.pitch = [5]uint64{boxInputs, uint64(roundUp(rows, rowMultiple)), uint64(width / boxInputs)}, [4]uint64{uint64(2 * ld), 2 * boxInputs}
	b.box = [5]uint32{boxInputs, uint32(boxRows), uint32(boxSteps)}
	return g.encode(at, 3, numbersBF16, swizzle128)
}

// mapWeights describes boxes of boxTiles tiles by boxSteps records of a weight, whose records lie in shared memory as
// they lie in memory.
func (g *gpu) mapWeights(at pointer, recordBytes, steps, tiles, boxSteps, boxTiles int) (tensorMap, error) {
	b, words := &g.boxes, recordBytes/8
	b.size, b.pitch = [5]uint64{uint64(words), uint64(steps), uint64(tiles)}, [4]uint64{uint64(recordBytes), uint64(steps * recordBytes)}
	b.box = [5]uint32{uint32(words), uint32(boxSteps), uint32(boxTiles)}
	return g.encode(at, 3, words64, 0)
}

// mapResults describes boxes of 128 bytes by boxRows rows of results, which are n rows of outs numbers.
func (g *gpu) mapResults(to rows, outs, n, boxRows int) (tensorMap, error) {
	size, numbers := 2, numbersBF16
	if to.wide == 1 {
		size, numbers = 4, numbersF32
	}
	b := &g.boxes
	b.size, b.pitch = [5]uint64{uint64(outs), uint64(n)}, [4]uint64{uint64(size * int(to.ld))}
	b.box = [5]uint32{uint32(128 / size), uint32(boxRows)}
	return g.encode(to.at, 2, numbers, swizzle128)
}

// mapScales describes boxes of so many neighbouring numbers of one of several rows of float32, which are ld apart.
func (g *gpu) mapScales(at pointer, ld, rows, box int) (tensorMap, error) {
	b := &g.boxes
	b.size, b.pitch = [5]uint64{uint64(ld), uint64(rows)}, [4]uint64{uint64(4 * ld)}
	b.box = [5]uint32{uint32(box), 1}
	return g.encode(at, 2, numbersF32, 0)
}

// The types of a map's numbers, and how rows of 128 bytes lie in shared memory, as the driver numbers them.
const (
	words64     uintptr = 4
	numbersF32  uintptr = 7
	numbersBF16 uintptr = 9
	swizzle128  uintptr = 3
)

// encode makes the map that g.boxes describes in so many dimensions.
func (g *gpu) encode(at pointer, dims int, of, swizzle uintptr) (tensorMap, error) {
	const noInterleave, promote256, zeros = 0, 3, 0
	b := &g.boxes
	b.elementStep = [5]uint32{1, 1, 1, 1, 1}
	to := (*tensorMap)(unsafe.Pointer(&b.room[(64-address(&b.room[0])%64)%64/8]))
	err := g.try(cuTensorMapEncodeTiled, []uintptr{address(to), of, uintptr(dims), uintptr(at), address(&b.size[0]), address(&b.pitch[0]),
		address(&b.box[0]), address(&b.elementStep[0]), noInterleave, swizzle, promote256, zeros},
		"describing boxes of %d dimensions", dims)
	return *to, err
}

// boxTail is the most bytes that boxes of mapLayer have beyond the last token.
const boxTail = 2 * boxInputs

// mapLayer describes boxes of a layer's part of the cache, of bfloat16: 8 tokens of a head, first their keys, then
// their values. Both lie in shared memory as mapRows says, in steps of boxInputs numbers: the last one may go on in
// what follows (boxTail). Boxes of latents are three steps of 8 tokens.
func (g *gpu) mapLayer(c *cache, layer int) (tensorMap, error) {
	l, p, b := c.spec.Layers[layer], c.places[c.of[layer]], &g.boxes
	if l.Latent {
		b.size = [5]uint64{boxInputs, uint64(c.spec.BlockTokens), uint64(l.KDim / boxInputs), uint64(c.spec.Blocks)}
		b.pitch = [4]uint64{uint64(2 * l.KDim), 2 * boxInputs, uint64(p.bytes)}
		b.box = [5]uint32{boxInputs, 8, 3, 1}
		return g.encode(p.at, 4, numbersBF16, swizzle128)
	}
	heads, steps, row := l.KVHeads*c.spec.BlockTokens, blocksOf(l.KDim, boxInputs), 2*l.KDim
	b.size = [5]uint64{boxInputs, uint64(heads), uint64(steps), 2, uint64(c.spec.Blocks)}
	b.pitch = [4]uint64{uint64(row), 2 * boxInputs, uint64(heads * row), uint64(p.bytes)}
	b.box = [5]uint32{boxInputs, 8, uint32(steps), 2, 1}
	return g.encode(p.at, 5, numbersBF16, swizzle128)
}
