package cpu

import (
	"encoding/binary"
	"math"

	"github.com/kvasir-llm/kvasir/quant"
)

// A KV panel holds the keys, or the values, of 16 consecutive tokens of one head. It is a row of tiles, each the 16·16
// numbers of 16 dimensions: [16 dimensions][16 tokens] in keys, [16 tokens][16 dimensions] in values, so that scores and
// outputs are products with panels of float weights once the tiles are float32.
//
//	F32, F16, BF16   the numbers
//	Q8_0             for two tiles, 32 dimensions: 16 scales in F16, one of each token, then the int8 of the first tile
//	                 and of the second in keys, of token after token, 32 each, in values
//	Q4_0             likewise, with the number of dimension i in the low half of a byte and that of dimension i+16 in the
//	                 high half, 8 above its value: [16][16 tokens] in keys, [16 tokens][16] in values
//
// Dimensions beyond a head's are zeros; a panel of a quantised type has an even number of tiles.
const tileValues = lanes * lanes

// Bytes of two tiles of the quantised types.
const (
	scaleBytes = lanes * 2
	pairQ8     = scaleBytes + 2*tileValues
	pairQ4     = scaleBytes + tileValues
)

// KVTypes are the types that keys and values can have.
var KVTypes = []quant.Type{quant.F32, quant.F16, quant.BF16, quant.Q8_0, quant.Q4_0}

// kvTiles returns how many tiles a panel of a head with that many dimensions has.
func kvTiles(t quant.Type, dims int) int {
	if quantised(t) {
		return (dims + 31) / 32 * 2
	}
	return padded(dims) / lanes
}

// kvBytes returns the bytes of a panel of n tiles, 0 if t is no type of keys and values.
func kvBytes(t quant.Type, n int) int {
	switch t {
	case quant.F32:
		return n * tileValues * 4
	case quant.F16, quant.BF16:
		return n * tileValues * 2
	case quant.Q8_0:
		return n / 2 * pairQ8
	case quant.Q4_0:
		return n / 2 * pairQ4
	}
	return 0
}

// widen decodes the first n tiles of a KV panel, ldd values apart in dst. n is even if t is quantised.
func widen(t quant.Type, dst []float32, ldd int, src []byte, n int, values bool) {
	switch t {
	case quant.F32:
		for i := range n {
			copy(dst[i*ldd:][:tileValues], view[float32](src)[i*tileValues:])
		}
	case quant.F16:
		widen16(dst, ldd, view[uint16](src), n, quant.F16ToF32)
	case quant.BF16:
		widen16(dst, ldd, view[uint16](src), n, quant.BF16ToF32)
	default:
		for i := 0; i < n; i += 2 {
			pair := src[kvBytes(t, i):][:kvBytes(t, 2)]
			for tile := range 2 {
				widenTile(t, dst[(i+tile)*ldd:][:tileValues], pair, tile, values)
			}
		}
	}
}

func widen16(dst []float32, ldd int, src []uint16, n int, widen func(uint16) float32) {
	for i := range n {
		out := dst[i*ldd:][:tileValues]
		for j, v := range src[i*tileValues:][:tileValues] {
			out[j] = widen(v)
		}
	}
}

// widenTile decodes one of two tiles of a quantised type. The product of a scale and a number is exact.
func widenTile(t quant.Type, dst []float32, pair []byte, tile int, values bool) {
	codes := pair[scaleBytes:]
	for i := range dst {
		row, col := i/lanes, i%lanes
		token := col
		if values {
			token = row
		}
		var q int8
		switch {
		case t == quant.Q4_0:
			q = int8(codes[i]>>(4*tile)&15) - 8
		case values:
			q = int8(codes[row*32+tile*lanes+col])
		default:
			q = int8(codes[tile*tileValues+i])
		}
		dst[i] = quant.F16ToF32(binary.LittleEndian.Uint16(pair[token*2:])) * float32(q)
	}
}

// transpose writes each of n tiles of src, which follow each other, turned about its diagonal to dst, ldd values apart: tiles
// of keys become tiles of values.
func transpose(dst []float32, ldd int, src []float32, n int) {
	for i := range n {
		in, out := src[i*tileValues:][:tileValues], dst[i*ldd:][:tileValues]
		for j, v := range in {
			out[j%lanes*lanes+j/lanes] = v
		}
	}
}

