package quant

import (
	"encoding/binary"
	"math"
)

// Each join writes the block that the split of its type reads.

func joinQ4_0(dst []byte, p *Parts) {
	putHalf(dst, p.Scale*float32(p.Scales[0]))
	putFourBits(dst[2:18], p.Codes[:32])
}

func joinQ4_1(dst []byte, p *Parts) {
	putHalf(dst, p.Scale*float32(p.Scales[0]))
	putHalf(dst[2:], -p.Min*float32(p.Mins[0]))
	putFourBits(dst[4:20], p.Codes[:32])
}

func joinQ5_0(dst []byte, p *Parts) {
	putHalf(dst, p.Scale*float32(p.Scales[0]))
	putFiveBits(dst[2:], func(i int) uint8 { return p.Codes[i] })
}

func joinQ5_1(dst []byte, p *Parts) {
	putHalf(dst, p.Scale*float32(p.Scales[0]))
	putHalf(dst[2:], -p.Min*float32(p.Mins[0]))
	putFiveBits(dst[4:], func(i int) uint8 { return p.Codes[i] })
}

func joinQ8_0(dst []byte, p *Parts) {
	putHalf(dst, p.Scale*float32(p.Scales[0]))
	for i, c := range p.Codes[:32] {
		dst[2+i] = c ^ 0x80
	}
}

func joinQ2_K(dst []byte, p *Parts) {
	putHalf(dst[80:], p.Scale)
	putHalf(dst[82:], p.Min)
	for g := range p.Scales {
		dst[g] = uint8(p.Scales[g]) | p.Mins[g]<<4
	}
	putTwoBits(dst[16:80], &p.Codes)
}

func joinQ3_K(dst []byte, p *Parts) {
	clear(dst[:32])
	clear(dst[96:108])
	putHalf(dst[108:], p.Scale)
	scales := dst[96:108]
	for g := range p.Scales {
		s := uint8(p.Scales[g] + 32)
		scales[g%8] |= s & 15 << (g / 8 * 4)
		scales[8+g%4] |= s >> 4 << (g / 4 * 2)
	}
	putTwoBits(dst[32:96], &p.Codes)
	for i, c := range p.Codes {
		dst[i%32] |= c >> 2 << (i / 32)
	}
}

func joinQ4_K(dst []byte, p *Parts) {
	putHalf(dst, p.Scale)
	putHalf(dst[2:], p.Min)
	scales := dst[4:16]
	for g := range 4 {
		s, m := uint8(p.Scales[g+4]), p.Mins[g+4]
		scales[g] = uint8(p.Scales[g]) | s>>4<<6
		scales[g+4] = p.Mins[g] | m>>4<<6
		scales[g+8] = s&15 | m<<4
	}
	for c := range 4 {
		putFourBits(dst[16+c*32:][:32], p.Codes[c*64:])
	}
}

func joinQ5_K(dst []byte, p *Parts) {
	joinQ4_K(dst, p)
	for c := range 4 {
		putFourBits(dst[48+c*32:][:32], p.Codes[c*64:])
	}
	clear(dst[16:48])
	for i, c := range p.Codes {
		dst[16+i%32] |= c >> 4 << (i / 32)
	}
}

func joinQ6_K(dst []byte, p *Parts) {
	putHalf(dst[208:], p.Scale)
	for g, s := range p.Scales {
		dst[192+g] = uint8(s)
	}
	putFourBits(dst[:64], p.Codes[:128])
	putFourBits(dst[64:128], p.Codes[128:])
	var high [256]uint8
	for i, c := range p.Codes {
		high[i] = c >> 4
	}
	putTwoBits(dst[128:192], &high)
}

func joinIQ4_NL(dst []byte, p *Parts) {
	putHalf(dst, p.Scale*float32(p.Scales[0]))
	putFourBits(dst[2:18], p.Codes[:32])
}

func joinIQ4_XS(dst []byte, p *Parts) {
	putHalf(dst, p.Scale)
	clear(dst[4:8])
	high := uint16(0)
	for g := range 8 {
		s := uint8(p.Scales[g] + 32)
		high |= uint16(s>>4) << (2 * g)
		dst[4+g/2] |= s & 15 << (g % 2 * 4)
		putFourBits(dst[8+16*g:24+16*g], p.Codes[g*32:])
	}
	binary.LittleEndian.PutUint16(dst[2:], high)
}

func joinMXFP4(dst []byte, p *Parts) {
	_, e := math.Frexp(float64(p.Scale)) // half of 2^e
	dst[0] = uint8(e + 127)
	putFourBits(dst[1:17], p.Codes[:32])
}

func putHalf(dst []byte, v float32) { binary.LittleEndian.PutUint16(dst, F32ToF16(v)) }

// putFourBits writes the low halves of all bytes, then the high ones.
func putFourBits(dst []byte, codes []uint8) {
	for i := range dst {
		dst[i] = codes[i]&15 | codes[len(dst)+i]<<4
	}
}

// putTwoBits writes what twoBits reads.
func putTwoBits(dst []byte, codes *[256]uint8) {
	for i := range dst {
		c := codes[i/32*128+i%32:]
		dst[i] = c[0]&3 | c[32]&3<<2 | c[64]&3<<4 | c[96]&3<<6
	}
}
