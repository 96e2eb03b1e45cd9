package kernel

//go:generate go run ./_asm

import (
	"encoding/binary"
	"math"

	"github.com/kvasir-llm/kvasir/quant"
)

// Bounds that keep every sum of a product within 32 bits: mostOfRow is the greatest magnitude of a row's value times
// its share, mostOfWeights the greatest sum of magnitudes of a span's weights S·(level - offset), and mostOfWeight
// the greatest magnitude of one of them, which then has two digits of 8 bits, the high one signed.
const (
	mostOfRow     = 127 * greatestShare
	mostOfWeights = math.MaxInt32 / mostOfRow
	mostOfWeight  = 127*256 + 128
)

// affinePanel describes the panels of an affine type. The values are D·S·(level - offset) - M·m, with whole numbers S
// and m for each group of 16 or 32 inputs, and floats D and M, the super-block scales, for each span of 256. Either
// the offset or m is 0.
//
//   - K types store such numbers.
//   - Types with a float s for each group of 32 are converted. D is the greatest |s| of a span divided by the
//     greatest S that mostOfWeights and mostOfWeight allow. S is s/D, rounded half to even. M and m are made
//     likewise, after m took up what the rounding of S does to the middle level.
//   - Types with zero points have spans of 32 or 128 inputs. S is 1, and each span has its offset.
//
// A panel is a row of sections of 256 inputs, of which the last may be short, so that kernels that take one panel
// after another read memory from end to end. A section has three parts, in the order in which kernels need them. In
// each part the 16 outputs are side by side. Sections and codes begin at multiples of 64 bytes.
//
//	scales        [pairs]             for each two groups, see scaleLayout; the last pair may be half empty
//	super-block   [spans]             scales, see scaleLayout; the last span may be short
//	codes         [blocks][64·bits]   bytes for each block of 32 inputs, see putCodes
type affinePanel struct {
	quant.Affine
	layout scaleLayout
	span   int // values

	// For packing, where it rounds scales: the greatest S, and the sums of |level - offset| of two codes of 4 bits
	// that number levels.
	mostS float32
	sizes [256]uint8
}

// scaleLayout is how a panel stores the scales of a pair of groups, and the super-block scales of a span. S in 12
// bits is S/16 [2][16] int8, then [16] bytes with the lowest 4 bits of the second group above those of the first.
type scaleLayout uint8

const (
	noScales   scaleLayout = iota
	uint8s                 // S [2][16] uint8; D [16] float32
	int8s                  // S [2][16] int8; D [16] float32
	int12s                 // S in 12 bits, see below; D [16] float32
	int12Mins              // S as in int12s, m [16][2] int16; D and M [16] float32
	byteMins               // S [2][16] int8, m [16][2] uint8; D and M [16] float16
	zeroPoints             // none; D [16] float32 and offset [16] uint8
)

// affinePanels is indexed by type; other types have a zero entry.
var affinePanels = func() (panels [256]affinePanel) {
	for t, layout := range layouts {
		p := &panels[t]
		p.Affine, _ = quant.AffineOf(t)
		if p.layout, p.span = layout, SpanValues; layout == zeroPoints {
			p.Group, p.span = 32, t.BlockValues()
			continue
		}
		p.boundScales()
	}
	return panels
}()

// IsAffine reports whether a type has affine panels.
func IsAffine(t quant.Type) bool { return affinePanels[t].layout != noScales }

// AffineTypes returns the types that have affine panels, in order.
func AffineTypes() (types []quant.Type) {
	for t := range affinePanels {
		if IsAffine(quant.Type(t)) {
			types = append(types, quant.Type(t))
		}
	}
	return types
}

// AffineRow decodes lane j of a panel of type t into dst.
func AffineRow(t quant.Type, dst []float32, panel []byte, j int) { affinePanels[t].row(dst, panel, j) }

