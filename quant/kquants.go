package quant

import "encoding/binary"

// The K types store 256 values with a half-precision scale for all and a small integer scale for each 16 or 32 of
// them; those with a minimum subtract a second scaled integer. Their layouts are those of ggml-common.h.

// splitQ2_K reads 16 bytes of scale (low half) and minimum (high half), 64 bytes of two-bit q, d and dmin.
func splitQ2_K(p *Parts, src []byte) {
	p.Scale, p.Min = halfAt(src[80:]), halfAt(src[82:])
	for g, s := range src[:16] {
		p.Scales[g], p.Mins[g] = int8(s&15), s>>4
	}
	twoBits(&p.Codes, src[16:80])
}

// twoBits reads 64 bytes of two-bit numbers: byte i of each 32 holds the values i, i+32, i+64 and i+96 of 128.
func twoBits(codes *[256]uint8, src []byte) {
	for i := 0; i < 64; i += 8 {
		eight, to := binary.LittleEndian.Uint64(src[i:]), codes[i/32*128+i%32:]
		const low = 0x0303030303030303
		_ = to[96+7]
		binary.LittleEndian.PutUint64(to[0:], eight&low)
		binary.LittleEndian.PutUint64(to[32:], eight>>2&low)
		binary.LittleEndian.PutUint64(to[64:], eight>>4&low)
		binary.LittleEndian.PutUint64(to[96:], eight>>6&low)
	}
}

// splitQ3_K reads 32 bytes of high bits, 64 bytes of low ones laid out as in Q2_K, 16 six-bit scales in 12 bytes, and
// d.
func splitQ3_K(p *Parts, src []byte) {
	high, scales := src[:32], src[96:108]
	p.Scale = halfAt(src[108:])
	for g := range p.Scales {
		p.Scales[g] = int8(scales[g%8]>>(g/8*4)&15|scales[8+g%4]>>(g/4*2)&3<<4) - 32
	}
	twoBits(&p.Codes, src[32:96])
	addBits(&p.Codes, high, 2)
}

// scaleMin returns the six-bit scale and minimum of group g of 8, from the 12 bytes that Q4_K and Q5_K pack them in.
func scaleMin(b []byte, g int) (scale, minimum uint8) {
	if g < 4 {
		return b[g] & 63, b[g+4] & 63
	}
	return b[g+4]&15 | b[g-4]>>6<<4, b[g+4]>>4 | b[g]>>6<<4
}

// splitQ4_K reads d, dmin, 8 scales and minimums, and 128 bytes of four-bit q: each 32 bytes hold 32 values in their
// low halves and the next 32 in their high halves.
func splitQ4_K(p *Parts, src []byte) {
	p.Scale, p.Min = halfAt(src), halfAt(src[2:])
	for g := range 8 {
		s, m := scaleMin(src[4:16], g)
		p.Scales[g], p.Mins[g] = int8(s), m
	}
	for c := range 4 {
		fourBits(p.Codes[c*64:], src[16+c*32:][:32])
	}
}

// fourBits reads the low halves of all bytes, a multiple of 8, then the high ones.
func fourBits(codes []uint8, src []byte) {
	low, high := codes[:len(src)], codes[len(src):]
	for i := 0; i < len(src); i += 8 {
		eight := binary.LittleEndian.Uint64(src[i:])
		binary.LittleEndian.PutUint64(low[i:], eight&0x0f0f0f0f0f0f0f0f)
		binary.LittleEndian.PutUint64(high[i:], eight>>4&0x0f0f0f0f0f0f0f0f)
	}
}

// addBits adds bit g of byte i of 32 to value i of group g, as its bit number to.
func addBits(codes *[256]uint8, src []byte, to int) {
	word := func(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
	x, y, z, w := word(src), word(src[8:]), word(src[16:]), word(src[24:])
	for g := range 8 {
		group := codes[g*32:][:32]
		add := func(i int, bits uint64) { binary.LittleEndian.PutUint64(group[i:], word(group[i:])|bits>>g&ones<<to) }
		add(0, x)
		add(8, y)
		add(16, z)
		add(24, w)
	}
}

// ones is a 1 in each byte of a word.
const ones = 0x0101010101010101

// splitQ5_K reads Q4_K with 32 bytes of fifth bits before q: bit g of byte i belongs to value i of group g of 32.
func splitQ5_K(p *Parts, src []byte) {
	splitQ4_K(p, src)
	for c := range 4 {
		fourBits(p.Codes[c*64:], src[48+c*32:][:32])
	}
	addBits(&p.Codes, src[16:48], 4)
}

// splitQ6_K reads 128 bytes of low and 64 bytes of high bits of q, 16 signed scales, and d. Of each 128 values, the
// low four bits are in 64 bytes (values 0 to 63, then 64 to 127 in the high halves), the high two in 32 as in Q2_K.
func splitQ6_K(p *Parts, src []byte) {
	p.Scale = halfAt(src[208:])
	for g, s := range src[192:208] {
		p.Scales[g] = int8(s)
	}
	twoBits(&p.Codes, src[128:192])
	var low [256]uint8
	fourBits(low[:128], src[:64])
	fourBits(low[128:], src[64:128])
	for i := 0; i < 256; i += 8 {
		code := p.Codes[i:]
		binary.LittleEndian.PutUint64(code, binary.LittleEndian.Uint64(low[i:])|binary.LittleEndian.Uint64(code)<<4)
	}
}

// splitIQ4_NL reads d in half-precision and 32 four-bit codes laid out as in Q4_0.
func splitIQ4_NL(p *Parts, src []byte) { splitQ4_0(p, src) }

// splitIQ4_XS reads d, the high two and the low four bits of 8 scales, and 8 groups of 32 four-bit codes.
func splitIQ4_XS(p *Parts, src []byte) {
	high, low := binary.LittleEndian.Uint16(src[2:]), src[4:8]
	p.Scale = halfAt(src)
	for g := range 8 {
		p.Scales[g] = int8(low[g/2]>>(g%2*4)&15|uint8(high>>(2*g)&3)<<4) - 32
		fourBits(p.Codes[g*32:], src[8+16*g:][:16])
	}
}
