package quant

import (
	"fmt"
	"math"
)

// The encoders below choose scales and minimums, which the format leaves open, to make the squared error of a block
// small.

// effort is how many scales an encoder tries on either side of the one that just spans a group's values.
const effort = 9

// encode writes the block that is nearest to the values.
func (a *Affine) encode(dst []byte, src []float32) error { return a.encodeWeighted(dst, src, nil) }

// encodeWeighted does so with weights: the error of each value counts as often as its importance says, if there is one.
func (a *Affine) encodeWeighted(dst []byte, src, importance []float32) error {
	sum := float32(0)
	for _, v := range src {
		if sum += abs32(v); sum-sum != 0 {
			return fmt.Errorf("a value of %g, or values whose sum is beyond float32", v)
		}
	}
	var p Parts
	s := search{Affine: a, p: &p, src: src}
	s.weigh(sum/float32(len(src)), importance)
	switch {
	case a.least == 0:
		s.fitMinimums()
	case a.least == exponents:
		s.fitExponent()
	default:
		s.fitScales()
	}
	for _, d := range []float32{p.Scale, p.Min} {
		if h := F32ToF16(d); h&0x7c00 == 0x7c00 && a.least != exponents {
			return fmt.Errorf("a scale of %g is beyond half precision", d)
		}
	}
	a.join(dst, &p)
	return nil
}

// weigh sets the weight of each value's error; for types with minimums it grows with the value's size within the block.
func (s *search) weigh(mean float32, importance []float32) {
	squares := float32(0)
	for i, v := range s.src {
		s.weights[i] = abs32(v) * inverse(mean)
		squares += s.weights[i] * s.weights[i] / float32(len(s.src))
	}
	for i, w := range s.weights[:len(s.src)] {
		switch {
		case importance != nil:
			s.weights[i] = importance[i] * float32(math.Sqrt(float64(squares+w*w)))
		case s.Levels != nil && s.least < 0: // denser near zero
			s.weights[i] = w * w
		case s.top == 0 && s.least < 0:
			s.weights[i] = 1
		default:
			s.weights[i] = 1 + w
		}
	}
}

// search is the state of an encoder for one block.
type search struct {
	*Affine
	p       *Parts
	src     []float32
	weights [256]float32
}

// group returns group g's values, weights and codes.
func (s *search) group(g int) (x, w []float32, codes []uint8) {
	n := s.Group
	return s.src[g*n:][:n], s.weights[g*n:][:n], s.p.Codes[g*n:][:n]
}

// nearest returns the code whose level, less the offset, is nearest to v.
func (a *Affine) nearest(v float32) uint8 {
	if a.Levels == nil {
		return uint8(min(max(math.RoundToEven(float64(v))+float64(a.Offset), 0), float64(int(1)<<a.Bits-1)))
	}
	best, at := float32(math.Inf(1)), 0
	for c := range a.Levels {
		if d := abs32(a.value(uint8(c)) - v); d < best {
			best, at = d, c
		}
	}
	return uint8(at)
}

// value returns the unscaled value of a code.
func (a *Affine) value(code uint8) float32 {
	if a.Levels != nil {
		code = a.Levels[code]
	}
	return float32(int(code) - a.Offset)
}

// fitScales chooses the scales of a type without minimums, then codes.
func (s *search) fitScales() {
	groups := len(s.src) / s.Group
	scales := make([]float32, groups)
	widest := float32(0)
	for g := range groups {
		scales[g] = s.groupScale(g)
		if abs32(scales[g]) > abs32(widest) {
			widest = scales[g]
		}
	}
	s.p.Scale = F16ToF32(F32ToF16(widest / float32(s.least)))
	for g := range groups {
		s.p.Scales[g] = int8(s.least)
		if groups > 1 {
			s.p.Scales[g] = int8(clamp(scales[g]*inverse(s.p.Scale), float32(s.least), float32(-s.least-1)))
		}
		s.round(g)
	}
	if groups > 1 {
		s.refine(float32(s.least), float32(-s.least-1))
	}
}

