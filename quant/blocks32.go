package quant

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The types below store 32 values with one scale. Their encoders compute the same float32 operations as ggml's
// reference quantizers (quantize_row_*_ref), so that the bytes are equal. A product is converted to float32 before it
// is added to anything: otherwise Go may fuse the two and round once instead of twice.

// splitQ8_0 reads a half-precision scale d and 32 int8 q: d*q. Codes are 128 above q.
func splitQ8_0(p *Parts, src []byte) {
	p.Scale, p.Scales[0] = halfAt(src), 1
	for i := 0; i < 32; i += 8 {
		binary.LittleEndian.PutUint64(p.Codes[i:], binary.LittleEndian.Uint64(src[2+i:])^0x8080808080808080)
	}
}

func encodeQ8_0(dst []byte, src []float32) error {
	var amax float32
	for _, v := range src {
		amax = max(amax, abs32(v)) // NaN when any value is
	}
	d := amax / 127
	if err := putScale(dst, d); err != nil {
		return err
	}
	id := inverse(d)
	for i, v := range src {
		dst[2+i] = uint8(int8(roundAway(v * id)))
	}
	return nil
}

// splitQ4_0 reads a half-precision scale d and 32 four-bit q, the first 16 in the low halves of 16 bytes, the others
// in the high halves: d*(q-8).
func splitQ4_0(p *Parts, src []byte) {
	p.Scale, p.Scales[0] = halfAt(src), 1
	fourBits(p.Codes[:32], src[2:18])
}

func encodeQ4_0(dst []byte, src []float32) error {
	d := extreme(src) / -8
	if err := putScale(dst, d); err != nil {
		return err
	}
	id := inverse(d)
	for i := range 16 {
		lo := level(float32(src[i]*id)+8.5, 15)
		hi := level(float32(src[i+16]*id)+8.5, 15)
		dst[2+i] = lo | hi<<4
	}
	return nil
}

// halfAt reads the half-precision number at the start of b.
func halfAt(b []byte) float32 { return F16ToF32(binary.LittleEndian.Uint16(b)) }

// putScale writes d as half-precision at the start of dst. It refuses a value that is not finite there.
func putScale(dst []byte, d float32) error {
	h := F32ToF16(d)
	if h&0x7c00 == 0x7c00 {
		return fmt.Errorf("a scale of %g is beyond half precision", d)
	}
	binary.LittleEndian.PutUint16(dst, h)
	return nil
}

// extreme returns the first of the values with the largest magnitude, with its sign, or NaN when any value is NaN.
func extreme(src []float32) float32 {
	var amax, at float32
	for _, v := range src {
		if v != v {
			return v
		}
		if abs32(v) > amax {
			amax, at = abs32(v), v
		}
	}
	return at
}

// inverse returns 1/d, or 0 where the block's values are so small (d is 0, or 1/d overflows) that all decode to 0.
func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	id := 1 / d
	if math.IsInf(float64(id), 0) {
		return 0
	}
	return id
}

// level truncates a non-negative number that rounding may have carried just past the highest level.
func level(x float32, highest uint8) uint8 { return min(highest, uint8(x)) }

func abs32(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }

// roundAway rounds to the nearest integer, halves away from zero.
func roundAway(v float32) float32 { return float32(math.Round(float64(v))) }
