package cpu

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/quant"
)

// spanValues is how many inputs share the scale of a quantised row: a span. Each group of 32 of them has a share of it, a
// whole number up to greatestShare.
const (
	spanValues    = 256
	greatestShare = 8
)

// The greatest magnitude of a quantised value times its share, and what a span's weights S·(level - offset) may add up to in
// magnitude so that no sum leaves 32 bits. mostOfWeight is what one of them may be so that it is two digits of 8 bits with signs.
const (
	mostOfRow     = 127 * greatestShare
	mostOfWeights = math.MaxInt32 / mostOfRow
	mostOfWeight  = 127*256 + 128
)

// affinePanel is how a panel holds a type whose values are D·S·(level - offset) - M·m, with whole numbers S and m for each
// group of 16 or 32 inputs and floats D and M for each span of 256; either the offset or m is 0. K types are made of such
// numbers. Types with a float s for each group of 32 are brought to it: D is the greatest |s| of a span over the greatest S, which
// is such that the span's weights keep to mostOfWeights and mostOfWeight, and S is s/D rounded half to even (M and m likewise, after m took up
// what this does to the middle level). Types with zero points have spans of 32 or 128, S is 1 and each span has an offset.
//
// A panel is a row of sections of 256 inputs, of which the last may be short, so that kernels that take one panel after another
// read memory from end to end. Each begins at a multiple of 64 bytes and has three parts, with the 16 outputs side by side in each:
//
//	codes   [blocks][64·bits] bytes for each block of 32 inputs, see putCodes
//	scales  [pairs] of what layout says, for each two groups; the last pair may be half empty
//	supers  [spans] of what layout says; the last span may be short
type affinePanel struct {
	quant.Affine
	layout scaleLayout
	span   int // values
}

// scaleLayout is how a panel stores the scales of a pair of groups, and of a span.
type scaleLayout uint8

const (
	noScales   scaleLayout = iota
	uint8s                 // S [2][16] uint8; D [16] float32
	int8s                  // S [2][16] int8; D [16] float32
	int12s                 // S/16 [2][16] int8, the lowest 4 bits [16] of the first group below the second's; D [16] float32
	int12Mins              // S as in int12s, m [16][2] int16; D and M [16] float32
	byteMins               // S [2][16] int8, m [16][2] uint8; D and M [16] float16
	zeroPoints             // none; D [16] float32 and offset [16] uint8
)

// affinePanels is indexed by type; other types have a zero entry.
var affinePanels = func() (panels [256]affinePanel) {
	for t, layout := range map[quant.Type]scaleLayout{
		quant.Q8_0: uint8s, quant.Q4_0: int12s, quant.Q4_1: int12Mins, quant.Q5_0: int12s, quant.Q5_1: int12Mins,
		quant.Q2_K: byteMins, quant.Q3_K: int8s, quant.Q4_K: byteMins, quant.Q5_K: byteMins, quant.Q6_K: int8s,
		quant.IQ4_NL: int12s, quant.IQ4_XS: int8s, quant.MXFP4: int8s,
	} {
		panels[t].Affine, _ = quant.AffineOf(t)
		panels[t].layout, panels[t].span = layout, spanValues
	}
	for _, types := range quant.ZeroTypes {
		for values, t := range types {
			panels[t].Affine, _ = quant.AffineOf(t)
			panels[t].Group, panels[t].layout, panels[t].span = 32, zeroPoints, values
		}
	}
	return panels
}()

// codeBytes, scaleBytes and superBytes return the size of the codes of a block, of the scales of a pair of groups and of a
// super.
func (a *affinePanel) codeBytes() int { return a.Bits * 64 }
func (a *affinePanel) scaleBytes() int {
	return [...]int{uint8s: 32, int8s: 32, int12s: 48, int12Mins: 112, byteMins: 64, zeroPoints: 0}[a.layout]
}
func (a *affinePanel) superBytes() int {
	return [...]int{uint8s: 64, int8s: 64, int12s: 64, int12Mins: 128, byteMins: 64, zeroPoints: 80}[a.layout]
}

// pairs and spans return how many pairs of groups and how many spans blocks blocks of 32 have.
func (a *affinePanel) pairs(blocks int) int { return (blocks*32/a.Group + 1) / 2 }
func (a *affinePanel) spans(blocks int) int { return (blocks*32 + a.span - 1) / a.span }

