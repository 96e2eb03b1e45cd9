package kernel

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/quant"
)

// Packer holds what is packed: a block of a row, and the numbers of a span, groups as far as it goes and zeros after.
type Packer struct {
	block    quant.Parts
	s, m     [SpanValues / 16]int16
	d, least float32  // D and M
	_        [64]byte // workers have one each, beside each other
}

// packSections is how many sections of a panel its rows are packed into at a time: few enough that what is written
// stays in the first cache, and enough that rows are read in long runs.
const packSections = 8

// Pack puts rows of blocks of type t in the lanes of a panel, from the first on. What no row writes is 0 before.
func (p *Packer) Pack(panel []byte, rows [][]byte, t quant.Type) {
	a := &affinePanels[t]
	size, values := t.BlockBytes(), t.BlockValues()
	blocks := len(rows[0]) / size * values / 32
	sections := (blocks + sectionBlocks - 1) / sectionBlocks
	perSpan, codeBytes, superScaleBytes := a.span/values*size, a.span/32*a.codeBytes(), a.superScaleBytes()
	for first := 0; first < sections; first += packSections {
		for j, row := range rows {
			row = row[first*SpanValues/values*size:]
			for n := first; n < min(first+packSections, sections); n++ {
				codes, scales, superScales, its := a.section(panel, n, blocks)
				for i := range a.spans(its) {
					next := min(perSpan, len(row))
					p.span(a, codes[i*codeBytes:], row[:next], size, values, j)
					p.putSuperScale(a, superScales[i*superScaleBytes:], j)
					row = row[next:]
				}
				p.putScales(a, scales, j)
			}
		}
	}
}

// span takes the blocks of a span apart and puts their codes in lane j.
func (p *Packer) span(a *affinePanel, codes, blocks []byte, size, values, j int) {
	p.s, p.m, p.least = [SpanValues / 16]int16{}, [SpanValues / 16]int16{}, 0
	if values == a.span {
		a.Split(&p.block, blocks)
		p.d, p.least = p.block.Scale, p.block.Min
		for g := range p.s {
			p.s[g], p.m[g] = int16(p.block.Scales[g]), int16(p.block.Mins[g])
		}
		for b := range values / 32 {
			a.putCodes(codes[b*a.codeBytes():], (*[32]uint8)(p.block.Codes[b*32:]), j)
		}
		return
	}
	var s, m [SpanValues / 32]float32
	var sizes [SpanValues / 32]int // sums of |level - offset|
	its := (*[32]uint8)(p.block.Codes[:])
	for b := 0; len(blocks) > 0; b++ {
		if a.Bits == 8 && size == 34 && blocks[1] < 128 { // Q8_0, and a scale without a sign
			s[b], sizes[b] = packQ8_0((*[7*64 + 4]byte)(codes[b*a.codeBytes()+j*4:]), (*[34]byte)(blocks))
			blocks = blocks[size:]
			continue
		}
		a.Split(&p.block, blocks)
		blocks = blocks[size:]
		s[b], m[b] = p.block.Scale, p.block.Min
		if a.layout == uint8s && s[b] < 0 { // S has no sign, so the values turn theirs
			s[b] = -s[b]
			negate(its)
		}
		sizes[b] = a.size(its)
		a.putCodes(codes[b*a.codeBytes():], its, j)
	}
	most := greatest(s[:])
	p.d = wholes(&p.s, &s, most, min(a.mostS, greatestScale(&s, most, &sizes)))
	if a.hasMins() {
		for b := range m { // what rounding s moves the middle level by, m moves back
			m[b] += float32((float32(p.d*float32(p.s[b])) - s[b]) * a.middle())
		}
		p.least = wholes(&p.m, &m, greatest(m[:]), mostMin)
	}
}

// packQ8_0 is Split, size and putCodes for a block of Q8_0, in one piece: large models have most bytes in it.
func packQ8_0(lane *[7*64 + 4]byte, block *[34]byte) (scale float32, size int) {
	var sum uint64
	for i := range 4 {
		x := binary.LittleEndian.Uint64(block[2+8*i:]) ^ 128*ones
		binary.LittleEndian.PutUint32(lane[128*i:], uint32(x))
		binary.LittleEndian.PutUint32(lane[128*i+64:], uint32(x>>32))
		below := ^x >> 7 & ones
		m := (x^below*255)&(127*ones) + below
		sum += m&evens + m>>8&evens
	}
	return quant.F16ToF32(binary.LittleEndian.Uint16(block[:])), int(sum * 0x0001000100010001 >> 48)
}

