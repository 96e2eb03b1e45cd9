package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/quant"
)

// float8s returns random bytes of F8_E4M3 that are numbers.
func float8s(r *rand.Rand, n int) []byte {
	v := make([]byte, n)
	for i := range v {
		for v[i] = 0x7f; v[i]&0x7f == 0x7f; {
			v[i] = byte(r.Uint32())
		}
	}
	return v
}

// float8Source returns a random weight of F8_E4M3 and its values.
func float8Source(r *rand.Rand, out, in, group int) (compute.Source, []float32) {
	src := compute.Source{Name: "w", Type: quant.F8_E4M3, Out: out, In: in, Data: float8s(r, out*in), Group: group}
	groups := (in + group - 1) / group
	for range out * groups {
		src.Scales = append(src.Scales, float32(r.NormFloat64()))
	}
	values := make([]float32, out*in)
	if err := quant.Decode(values, src.Data, src.Type); err != nil {
		panic(err)
	}
	for i := range values {
		values[i] *= src.Scales[i/in*groups+i%in/group]
	}
	return src, values
}

// TestFloat8 expects rows and products of F8_E4M3 as those of the same values in F32, bit for bit.
func TestFloat8(t *testing.T) {
	r := rand.New(rand.NewPCG(32, 32))
	for _, k := range kernel.Implementations() {
		d, err := New(Options{Threads: 2, Kernels: k.Name})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []struct{ out, in, group int }{{83, 300, 128}, {16, 7, 7}, {130, 128, 32}, {1, 1, 128}, {40, 513, 513}, {33, 70, 3}} {
			src, values := float8Source(r, s.out, s.in, s.group)
			if s.out > 40 { // as a part of a larger weight
				part := src.Rows(s.out/2, s.out/4)
				src, values = part, values[s.out/2*s.in:][:part.Out*s.in]
			}
			wide := compute.Source{Name: "w", Type: quant.F32, Out: src.Out, In: s.in, Data: make([]byte, len(values)*4)}
			if err := quant.Encode(wide.Data, values, quant.F32); err != nil {
				t.Fatal(err)
			}
			narrow, want := products(t, d, src), products(t, d, wide)
			for m, got := range narrow {
				sameBits(t, fmt.Sprintf("%s: %v: %d rows", k.Name, s, m+1), got, want[m])
			}
		}
		d.Close()
	}
}

// products takes over a weight and returns its rows, and its products with 1 to 40 rows that are the same at every
// call.
func products(t *testing.T, d *Device, src compute.Source) [][]float32 {
	t.Helper()
	w, err := d.Matrix(src)
	if err != nil {
		t.Fatal(err)
	}
	r, rows := rand.New(rand.NewPCG(33, 33)), make([]float32, src.Out*src.In)
	for n := range src.Out {
		d.row(0, rows[n*src.In:][:src.In], w.(*matrix), n)
	}
	all := [][]float32{rows}
	for _, m := range []int{1, 2, 5, 40} {
		x, dst := Tensor{Rows: m, Cols: src.In, Host: wildNumbers(r, m*src.In)}, Tensor{Rows: m, Cols: src.Out, Host: make([]float32, m*src.Out)}
		d.matmul(m, x, []Product{{Dst: dst, W: w}})
		all = append(all, dst.Host)
	}
	return all
}

// TestOrder multiplies a weight whose inputs are in another order with rows, next to one whose inputs are not, and
// expects what the same weight gives for rows in that order.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(34, 34))
	const out, in, m = 50, 384, 7
	d, err := New(Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	data := randomBlocks(r, quant.U4_128, out*in/128)
	src := compute.Source{Name: "w", Type: quant.U4_128, Out: out, In: in, Data: data}
	plain, err := d.Matrix(src)
	if err != nil {
		t.Fatal(err)
	}
	src.Order = make([]int32, in)
	for k, i := range r.Perm(in) {
		src.Order[k] = int32(i)
	}
	ordered, err := d.Matrix(src)
	if err != nil {
		t.Fatal(err)
	}
	tensor := func(cols int) Tensor {
		return Tensor{Rows: m, Cols: cols, Host: make([]float32, m*cols)}
	}
	x, turned := tensor(in), tensor(in)
	for i := range x.Host {
		x.Host[i] = float32(r.NormFloat64())
	}
	for i := range turned.Host {
		turned.Host[i] = x.Host[i/in*in+int(src.Order[i%in])]
	}
	d.batch = &compute.Batch{IDs: make([]int32, m)}
	a, b, c, want := tensor(out), tensor(out), tensor(out), tensor(out)
	d.matMul(x, []Product{{Dst: a, W: ordered}, {Dst: b, W: plain}, {Dst: c, W: ordered}})
	d.matMul(turned, []Product{{Dst: want, W: plain}})
	sameBits(t, "in order", a.Host, want.Host)
	sameBits(t, "behind another", c.Host, want.Host)
	d.matMul(x, []Product{{Dst: want, W: plain}})
	sameBits(t, "the other", b.Host, want.Host)
	got, values := make([]float32, in), make([]float32, in)
	d.row(0, got, ordered.(*matrix), 3)
	d.row(0, values, plain.(*matrix), 3)
	for k, i := range src.Order {
		if got[i] != values[k] {
			t.Fatalf("input %d of row 3 is %g; want %g", i, got[i], values[k])
		}
	}
}

func TestSourceRefused(t *testing.T) {
	d, err := New(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	r := rand.New(rand.NewPCG(35, 35))
	for want, change := range map[string]func(s *compute.Source){
		"needs 12 scales, got 11":          func(s *compute.Source) { s.Scales = s.Scales[1:] },
		"a scale for each 0 inputs":        func(s *compute.Source) { s.Group = 0 },
		"a scale is NaN":                   func(s *compute.Source) { s.Scales[3] = float32(math.NaN()) },
		"value 5 of row 1 is no number":    func(s *compute.Source) { s.Data[s.In+5] = 0xff },
		"cannot be in another order":       func(s *compute.Source) { s.Order = make([]int32, s.In) },
		"type I8 has no scales beside":     func(s *compute.Source) { s.Type = quant.I8 },
		"input 64 is no input of 64":       func(s *compute.Source) { *s = inOrder(r, 64, 64) },
		"input 3 is no input of 64, or th": func(s *compute.Source) { *s = inOrder(r, 3, 3) },
		"an order of 1 inputs; it has 64":  func(s *compute.Source) { *s = inOrder(r, 3) },
	} {
		src, _ := float8Source(r, 4, 70, 32)
		change(&src)
		if _, err := d.Matrix(src); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want one with %q", err, want)
		}
	}
}

func inOrder(r *rand.Rand, order ...int32) compute.Source {
	return compute.Source{Name: "w", Type: quant.U2_32, Out: 1, In: 64, Data: randomBlocks(r, quant.U2_32, 2), Order: order}
}