// hasMins reports whether values have an m.
func (a *affinePanel) hasMins() bool { return a.layout == int12Mins || a.layout == byteMins }

// middle returns the middle of a type's levels from 0 on.
func (a *affinePanel) middle() float32 { return float32(int(1)<<a.Bits-1) / 2 }

// sectionBlocks is how many blocks of 32 inputs a section has.
const sectionBlocks = spanValues / 32

// sectionBytes returns the size of a section of blocks blocks of 32.
func (a *affinePanel) sectionBytes(blocks int) int {
	return (blocks*a.codeBytes() + a.pairs(blocks)*a.scaleBytes() + a.spans(blocks)*a.superBytes() + 63) &^ 63
}

// section returns the parts of section n of a panel of blocks blocks of 32, and how many of these it has.
func (a *affinePanel) section(panel []byte, n, blocks int) (codes, scales, supers []byte, its int) {
	its = min(sectionBlocks, blocks-n*sectionBlocks)
	panel = panel[n*a.sectionBytes(sectionBlocks):]
	c := its * a.codeBytes()
	e := c + a.pairs(its)*a.scaleBytes()
	return panel[:c:c], panel[c:e:e], panel[e:][:a.spans(its)*a.superBytes()], its
}

// bytes returns the size of a panel of blocks blocks of 32.
func (a *affinePanel) bytes(blocks int) int {
	n := blocks / sectionBlocks * a.sectionBytes(sectionBlocks)
	if last := blocks % sectionBlocks; last > 0 {
		n += a.sectionBytes(last)
	}
	return n
}

// packer holds what is packed: a block of the row, and the numbers of a span, groups as far as it goes and zeros after.
type packer struct {
	block    quant.Parts
	s, m     [spanValues / 16]int16
	d, least float32  // D and M
	_        [64]byte // workers have one each, beside each other
}

// pack puts one output, a row of blocks of type t, in lane j of its panel.
func (p *packer) pack(a *affinePanel, panel, row []byte, t quant.Type, j int) {
	size, values := t.BlockBytes(), t.BlockValues()
	blocks := len(row) / size * values / 32
	perSpan := a.span / values * size
	for n := range (blocks + sectionBlocks - 1) / sectionBlocks {
		codes, scales, supers, its := a.section(panel, n, blocks)
		for i := range a.spans(its) {
			p.span(a, codes[i*a.span/32*a.codeBytes():], row[:min(perSpan, len(row))], size, values, j)
			p.putSuper(a, supers[i*a.superBytes():], j)
			row = row[min(perSpan, len(row)):]
		}
		if a.layout != zeroPoints {
			for i := range a.pairs(its) {
				a.putScales(scales[i*a.scaleBytes():], p.s[i*2:], p.m[i*2:], j)
			}
		}
	}
}

// span takes the blocks of a span apart and puts their codes in lane j.
func (p *packer) span(a *affinePanel, codes, blocks []byte, size, values, j int) {
	p.s, p.m, p.least = [spanValues / 16]int16{}, [spanValues / 16]int16{}, 0
	if values == a.span {
		a.Split(&p.block, blocks)
		p.d, p.least = p.block.Scale, p.block.Min
		for g := range p.s {
			p.s[g], p.m[g] = int16(p.block.Scales[g]), int16(p.block.Mins[g])
		}
		for b := range values / 32 {
			a.putCodes(codes[b*a.codeBytes():], p.block.Codes[b*32:], j)
		}
		return
	}
	var s, m, sizes [spanValues / 32]float32 // sizes are the sums of |level - offset|
	for b := range len(blocks) / size {
		a.Split(&p.block, blocks[b*size:][:size])
		s[b], m[b] = p.block.Scale, p.block.Min
		if a.layout == uint8s && s[b] < 0 { // S has no sign, so the values turn theirs
			s[b] = -s[b]
			for i, c := range p.block.Codes[:32] {
				p.block.Codes[i] = uint8(min(256-int(c), 255))
			}
		}
		sizes[b] = a.size(p.block.Codes[:32])
		a.putCodes(codes[b*a.codeBytes():], p.block.Codes[:32], j)
	}
	top := float32(min(2047, mostOfWeight/a.farthest()))
	switch {
	case a.layout == uint8s:
		top = 255
	case a.layout == int8s: // MXFP4: powers of two stay exact
		top = 64
	}
	p.d = wholes(p.s[:], s[:], min(top, greatestScale(s[:], sizes[:])))
	if a.hasMins() {
		for b := range len(blocks) / size { // what rounding s moves the middle level by, m moves back
			m[b] += float32((float32(p.d*float32(p.s[b])) - s[b]) * a.middle())
		}
		p.least = wholes(p.m[:], m[:], mostMin)
	}
}

