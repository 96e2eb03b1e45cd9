package cpu

import (
	"encoding/binary"
	"math"

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
// read memory from end to end. Each has three parts, in the order in which they are needed, with the 16 outputs side by side in each. Sections
// and codes begin at multiples of 64 bytes.
//
//	scales  [pairs] of what layout says, for each two groups; the last pair may be half empty
//	supers  [spans] of what layout says; the last span may be short
//	codes   [blocks][64·bits] bytes for each block of 32 inputs, see putCodes
type affinePanel struct {
	quant.Affine
	layout scaleLayout
	span   int // values

	// For packing, where it rounds scales: the greatest S, and the sums of |level - offset| of two codes of 4 bits that number levels.
	mostS float32
	sizes [256]uint8
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
		panels[t].boundScales()
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

// headBytes returns the size of what comes before the codes of a section of blocks blocks of 32, sectionBytes that of all of it.
func (a *affinePanel) headBytes(blocks int) int {
	return (a.pairs(blocks)*a.scaleBytes() + a.spans(blocks)*a.superBytes() + 63) &^ 63
}
func (a *affinePanel) sectionBytes(blocks int) int { return a.headBytes(blocks) + blocks*a.codeBytes() }

// section returns the parts of section n of a panel of blocks blocks of 32, and how many of these it has.
func (a *affinePanel) section(panel []byte, n, blocks int) (codes, scales, supers []byte, its int) {
	its = min(sectionBlocks, blocks-n*sectionBlocks)
	panel = panel[n*a.sectionBytes(sectionBlocks):]
	s, c := a.pairs(its)*a.scaleBytes(), a.headBytes(its)
	return panel[c:][:its*a.codeBytes()], panel[:s:s], panel[s:][:a.spans(its)*a.superBytes()], its
}

// bytes returns the size of a panel of blocks blocks of 32.
func (a *affinePanel) bytes(blocks int) int {
	n := blocks / sectionBlocks * a.sectionBytes(sectionBlocks)
	if last := blocks % sectionBlocks; last > 0 {
		n += a.sectionBytes(last)
	}
	return n
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
