package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/quant"
)

// mixture is a device with a batch of rows rows, routed to three of seven experts.
type mixture struct {
	*Device
	rows   int
	routes *routes
}

func newMixture(t *testing.T, kernels string, rows int, logits []float32, experts, chosen int, router compute.Router) mixture {
	t.Helper()
	d := newRaw(t, kernels, 2)
	d.Begin(&compute.Batch{IDs: make([]int32, rows)})
	routes, err := newRoutes(rows, experts, chosen)
	if err != nil {
		t.Fatal(err)
	}
	d.route(routes, Tensor{Rows: rows, Cols: experts, Host: logits}, router)
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	return mixture{d, rows, routes}
}

// choice returns the experts of a row, best first, and their weights.
func (m mixture) choice(row int) ([]int32, []float32) {
	r := m.routes
	return r.ids[row*r.chosen:][:r.chosen], r.weights[row*r.chosen:][:r.chosen]
}

func TestRoute(t *testing.T) {
	nan := float32(math.NaN())
	bias := vector{0, 0.9, 0, 0, 0, 0}
	for _, test := range []struct {
		name    string
		logits  []float32
		router  compute.Router
		ids     []int32
		weights []float32
	}{
		{"best first", []float32{1, 3, 2, 0, -1, -2}, compute.Router{Scale: 1}, []int32{1, 2}, []float32{0.634, 0.233}},
		{"shares of the chosen", []float32{1, 3, 2, 0, -1, -2}, compute.Router{Scale: 1, Normalise: true}, []int32{1, 2}, []float32{0.731, 0.269}},
		{"scaled after that", []float32{1, 3, 2, 0, -1, -2}, compute.Router{Scale: 2, Normalise: true}, []int32{1, 2}, []float32{1.462, 0.538}},
		{"first of equals", []float32{1, 1, 1, 1, 1, 1}, compute.Router{Scale: 1}, []int32{0, 1}, []float32{1. / 6, 1. / 6}},
		{"sigmoid", []float32{0, 2, -1, 1, 0, 0}, compute.Router{Scale: 1, Sigmoid: true}, []int32{1, 3}, []float32{0.881, 0.731}},
		{"bias chooses but does not count", []float32{0, -3, -1, 1, 2, 0}, compute.Router{Scale: 1, Sigmoid: true, Bias: bias},
			[]int32{1, 4}, []float32{0.047, 0.881}},
		{"best group by its best", []float32{3, -9, 2, 2, 2.5, 2.5}, compute.Router{Scale: 1, Sigmoid: true, Groups: 3, Kept: 1, GroupBest: 1},
			[]int32{0, 1}, []float32{0.953, 0.0001}},
		{"best group by its best two", []float32{3, -9, 2, 2, 2.5, 2.5}, compute.Router{Scale: 1, Sigmoid: true, Groups: 3, Kept: 1, GroupBest: 2},
			[]int32{4, 5}, []float32{0.924, 0.924}},
		{"two groups", []float32{3, -9, 2, 2, 2.5, 2.6}, compute.Router{Scale: 1, Sigmoid: true, Groups: 3, Kept: 2, GroupBest: 2},
			[]int32{5, 4}, []float32{0.931, 0.924}},
		{"no sigmoid left", []float32{-200, -200, -200, -200, -200, -200}, compute.Router{Scale: 1, Sigmoid: true, Normalise: true}, []int32{0, 1}, []float32{0, 0}},
		{"not a number", []float32{nan, nan, nan, nan, nan, nan}, compute.Router{Scale: 1, Groups: 3, Kept: 1, GroupBest: 2}, []int32{0, 1}, []float32{nan, nan}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, k := range kernel.Implementations() {
				ids, w := newMixture(t, k.Name, 1, test.logits, 6, 2, test.router).choice(0)
				if !slices.Equal(ids, test.ids) {
					t.Errorf("%s: experts %v; want %v", k.Name, ids, test.ids)
				}
				for i := range w {
					if d := math.Abs(float64(w[i] - test.weights[i])); d > 6e-4 || math.IsNaN(d) != math.IsNaN(float64(test.weights[i])) {
						t.Errorf("%s: weights %v; want %v", k.Name, w, test.weights)
					}
				}
			}
		})
	}
}