// codeBytes, scaleBytes and superScaleBytes return the size of the codes of a block, of the scales of a pair of
// groups and of a super-block scale.
func (a *affinePanel) codeBytes() int { return a.Bits * 64 }
func (a *affinePanel) scaleBytes() int {
	return [...]int{uint8s: 32, int8s: 32, int12s: 48, int12Mins: 112, byteMins: 64, zeroPoints: 0}[a.layout]
}
func (a *affinePanel) superScaleBytes() int {
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
const sectionBlocks = SpanValues / 32

// headBytes returns the size of what comes before the codes of a section of blocks blocks of 32, sectionBytes that of
// all of it.
func (a *affinePanel) headBytes(blocks int) int {
	return (a.pairs(blocks)*a.scaleBytes() + a.spans(blocks)*a.superScaleBytes() + 63) &^ 63
}
func (a *affinePanel) sectionBytes(blocks int) int { return a.headBytes(blocks) + blocks*a.codeBytes() }

// section returns the parts of section n of a panel of blocks blocks of 32, and how many of these it has.
func (a *affinePanel) section(panel []byte, n, blocks int) (codes, scales, superScales []byte, its int) {
	its = min(sectionBlocks, blocks-n*sectionBlocks)
	panel = panel[n*a.sectionBytes(sectionBlocks):]
	s, c := a.pairs(its)*a.scaleBytes(), a.headBytes(its)
	return panel[c:][:its*a.codeBytes()], panel[:s:s], panel[s:][:a.spans(its)*a.superScaleBytes()], its
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

// superScale reads D, M and the offset of span n of a section in lane j.
func (a *affinePanel) superScale(superScales []byte, n, j int) (d, least float32, offset int32) {
	from := superScales[n*a.superScaleBytes():]
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
	for n := 0; n*SpanValues < len(dst); n++ {
		codes, scales, superScales, its := a.section(panel, n, len(dst)/32)
		for b := range its {
			a.levels(&levels, codes[b*a.codeBytes():], j)
			d, least, offset := a.superScale(superScales, b*32/a.span, j)
			for i := 0; i < 32; i += a.Group {
				s, m := a.scales(scales, (b*32+i)/a.Group, j)
				to := dst[n*SpanValues+b*32+i:][:a.Group]
				for k, level := range levels[i:][:a.Group] {
					to[k] = float32(float32(d*float32(s))*float32(int32(level)-offset)) - float32(least*float32(m))
				}
			}
		}
	}
}

// matAffine multiplies m quantised rows with panels of an affine type. For each span in order it does acc = fma(sum,
// d·D, acc), where sum is the exact sum over its groups of T·S times the product of q and level - offset, and for
// types with an m then acc = fma(-least, d·M, acc), where least is the exact sum of m·T·Σq. Both sums fit 32 bits and
// are rounded to float32.
func matAffine(p AffineProduct) {
	t, dst, ldd, x, w, stride, panels, m := p.Type, p.Dst, p.Ldd, p.X, p.W, p.Stride, p.Panels, p.M
	a := &affinePanels[t]
	for i := range m {
		clear(dst[i*ldd:][:panels*Lanes])
	}
	perSpan := a.span / 32
	var levels [SpanValues]int16 // less the offset
	var s, least [SpanValues / 16]int32
	for p := range panels {
		for n := range a.spans(x.Blocks) * Lanes {
			n, j := n/Lanes, n%Lanes
			codes, scales, superScales, _ := a.section(w[p*stride:], n*a.span/SpanValues, x.Blocks)
			first := n * a.span % SpanValues / 32 // block of the section
			d, dm, offset := a.superScale(superScales, first*32/a.span, j)
			blocks := min(perSpan, x.Blocks-n*perSpan)
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
				q, sums := x.Q[i*x.Ld+n*a.span:], &x.Sums[i*x.LdSums+n*a.span/SpanValues]
				sum, min := int32(0), int32(0)
				for g := range groups {
					of := int32(0)
					part := levels[g*a.Group:][:a.Group]
					for k, q := range q[g*a.Group:][:a.Group] {
						of += int32(q) * int32(part[k])
					}
					sum += s[g] * sums.Shares[g*a.Group/32+first] * of
					if a.hasMins() {
						min += least[g] * sums.of(a.Group, g)
					}
				}
				acc := &dst[i*ldd+p*Lanes+j]
				*acc = FMA(float32(sum), sums.D*d, *acc)
				if a.hasMins() {
					*acc = FMA(-float32(min), sums.D*dm, *acc)
				}
			}
		}
	}
}
