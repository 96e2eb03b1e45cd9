package cpu

import (
	"encoding/binary"

	"github.com/kvasir-llm/kvasir/quant"
)

// affinePanel is how a panel holds a type whose values are s·(level - offset) - m, with an s and an m for each group of 16
// or more (quant.Affine); either the offset, which is the same for all groups or a zero point of each, or m is 0. A group of
// more than 32 is treated as blocks of 32 with the same s and offset. It has three parts, for b of the blocks of 32 inputs and the 16 outputs side by side in each:
//
//	codes   [blocks][64·bits] bytes, see putCodes
//	scales  [blocks][32/group] of what layout says
//	supers  [in/super] of what layout says; none for types with blocks of 32 and no zero points
type affinePanel struct {
	quant.Affine
	layout scaleLayout
	super  int // values that share a super
}

// scaleLayout is how a panel stores the scales of a group and of a super.
type scaleLayout uint8

const (
	noScales   scaleLayout = iota
	floats                 // s [16] float32
	halves                 // s [16] float16
	halfPairs              // s [16], then m [16] float16
	int8s                  // [16] int8, times the super's [16] float16
	int8Pairs              // s [16] int8, m [16] uint8, times the super's s [16] and m [16] float16
	zeroPoints             // none, but the super's s [16] float32 and offset [16] uint8
)

// affinePanels is indexed by type; other types have a zero entry.
var affinePanels = func() (panels [256]affinePanel) {
	for t, layout := range map[quant.Type]scaleLayout{
		quant.Q8_0: halves, quant.Q4_0: halves, quant.Q4_1: halfPairs, quant.Q5_0: halves, quant.Q5_1: halfPairs,
		quant.Q2_K: int8Pairs, quant.Q3_K: int8s, quant.Q4_K: int8Pairs, quant.Q5_K: int8Pairs, quant.Q6_K: int8s,
		quant.IQ4_NL: halves, quant.IQ4_XS: int8s, quant.MXFP4: floats,
	} {
		panels[t].Affine, _ = quant.AffineOf(t)
		panels[t].layout, panels[t].super = layout, 256
	}
	for _, types := range quant.ZeroTypes {
		for values, t := range types {
			panels[t].Affine, _ = quant.AffineOf(t)
			panels[t].Group, panels[t].layout, panels[t].super = 32, zeroPoints, values
		}
	}
	return panels
}()

// codeBytes, scaleBytes and superBytes return the size of one block's codes, one group's scales and one super.
func (a *affinePanel) codeBytes() int { return a.Bits * 64 }
func (a *affinePanel) scaleBytes() int {
	return [...]int{floats: 64, halves: 32, halfPairs: 64, int8s: 16, int8Pairs: 32, zeroPoints: 0}[a.layout]
}
func (a *affinePanel) superBytes() int {
	return [...]int{int8s: 32, int8Pairs: 64, zeroPoints: 80}[a.layout]
}

// supers returns how many supers blocks blocks of 32 have.
func (a *affinePanel) supers(blocks int) int { return (blocks*32 + a.super - 1) / a.super }

// parts cuts a panel of blocks blocks of 32 into its parts.
func (a *affinePanel) parts(panel []byte, blocks int) (codes, scales, supers []byte) {
	n := blocks * a.codeBytes()
	e := n + blocks*(32/a.Group)*a.scaleBytes()
	return panel[:n:n], panel[n:e:e], panel[e:][:a.supers(blocks)*a.superBytes()]
}

// bytes returns the size of a panel of blocks blocks of 32.
func (a *affinePanel) bytes(blocks int) int {
	return blocks*(a.codeBytes()+32/a.Group*a.scaleBytes()) + a.supers(blocks)*a.superBytes()
}

// pack puts one output, a row of blocks of type t, in lane j of its panel.
func (a *affinePanel) pack(panel, row []byte, t quant.Type, j int) {
	size, values := t.BlockBytes(), t.BlockValues()
	blocks := len(row) / size * (values / 32)
	codes, scales, supers := a.parts(panel, blocks)
	var p quant.Parts
	for b := 0; b < blocks; b += values / 32 {
		a.Split(&p, row[:size])
		row = row[size:]
		for i := range values / 32 {
			a.putCodes(codes[(b+i)*a.codeBytes():], p.Codes[i*32:], j)
		}
		for g := range values / a.Group {
			a.putScale(scales[(b*32/a.Group+g)*a.scaleBytes():], &p, g, j)
		}
		if a.superBytes() > 0 {
			a.putSuper(supers[b*32/a.super*a.superBytes():], &p, j)
		}
	}
}

