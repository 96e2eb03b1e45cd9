package kernel

import (
	"encoding/binary"
	"math"

	"github.com/kvasir-llm/kvasir/quant"
)

// A KV panel holds the keys, or the values, of 16 consecutive tokens of one head. It is a row of tiles, each the
// 16·16 numbers of 16 dimensions: [16 dimensions][16 tokens] in keys, [16 tokens][16 dimensions] in values, so that
// scores and outputs are products with panels of float weights once the tiles are float32.
//
//	F32, F16, BF16   the numbers
//	Q8_0             for two tiles, 32 dimensions: 16 scales in F16, one of each token, then the int8 of the first
//	                 tile and of the second in keys, of token after token, 32 each, in values
//	Q4_0             likewise, with the number of dimension i in the low half of a byte and that of dimension i+16 in
//	                 the high half, 8 above its value: [16][16 tokens] in keys, [16 tokens][16] in values
//
// Dimensions beyond a head's are zeros; a panel of a quantised type has an even number of tiles.
const TileValues = Lanes * Lanes

// Bytes of two tiles of the quantised types.
const (
	scaleBytes = Lanes * 2
	pairQ8     = scaleBytes + 2*TileValues
	pairQ4     = scaleBytes + TileValues
)

// KVTypes are the types that keys and values can have.
var KVTypes = []quant.Type{quant.F32, quant.F16, quant.BF16, quant.Q8_0, quant.Q4_0}

// KVTiles returns how many tiles a panel of a head with that many dimensions has.
func KVTiles(t quant.Type, dims int) int {
	if Quantised(t) {
		return (dims + 31) / 32 * 2
	}
	return Padded(dims) / Lanes
}

// KVBytes returns the bytes of a panel of n tiles, 0 if t is no type of keys and values.
func KVBytes(t quant.Type, n int) int {
	switch t {
	case quant.F32:
		return n * TileValues * 4
	case quant.F16, quant.BF16:
		return n * TileValues * 2
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
			copy(dst[i*ldd:][:TileValues], View[float32](src)[i*TileValues:])
		}
	case quant.F16:
		widen16(dst, ldd, View[uint16](src), n, quant.F16ToF32)
	case quant.BF16:
		widen16(dst, ldd, View[uint16](src), n, quant.BF16ToF32)
	default:
		for i := 0; i < n; i += 2 {
			pair := src[KVBytes(t, i):][:KVBytes(t, 2)]
			for tile := range 2 {
				widenTile(t, dst[(i+tile)*ldd:][:TileValues], pair, tile, values)
			}
		}
	}
}

func widen16(dst []float32, ldd int, src []uint16, n int, widen func(uint16) float32) {
	for i := range n {
		out := dst[i*ldd:][:TileValues]
		for j, v := range src[i*TileValues:][:TileValues] {
			out[j] = widen(v)
		}
	}
}

// widenTile decodes one of two tiles of a quantised type. The product of a scale and a number is exact.
func widenTile(t quant.Type, dst []float32, pair []byte, tile int, values bool) {
	codes := pair[scaleBytes:]
	for i := range dst {
		row, col := i/Lanes, i%Lanes
		token := col
		if values {
			token = row
		}
		var q int8
		switch {
		case t == quant.Q4_0:
			q = int8(codes[i]>>(4*tile)&15) - 8
		case values:
			q = int8(codes[row*32+tile*Lanes+col])
		default:
			q = int8(codes[tile*TileValues+i])
		}
		dst[i] = quant.F16ToF32(binary.LittleEndian.Uint16(pair[token*2:])) * float32(q)
	}
}

// transpose writes each of n tiles of src, which follow each other, turned about its diagonal to dst, ldd values
// apart: tiles of keys become tiles of values.
func transpose(dst []float32, ldd int, src []float32, n int) {
	for i := range n {
		in, out := src[i*TileValues:][:TileValues], dst[i*ldd:][:TileValues]
		for j, v := range in {
			out[j%Lanes*Lanes+j/Lanes] = v
		}
	}
}

// maxF16 is the largest finite number of F16; what lies beyond is stored as it.
const maxF16 = 65504

func toF16(x float32) uint16 { return quant.F32ToF16(min(max(x, -maxF16), maxF16)) }

// KVRow is one token's key or value of one head on its way into a panel.
type KVRow struct {
	halves []uint16   // of a type of 16 bits
	x      []float32  // the numbers, padded with zeros to whole groups of 32
	codes  []int8     // of a quantised type
	sums   []SpanSums // scratch of the quantisation
}