// farthest returns the most that a level can be from the offset, or the offset if that is more.
func (a *affinePanel) farthest() int {
	top := 1<<a.Bits - 1
	if a.Levels != nil {
		top = int(slices.Max(a.Levels[:]))
	}
	return max(top-a.Offset, a.Offset)
}

// mostMin is the greatest m: with 8 groups of 32 sums of 32 bits have room for it.
const mostMin = 1<<13 - 1

// size returns the sum of the magnitudes of 32 codes' levels, less the offset, which is 0 or half the levels where codes are levels.
func (a *affinePanel) size(codes []uint8) float32 {
	if a.Levels != nil {
		sum := 0
		for _, c := range codes {
			sum += max(int(a.Levels[c])-a.Offset, a.Offset-int(a.Levels[c]))
		}
		return float32(sum)
	}
	// Eight at a time: with the half h, c - h is c without its top bit, h - c the rest of its complement, plus 1.
	const each, words = 0x0101010101010101, 0x00ff00ff00ff00ff
	half, sums := uint64(a.Offset), uint64(0)
	for i := 0; i < len(codes); i += 8 {
		x := binary.LittleEndian.Uint64(codes[i:])
		if half > 0 {
			below := ^x >> (a.Bits - 1) & each
			x = (x^below*(2*half-1))&(each*(half-1)) + below
		}
		sums += x&words + x>>8&words
	}
	return float32(sums * 0x0001000100010001 >> 48)
}

// greatestScale returns the greatest S that groups of scales s and of the given sizes may have, with half a step each for rounding. Where
// nothing bounds it that is the greatest float.
func greatestScale(s, sizes []float32) float32 {
	most, sum, halves := 0.0, 0.0, 0.0
	for g, f := range s {
		f := math.Abs(float64(f))
		most = max(most, f)
		sum += f * float64(sizes[g])
		halves += float64(sizes[g]) / 2
	}
	if most == 0 || math.IsInf(most, 0) || !(sum > 0) {
		return math.MaxFloat32
	}
	return float32(math.Floor((mostOfWeights - halves) / (sum / most)))
}

// wholes writes v/d, rounded half to even, to whole and returns d, the greatest |v| over top.
func wholes(whole []int16, v []float32, top float32) (d float32) {
	for _, f := range v {
		d = max(d, float32(math.Abs(float64(f))))
	}
	if d = d / top; d == 0 || math.IsInf(float64(d), 0) || d != d {
		return d // with 0 for all: no number times 0 is none either
	}
	const even = 3 << 51 // what is added to it is rounded to a whole number, half to even
	for i, f := range v {
		whole[i] = int16(min(max(int(float64(f)/float64(d)+even-even), int(-top)), int(top)))
	}
	return d
}

