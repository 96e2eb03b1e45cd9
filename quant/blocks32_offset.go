package quant

import (
	"encoding/binary"
	"math"
)

// Q4_1 and Q5_1 store a block's minimum m beside the scale d, so that a value is d*q+m; Q5_0 and Q5_1 keep the fifth
// bit of every q in a 32-bit word, value i at bit i.

// splitQ4_1 reads d and m in half-precision and 32 four-bit q, laid out as in Q4_0: d*q+m.
func splitQ4_1(p *Parts, src []byte) {
	p.Scale, p.Min = halfAt(src), -halfAt(src[2:])
	p.Scales[0], p.Mins[0] = 1, 1
	fourBits(p.Codes[:32], src[4:20])
}

func encodeQ4_1(dst []byte, src []float32) error {
	lo, hi := bounds(src)
	d := (hi - lo) / 15
	if err := putScale(dst, d); err != nil {
		return err
	}
	if err := putScale(dst[2:], lo); err != nil {
		return err
	}
	id := inverse(d)
	for i := range 16 {
		a := level(float32((src[i]-lo)*id)+0.5, 15)
		b := level(float32((src[i+16]-lo)*id)+0.5, 15)
		dst[4+i] = a | b<<4
	}
	return nil
}

// splitQ5_0 reads d in half-precision, the high bits, and the low four bits laid out as in Q4_0: d*(q-16).
func splitQ5_0(p *Parts, src []byte) {
	p.Scale, p.Scales[0] = halfAt(src), 1
	fiveBits(&p.Codes, src[2:22])
}

func encodeQ5_0(dst []byte, src []float32) error {
	d := extreme(src) / -16
	if err := putScale(dst, d); err != nil {
		return err
	}
	id := inverse(d)
	putFiveBits(dst[2:], func(i int) uint8 { return level(float32(src[i]*id)+16.5, 31) })
	return nil
}

// splitQ5_1 reads d and m in half-precision, the high bits, and the low four bits: d*q+m.
func splitQ5_1(p *Parts, src []byte) {
	p.Scale, p.Min = halfAt(src), -halfAt(src[2:])
	p.Scales[0], p.Mins[0] = 1, 1
	fiveBits(&p.Codes, src[4:24])
}

func encodeQ5_1(dst []byte, src []float32) error {
	lo, hi := bounds(src)
	d := (hi - lo) / 31
	if err := putScale(dst, d); err != nil {
		return err
	}
	if err := putScale(dst[2:], lo); err != nil {
		return err
	}
	id := inverse(d)
	putFiveBits(dst[4:], func(i int) uint8 { return level(float32((src[i]-lo)*id)+0.5, 31) })
	return nil
}

// fiveBits reads 32 five-bit numbers as putFiveBits writes them.
func fiveBits(codes *[256]uint8, src []byte) {
	fourBits(codes[:32], src[4:20])
	for i, high := range src[:4] {
		const each = 0x8040201008040201           // bit i of byte i
		some := uint64(high)*ones&each + 127*ones // whose top bit is set where the byte had its bit
		code := codes[i*8:]
		binary.LittleEndian.PutUint64(code, binary.LittleEndian.Uint64(code)|some>>7&ones<<4)
	}
}

// putFiveBits writes 32 five-bit numbers: the word of their high bits, then the low bits of value i and i+16 in byte i.
func putFiveBits(dst []byte, q func(i int) uint8) {
	var high uint32
	for i := range 16 {
		a, b := q(i), q(i+16)
		high |= uint32(a>>4)<<i | uint32(b>>4)<<(i+16)
		dst[4+i] = a&15 | b&15<<4
	}
	binary.LittleEndian.PutUint32(dst, high)
}

// bounds returns the smallest and the largest value, NaN when any value is.
func bounds(src []float32) (lo, hi float32) {
	lo, hi = float32(math.Inf(1)), float32(math.Inf(-1))
	for _, v := range src {
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi
}
