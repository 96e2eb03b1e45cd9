package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// scores returns n scores in groups of 16, some of them masked, of many sizes.
func scores(r *rand.Rand, n, kind int) []float32 {
	s := make([]float32, n)
	spread := []float32{1, 30, 1000}[kind%3]
	for i := range s {
		if s[i] = number(r) * spread; r.IntN(5) == 0 || kind%7 == 0 {
			s[i] = minusInf
		}
	}
	switch kind % 5 {
	case 0: // zeros of both signs, one of them or none positive, none above
		for i := range s {
			s[i] = []float32{float32(math.Copysign(0, -1)), -1, minusInf}[r.IntN(3)]
		}
		if kind%2 == 0 {
			s[r.IntN(n)] = 0
		}
	case 1: // at and beside the least argument of exp2
		for i := range s {
			s[i] = math.Float32frombits(math.Float32bits(exp2Min) + uint32(r.IntN(3)) - 1)
		}
		s[r.IntN(n)] = 0
	}
	if kind%11 != 0 { // else there may be none
		s[r.IntN(n)] = -float32(r.Float64())
	}
	return s
}

func TestWeigh(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(7, 7))
		for groups := 1; groups <= 70; groups++ {
			n, rows := groups*Lanes, 1+groups%4
			ld := n + groups%3*5
			s := make([]float32, (rows-1)*ld+n)
			for i := range rows {
				copy(s[i*ld:], scores(r, n, groups+i))
			}
			want, got := slices.Clone(s), place(f.x, s)
			sums, wantSums := place(f.dst, make([]float32, 2*rows)), make([]float32, 2*rows)
			k.Weigh(sums[:rows], sums[rows:], got, ld, n)
			portable.Weigh(wantSums[:rows], wantSums[rows:], want, ld, n)
			what := fmt.Sprintf("%d rows of %d values", rows, n)
			same(t, what+": greatest and sums", sums, wantSums)
			same(t, what, got, want)
		}
	})
}

func TestShares(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(20, 20))
		for n := Lanes; n <= 5*Lanes; n += Lanes {
			for kind := range 12 {
				most, later, total, laterTotal := scores(r, n, kind), scores(r, n, kind), numbers(r, n), numbers(r, n)
				for i := range n { // as weigh leaves them
					for _, m := range []*float32{&most[i], &later[i]} {
						if *m = max(*m, Lowest); *m == 0 {
							*m = 0
						}
					}
				}
				shared := place(f.dst, make([]float32, 2*n))
				gotMost, gotTotal := place(f.w, most), place(f.x, total)
				k.Shares(shared[:n], shared[n:], gotMost, gotTotal, place(f.d, later), slices.Clone(laterTotal))
				a, b := make([]float32, n), make([]float32, n)
				portable.Shares(a, b, most, total, later, laterTotal)
				what := fmt.Sprintf("%d queries, kind %d: ", n, kind)
				same(t, what+"shares", shared, append(a, b...))
				same(t, what+"greatest", gotMost, most)
				same(t, what+"totals", gotTotal, total)
			}
		}
	})
}

func TestBlend(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(12, 12))
		for width := Lanes; width <= 9*Lanes; width += Lanes {
			for rows := range 6 {
				dst, x := numbers(r, rows*width), numbers(r, rows*width)
				a, b, total := numbers(r, rows), numbers(r, rows), numbers(r, rows)
				for i := range total {
					total[i] = float32(r.IntN(3))
				}
				got := place(f.dst, dst)
				k.Blend(got, place(f.x, x), width, place(f.w, a), b, place(f.d, total))
				portable.Blend(dst, x, width, a, b, total)
				same(t, fmt.Sprintf("%d rows of %d", rows, width), got, dst)
			}
		}
	})
}

func TestScale(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(21, 21))
		for n := range rowLengths {
			x, factor := numbers(r, n), number(r)
			want := make([]float32, n)
			portable.Scale(want, x, factor)
			got := place(f.dst, make([]float32, n))
			k.Scale(got, place(f.x, x), factor)
			same(t, fmt.Sprint(n, " values"), got, want)
		}
	})
}

// TestExp2 compares exp2 with float64 at a million fractions and at every whole number.
func TestExp2(t *testing.T) {
	ulp := func(v float64) float64 { return math.Exp2(math.Floor(math.Log2(v)) - 23) }
	for i := range 1 << 20 {
		x := float32(i)/(1<<20) - float32(i%120) - 0.5
		want := math.Exp2(float64(x))
		if err := math.Abs(float64(exp2(x)) - want); err > 1.02*ulp(want) {
			t.Fatalf("exp2(%v) is %v, want %v: off by %.3f units of the last place", x, exp2(x), want, err/ulp(want))
		}
	}
	for n := exp2Min; n < 128; n++ {
		if got := exp2(float32(n)); float64(got) != math.Exp2(float64(n)) {
			t.Errorf("exp2(%d) is %v", n, got)
		}
	}
	for _, x := range []float32{exp2Min - 1e-5, -127, -1e30, Lowest, minusInf} {
		if got := exp2(x); got != 0 {
			t.Errorf("exp2(%v) is %v, want 0", x, got)
		}
	}
}
