package cpu

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/kvasir-llm/kvasir/quant"
)

// Products with weights of F16 and BF16 take both sides as bfloat16, which is what tiles multiply, and inputs in pairs. A
// panel holds, for each pair of inputs, those of 16 outputs beside each other: [pairs][16][2] bfloat16. Inputs are padded with
// zeros to whole blocks of 32, which are 16 pairs.
const blockPairs = 16

// pairForm is what a matPairs takes.
type pairForm uint8

const (
	pairFloats pairForm = iota // rows widened to float32; pairs of neighbours
	pairTiles                  // rows of bfloat16; pairs of neighbours, one for each chain
	pairDots                   // rows of bfloat16; pairs of what follows each other in a chain, the later one first
)

// inputs returns which two inputs are pair p.
func (f pairForm) inputs(p int) (first, second int) {
	if f == pairDots {
		second = p/2*4 + p%2
		return second + 2, second
	}
	return 2 * p, 2*p + 1
}

// rows16 is a run of activation rows in bfloat16, padded with zeros to whole blocks. Row i is at x[i·ld:], widened to float32,
// or, if the form is not pairFloats, as it is at half[i·ld:], in the order of the pairs.
type rows16 struct {
	x      []float32
	half   []uint16
	ld     int
	cols   int       // values of a row
	blocks int       // of a row
	work   []float32 // [pairPanels][pairChunk][16] sums under way, for kernels with tiles
}

// pairPanels is the most panels of an item of a product in tiles.
const pairPanels = 16

// from returns the rows from row r on.
func (x rows16) from(r int) rows16 {
	if len(x.half) > 0 {
		x.half = x.half[r*x.ld:]
	} else {
		x.x = x.x[r*x.ld:]
	}
	return x
}

// least16 is the least magnitude of a bfloat16 in a product; smaller ones count as 0. All products and sums are then multiples of
// 2⁻¹¹⁴ and none is subnormal, which tiles would take for 0.
const least16 = 0x1p-50

// toBF16 rounds to bfloat16.
func toBF16(v float32) uint16 {
	if math.Abs(float64(v)) < least16 {
		return 0
	}
	return quant.F32ToBF16(v)
}

// round writes x rounded to bfloat16 to dst.
func round(dst, x []float32) {
	for i, v := range x {
		dst[i] = quant.BF16ToF32(toBF16(v))
	}
}

// narrow is round for rows that stay bfloat16.
func narrow(dst []uint16, x []float32) {
	for i, v := range x {
		dst[i] = toBF16(v)
	}
	clear(dst[len(x):])
}

// narrowDots is narrow for pairDots.
func narrowDots(dst []uint16, x []float32) {
	clear(dst)
	for i := 0; i < len(dst); i += 2 {
		first, second := pairDots.inputs(i / 2)
		if first < len(x) {
			dst[i] = toBF16(x[first])
		}
		if second < len(x) {
			dst[i+1] = toBF16(x[second])
		}
	}
}

func matPairs(dst []float32, ldd int, x rows16, w []uint32, stride, panels, m int) {
	for p := range panels {
		for i := range m {
			var acc [lanes]float32
			for b := range x.blocks {
				row, pairs := x.x[i*x.ld+b*32:][:32], w[p*stride+b*blockPairs*lanes:][:blockPairs*lanes]
				var even, odd [lanes]float32
				for k := range blockPairs {
					for j, v := range pairs[k*lanes:][:lanes] {
						even[j] = fma(row[2*k], math.Float32frombits(v<<16), even[j])
						odd[j] = fma(row[2*k+1], math.Float32frombits(v&0xffff0000), odd[j])
					}
				}
				for j := range acc {
					acc[j] += even[j] + odd[j]
				}
			}
			copy(dst[i*ldd+p*lanes:][:lanes], acc[:])
		}
	}
}

// bfloats are the bfloat16 of all float16.
var bfloats = sync.OnceValue(func() *[1 << 16]uint16 {
	t := new([1 << 16]uint16)
	for i := range t {
		t[i] = toBF16(quant.F16ToF32(uint16(i)))
	}
	return t
})

// packPairs puts rows of 16-bit weights in the lanes of a panel, from the first on. Of each row it takes 512 inputs at a time, so that
// what is written stays in the first cache.
func packPairs(panel []uint32, rows [][]byte, t quant.Type, form pairForm) {
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
					x = uint64(table[x&0xffff]) | uint64(table[x>>16&0xffff])<<16 | uint64(table[x>>32&0xffff])<<32 | uint64(table[x>>48])<<48
				} else {
					const ones = 0x0001000100010001
					enough := (x&(0x7fff*ones) + (0x8000-77<<7)*ones) >> 15 & ones // 1 where a magnitude is least16 or more
					x &= enough * 0xffff
				}
				first, second := uint32(x), uint32(x>>32)
				if form == pairDots {
					first, second = first<<16|second&0xffff, first&0xffff0000|second>>16
				}
				to := panel[at/4*lanes+j:]
				to[0], to[lanes] = first, second
			}
		}
	}
}

// rowPairs decodes lane j of a panel.
func rowPairs(dst []float32, panel []uint32, j int, form pairForm) {
	for p := range len(panel) / lanes {
		first, second := form.inputs(p)
		v := panel[p*lanes+j]
		if first < len(dst) {
			dst[first] = math.Float32frombits(v << 16)
		}
		if second < len(dst) {
			dst[second] = math.Float32frombits(v & 0xffff0000)
		}
	}
}

// roomForRounded shapes x16. The distances of its rows are odd numbers of cache lines, so that rows do not share sets of the
// first cache.
func (d *Device) roomForRounded(rows, cols int) {
	x := &d.x16
	x.cols, x.blocks = cols, (cols+31)/32
	if d.k.pairs == pairFloats {
		x.ld = x.blocks*32 + lanes
		x.x = grown(x.x, rows*x.ld)
		return
	}
	x.ld = (x.blocks | 1) * 32
	if n := rows * x.ld; cap(x.half) < n {
		x.half = view[uint16](aligned(2 * max(n+n/2, hugePage)))[:n]
	} else {
		x.half = x.half[:n]
	}
	if d.k.pairs != pairTiles {
		return
	}
	for w := range d.scratch {
		if s := &d.scratch[w]; s.sums == nil {
			s.sums = view[float32](aligned(pairPanels * d.k.pairChunk * lanes * 4))
		}
	}
}

func roundRow(d *Device, o *rowOp, _, r int) { d.roundTo(r, rowOf(o.src, r)) }

// roundTo rounds a row to row r of x16.
func (d *Device) roundTo(r int, row []float32) {
	x := d.x16.from(r)
	row = row[:x.cols]
	if d.k.pairs == pairFloats {
		d.k.round(x.x, row)
		clear(x.x[x.cols : x.blocks*32])
	} else {
		d.k.narrow(x.half[:x.blocks*32], row)
	}
}