// groupScale returns the scale of group g with the least weighted rounding error. It tries several scales that map the
// extreme value to about the last level on its side, and fits each to its rounding by least squares.
func (s *search) groupScale(g int) float32 {
	x, w, _ := s.group(g)
	far, end := extreme(x), s.value(0)
	if far == 0 {
		return 0
	}
	step := float32(0.1)
	if s.Levels != nil {
		step = 1
	}
	best, scale := 0.0, 0.0
	for t := -effort; t <= effort; t++ {
		id := (end + step*float32(t)) / far
		var product, square float64
		for i, v := range x {
			l := float64(s.value(s.nearest(v * id)))
			product += float64(w[i]) * float64(v) * l
			square += float64(w[i]) * l * l
		}
		if square > 0 && product*product > best*square {
			best, scale = product*product/square, product/square
		}
	}
	return float32(scale)
}

// fitMinimums chooses scales and minimums, which subtract at least 0, then codes.
func (s *search) fitMinimums() {
	groups := len(s.src) / s.Group
	scales, mins := make([]float32, groups), make([]float32, groups)
	var scale, least float32
	for g := range groups {
		scales[g], mins[g] = s.groupMinimum(g)
		scale, least = max(scale, scales[g]), max(least, mins[g])
	}
	top := float32(s.top)
	s.p.Scale, s.p.Min = F16ToF32(F32ToF16(scale/top)), F16ToF32(F32ToF16(least/top))
	for g := range groups {
		s.p.Scales[g] = int8(clamp(scales[g]*inverse(s.p.Scale), 0, top))
		s.p.Mins[g] = uint8(clamp(mins[g]*inverse(s.p.Min), 0, top))
		s.round(g)
	}
	s.refine(0, top)
}

// round chooses the codes of group g by its scale and minimum, and returns the weighted squared error.
func (s *search) round(g int) float64 {
	x, w, codes := s.group(g)
	scale, m := s.p.Scale*float32(s.p.Scales[g]), s.p.Min*float32(s.p.Mins[g])
	id, sum := inverse(scale), 0.0
	for i, v := range x {
		codes[i] = s.nearest((v + m) * id)
		d := float64(scale*s.value(codes[i]) - m - v)
		sum += float64(w[i]) * d * d
	}
	return sum
}

// rounds is the number of passes of refine over a block.
const rounds = 3

// refine compensates for the rounding of scales and minimums. It moves those of each group by one, within lo and hi, if
// that reduces the error, and then fits the super-block scales to the codes.
func (s *search) refine(lo, hi float32) {
	best, whole := *s.p, 0.0
	for g := range len(s.src) / s.Group {
		whole += s.round(g)
	}
	for range rounds {
		sum := 0.0
		for g := range len(s.src) / s.Group {
			sum += s.refineGroup(g, lo, hi)
		}
		if sum >= whole {
			break
		}
		best, whole = *s.p, sum
		s.refit()
	}
	*s.p = best
}

// refineGroup tries the scales and minimums beside those of group g and returns the error of the best.
func (s *search) refineGroup(g int, lo, hi float32) float64 {
	p := s.p
	best, scale, least := s.round(g), p.Scales[g], p.Mins[g]
	fromScale, fromMin, mins := float32(scale), float32(least), []float32{0}
	if s.top > 0 {
		mins = []float32{-1, 0, 1}
	}
	for _, ds := range []float32{-1, 0, 1} {
		for _, dm := range mins {
			a, b := fromScale+ds, fromMin+dm
			if a < lo || a > hi || b < 0 || b > float32(max(s.top, 1)) || ds == 0 && dm == 0 {
				continue
			}
			p.Scales[g], p.Mins[g] = int8(a), uint8(b)
			if e := s.round(g); e < best {
				best, scale, least = e, p.Scales[g], p.Mins[g]
			}
		}
	}
	p.Scales[g], p.Mins[g] = scale, least
	return s.round(g)
}