// TestExperts multiplies rows with the experts that they are routed to, in weights of all kinds, side by side, twice
// in a row, and expects of each route what its expert's weight gives by itself.
func TestExperts(t *testing.T) {
	const in, experts, chosen = 256, 7, 3
	kinds := [][]quant.Type{{quant.F32}, {quant.BF16, quant.F16}, {quant.Q8_0, quant.Q4_K}, {quant.MXFP4, quant.F32, quant.Q6_K, quant.Q4_1, quant.BF16}}
	for _, k := range kernel.Implementations() {
		for _, rows := range []int{1, 6, 90} {
			r := rand.New(rand.NewPCG(41, uint64(rows)))
			m := newMixture(t, k.Name, rows, normals(r, rows*experts), experts, chosen, compute.Router{Scale: 1})
			for _, out := range []int{40, 64} {
				for _, types := range kinds {
					m.check(t, r, fmt.Sprintf("%s: %d rows, %v", k.Name, rows, types), types, false, in, out)
				}
				m.check(t, r, fmt.Sprintf("%s: %d rows, in orders of their own", k.Name, rows), []quant.Type{quant.U8_32, quant.U4_128}, true, in, out)
			}
		}
	}
}

// check runs products of the batch's rows, and of the routes that the last of these left.
func (m mixture) check(t *testing.T, r *rand.Rand, what string, types []quant.Type, order bool, in, out int) {
	t.Helper()
	rt := m.routes
	n := m.rows * rt.chosen
	x := Tensor{Rows: m.rows, Cols: in, Host: normals(r, m.rows*in)}
	for _, routed := range []bool{false, true} {
		types = slices.DeleteFunc(slices.Clone(types), func(typ quant.Type) bool { return in%typ.BlockValues() != 0 })
		if len(types) == 0 {
			return
		}
		var products []expertProduct
		for i, typ := range types {
			p := expertProduct{Dst: Tensor{Rows: n, Cols: out, Host: make([]float32, n*out)}}
			for range rt.experts {
				p.W = append(p.W, m.random(t, r, typ, order && i != 1, out, in))
				if i == 0 {
					p.Bias = append(p.Bias, vector(normals(r, out)))
				}
			}
			products = append(products, p)
		}
		m.matMulExperts(x, routed, m.routes, products)
		if err := m.Sync(); err != nil {
			t.Fatal(err)
		}
		for i, p := range products {
			for route := range n {
				row, at := route/rt.chosen, int(rt.at[route])
				if routed {
					row = at
				}
				one := Product{W: p.W[rt.ids[route]], Dst: Tensor{Rows: 1, Cols: out, Host: make([]float32, out)}}
				if p.Bias != nil {
					one.Bias = p.Bias[rt.ids[route]]
				}
				m.matmul(1, Tensor{Rows: 1, Cols: in, Host: rowOf(x, row)}, []Product{one})
				sameBits(t, fmt.Sprintf("%s: product %d, route %d", what, i, route), rowOf(p.Dst, at), one.Dst.Host)
			}
		}
		in, x = out, products[len(products)-1].Dst
	}
}

