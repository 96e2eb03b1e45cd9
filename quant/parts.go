package quant

// Parts is one block taken apart into whole numbers and what they are multiplied with, so that a device can lay them out
// anew without loss. With g = i / Affine.Group, and level[i] the code itself or what Affine.Levels says, value i is
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

// Affine says how a type's Parts are read: each Group values share a scale, codes are below 1<<Bits, and Offset is
// what a level stands above its value, or, with Zeros, each block's Zero is. Levels is nil where a code is its own level.
type Affine struct {
	Group, Bits, Offset int
	Levels              *[16]uint8
	split               func(p *Parts, src []byte)
	Zeros               bool

	// What an encoder needs. Of types with minimums, top is the greatest of Scales and Mins; of others, least is the least of
	// Scales, -1 if there is one for the block, or exponents.
	top, least int
	join       func(dst []byte, p *Parts)
}

// exponents says that the scale is a power of two.
const exponents = 1

// The levels of four-bit codes, as whole numbers that are not negative: 128 above those of IQ4_NL and IQ4_XS, which are
// denser near zero, and 16 above the doubled values of the float E2M1.
var (
	iq4Levels = [16]uint8{1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241}
	fp4Levels = [16]uint8{16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4}
)

var affines = [numTypes]Affine{
	Q4_0:   {32, 4, 8, nil, splitQ4_0, false, 0, -1, joinQ4_0},
	Q4_1:   {32, 4, 0, nil, splitQ4_1, false, 1, 0, joinQ4_1},
	Q5_0:   {32, 5, 16, nil, splitQ5_0, false, 0, -1, joinQ5_0},
	Q5_1:   {32, 5, 0, nil, splitQ5_1, false, 1, 0, joinQ5_1},
	Q8_0:   {32, 8, 128, nil, splitQ8_0, false, 0, -1, joinQ8_0},
	Q2_K:   {16, 2, 0, nil, splitQ2_K, false, 15, 0, joinQ2_K},
	Q3_K:   {16, 3, 4, nil, splitQ3_K, false, 0, -32, joinQ3_K},
	Q4_K:   {32, 4, 0, nil, splitQ4_K, false, 63, 0, joinQ4_K},
	Q5_K:   {32, 5, 0, nil, splitQ5_K, false, 63, 0, joinQ5_K},
	Q6_K:   {16, 6, 32, nil, splitQ6_K, false, 0, -128, joinQ6_K},
	IQ4_NL: {32, 4, 128, &iq4Levels, splitIQ4_NL, false, 0, -1, joinIQ4_NL},
	IQ4_XS: {32, 4, 128, &iq4Levels, splitIQ4_XS, false, 0, -32, joinIQ4_XS},
	MXFP4:  {32, 4, 16, &fp4Levels, splitMXFP4, false, 0, exponents, joinMXFP4},

	U2_32: zeroAffine(32, 2), U3_32: zeroAffine(32, 3), U4_32: zeroAffine(32, 4), U8_32: zeroAffine(32, 8),
	U2_128: zeroAffine(128, 2), U3_128: zeroAffine(128, 3), U4_128: zeroAffine(128, 4), U8_128: zeroAffine(128, 8),
}

// AffineOf returns how blocks of type t come apart, or false for a type that is no affine block format.
func AffineOf(t Type) (Affine, bool) {
	if !t.Valid() || affines[t].split == nil {
		return Affine{}, false
	}
	return affines[t], true
}

// Split takes one block apart. src has the bytes of one block at least.
func (a *Affine) Split(p *Parts, src []byte) { a.split(p, src) }

// Join writes the block that Split takes apart, of a type of GGUF.
func (a *Affine) Join(dst []byte, p *Parts) { a.join(dst, p) }

// Round chooses the code of value i that comes nearest to v, with the scales that p has, and returns what it stands for.
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