// Rescale adjusts the scale and the minimum of group g in p to values that have changed since p was encoded; the error
// of value i counts importance[i] times.
func (a *Affine) Rescale(p *Parts, g int, src, importance []float32) {
	s := search{Affine: a, p: p, src: src}
	sum := float32(0)
	for _, v := range src {
		sum += abs32(v)
	}
	s.weigh(sum/float32(len(src)), importance)
	lo, hi := float32(0), float32(a.top)
	if a.top == 0 {
		lo, hi = float32(a.least), float32(-a.least-1)
	}
	for range rounds {
		s.refineGroup(g, lo, hi)
	}
}

// refit fits the super-block scales to the codes by least squares.
func (s *search) refit() {
	var aa, ab, bb, ax, bx float64
	for i, v := range s.src {
		g, w := i/s.Group, float64(s.weights[i])
		a, b := float64(s.p.Scales[g])*float64(s.value(s.p.Codes[i])), -float64(s.p.Mins[g])
		aa, ab, bb, ax, bx = aa+w*a*a, ab+w*a*b, bb+w*b*b, ax+w*a*float64(v), bx+w*b*float64(v)
	}
	scale, least := 0.0, 0.0
	if d := aa*bb - ab*ab; s.top > 0 && d > 1e-9*aa*bb {
		scale, least = (bb*ax-ab*bx)/d, (aa*bx-ab*ax)/d
	} else if aa > 0 && s.top == 0 {
		scale = ax / aa
	}
	if least < 0 || scale <= 0 == (s.p.Scale > 0) {
		return
	}
	s.p.Scale = F16ToF32(F32ToF16(float32(scale)))
	if s.top > 0 {
		s.p.Min = F16ToF32(F32ToF16(float32(least)))
	}
}

// groupMinimum returns the scale and the minimum of group g with the least weighted rounding error. It tries several
// scales that about span the values, each with the best-fitting line through values and codes.
func (s *search) groupMinimum(g int) (scale, least float32) {
	x, w, _ := s.group(g)
	lo, hi := bounds(x)
	lo = min(lo, 0)
	if hi <= lo {
		return 0, -lo
	}
	best, top := math.Inf(1), float32(int(1)<<s.Bits-1)
	for t := -effort; t <= effort; t++ {
		id := (top + 0.1*float32(t)) / (hi - lo)
		var n, l, ll, v, vl float64 // weighted sums of 1, levels, squares, values and products
		for i, f := range x {
			q, wt := float64(s.nearest((f-lo)*id)), float64(w[i])
			n, l, ll, v, vl = n+wt, l+wt*q, ll+wt*q*q, v+wt*float64(f), vl+wt*q*float64(f)
		}
		if d := n*ll - l*l; d > 0 {
			d, m := (n*vl-l*v)/d, (l*vl-ll*v)/d
			if m < 0 {
				d, m = vl/ll, 0
			}
			if err := s.errorOf(x, w, float32(d), float32(m)); d > 0 && err < best {
				best, scale, least = err, float32(d), float32(m)
			}
		}
	}
	return scale, least
}

// errorOf returns the weighted squared error of values rounded to scale·q - least.
func (s *search) errorOf(x, w []float32, scale, least float32) float64 {
	sum, id := 0.0, inverse(scale)
	for i, v := range x {
		d := float64(scale)*float64(s.value(s.nearest((v+least)*id))) - float64(least) - float64(v)
		sum += float64(w[i]) * d * d
	}
	return sum
}

// fitExponent chooses a power of two for a scale.
func (s *search) fitExponent() {
	x, w, codes := s.group(0)
	_, e := math.Frexp(float64(extreme(x)))
	best := math.Inf(1)
	s.p.Scales[0] = 1
	for t := e - 5; t <= e-2; t++ { // the greatest level is 12
		d := float32(math.Ldexp(1, min(max(t, -128), 126)))
		if err := s.errorOf(x, w, d, 0); err < best {
			best, s.p.Scale = err, d
		}
	}
	for i, v := range x {
		codes[i] = s.nearest(v * inverse(s.p.Scale))
	}
}

// clamp rounds v and limits it to lo and hi.
func clamp(v, lo, hi float32) float32 {
	return min(max(float32(math.RoundToEven(float64(v))), lo), hi)
}