// boundScales sets mostS and sizes.
func (a *affinePanel) boundScales() {
	farthest := 1<<a.Bits - 1 - a.Offset
	if a.Levels != nil {
		of := func(c int) uint8 { return uint8(max(int(a.Levels[c])-a.Offset, a.Offset-int(a.Levels[c]))) }
		for c := range a.sizes {
			a.sizes[c] = of(c%16) + of(c/16)
		}
		farthest = int(slices.Max(a.Levels[:])) - a.Offset
	}
	switch a.layout {
	case uint8s:
		a.mostS = 255
	case int8s: // MXFP4: powers of two stay exact
		a.mostS = 64
	default:
		a.mostS = float32(min(2047, mostOfWeight/max(farthest, a.Offset)))
	}
}

// mostMin is the greatest m: with 8 groups of 32 sums of 32 bits have room for it.
const mostMin = 1<<13 - 1

// words returns the codes of a block, eight in each word.
func words(codes *[32]uint8) (x, y, z, w uint64) {
	return binary.LittleEndian.Uint64(codes[0:]), binary.LittleEndian.Uint64(codes[8:]),
		binary.LittleEndian.Uint64(codes[16:]), binary.LittleEndian.Uint64(codes[24:])
}

// ones is a 1 in each byte of a word, and evens are all bits of every second byte.
const ones, evens = 0x0101010101010101, 0x00ff00ff00ff00ff

// negate replaces codes of 8 bits by 256 less them, at most 255.
func negate(codes *[32]uint8) {
	for i := 0; i < 32; i += 8 {
		x := binary.LittleEndian.Uint64(codes[i:])
		some := (x&(127*ones) + 127*ones | x) >> 7 & ones // 1 where a code is not 0
		binary.LittleEndian.PutUint64(codes[i:], ^x+some)
	}
}

// size returns the sum of the magnitudes of a block's levels, less the offset, which is 0 or half the levels where
// codes are levels.
func (a *affinePanel) size(codes *[32]uint8) int {
	x, y, z, w := words(codes)
	if a.Levels != nil {
		sum := 0
		x, y = x|y<<4, z|w<<4
		for range 8 {
			sum += int(a.sizes[x&255]) + int(a.sizes[y&255])
			x, y = x>>8, y>>8
		}
		return sum
	}
	count := uint64(0) // of codes below the offset
	if half := uint64(a.Offset); half > 0 {
		// c - half is c without its top bit, half - c the rest of its complement, plus 1.
		shift := uint(a.Bits-1) & 7
		of := func(x uint64) uint64 {
			below := ^x >> shift & ones
			count += below
			return (x ^ below*255) & (ones * (half - 1))
		}
		x, y, z, w = of(x), of(y), of(z), of(w)
	}
	x, y = x+y, z+w
	return int((x&evens + x>>8&evens + y&evens + y>>8&evens + count&evens + count>>8&evens) * 0x0001000100010001 >> 48)
}

// greatestScale returns the greatest S that groups of scales s, of which the greatest is most, and of the given sizes
// may have, with half a step each for rounding. Where nothing bounds it that is the greatest float.
func greatestScale(s *[SpanValues / 32]float32, most float32, sizes *[SpanValues / 32]int) float32 {
	sum, all := 0.0, 0
	for g, f := range s {
		sum += math.Abs(float64(f)) * float64(sizes[g])
		all += sizes[g]
	}
	if most == 0 || math.IsInf(float64(most), 0) || !(sum > 0) {
		return math.MaxFloat32
	}
	return float32(math.Floor((mostOfWeights - float64(all)/2) * float64(most) / sum))
}

// wholes writes v/d, rounded half to even, to whole and returns d, which is most, the greatest |v|, over top.
func wholes(whole *[SpanValues / 16]int16, v *[SpanValues / 32]float32, most, top float32) (d float32) {
	if d = most / top; d == 0 || math.IsInf(float64(d), 0) || d != d {
		return d // with 0 for all: no number times 0 is none either
	}
	const even = 3 << 51 // what is added to it is rounded to a whole number, half to even
	for i, f := range v {
		whole[i] = int16(min(max(int(float64(f)/float64(d)+even-even), int(-top)), int(top)))
	}
	return d
}