// random returns a random weight on the device, packed or not yet, its inputs in a random order if so.
func (m mixture) random(t *testing.T, r *rand.Rand, typ quant.Type, order bool, out, in int) compute.Matrix {
	t.Helper()
	src := compute.Source{Name: "w", Type: typ, Out: out, In: in}
	switch typ {
	case quant.U4_128, quant.U8_32:
		src.Data = randomBlocks(r, typ, out*in/typ.BlockValues())
	default:
		size, err := typ.RowBytes(in)
		if err != nil {
			t.Fatal(err)
		}
		src.Data = make([]byte, out*size)
		if err := quant.Encode(src.Data, normals(r, out*in), typ); err != nil {
			t.Fatal(err)
		}
	}
	if order {
		for _, i := range r.Perm(in) {
			src.Order = append(src.Order, int32(i))
		}
	}
	if r.IntN(2) == 0 {
		src.Keep = func() func() { return func() {} }
	}
	w, err := m.Matrix(src)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestCombine adds up what experts gave, with a shared expert that counts by a gate, that counts fully, and without
// one.
func TestCombine(t *testing.T) {
	const rows, experts, chosen, cols = 5, 7, 3, 37
	for _, k := range kernel.Implementations() {
		r := rand.New(rand.NewPCG(42, 42))
		m := newMixture(t, k.Name, rows, normals(r, rows*experts), experts, chosen, compute.Router{Scale: 1})
		rt := m.routes
		parts := Tensor{Rows: rows * chosen, Cols: cols, Host: normals(r, rows*chosen*cols)}
		shared, gate := normals(r, rows*cols), normals(r, rows)
		for _, with := range []string{"gate", "shared", ""} {
			dst := Tensor{Rows: rows, Cols: cols, Host: slices.Clone(shared)}
			var s, g Tensor
			if with != "" {
				s = dst
			}
			if with == "gate" {
				g = Tensor{Rows: rows, Cols: 1, Host: gate}
			}
			m.combine(dst, parts, m.routes, s, g)
			if err := m.Sync(); err != nil {
				t.Fatal(err)
			}
			for row := range rows {
				for j := range cols {
					want := float32(0)
					if with != "" {
						want = shared[row*cols+j]
					}
					if with == "gate" {
						want *= 1 / (1 + kernel.Exp(-gate[row]))
					}
					for i := row * chosen; i < (row+1)*chosen; i++ {
						want = kernel.FMA(rt.weights[i], rowOf(parts, int(rt.at[i]))[j], want)
					}
					if got := rowOf(dst, row)[j]; math.Float32bits(got) != math.Float32bits(want) {
						t.Fatalf("%s: %q: row %d, column %d is %g; want %g", k.Name, with, row, j, got, want)
					}
				}
			}
		}
	}
}

// The benchmark compares experts of the shape of Qwen3 30B A3B with a dense weight as large as those that a row goes
// to. It reports the rate at which weights are read for one row, and the multiply-adds for 512, counted as two.
func BenchmarkExperts(b *testing.B) {
	const in, out, experts, chosen = 2048, 768, 32, 8
	r := rand.New(rand.NewPCG(43, 43))
	for _, rows := range []int{1, 512} {
		d, err := New(Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer d.Close()
		source := func(out int) compute.Matrix {
			w, err := d.Matrix(compute.Source{Name: "w", Type: quant.Q4_K, Out: out, In: in, Data: make([]byte, out*in/256*quant.Q4_K.BlockBytes())})
			if err != nil {
				b.Fatal(err)
			}
			return w
		}
		tensor := func(rows, cols int) Tensor {
			t, err := d.Tensor(rows, cols)
			if err != nil {
				b.Fatal(err)
			}
			return t
		}
		d.Begin(&compute.Batch{IDs: make([]int32, rows)})
		routes, err := newRoutes(rows, experts, chosen)
		if err != nil {
			b.Fatal(err)
		}
		mixed, dense := expertProduct{Dst: tensor(rows*chosen, out)}, Product{W: source(chosen * out), Dst: tensor(rows, chosen*out)}
		for range experts {
			mixed.W = append(mixed.W, source(out))
		}
		x, logits := tensor(rows, in), Tensor{Rows: rows, Cols: experts, Host: normals(r, rows*experts)}
		report := func(b *testing.B) {
			seconds := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(float64(dense.W.Bytes())/seconds/1e9, "GB/s")
			b.ReportMetric(2*float64(rows*in*out*chosen)/seconds/1e9, "Gop/s")
		}
		b.Run(fmt.Sprintf("rows=%d/experts", rows), func(b *testing.B) {
			for b.Loop() {
				d.route(routes, logits, compute.Router{Scale: 1})
				d.matMulExperts(x, false, routes, []expertProduct{mixed})
			}
			report(b)
		})
		b.Run(fmt.Sprintf("rows=%d/dense", rows), func(b *testing.B) {
			for b.Loop() {
				d.matMul(x, []Product{dense})
			}
			report(b)
		})
	}
}
