package sched

import "math/bits"

// cost learns how long steps take on a machine and model: a + b·rows + c·pairs, where rows are what stairs make of
// them, and pairs are the tokens that the rows attend to, each row counting its position. It is fitted by least squares
// of relative errors, with no coefficient below 0, to moving averages over steps of a kind, so that the many steps that
// only decode do not make it forget what prompts cost.
type cost struct {
	kinds   [kindsOfRows][kindsOfPairs]measured
	fitted  bool       // coefs is of all samples
	known   bool       // there are samples
	coefs   [3]float64 // microseconds: a, b and c
	changed int        // samples since the last fit
	stairs  stairs
}

// Kinds of steps: by the bits of their rows, and of the mean position of a row in units of 64.
const (
	kindsOfRows  = 16
	kindsOfPairs = 16
	refit        = 8 // samples between two fits, once there are many
)

// measured is the moving average of steps of one kind.
type measured struct {
	n                   int
	rows, pairs, micros float64
}

// observe takes note of a step. Steps that took much longer than others of their kind were disturbed, and count little.
func (c *cost) observe(rows, pairs int64, micros float64) {
	if rows < 1 || micros <= 0 {
		return
	}
	k := &c.kinds[min(bits.Len64(uint64(rows)), kindsOfRows-1)][min(bits.Len64(uint64(pairs/rows/64)), kindsOfPairs-1)]
	if k.n > 0 {
		micros = min(micros, 4*k.micros)
	}
	k.n = min(k.n+1, 16)
	share := 1 / float64(k.n)
	k.rows += share * (c.stairs.of(int(rows)) - k.rows)
	k.pairs += share * (float64(pairs) - k.pairs)
	k.micros += share * (micros - k.micros)
	c.known = true
	if c.changed++; c.changed >= refit || k.n < refit {
		c.fitted = false
	}
}

// fit solves for the coefficients if there are new samples.
func (c *cost) fit() {
	if c.fitted {
		return
	}
	c.fitted, c.changed = true, 0
	var m [3][4]float64 // the normal equations
	for i := range c.kinds {
		for j := range c.kinds[i] {
			k := &c.kinds[i][j]
			if k.n == 0 {
				continue
			}
			x := [4]float64{1 / k.micros, k.rows / k.micros, k.pairs / k.micros, 1}
			for r := range m {
				for s := range m[r] {
					m[r][s] += x[r] * x[s]
				}
			}
		}
	}
	use := [3]bool{true, true, true}
	for {
		c.coefs = solve(m, use)
		worst := -1
		for i, x := range c.coefs {
			if x < 0 && (worst < 0 || x*m[i][i] < c.coefs[worst]*m[worst][worst]) {
				worst = i
			}
		}
		if worst < 0 {
			return
		}
		use[worst] = false
	}
}

// solve solves the equations for the unknowns in use; the others are 0. What the equations do not determine is 0 too.
func solve(m [3][4]float64, use [3]bool) (x [3]float64) {
	whole := m
	var done [3]bool
	for _, p := range [3]int{1, 2, 0} { // rows first: they are what steps of one kind are explained by
		if !use[p] || m[p][p] <= 1e-9*whole[p][p] {
			continue
		}
		done[p] = true
		for r := range m {
			if r == p || !use[r] {
				continue
			}
			f := m[r][p] / m[p][p]
			for s := range m[r] {
				m[r][s] -= f * m[p][s]
			}
		}
	}
	for p := range x {
		if done[p] {
			x[p] = m[p][3] / m[p][p]
		}
	}
	return x
}

// base is how long a step takes without any rows, and work how long n rows from a position on add, on average, in
// microseconds.
func (c *cost) base() float64 { return c.coefs[0] }

func (c *cost) work(start, n int) float64 {
	return c.coefs[1]*float64(n) + c.coefs[2]*float64(pairs(start, n))
}

// more is how long n rows from a position on add to a step that has others, in microseconds.
func (c *cost) more(rows, start, n int) float64 {
	return c.coefs[1]*(c.stairs.of(rows+n)-c.stairs.of(rows)) + c.coefs[2]*float64(pairs(start, n))
}

// afford returns how many of n rows from a position on add no more than left microseconds to a step that has others.
func (c *cost) afford(left float64, rows, start, n int) int {
	low := 0
	for low < n {
		if mid := (low + n + 1) / 2; c.more(rows, start, mid) <= left {
			low = mid
		} else {
			n = mid - 1
		}
	}
	return low
}

// pairs returns how many tokens n rows from a position on attend to, themselves included.
func pairs(start, n int) int64 {
	return int64(n)*int64(start) + int64(n)*int64(n+1)/2
}
