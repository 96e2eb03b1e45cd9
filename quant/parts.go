package quant

// Parts is one block as whole numbers and scales, so that a device can store it in another layout without loss. With g
// = i / Affine.Group, and level[i] the code itself or its entry in Affine.Levels, value i is
//
//	(Scale · Scales[g]) · (level[i] - Affine.Offset - Zero) - Min · Mins[g]
//
// in float32. The products with Scales and Mins are exact.
type Parts struct {
	Scale, Min float32
	Scales     [16]int8
	Mins       [16]uint8
	Zero       uint8      // 0 unless Affine.Zeros
	Codes      [256]uint8 // of as many values as a block has
}

// Affine describes how to read a type's Parts: each Group values share a scale, codes are below 1<<Bits, and a level
// minus Offset is its value; with Zeros, each block's Zero is subtracted too. Levels is nil if a code is its own level.
type Affine struct {
	Group, Bits, Offset int
	Levels              *[16]uint8
	split               func(p *Parts, src []byte)
	Zeros               bool

	// For encoders. With minimums, top is the greatest of Scales and Mins; without, least is the least of Scales, -1 if
	// the block has only one scale, or exponents.
	top, least int
	join       func(dst []byte, p *Parts)
}

// exponents means that the scale is a power of two.
const exponents = 1

// The levels of four-bit codes as non-negative whole numbers: those of IQ4_NL and IQ4_XS, which are denser near zero,
// plus 128, and the doubled values of the float E2M1 plus 16.
var (
	iq4Levels = [16]uint8{1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241}
	fp4Levels = [16]uint8{16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4}
)

// AffineOf returns how to read the Parts of type t, or false if t is not an affine block format.
func AffineOf(t Type) (Affine, bool) {
	if !t.Valid() || affines[t].split == nil {
		return Affine{}, false
	}
	return affines[t], true
}

// Split reads one block into Parts. src has at least the bytes of one block.
func (a *Affine) Split(p *Parts, src []byte) { a.split(p, src) }

// Join is the inverse of Split, for types of GGUF.
func (a *Affine) Join(dst []byte, p *Parts) { a.join(dst, p) }

// Round chooses the code of value i that is nearest to v under the scales of p, and returns the value of that code.
func (a *Affine) Round(p *Parts, i int, v float32) float32 {
	g := i / a.Group
	scale, least := p.Scale*float32(p.Scales[g]), p.Min*float32(p.Mins[g])
	p.Codes[i] = a.nearest((v + least) * inverse(scale))
	return scale*a.value(p.Codes[i]) - least
}

// decode writes the values of one block.
func (a *Affine) decode(dst []float32, src []byte) {
	var p Parts
	a.split(&p, src)
	for i := range dst {
		g, level := i/a.Group, int(p.Codes[i])
		if a.Levels != nil {
			level = int(a.Levels[level])
		}
		scale, least := float32(p.Scale*float32(p.Scales[g])), float32(p.Min*float32(p.Mins[g]))
		dst[i] = float32(scale*float32(level-a.Offset-int(p.Zero))) - least
	}
}