func (p *Packer) putSuperScale(a *affinePanel, to []byte, j int) {
	switch a.layout {
	case byteMins:
		binary.LittleEndian.PutUint16(to[j*2:], quant.F32ToF16(p.d))
		binary.LittleEndian.PutUint16(to[32+j*2:], quant.F32ToF16(p.least))
	default:
		binary.LittleEndian.PutUint32(to[j*4:], math.Float32bits(p.d))
		switch a.layout {
		case int12Mins:
			binary.LittleEndian.PutUint32(to[64+j*4:], math.Float32bits(p.least))
		case zeroPoints:
			to[64+j] = p.block.Zero
		}
	}
}

// putScales puts the S and m of a section in lane j.
func (p *Packer) putScales(a *affinePanel, to []byte, j int) {
	size := a.scaleBytes()
	for i := 0; len(to) > 0; i += 2 {
		pair := to[j:size:size]
		s, t := p.s[i], p.s[i+1]
		switch a.layout {
		case int12s, int12Mins:
			pair[0], pair[16], pair[32] = byte(s>>4), byte(t>>4), byte(s&15|t&15<<4)
			if a.layout == int12Mins {
				m := to[48+4*j:]
				binary.LittleEndian.PutUint16(m, uint16(p.m[i]))
				binary.LittleEndian.PutUint16(m[2:], uint16(p.m[i+1]))
			}
		default:
			pair[0], pair[16] = byte(s), byte(t)
			if a.layout == byteMins {
				to[32+j*2], to[33+j*2] = byte(p.m[i]), byte(p.m[i+1])
			}
		}
		to = to[size:]
	}
}

// putCodes puts 32 codes in lane j of a block. Group g is a word of which byte t is code 4g+t; the groups share the
// block's words of that output, with v = g/4 and i = g%4:
//
//	8 bits  word g
//	4 bits  word g/2, in the low halves for even g and in the high ones for odd g
//	2 bits  word v, from bit 2i on
//	6 bits  word 3v+i; for i = 3 the upper two bits of words 3v to 3v+2, beginning with the highest of the code
//
// Codes of 3 and 5 bits are those of 2 and 4 and, in the last 64 bytes, for each group a bit for each of the 64 codes
// that the 16 outputs have in it.
func (a *affinePanel) putCodes(to []byte, codes *[32]uint8, j int) {
	lane, last := to[j*4:], to[(a.Bits-1)*64:]
	put := func(v int, word uint64) { binary.LittleEndian.PutUint32(lane[v*64:], uint32(word)) }
	x, y, z, w := words(codes)
	switch a.Bits {
	case 8:
		_ = lane[7*64+3]
		put(0, x)
		put(1, x>>32)
		put(2, y)
		put(3, y>>32)
		put(4, z)
		put(5, z>>32)
		put(6, w)
		put(7, w>>32)
	case 4, 5:
		_ = lane[3*64+3]
		two := func(x uint64) uint64 { return x&(15*ones) | x&(15*ones)>>28 }
		put(0, two(x))
		put(1, two(y))
		put(2, two(z))
		put(3, two(w))
	case 2, 3:
		_ = lane[64+3]
		four := func(x, y uint64) uint64 {
			x = x&(3*ones) | y&(3*ones)<<4
			return x | x>>30
		}
		put(0, four(x, y))
		put(1, four(z, w))
	case 6:
		_ = lane[5*64+3]
		put(0, x|y>>36&(3*ones)<<6)
		put(1, x>>32|y>>34&(3*ones)<<6)
		put(2, y|y>>32&(3*ones)<<6)
		put(3, z|w>>36&(3*ones)<<6)
		put(4, z>>32|w>>34&(3*ones)<<6)
		put(5, w|w>>32&(3*ones)<<6)
	}
	if a.Bits%2 == 1 {
		shift := uint(a.Bits-1) & 7
		eight := func(x uint64) uint64 { return x >> shift & ones * 0x0102040810204080 >> 56 }
		bits := eight(x) | eight(y)<<8 | eight(z)<<16 | eight(w)<<24
		lane := 4 * uint(j) & 63
		put := func(g int, bits uint64) {
			group := last[g*8:]
			binary.LittleEndian.PutUint64(group, binary.LittleEndian.Uint64(group)|bits&15<<lane)
		}
		_ = last[63]
		put(0, bits)
		put(1, bits>>4)
		put(2, bits>>8)
		put(3, bits>>12)
		put(4, bits>>16)
		put(5, bits>>20)
		put(6, bits>>24)
		put(7, bits>>28)
	}
}