func (p *packer) putSuper(a *affinePanel, to []byte, j int) {
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

// putScales puts the S and m of two groups in lane j.
func (a *affinePanel) putScales(to []byte, s, m []int16, j int) {
	switch a.layout {
	case int12s, int12Mins:
		to[j], to[16+j], to[32+j] = byte(s[0]>>4), byte(s[1]>>4), byte(s[0]&15|s[1]&15<<4)
		if a.layout == int12Mins {
			binary.LittleEndian.PutUint16(to[48+j*4:], uint16(m[0]))
			binary.LittleEndian.PutUint16(to[50+j*4:], uint16(m[1]))
		}
	default:
		to[j], to[16+j] = byte(s[0]), byte(s[1])
		if a.layout == byteMins {
			to[32+j*2], to[33+j*2] = byte(m[0]), byte(m[1])
		}
	}
}

// putCodes puts 32 codes in lane j of a block. Group g is a word of which byte t is code 4g+t; the groups share the block's
// words of that output, with v = g/4 and i = g%4:
//
//	8 bits  word g
//	4 bits  word g/2, in the low halves for even g and in the high ones for odd g
//	2 bits  word v, from bit 2i on
//	6 bits  word 3v+i; for i = 3 the upper two bits of words 3v to 3v+2, beginning with the highest of the code
//
// Codes of 3 and 5 bits are those of 2 and 4 and, in the last 64 bytes, for each group a bit for each of the 64 codes that
// the 16 outputs have in it.
func (a *affinePanel) putCodes(to []byte, codes []uint8, j int) {
	group := func(g int) uint32 { return binary.LittleEndian.Uint32(codes[g*4:]) }
	put := func(v int, word uint32) { binary.LittleEndian.PutUint32(to[v*64+j*4:], word) }
	switch a.Bits {
	case 8:
		for g := range 8 {
			put(g, group(g))
		}
	case 4, 5:
		for v := range 4 {
			put(v, group(2*v)&0x0f0f0f0f|group(2*v+1)&0x0f0f0f0f<<4)
		}
	case 2, 3:
		for v := range 2 {
			word := uint32(0)
			for i := range 4 {
				word |= group(4*v+i) & 0x03030303 << (2 * i)
			}
			put(v, word)
		}
	case 6:
		for v := range 2 {
			last := group(4*v + 3)
			for i := range 3 {
				put(3*v+i, group(4*v+i)|last>>(4-2*i)&0x03030303<<6)
			}
		}
	}
	if a.Bits%2 == 1 {
		for g := range 8 {
			bits := group(g) >> (a.Bits - 1) & 0x01010101 * 0x01020408 >> 24 & 15
			to[(a.Bits-1)*64+g*8+j/2] |= byte(bits) << (j % 2 * 4)
		}
	}
}

// levels reads the levels of a block in lane j.
func (a *affinePanel) levels(to *[32]uint8, from []byte, j int) {
	word := func(v int) uint32 { return binary.LittleEndian.Uint32(from[v*64+j*4:]) }
	for g := range 8 {
		v, i, c := g/4, g%4, uint32(0)
		switch a.Bits {
		case 8:
			c = word(g)
		case 4, 5:
			c = word(g/2) >> (i % 2 * 4) & 0x0f0f0f0f
		case 2, 3:
			c = word(v) >> (i * 2) & 0x03030303
		case 6:
			if i < 3 {
				c = word(v*3+i) & 0x3f3f3f3f
				break
			}
			for n := range 3 {
				c |= word(v*3+n) >> 6 & 0x03030303 << (4 - 2*n)
			}
		}
		if a.Bits%2 == 1 {
			bits := uint32(from[(a.Bits-1)*64+g*8+j/2]) >> (j % 2 * 4) & 15
			c |= bits * 0x00204081 & 0x01010101 << (a.Bits - 1)
		}
		binary.LittleEndian.PutUint32(to[g*4:], c)
	}
	if a.Levels != nil {
		for i, c := range to {
			to[i] = a.Levels[c]
		}
	}
}

// scales reads S and m of group g of a section in lane j.
func (a *affinePanel) scales(scales []byte, g, j int) (s, m int32) {
	if a.layout == zeroPoints {
		return 1, 0
	}
	from := scales[g/2*a.scaleBytes():]
	s = int32(int8(from[g%2*16+j]))
	switch a.layout {
	case uint8s:
		s = int32(uint8(s))
	case int12s, int12Mins:
		s = s<<4 | int32(from[32+j]>>(g%2*4)&15)
		if a.layout == int12Mins {
			m = int32(int16(binary.LittleEndian.Uint16(from[48+j*4+g%2*2:])))
		}
	case byteMins:
		m = int32(from[32+j*2+g%2])
	}
	return s, m
}

// super reads D, M and the offset of span n of a section in lane j.
func (a *affinePanel) super(supers []byte, n, j int) (d, least float32, offset int32) {
	from := supers[n*a.superBytes():]
	half := func(at int) float32 { return quant.F16ToF32(binary.LittleEndian.Uint16(from[at+j*2:])) }
	float := func(at int) float32 {
		return math.Float32frombits(binary.LittleEndian.Uint32(from[at+j*4:]))
	}
	switch a.layout {
	case byteMins:
		return half(0), half(32), 0
	case int12Mins:
		return float(0), float(64), 0
	case zeroPoints:
		return float(0), 0, int32(from[64+j])
	}
	return float(0), 0, int32(a.Offset)
}

// row decodes lane j of a panel into dst.
func (a *affinePanel) row(dst []float32, panel []byte, j int) {
	var levels [32]uint8
	for n := 0; n*spanValues < len(dst); n++ {
		codes, scales, supers, its := a.section(panel, n, len(dst)/32)
		for b := range its {
			a.levels(&levels, codes[b*a.codeBytes():], j)
			d, least, offset := a.super(supers, b*32/a.span, j)
			for i := 0; i < 32; i += a.Group {
				s, m := a.scales(scales, (b*32+i)/a.Group, j)
				to := dst[n*spanValues+b*32+i:][:a.Group]
				for k, level := range levels[i:][:a.Group] {
					to[k] = float32(float32(d*float32(s))*float32(int32(level)-offset)) - float32(least*float32(m))
				}
			}
		}
	}
}

// matAffine multiplies m quantised rows with panels of an affine type. For each span in order it does
// acc = fma(sum, d·D, acc), where sum is the exact sum over its groups of T·S times the product of q and level - offset, and
// for types with an m then acc = fma(-least, d·M, acc), where least is the exact sum of m·T·Σq. Both sums fit 32 bits and are
// rounded to float32.
func matAffine(t quant.Type, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	a := &affinePanels[t]
	for i := range m {
		clear(dst[i*ldd:][:panels*lanes])
	}
	perSpan := a.span / 32
	var levels [spanValues]int16 // less the offset
	var s, least [spanValues / 16]int32
	for p := range panels {
		for n := range a.spans(x.blocks) * lanes {
			n, j := n/lanes, n%lanes
			codes, scales, supers, _ := a.section(w[p*stride:], n*a.span/spanValues, x.blocks)
			first := n * a.span % spanValues / 32 // block of the section
			d, dm, offset := a.super(supers, first*32/a.span, j)
			blocks := min(perSpan, x.blocks-n*perSpan)
			for b := range blocks {
				var block [32]uint8
				a.levels(&block, codes[(first+b)*a.codeBytes():], j)
				for k, level := range block {
					levels[b*32+k] = int16(int32(level) - offset)
				}
			}
			groups := blocks * 32 / a.Group
			for g := range groups {
				s[g], least[g] = a.scales(scales, first*32/a.Group+g, j)
			}
			for i := range m {
				q, sums := x.q[i*x.ld+n*a.span:], &x.sums[i*x.lds+n*a.span/spanValues]
				sum, min := int32(0), int32(0)
				for g := range groups {
					of := int32(0)
					part := levels[g*a.Group:][:a.Group]
					for k, q := range q[g*a.Group:][:a.Group] {
						of += int32(q) * int32(part[k])
					}
					sum += s[g] * sums.shares[g*a.Group/32+first] * of
					if a.hasMins() {
						min += least[g] * sums.of(a.Group, g)
					}
				}
				acc := &dst[i*ldd+p*lanes+j]
				*acc = fma(float32(sum), sums.d*d, *acc)
				if a.hasMins() {
					*acc = fma(-float32(min), sums.d*dm, *acc)
				}
			}
		}
	}
}

// spanSums are what products need of a span of a quantised row beside its values: its scale, the shares T of its groups of 32, the
// sums of its groups of 16 and of 32 values, negated, and times T. Groups that the row does not have are 0.
type spanSums struct {
	shares  [8]int32
	minus16 [16]int32
	minus32 [8]int32
	sums16  [16]int16 // times T
	sums32  [8]int16
	d       float32
	_       [3]int32
}

// of returns the sum of group g of 16 or 32 values, times T.
func (s *spanSums) of(group, g int) int32 {
	if group == 32 {
		return int32(s.sums32[g])
	}
	return int32(s.sums16[g])
}

// sumUp sets the sums of the values q, at most 256, of a multiple of 32, whose shares are set.
func (s *spanSums) sumUp(q []int8) {
	for g := range len(q) / 32 {
		sum := int32(0)
		for h := 2 * g; h < 2*g+2; h++ {
			half := int32(0)
			for _, v := range q[h*16:][:16] {
				half += int32(v)
			}
			s.minus16[h], s.sums16[h] = -half, int16(half*s.shares[g])
			sum += half
		}
		s.minus32[g], s.sums32[g] = -sum, int16(sum*s.shares[g])
	}
}
