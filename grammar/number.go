package grammar

import (
	"math/big"
	"strings"
)

// bound is a limit of numbers; nil is none.
type bound struct {
	at     *big.Rat
	strict bool
}

// factor is what numbers must be multiples of: div / 10^scale.
type factor struct {
	div   int64
	scale int32
}

// mostDiv bounds a factor: a term has a state for each remainder.
const mostDiv = 1 << 24

// multiple matches the decimal numbers that are multiples of f, and some strings that are no numbers.
func (a *arena) multiple(f factor) id {
	n := int32(len(a.factors))
	for i, o := range a.factors {
		if o == f {
			n = int32(i)
		}
	}
	if n == int32(len(a.factors)) {
		a.factors = append(a.factors, f)
	}
	return a.remainder(0, -1, n)
}

// remainder is what is left of a multiple when the digits so far leave rem, the last at position pos after the point;
// -1 is before it.
func (a *arena) remainder(rem int64, pos, n int32) id {
	f := a.factors[n]
	total := rem
	for range f.scale - max(pos, 0) {
		total = total * 10 % f.div
	}
	return a.intern(expr{kind: kFactor, a: int32(rem), b: pos, c: n, nullable: total == 0}, nil)
}

// divide is the derivative of a kFactor.
func (a *arena) divide(e expr, b byte) id {
	f := a.factors[e.c]
	switch {
	case b == '-' && e.a == 0 && e.b < 0:
		return a.remainder(0, -1, e.c)
	case b == '.' && e.b < 0:
		return a.remainder(int64(e.a), 0, e.c)
	case b < '0' || b > '9':
		return none
	case e.b >= f.scale && b != '0':
		return none
	case e.b >= f.scale:
		return a.remainder(int64(e.a), e.b, e.c)
	}
	pos := e.b
	if pos >= 0 {
		pos++
	}
	return a.remainder((int64(e.a)*10+int64(b-'0'))%f.div, pos, e.c)
}

// numbers matches the numbers from lo to hi that are multiples of all of by. With integer they have no fraction. Where
// a bound other than 0, or a factor, has to be seen in the digits, they have no exponent.
func (a *arena) numbers(p *prelude, integer bool, lo, hi *bound, by []factor) id {
	minus := a.literal("-")
	if lo == nil && hi == nil && len(by) == 0 {
		if integer {
			return a.cat(a.optional(minus), a.whole())
		}
		return p.number
	}
	if !integer && hi == nil && len(by) == 0 && lo.at.Sign() == 0 {
		zero := a.cat(a.literal("0"), a.optional(a.cat(a.literal("."), a.rep(a.literal("0"), 1, -1))), a.exponent())
		x := a.cat(a.whole(), a.fraction(), a.exponent())
		if lo.strict {
			x = a.and(x, a.not(zero))
		}
		return x
	}
	plain := func(lo, hi *bound) id { // numbers that are not negative
		parts := []id{a.cat(a.whole(), a.fraction())}
		if integer {
			parts[0] = a.whole()
		}
		if lo != nil && (lo.at.Sign() > 0 || lo.strict && lo.at.Sign() == 0) {
			parts = append(parts, a.atLeast(lo))
		}
		if hi != nil {
			parts = append(parts, a.atMost(hi))
		}
		return a.and(parts...)
	}
	var parts []id
	if hi == nil || hi.at.Sign() > 0 || hi.at.Sign() == 0 && !hi.strict {
		from := lo
		if lo != nil && lo.at.Sign() < 0 {
			from = nil
		}
		parts = append(parts, plain(from, hi))
	}
	if lo == nil || lo.at.Sign() < 0 {
		flip := func(b *bound) *bound {
			if b == nil {
				return nil
			}
			return &bound{new(big.Rat).Neg(b.at), b.strict}
		}
		from := flip(hi)
		if hi != nil && hi.at.Sign() > 0 {
			from = nil
		}
		parts = append(parts, a.cat(minus, plain(from, flip(lo))))
	}
	x := a.alt(parts...)
	for _, f := range by {
		x = a.and(x, a.multiple(f))
	}
	return x
}

// digits returns the digits of a decimal number that is not negative before and after its point, without zeros at the
// end. A bound with more than 40 digits after its point is cut there.
func digits(r *big.Rat) (whole, frac string) {
	whole, frac, _ = strings.Cut(r.FloatString(40), ".")
	return whole, strings.TrimRight(frac, "0")
}

// atLeast matches decimal numbers from b on, and others that are not in JSON's form.
func (a *arena) atLeast(b *bound) id {
	whole, frac := digits(b.at)
	next := a.rep(a.digit(), 0, -1) // after the last digit of the bound
	tail := a.fraction()
	if b.strict {
		more := a.cat(a.star(a.literal("0")), a.bytes('1', '9'), a.star(a.digit()))
		next, tail = more, a.cat(a.literal("."), more)
	}
	if frac != "" {
		for i := len(frac) - 1; i >= 0; i-- {
			d := frac[i]
			next = a.cat2(a.bytes(d, d), next)
			if d < '9' {
				next = a.alt(next, a.cat2(a.bytes(d+1, '9'), a.star(a.digit())))
			}
		}
		tail = a.cat(a.literal("."), next)
	}
	parts := []id{a.cat(a.literal(whole), tail)}
	for i := range whole { // more at digit i
		if whole[i] < '9' {
			rest := int32(len(whole) - i - 1)
			parts = append(parts, a.cat(a.literal(whole[:i]), a.bytes(whole[i]+1, '9'), a.rep(a.digit(), rest, rest), a.fraction()))
		}
	}
	longer := a.cat(a.bytes('1', '9'), a.rep(a.digit(), int32(len(whole)), -1), a.fraction())
	return a.alt(append(parts, longer)...)
}

// atMost matches decimal numbers up to b.
func (a *arena) atMost(b *bound) id {
	whole, frac := digits(b.at)
	point := a.literal(".")
	tail := a.optional(a.cat(point, a.rep(a.literal("0"), 1, -1)))
	if b.strict {
		tail = none
	}
	if frac != "" {
		next := a.star(a.literal("0"))
		if b.strict {
			next = none
		}
		for i := len(frac) - 1; i >= 0; i-- {
			d := frac[i]
			next = a.cat2(a.bytes(d, d), next)
			if d > '0' {
				next = a.alt(next, a.cat2(a.bytes('0', d-1), a.star(a.digit())))
			}
			if i > 0 {
				next = a.optional(next) // a shorter fraction is less
			}
		}
		tail = a.optional(a.cat(point, next))
	}
	parts := []id{a.cat(a.literal(whole), tail)}
	for i := range whole { // less at digit i
		if whole[i] > '0' {
			rest := int32(len(whole) - i - 1)
			parts = append(parts, a.cat(a.literal(whole[:i]), a.bytes('0', whole[i]-1), a.rep(a.digit(), rest, rest), a.fraction()))
		}
	}
	if len(whole) > 1 {
		parts = append(parts, a.cat(a.rep(a.digit(), 1, int32(len(whole)-1)), a.fraction()))
	}
	return a.alt(parts...)
}