// Put writes the token in slot j of a panel.
func (r *KVRow) Put(k *Table, t quant.Type, panel []byte, j int, x []float32, values bool) {
	switch t {
	case quant.F32:
		putTiles(View[float32](panel), j, x, values)
	case quant.F16:
		r.halves = Grown(r.halves, len(x))
		for i, v := range x {
			r.halves[i] = toF16(v)
		}
		putTiles(View[uint16](panel), j, r.halves, values)
	case quant.BF16:
		r.halves = Grown(r.halves, len(x))
		for i, v := range x {
			r.halves[i] = quant.F32ToBF16(v)
		}
		putTiles(View[uint16](panel), j, r.halves, values)
	default:
		r.putQuantised(k, t, panel, j, x, values)
	}
}

// CopyKV copies the token in slot j of panel src to slot i of panel dst, both of n tiles.
func CopyKV(t quant.Type, dst []byte, i int, src []byte, j, n int, values bool) {
	if !Quantised(t) {
		for at, size := 0, t.BlockBytes()*TileValues; at < n*size; at += size {
			copySlot(dst[at:][:size], i, src[at:][:size], j, values)
		}
		return
	}
	for at, size := 0, KVBytes(t, 2); at < n/2*size; at += size {
		to, from := dst[at:][:size], src[at:][:size]
		copy(to[i*2:][:2], from[j*2:])
		if to, from = to[scaleBytes:], from[scaleBytes:]; values {
			copySlot(to, i, from, j, true)
		} else {
			for k := 0; k < len(to); k += Lanes {
				to[k+i] = from[k+j]
			}
		}
	}
}

// copySlot copies one of 16 tokens: of values, whose numbers lie together, or of keys in a tile of unquantised numbers.
func copySlot(dst []byte, i int, src []byte, j int, values bool) {
	size := len(dst) / Lanes
	if values {
		copy(dst[i*size:][:size], src[j*size:])
		return
	}
	size /= Lanes // of a number
	for k := 0; k < len(dst); k += Lanes * size {
		copy(dst[k+i*size:][:size], src[k+j*size:])
	}
}

// putTiles writes the token in slot j of tiles of 16·16 numbers.
func putTiles[T float32 | uint16](tiles []T, j int, x []T, values bool) {
	for at := 0; at < len(x); at += Lanes {
		tile, part := tiles[at*Lanes:][:TileValues:TileValues], x[at:min(at+Lanes, len(x))]
		if values {
			copy(tile[j*Lanes:], part)
			continue
		}
		for i, v := range part {
			tile[(i*Lanes+j)%TileValues] = v
		}
	}
}

// putQuantised writes groups of 32 dimensions. In Q8_0 a number is that of Table.Quantize. In Q4_0 the scale is the
// number of greatest magnitude, the first of equals, over -8, and a number is x·(-8/greatest) rounded half to even, at
// most 7.
func (r *KVRow) putQuantised(k *Table, t quant.Type, panel []byte, j int, x []float32, values bool) {
	n := (len(x) + 31) &^ 31
	r.x, r.codes, r.sums = Grown(r.x, n), Grown(r.codes, n), Grown(r.sums, n/32)
	clear(r.x[copy(r.x, x):])
	if t == quant.Q8_0 {
		k.Quantize(r.codes, r.sums, r.x, 32)
	}
	for g := range n / 32 {
		pair, codes := panel[g*KVBytes(t, 2):][:KVBytes(t, 2)], r.codes[g*32:][:32]
		d := r.sums[g].D * greatestShare // which is the share of a group alone
		if t == quant.Q4_0 {
			d = quantize4(codes, r.x[g*32:][:32])
		}
		binary.LittleEndian.PutUint16(pair[j*2:], toF16(d))
		out := pair[scaleBytes:]
		switch {
		case t == quant.Q4_0 && values:
			for i := range Lanes {
				out[j*Lanes+i] = byte(codes[i]) | byte(codes[i+Lanes])<<4
			}
		case t == quant.Q4_0:
			for i := range Lanes {
				out[i*Lanes+j] = byte(codes[i]) | byte(codes[i+Lanes])<<4
			}
		case values:
			for i, q := range codes {
				out[j*32+i] = byte(q)
			}
		default:
			for i, q := range codes {
				out[i*Lanes+j] = byte(q)
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
