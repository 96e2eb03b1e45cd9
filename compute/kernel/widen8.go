package kernel

import "github.com/kvasir-llm/kvasir/quant"

// Float8Values has 2⁻⁸ times the value of each byte of F8_E4M3. The two bytes that are NaN have the value that their
// bits have in float16.
var Float8Values = func() (v [256]float32) {
	for b := range v {
		v[b] = quant.F16ToF32(uint16(b)&0x80<<8 | uint16(b)&0x7f<<7)
	}
	return v
}()

// widen8 writes the values of bytes [k][16], times scale [16], to dst.
func widen8(dst []float32, w []byte, scale []float32) {
	for i, b := range w {
		dst[i] = Float8Values[b] * scale[i%Lanes]
	}
}
