package quant

import (
	"encoding/binary"
	"math"
)

// Q4_1 and Q5_1 store a block's minimum m beside the scale d, so that a value is d*q+m; Q5_0 and Q5_1 keep the fifth
// bit of every q in a 32-bit word, value i at bit i.

// decodeQ4_1 reads d and m in half-precision and 32 four-bit q, laid out as in Q4_0: d*q+m.
func decodeQ4_1(dst []float32, src []byte) {
	d, m := halfAt(src), halfAt(src[2:])
	for i, q := range src[4:20] {
		dst[i] = float32(float32(q&15)*d) + m
		dst[i+16] = float32(float32(q>>4)*d) + m
	}
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

// decodeQ5_0 reads d in half-precision, the high bits, and the low four bits laid out as in Q4_0: d*(q-16).
func decodeQ5_0(dst []float32, src []byte) {
	d, high := halfAt(src), binary.LittleEndian.Uint32(src[2:])
	for i, low := range src[6:22] {
		dst[i] = float32(fiveBits(low&15, high, i)-16) * d
		dst[i+16] = float32(fiveBits(low>>4, high, i+16)-16) * d
	}
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

// decodeQ5_1 reads d and m in half-precision, the high bits, and the low four bits: d*q+m.
func decodeQ5_1(dst []float32, src []byte) {
	d, m, high := halfAt(src), halfAt(src[2:]), binary.LittleEndian.Uint32(src[4:])
	for i, low := range src[8:24] {
		dst[i] = float32(float32(fiveBits(low&15, high, i))*d) + m
		dst[i+16] = float32(float32(fiveBits(low>>4, high, i+16))*d) + m
	}
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

// fiveBits joins the low four bits of value i with its bit of high.
func fiveBits(low uint8, high uint32, i int) int { return int(low) | int(high>>i&1)<<4 }

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