// maxF16 is the largest finite number of F16; what lies beyond is stored as it.
const maxF16 = 65504

func toF16(x float32) uint16 { return quant.F32ToF16(min(max(x, -maxF16), maxF16)) }

// kvRow is one token's key or value of one head on its way into a panel.
type kvRow struct {
	halves []uint16   // of a type of 16 bits
	x      []float32  // the numbers, padded with zeros to whole groups of 32
	codes  []int8     // of a quantised type
	sums   []spanSums // scratch of the quantisation
}

// put writes the token in slot j of a panel.
func (r *kvRow) put(k *kernels, t quant.Type, panel []byte, j int, x []float32, values bool) {
	switch t {
	case quant.F32:
		putTiles(view[float32](panel), j, x, values)
	case quant.F16:
		r.halves = grown(r.halves, len(x))
		for i, v := range x {
			r.halves[i] = toF16(v)
		}
		putTiles(view[uint16](panel), j, r.halves, values)
	case quant.BF16:
		r.halves = grown(r.halves, len(x))
		for i, v := range x {
			r.halves[i] = quant.F32ToBF16(v)
		}
		putTiles(view[uint16](panel), j, r.halves, values)
	default:
		r.putQuantised(k, t, panel, j, x, values)
	}
}

// putTiles writes the token in slot j of tiles of 16·16 numbers.
func putTiles[T float32 | uint16](tiles []T, j int, x []T, values bool) {
	for at := 0; at < len(x); at += lanes {
		tile, part := tiles[at*lanes:][:tileValues:tileValues], x[at:min(at+lanes, len(x))]
		if values {
			copy(tile[j*lanes:], part)
			continue
		}
		for i, v := range part {
			tile[(i*lanes+j)%tileValues] = v
		}
	}
}

// putQuantised writes groups of 32 dimensions. In Q8_0 a number is that of kernels.quantize. In Q4_0 the scale is the
// number of greatest magnitude, the first of equals, over -8, and a number is x·(-8/greatest) rounded half to even, at
// most 7.
func (r *kvRow) putQuantised(k *kernels, t quant.Type, panel []byte, j int, x []float32, values bool) {
	n := (len(x) + 31) &^ 31
	r.x, r.codes, r.sums = grown(r.x, n), grown(r.codes, n), grown(r.sums, n/32)
	clear(r.x[copy(r.x, x):])
	if t == quant.Q8_0 {
		k.quantize(r.codes, r.sums, r.x, 32)
	}
	for g := range n / 32 {
		pair, codes := panel[g*kvBytes(t, 2):][:kvBytes(t, 2)], r.codes[g*32:][:32]
		d := r.sums[g].d * greatestShare // which is the share of a group alone
		if t == quant.Q4_0 {
			d = quantize4(codes, r.x[g*32:][:32])
		}
		binary.LittleEndian.PutUint16(pair[j*2:], toF16(d))
		out := pair[scaleBytes:]
		switch {
		case t == quant.Q4_0 && values:
			for i := range lanes {
				out[j*lanes+i] = byte(codes[i]) | byte(codes[i+lanes])<<4
			}
		case t == quant.Q4_0:
			for i := range lanes {
				out[i*lanes+j] = byte(codes[i]) | byte(codes[i+lanes])<<4
			}
		case values:
			for i, q := range codes {
				out[j*32+i] = byte(q)
			}
		default:
			for i, q := range codes {
				out[i*lanes+j] = byte(q)
			}
		}
	}
}

// quantize4 turns 32 numbers into codes 0 to 15 and returns their scale.
func quantize4(codes []int8, x []float32) float32 {
	most := float32(0)
	for _, v := range x {
		if math.Abs(float64(v)) > math.Abs(float64(most)) {
			most = v
		}
	}
	inv := -8 / most
	if math.IsInf(float64(inv), 0) {
		inv = 0
	}
	for i, v := range x {
		codes[i] = int8(min(math.RoundToEven(float64(v*inv)), 7)) + 8
	}
	return most / -8
}
