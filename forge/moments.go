package forge

import (
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
)

// Moments are what a calibration text says of the inputs x of some weights that read the same ones.
type Moments struct {
	Rows  int       // inputs seen
	Gram  []float32 // [In, In] mean of x·xᵀ
	Means []float32 // [In] mean of |x|
	Most  []float32 // [In] greatest |x|
}

// In is the length of an input.
func (m *Moments) In() int { return len(m.Means) }

// squares returns the mean square of each value of an input, a little above 0.
func (m *Moments) squares() []float32 {
	out := make([]float32, m.In())
	for i := range out {
		out[i] = m.Gram[i*len(out)+i] + 1e-20
	}
	return out
}

// moments adds n rows to what is known of the weights that they are multiplied with.
func (o *Observer) moments(weights []compute.Matrix, n int, row func(i int) []float32) {
	var m *Moments
	for _, w := range weights {
		name, ok := o.stored[w]
		switch {
		case !ok || m != nil && o.Moments[name] == m:
			continue
		case m == nil:
			if m = o.Moments[name]; m == nil {
				in := len(row(0))
				m = &Moments{Gram: make([]float32, in*in), Means: make([]float32, in), Most: make([]float32, in)}
			}
		}
		o.Moments[name] = m
	}
	if m == nil {
		return
	}
	rows := make([][]float32, n)
	for r := range rows {
		rows[r] = slices.Clone(row(r))
	}
	m.add(rows)
}

// add adds inputs to sums of which Gram has the upper half only.
func (m *Moments) add(rows [][]float32) {
	const band, together = 16, 8
	n := m.In()
	m.Rows += len(rows)
	for _, x := range rows {
		for i, v := range x {
			v = max(v, -v)
			m.Means[i], m.Most[i] = m.Means[i]+v, max(m.Most[i], v)
		}
	}
	for len(rows)%together != 0 {
		rows = append(rows, make([]float32, n))
	}
	parallel((n+band-1)/band, func(b int) {
		var x [together][]float32
		var factors [together]float32
		for at := 0; at < len(rows); at += together {
			for i := b * band; i < min((b+1)*band, n); i++ {
				for k, row := range rows[at : at+together] {
					x[k], factors[k] = row[i:], row[i]
				}
				addEight(m.Gram[i*n+i:(i+1)*n], &x, &factors)
			}
		}
	})
}

// addEight adds eight vectors, each times a factor of its own.
func addEight(dst []float32, x *[8][]float32, by *[8]float32) {
	n := len(dst)
	a, b, c, d, e, f, g, h := x[0][:n], x[1][:n], x[2][:n], x[3][:n], x[4][:n], x[5][:n], x[6][:n], x[7][:n]
	fa, fb, fc, fd, fe, ff, fg, fh := by[0], by[1], by[2], by[3], by[4], by[5], by[6], by[7]
	for i := range dst {
		dst[i] += (fa*a[i] + fb*b[i]) + (fc*c[i] + fd*d[i]) + ((fe*e[i] + ff*f[i]) + (fg*g[i] + fh*h[i]))
	}
}

// finish makes means of sums, and Gram whole.
func finish(all map[string]*Moments) {
	done := map[*Moments]bool{}
	for _, m := range all {
		if done[m] || m.Rows == 0 {
			continue
		}
		done[m] = true
		n, scale := m.In(), 1/float32(m.Rows)
		for i := range n {
			m.Means[i] *= scale
			for j := i; j < n; j++ {
				m.Gram[i*n+j] *= scale
				m.Gram[j*n+i] = m.Gram[i*n+j]
			}
		}
	}
}

// energy returns the sum of d·Gram·dᵀ over rows d: the mean square of what they make of an input.
func (m *Moments) energy(rows []float32) float64 {
	n, sums := m.In(), make([]float64, len(rows)/m.In())
	parallel(len(sums), func(r int) {
		d := rows[r*n:][:n]
		for i, v := range d {
			if v != 0 {
				sums[r] += float64(v) * float64(dot(m.Gram[i*n:][:n], d))
			}
		}
	})
	sum := 0.0
	for _, v := range sums {
		sum += v
	}
	return sum
}

func dot(a, b []float32) float32 {
	var s [4]float32
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
