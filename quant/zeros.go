package quant

import (
	"encoding/binary"
	"math"
)

// The types U2_32 to U8_128 hold the weights of GPTQ, AWQ and compressed-tensors: codes with a scale and a zero point
// for a group, s·(code - zero). No file has them; the loader of such a checkpoint writes its tensors as blocks of
//
//	scale  float32
//	zero   uint8
//	codes  bits·values/8 bytes: code i is bits i·bits to (i+1)·bits-1, counted from the lowest of the first byte
//
// A group of more values than a block is several blocks with the same scale.

// ZeroTypes are the types above by the bits of a code, and whether a block has 128 values or 32.
var ZeroTypes = map[int]map[int]Type{
	2: {32: U2_32, 128: U2_128}, 3: {32: U3_32, 128: U3_128}, 4: {32: U4_32, 128: U4_128}, 8: {32: U8_32, 128: U8_128},
}

// zeroHeader is the bytes before the codes.
const zeroHeader = 5

// PutZeroHeader writes a block but for its codes, and returns where these go.
func PutZeroHeader(dst []byte, scale float32, zero uint8) (codes []byte) {
	binary.LittleEndian.PutUint32(dst, math.Float32bits(scale))
	dst[4] = zero
	return dst[zeroHeader:]
}

// PutZeroBlock writes a block of len(codes) values, 32 or 128, whose codes have the given bits.
func PutZeroBlock(dst []byte, scale float32, zero uint8, codes []uint8, bits int) {
	dst = PutZeroHeader(dst, scale, zero)
	word, have := uint32(0), 0
	for _, c := range codes {
		word |= uint32(c) << have
		if have += bits; have >= 8 {
			dst[0], dst = byte(word), dst[1:]
			word, have = word>>8, have-8
		}
	}
}

// zeroAffine returns how blocks come apart.
func zeroAffine(values, bits int) Affine {
	// Eight codes are spread out to a byte each: four go up by some bits, then two of four, then one of two.
	const each4, each2 = 0x0000000100000001, 0x0001000100010001
	all, b := ^uint64(0)>>(64-8*bits), uint(bits)
	four, two, one := all>>(4*bits), all>>(6*bits)*each4, all>>(7*bits)*each2
	return Affine{Group: values, Bits: bits, Zeros: true, split: func(p *Parts, src []byte) {
		p.Scale, p.Zero = math.Float32frombits(binary.LittleEndian.Uint32(src)), src[4]
		p.Scales[0] = 1
		src = src[zeroHeader:]
		for i := 0; i < values; i += 8 {
			x := uint64(0)
			if len(src) >= 8 {
				x = binary.LittleEndian.Uint64(src) & all
			} else {
				for n, v := range src[:bits] {
					x |= uint64(v) << (8 * n & 63)
				}
			}
			x = x&four | x&^four<<((32-4*b)&63)
			x = x&two | x&^two<<((16-2*b)&63)
			x = x&one | x&^one<<((8-b)&63)
			binary.LittleEndian.PutUint64(p.Codes[i:], x)
			src = src[bits:]
		}
	}}
}
