package kernel

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/kvasir-llm/kvasir/quant"
)

// Products with weights of F16 and BF16 take both sides as bfloat16, which is what tiles multiply, and inputs in
// pairs. A panel holds, for each pair of inputs, those of 16 outputs beside each other: [pairs][16][2] bfloat16.
// Inputs are padded with zeros to whole blocks of 32, which are 16 pairs.
const blockPairs = 16

// PairForm is what a MatPairs takes.
type PairForm uint8

const (
	PairFloats PairForm = iota // rows widened to float32; pairs of neighbours
	PairTiles                  // rows of bfloat16; pairs of neighbours, one for each chain
	pairDots                   // rows of bfloat16; pairs of what follows each other in a chain, the later one first
)

// inputs returns which two inputs are pair p.
func (f PairForm) inputs(p int) (first, second int) {
	if f == pairDots {
		second = p/2*4 + p%2
		return second + 2, second
	}
	return 2 * p, 2*p + 1
}

// Rows16 is a run of activation rows in bfloat16, padded with zeros to whole blocks. Row i is at x[i·ld:], widened to
// float32, or, if the form is not PairFloats, as it is at half[i·ld:], in the order of the pairs.
type Rows16 struct {
	X      []float32
	Half   []uint16
	Ld     int
	Cols   int       // values of a row
	Blocks int       // of a row
	Work   []float32 // [PairPanels][PairChunk][16] sums under way, for kernels with tiles
}

// PairPanels is the most panels of an item of a product in tiles.
const PairPanels = 16

// From returns the rows from row r on.
func (x Rows16) From(r int) Rows16 {
	if len(x.Half) > 0 {
		x.Half = x.Half[r*x.Ld:]
	} else {
		x.X = x.X[r*x.Ld:]
	}
	return x
}

// least16 is the least magnitude of a bfloat16 in a product; smaller ones count as 0. All products and sums are then
// multiples of 2⁻¹¹⁴ and none is subnormal, which tiles would take for 0.
const least16 = 0x1p-50

// ToBF16 rounds to bfloat16.
func ToBF16(v float32) uint16 {
	if math.Abs(float64(v)) < least16 {
		return 0
	}
	return quant.F32ToBF16(v)
}

// round writes x rounded to bfloat16 to dst.
func round(dst, x []float32) {
	for i, v := range x {
		dst[i] = quant.BF16ToF32(ToBF16(v))
	}
}

// narrow is round for rows that stay bfloat16.
func narrow(dst []uint16, x []float32) {
	for i, v := range x {
		dst[i] = ToBF16(v)
	}
	clear(dst[len(x):])
}

// narrowDots is narrow for PairDots.
func narrowDots(dst []uint16, x []float32) {
	clear(dst)
	for i := 0; i < len(dst); i += 2 {
		first, second := pairDots.inputs(i / 2)
		if first < len(x) {
			dst[i] = ToBF16(x[first])
		}
		if second < len(x) {
			dst[i+1] = ToBF16(x[second])
		}
	}
}

func matPairs(p PairProduct) {
	dst, ldd, x, w, stride, panels, m := p.Dst, p.Ldd, p.X, p.W, p.Stride, p.Panels, p.M
	for p := range panels {
		for i := range m {
			var acc [Lanes]float32
			for b := range x.Blocks {
				row, pairs := x.X[i*x.Ld+b*32:][:32], w[p*stride+b*blockPairs*Lanes:][:blockPairs*Lanes]
				var even, odd [Lanes]float32
				for k := range blockPairs {
					for j, v := range pairs[k*Lanes:][:Lanes] {
						even[j] = FMA(row[2*k], math.Float32frombits(v<<16), even[j])
						odd[j] = FMA(row[2*k+1], math.Float32frombits(v&0xffff0000), odd[j])
					}
				}
				for j := range acc {
					acc[j] += even[j] + odd[j]
				}
			}
			copy(dst[i*ldd+p*Lanes:][:Lanes], acc[:])
		}
	}
}

// bfloats are the bfloat16 of all float16.
var bfloats = sync.OnceValue(func() *[1 << 16]uint16 {
	t := new([1 << 16]uint16)
	for i := range t {
		t[i] = ToBF16(quant.F16ToF32(uint16(i)))
	}
	return t
})

// PackPairs puts rows of 16-bit weights in the lanes of a panel, from the first on. Of each row it takes 512 inputs
// at a time, so that what is written stays in the first cache.
func PackPairs(panel []uint32, rows [][]byte, t quant.Type, form PairForm) {
	const run = 512 * 2
	var table *[1 << 16]uint16
	if t == quant.F16 {
		table = bfloats()
	}
	for from := 0; from < len(rows[0]); from += run {
		for j, row := range rows {
			for at := from; at < min(from+run, len(row)); at += 8 { // four inputs, two pairs
				var four [8]byte
				copy(four[:], row[at:])
				x := binary.LittleEndian.Uint64(four[:])
				if table != nil {
					x = uint64(table[x&0xffff]) | uint64(table[x>>16&0xffff])<<16 |
						uint64(table[x>>32&0xffff])<<32 | uint64(table[x>>48])<<48
				} else {
					const ones = 0x0001000100010001
					// 1 where a magnitude is least16 or more.
					enough := (x&(0x7fff*ones) + (0x8000-77<<7)*ones) >> 15 & ones
					x &= enough * 0xffff
				}
				first, second := uint32(x), uint32(x>>32)
				if form == pairDots {
					first, second = first<<16|second&0xffff, first&0xffff0000|second>>16
				}
				to := panel[at/4*Lanes+j:]
				to[0], to[Lanes] = first, second
			}
		}
	}
}

// RowPairs decodes lane j of a panel.
func RowPairs(dst []float32, panel []uint32, j int, form PairForm) {
	for p := range len(panel) / Lanes {
		first, second := form.inputs(p)
		v := panel[p*Lanes+j]
		if first < len(dst) {
			dst[first] = math.Float32frombits(v << 16)
		}
		if second < len(dst) {
			dst[second] = math.Float32frombits(v & 0xffff0000)
		}
	}
}
