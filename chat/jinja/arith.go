package jinja

import (
	"errors"
	"fmt"
	"html"
	"math"
	"math/big"
	"math/bits"
	"strings"
)

// binary is Python's a op b for + - * / // % **.
func (r *run) binary(op string, a, b Value) (Value, error) {
	_, markA := a.(markup)
	_, markB := b.(markup)
	if a, b = plain(a), plain(b); markA || markB {
		return r.binaryMarkup(op, a, b, markA, markB)
	}
	switch x := a.(type) {
	case string:
		switch op {
		case "+":
			if y, ok := b.(string); ok {
				if err := r.spend(len(x) + len(y)); err != nil {
					return nil, err
				}
				return x + y, nil
			}
		case "*":
			return r.repeat(a, b)
		case "%":
			return r.percentFormat(x, b)
		}
	case *List:
		y, ok := b.(*List)
		switch {
		case op == "+" && ok && x.kind == y.kind && x.kind <= kindTuple:
			if err := r.spend(16 * (len(x.items) + len(y.items))); err != nil {
				return nil, err
			}
			return &List{items: append(append([]Value(nil), x.items...), y.items...), kind: x.kind}, nil
		case op == "*" && x.kind <= kindTuple:
			return r.repeat(a, b)
		}
	case *undefined:
		return nil, x.err()
	}
	if u, ok := b.(*undefined); ok {
		return nil, u.err()
	}
	if isNumber(a) && isNumber(b) {
		_, floatA := a.(float64)
		_, floatB := b.(float64)
		if floatA || floatB {
			return floatArith(op, a, b)
		}
		return intArith(op, a, b)
	}
	switch b.(type) {
	case string, *List:
		if op == "*" && isNumber(a) {
			return r.repeat(b, a)
		}
	}
	return nil, fmt.Errorf("unsupported operands for %s: %q and %q", op, typeName(a), typeName(b))
}

// binaryMarkup is binary where a or b is marked as HTML: the other is escaped before it is added.
func (r *run) binaryMarkup(op string, a, b Value, markA, markB bool) (Value, error) {
	x, okA := a.(string)
	y, okB := b.(string)
	if op == "+" && okA && okB {
		if !markA {
			x = html.EscapeString(x)
		} else if !markB {
			y = html.EscapeString(y)
		}
		a, b = x, y
	}
	v, err := r.binary(op, a, b)
	if s, ok := v.(string); ok {
		v = markup(s)
	}
	return v, err
}

// repeat is sequence * count.
func (r *run) repeat(seq, count Value) (Value, error) {
	n, ok := asInt(count)
	if !ok {
		return nil, fmt.Errorf("cannot multiply a sequence by %q", typeName(count))
	}
	n = max(n, 0)
	if s, ok := seq.(string); ok {
		if err := r.spendTimes(len(s), n); err != nil {
			return nil, err
		}
		if s == "" {
			return "", nil
		}
		return strings.Repeat(s, int(n)), nil
	}
	l := seq.(*List)
	if l.kind > kindTuple {
		return nil, fmt.Errorf("cannot multiply %q", typeName(l))
	}
	if err := r.spendTimes(16*len(l.items), n); err != nil {
		return nil, err
	}
	out := &List{kind: l.kind}
	if len(l.items) > 0 {
		for range n {
			out.items = append(out.items, l.items...)
		}
	}
	return out, nil
}

var errZeroDivision = errors.New("division by zero")

func floatArith(op string, a, b Value) (Value, error) {
	x, _ := asFloat(a)
	y, _ := asFloat(b)
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "**":
		if x == 0 && y < 0 {
			return nil, errZeroDivision
		}
		p := math.Pow(x, y)
		if math.IsNaN(p) && !math.IsNaN(x) && !math.IsNaN(y) {
			return nil, errors.New("a negative number to a fractional power is not a real number")
		}
		return p, nil
	}
	if y == 0 {
		return nil, errZeroDivision
	}
	if op == "/" {
		return x / y, nil
	}
	mod := math.Mod(x, y)
	div := (x - mod) / y
	if mod != 0 && mod < 0 != (y < 0) {
		mod += y
		div--
	}
	if op == "%" {
		if mod == 0 {
			mod = math.Copysign(0, y)
		}
		return mod, nil
	}
	if f := math.Floor(div); div-f > 0.5 {
		return f + 1, nil
	} else if div != 0 {
		return f, nil
	}
	return math.Copysign(0, x/y), nil
}

func intArith(op string, a, b Value) (Value, error) {
	x, okX := a.(int64)
	y, okY := b.(int64)
	if okX && okY {
		if v, ok := smallArith(op, x, y); ok {
			return v, nil
		}
	}
	p, _ := asBig(a)
	q, _ := asBig(b)
	z := new(big.Int)
	switch op {
	case "+":
		z.Add(p, q)
	case "-":
		z.Sub(p, q)
	case "*":
		z.Mul(p, q)
	case "**":
		return power(p, q)
	default:
		if q.Sign() == 0 {
			return nil, errZeroDivision
		}
		if op == "/" {
			f, _ := new(big.Rat).SetFrac(p, q).Float64()
			return f, nil
		}
		mod := new(big.Int)
		z.DivMod(p, q, mod) // Euclidean: 0 <= mod
		if q.Sign() < 0 && mod.Sign() != 0 {
			z.Sub(z, big.NewInt(1))
			mod.Add(mod, q)
		}
		if op == "%" {
			z = mod
		}
	}
	if z.BitLen() > maxBits {
		return nil, errors.New("integer is too large")
	}
	return normal(z), nil
}

// smallArith computes what needs no more than an int64.
func smallArith(op string, x, y int64) (Value, bool) {
	switch op {
	case "+":
		z := x + y
		return z, (z > x) == (y > 0)
	case "-":
		z := x - y
		return z, (z < x) == (y > 0)
	case "*":
		hi, lo := bits.Mul64(uint64(max(x, -x)), uint64(max(y, -y)))
		return x * y, hi == 0 && lo < 1<<63 && x != math.MinInt64 && y != math.MinInt64
	case "//", "%":
		if y == 0 || x == math.MinInt64 {
			return nil, false
		}
		div, mod := x/y, x%y
		if mod != 0 && (mod < 0) != (y < 0) {
			div, mod = div-1, mod+y
		}
		if op == "%" {
			return mod, true
		}
		return div, true
	}
	return nil, false
}

func power(p, q *big.Int) (Value, error) {
	if q.Sign() < 0 {
		return floatArith("**", p, q)
	}
	if p.BitLen() > 1 && (!q.IsInt64() || q.Int64() > maxBits || int64(p.BitLen())*q.Int64() > maxBits) {
		return nil, errors.New("integer is too large")
	}
	if p.BitLen() <= 1 { // -1, 0, 1: only the exponent's parity and sign matter
		q = new(big.Int).SetUint64(uint64(q.Bit(0)) + 2*uint64(sign(false, q.Sign() > 0)))
	}
	return normal(new(big.Int).Exp(p, q, nil)), nil
}

// unary is Python's -x and +x.
func unary(op string, x Value) (Value, error) {
	if u, ok := x.(*undefined); ok {
		return nil, u.err()
	}
	if !isNumber(x) {
		return nil, fmt.Errorf("bad operand for unary %s: %q", op, typeName(x))
	}
	if f, ok := x.(float64); ok {
		if op == "-" {
			f = -f
		}
		return f, nil
	}
	n, _ := asBig(x)
	if op == "-" {
		n = new(big.Int).Neg(n)
	}
	return normal(n), nil
}
