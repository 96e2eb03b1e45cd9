package quant

import "encoding/binary"

// The K types store 256 values with a half-precision scale for all and a small integer scale for each 16 or 32 of
// them; those with a minimum subtract a second scaled integer. Their layouts are those of ggml-common.h. They are only
// decoded here: how to choose their scales is a search that each quantizer does in its own way.

// decodeQ2_K reads 16 bytes of scale (low half) and minimum (high half), 64 bytes of two-bit q, d and dmin. Byte i of
// each 32 bytes of q holds the values i, i+32, i+64 and i+96 of 128.
func decodeQ2_K(dst []float32, src []byte) {
	scales, qs := src[:16], src[16:80]
	d, dmin := halfAt(src[80:]), halfAt(src[82:])
	for i := range dst {
		s := scales[i/16]
		q := qs[i/128*32+i%32] >> (i % 128 / 32 * 2) & 3
		dst[i] = float32(float32(d*float32(s&15))*float32(q)) - float32(dmin*float32(s>>4))
	}
}

// decodeQ3_K reads 32 bytes of high bits (set where nothing is subtracted), 64 bytes of two-bit q laid out as in Q2_K,
// 16 six-bit scales in 12 bytes, and d.
func decodeQ3_K(dst []float32, src []byte) {
	hmask, qs, scales, d := src[:32], src[32:96], src[96:108], halfAt(src[108:])
	for i := range dst {
		g := i / 16
		s := int(scales[g%8]>>(g/8*4)&15|scales[8+g%4]>>(g/4*2)&3<<4) - 32
		q := int(qs[i/128*32+i%32] >> (i % 128 / 32 * 2) & 3)
		if hmask[i%32]>>(i/32)&1 == 0 {
			q -= 4
		}
		dst[i] = float32(d*float32(s)) * float32(q)
	}
}

// scaleMin returns the six-bit scale and minimum of group g of 8, from the 12 bytes that Q4_K and Q5_K pack them in.
func scaleMin(b []byte, g int) (scale, minimum uint8) {
	if g < 4 {
		return b[g] & 63, b[g+4] & 63
	}
	return b[g+4]&15 | b[g-4]>>6<<4, b[g+4]>>4 | b[g]>>6<<4
}

// decodeQ4_K reads d, dmin, 8 scales and minimums, and 128 bytes of four-bit q: each 32 bytes hold 32 values in their
// low halves and the next 32 in their high halves.
func decodeQ4_K(dst []float32, src []byte) {
	d, dmin, scales, qs := halfAt(src), halfAt(src[2:]), src[4:16], src[16:144]
	for i := range dst {
		s, m := scaleMin(scales, i/32)
		q := qs[i/64*32+i%32] >> (i / 32 % 2 * 4) & 15
		dst[i] = float32(float32(d*float32(s))*float32(q)) - float32(dmin*float32(m))
	}
}

// decodeQ5_K reads Q4_K with 32 bytes of fifth bits before q: bit g of byte i belongs to value i of group g of 32.
func decodeQ5_K(dst []float32, src []byte) {
	d, dmin, scales, high, qs := halfAt(src), halfAt(src[2:]), src[4:16], src[16:48], src[48:176]
	for i := range dst {
		s, m := scaleMin(scales, i/32)
		q := qs[i/64*32+i%32]>>(i/32%2*4)&15 | high[i%32]>>(i/32)&1<<4
		dst[i] = float32(float32(d*float32(s))*float32(q)) - float32(dmin*float32(m))
	}
}

// decodeQ6_K reads 128 bytes of low and 64 bytes of high bits of q, 16 signed scales, and d. Of each 128 values, the
// low four bits are in 64 bytes (values 0 to 63, then 64 to 127 in the high halves), the high two in 32 as in Q2_K.
func decodeQ6_K(dst []float32, src []byte) {
	low, high, scales, d := src[:128], src[128:192], src[192:208], halfAt(src[208:])
	for i := range dst {
		l := low[i/128*64+i%64] >> (i / 64 % 2 * 4) & 15
		h := high[i/128*32+i%32] >> (i % 128 / 32 * 2) & 3
		dst[i] = float32(d*float32(int8(scales[i/16]))) * float32(int(l|h<<4)-32)
	}
}

// iq4Levels are the 16 values that a four-bit q of IQ4_NL and IQ4_XS stands for, denser near zero.
var iq4Levels = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// decodeIQ4_NL reads d in half-precision and 32 four-bit q laid out as in Q4_0: d*iq4Levels[q].
func decodeIQ4_NL(dst []float32, src []byte) {
	d := halfAt(src)
	for i, q := range src[2:18] {
		dst[i] = d * float32(iq4Levels[q&15])
		dst[i+16] = d * float32(iq4Levels[q>>4])
	}
}

// decodeIQ4_XS reads d, the high two and the low four bits of 8 scales, and 8 groups of 32 four-bit q.
func decodeIQ4_XS(dst []float32, src []byte) {
	d, high, low := halfAt(src), binary.LittleEndian.Uint16(src[2:]), src[4:8]
	for g := range 8 {
		s := int(low[g/2]>>(g%2*4)&15|uint8(high>>(2*g)&3)<<4) - 32
		dl := d * float32(s)
		for i, q := range src[8+16*g : 24+16*g] {
			dst[32*g+i] = dl * float32(iq4Levels[q&15])
			dst[32*g+i+16] = dl * float32(iq4Levels[q>>4])
		}
	}
}