func (a *affinePanel) putSuper(to []byte, p *quant.Parts, j int) {
	if a.layout == zeroPoints {
		view[float32](to[:64])[j], to[64+j] = p.Scale, p.Zero
		return
	}
	binary.LittleEndian.PutUint16(to[j*2:], quant.F32ToF16(p.Scale))
	if a.layout == int8Pairs {
		binary.LittleEndian.PutUint16(to[32+j*2:], quant.F32ToF16(p.Min))
	}
}

func (a *affinePanel) putScale(to []byte, p *quant.Parts, g, j int) {
	switch a.layout {
	case floats:
		copy(view[float32](to[:64])[j:], []float32{p.Scale})
	case halves:
		binary.LittleEndian.PutUint16(to[j*2:], quant.F32ToF16(p.Scale))
	case halfPairs:
		binary.LittleEndian.PutUint16(to[j*2:], quant.F32ToF16(p.Scale))
		binary.LittleEndian.PutUint16(to[32+j*2:], quant.F32ToF16(p.Min))
	case int8s:
		to[j] = byte(p.Scales[g])
	case int8Pairs:
		to[j], to[16+j] = byte(p.Scales[g]), p.Mins[g]
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

// scale reads s, m and the offset of group g in lane j.
func (a *affinePanel) scale(scales, supers []byte, g, j int) (s, m float32, offset int) {
	half := func(b []byte) float32 { return quant.F16ToF32(binary.LittleEndian.Uint16(b[j*2:])) }
	from := scales[g*a.scaleBytes():]
	switch a.layout {
	case floats:
		return view[float32](from[:64])[j], 0, a.Offset
	case halves:
		return half(from), 0, a.Offset
	case halfPairs:
		return half(from), half(from[32:]), 0
	}
	super := supers[g*a.Group/a.super*a.superBytes():]
	if a.layout == zeroPoints {
		return view[float32](super[:64])[j], 0, int(super[64+j])
	}
	s = half(super) * float32(int8(from[j]))
	if a.layout == int8Pairs {
		m = half(super[32:]) * float32(from[16+j])
	}
	return s, m, a.Offset
}

// row decodes lane j of a panel into dst.
func (a *affinePanel) row(dst []float32, panel []byte, j int) {
	codes, scales, supers := a.parts(panel, len(dst)/32)
	var levels [32]uint8
	for b := range len(dst) / 32 {
		a.levels(&levels, codes[b*a.codeBytes():], j)
		for i := 0; i < 32; i += a.Group {
			s, m, offset := a.scale(scales, supers, (b*32+i)/a.Group, j)
			to := dst[b*32+i:][:a.Group]
			for k, level := range levels[i:][:a.Group] {
				to[k] = float32(s*float32(int(level)-offset)) - m
			}
		}
	}
}

// matAffine multiplies m quantised rows with panels of an affine type. For each group in order it does
// acc = fma(sum, d·s, acc), where sum is the exact product of q and level - offset, and for types with an m then
// acc = fma(-m, d·Σq, acc).
func matAffine(t quant.Type, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	a := &affinePanels[t]
	for i := range m {
		clear(dst[i*ldd:][:panels*lanes])
	}
	var levels [32]uint8
	for p := range panels {
		codes, scales, supers := a.parts(w[p*stride:], x.blocks)
		for n := range x.blocks * lanes {
			b, j := n/lanes, n%lanes
			a.levels(&levels, codes[b*a.codeBytes():], j)
			for g := range 32 / a.Group {
				s, least, offset := a.scale(scales, supers, b*(32/a.Group)+g, j)
				part := levels[g*a.Group:][:a.Group]
				for i := range m {
					sum := int32(0)
					for k, q := range x.q[i*x.ld+b*32+g*a.Group:][:a.Group] {
						sum += int32(q) * (int32(part[k]) - int32(offset))
					}
					sums, acc := &x.sums[i*x.lds+b], &dst[i*ldd+p*lanes+j]
					*acc = fma(float32(sum), sums.d*s, *acc)
					if a.Offset == 0 && !a.Zeros {
						*acc = fma(-least, sums.of(a.Group, g), *acc)
					}
				}
			}
		}
	}
}

// blockSums are what products need of a block of a quantised row beside its values: its scale d, d times the sums of the
// first 16 values, of the last 16 and of all, and those sums negated.
type blockSums struct {
	d, first, last, all             float32
	_                               int32
	minusFirst, minusLast, minusAll int32
}

func (s *blockSums) of(group, g int) float32 {
	if group == 32 {
		return s.all
	}
	return [...]float32{s.first, s.last}[g]
}

func sumsOf(d float32, first, last int32) blockSums {
	return blockSums{
		d: d, first: d * float32(first), last: d * float32(last), all: d * float32(first+last),
		minusFirst: -first, minusLast: -last, minusAll: -(first + last),
	}
}
