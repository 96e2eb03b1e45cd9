package forge

import (
	"errors"
	"fmt"
	"math"

	"github.com/kvasir-llm/kvasir/quant"
)

// rounder quantises a row of a weight, block by block.
type rounder struct {
	size  int                                                 // values of a block
	begin func(block int, values, importance []float32) error // chooses the scales of a block
	round func(i int, v float32) float32                      // rounds value i of the block to what is stored for it
	end   func(block int)                                     // stores the block
}

// blockRounder writes a row in a type of GGUF, one that quant.AffineOf knows. Of blocks in groups, each group's scale
// is moved to the values that it has when it is reached.
func blockRounder(dst []byte, t quant.Type) rounder {
	a, _ := quant.AffineOf(t)
	p, bytes := new(quant.Parts), t.BlockBytes()
	var block, counts []float32
	return rounder{t.BlockValues(), func(at int, values, importance []float32) error {
		block, counts = values, importance
		to := dst[at*bytes:][:bytes]
		if err := quant.EncodeWeighted(to, values, importance, t); err != nil {
			return err
		}
		a.Split(p, to)
		return nil
	}, func(i int, v float32) float32 {
		if i > 0 && i%a.Group == 0 {
			a.Rescale(p, i/a.Group, block, counts)
		}
		return a.Round(p, i, v)
	}, func(at int) { a.Join(dst[at*bytes:], p) }}
}

// damping is the part of the mean of a Gram matrix's diagonal that is added to it.
const damping = 0.01

// factor returns the upper triangular U, [n, n], with UᵀU the inverse of a Gram matrix, damped. Inputs that were
// never there have a 1 on its diagonal.
func factor(gram []float32, n int) ([]float32, error) {
	h, mean := make([]float64, n*n), 0.0
	for i := range n {
		mean += float64(gram[i*n+i]) / float64(n)
	}
	for i, v := range gram {
		h[i] = float64(v)
	}
	for i := range n {
		if h[i*n+i] += damping * mean; mean == 0 {
			h[i*n+i] = 1
		}
	}
	// The matrix is V·Vᵀ with V upper triangular, made column by column from the last; U is the inverse of V.
	for j := n - 1; j >= 0; j-- {
		row := h[j*n+j+1 : (j+1)*n]
		d := h[j*n+j] - dot64(row, row)
		if !(d > 0) {
			return nil, fmt.Errorf("forge: the inputs of a weight are not positive definite at %d of %d", j, n)
		}
		d = math.Sqrt(d)
		h[j*n+j] = d
		bands(j, func(i int) { h[i*n+j] = (h[i*n+j] - dot64(h[i*n+j+1:(i+1)*n], row)) / d })
	}
	u := make([]float32, n*n)
	bands(n, func(i int) {
		row := make([]float64, n)
		row[i] = 1
		for k := i; k < n; k++ {
			row[k] /= h[k*n+k]
			by := row[k]
			for j, v := range h[k*n+k+1 : (k+1)*n] {
				row[k+1+j] -= by * v
			}
			u[i*n+k] = float32(by)
		}
	})
	return u, nil
}

// bands calls f(0) to f(n-1), in parallel if that is worth it.
func bands(n int, f func(i int)) {
	const band = 64
	parallel((n+band-1)/band, func(b int) {
		for i := b * band; i < min((b+1)*band, n); i++ {
			f(i)
		}
	})
}

func dot64(a, b []float64) float64 {
	var s [4]float64
	b = b[:len(a)]
	for len(a) >= 4 {
		s[0], s[1], s[2], s[3] = s[0]+a[0]*b[0], s[1]+a[1]*b[1], s[2]+a[2]*b[2], s[3]+a[3]*b[3]
		a, b = a[4:], b[4:]
	}
	for i, v := range a {
		s[0] += v * b[i]
	}
	return s[0] + s[1] + (s[2] + s[3])
}

// compensate quantises rows of n values in place. With a factor u of the inputs' Gram matrix, each value's error is
// made up for by those after it, as far as the inputs go together (GPTQ, arXiv:2210.17323); a block's scales are
// chosen when it is reached. Without one, values are rounded. importance is what columns count when scales are
// chosen.
func compensate(rows []float32, n int, u, importance []float32, of func(row int) rounder) error {
	const together = 32
	errs := make([]error, (len(rows)/n+together-1)/together)
	parallel(len(errs), func(c int) {
		some := rows[c*together*n : min((c+1)*together*n, len(rows))]
		errs[c] = compensateSome(some, n, u, importance, func(row int) rounder { return of(c*together + row) })
	})
	return errors.Join(errs...)
}

func compensateSome(rows []float32, n int, u, importance []float32, of func(row int) rounder) error {
	rounders := make([]rounder, len(rows)/n)
	for r := range rounders {
		rounders[r] = of(r)
	}
	size := rounders[0].size
	lost := make([]float32, size) // in multiples of the U that makes up for it
	for at := 0; at < n; at += size {
		for r, rd := range rounders {
			row := rows[r*n:][:n]
			block := row[at:][:size]
			if err := rd.begin(at/size, block, importance[at:][:size]); err != nil {
				return err
			}
			for i, v := range block {
				block[i] = rd.round(i, v)
				if u == nil {
					continue
				}
				line := u[(at+i)*n+at+i:][:size-i]
				lost[i] = (block[i] - v) / line[0]
				for j := 1; j < len(line); j++ {
					block[i+j] += lost[i] * line[j]
				}
			}
			rd.end(at / size)
			if u != nil {
				carry(row[at+size:], lost[:size], u[at*n:], n)
			}
		}
	}
	return nil
}

// carry adds to the rest of a row what makes up for the errors before it: for each a row of u, [n].
func carry(rest, lost, u []float32, n int) {
	var x [8][]float32
	for i := 0; i+8 <= len(lost); i += 8 {
		for k := range x {
			x[k] = u[(i+k+1)*n-len(rest):][:len(rest)]
		}
		addEight(rest, &x, (*[8]float32)(lost[i:]))
	}
}
