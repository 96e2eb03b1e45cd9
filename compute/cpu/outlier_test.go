package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// rounded returns a row as int8 with one scale for each span values would have it.
func rounded(x []float32, span int) []float64 {
	out := make([]float64, len(x))
	for at := 0; at < len(x); at += span {
		most := 0.0
		for _, v := range x[at : at+span] {
			most = max(most, math.Abs(float64(v)))
		}
		for i, v := range x[at : at+span] {
			out[at+i] = most / 127 * math.RoundToEven(float64(v)*127/most)
		}
	}
	return out
}

// TestOutliers measures what products of quantised rows are off by, where all inputs are of one size and where a few
// are 50 to 100 times the others, as in large models. An outlier takes bits from the inputs of its span: the error is
// given as a share of the outputs, and of what the other inputs add to them. Where all are of one size, shares of a
// span's scale must be nearly as good as a scale for each 32 inputs, and where they are not, much better than one for
// each 256; whole-number scales must not show.
func TestOutliers(t *testing.T) {
	const out, in, m = 64, 2048, 16
	d, err := New(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, test := range []struct {
		outliers    int
		most, other float64 // the greatest errors
	}{{0, 0.008, 0.008}, {1, 0.015, 0.027}, {4, 0.016, 0.055}, {8, 0.015, 0.072}} {
		for _, typ := range []quant.Type{quant.Q8_0, quant.Q4_0, quant.Q4_K} {
			t.Run(fmt.Sprint(test.outliers, " ", typ), func(t *testing.T) {
				r := rand.New(rand.NewPCG(24, uint64(test.outliers)))
				values := make([]float32, out*in)
				for i := range values {
					values[i] = float32(r.NormFloat64())
				}
				x, dst := Tensor{Rows: m, Cols: in, Host: make([]float32, m*in)}, Tensor{Rows: m, Cols: out, Host: make([]float32, m*out)}
				large := map[int]bool{}
				for len(large) < test.outliers {
					large[r.IntN(in)] = true
				}
				for i := range x.Host {
					if x.Host[i] = float32(r.NormFloat64()); large[i%in] {
						x.Host[i] = float32(50+50*r.Float64()) * (1 - 2*float32(r.IntN(2)))
					}
				}
				data := make([]byte, out*in/typ.BlockValues()*typ.BlockBytes())
				if err := quant.Encode(data, values, typ); err != nil {
					t.Fatal(err)
				}
				if err := quant.Decode(values, data, typ); err != nil {
					t.Fatal(err)
				}
				w, err := d.Matrix(compute.Source{Name: "w", Type: typ, Out: out, In: in, Data: data})
				if err != nil {
					t.Fatal(err)
				}
				d.matmul(m, x, []Product{{Dst: dst, W: w}})
				var all, others, off, off32, off256 float64 // squares
				for i := range m {
					row := x.Host[i*in:][:in]
					by32, by256 := rounded(row, 32), rounded(row, 256)
					for n := range out {
						var exact, other, at32, at256 float64
						for k, v := range values[n*in:][:in] {
							exact += float64(v) * float64(row[k])
							at32 += float64(v) * by32[k]
							at256 += float64(v) * by256[k]
							if !large[k] {
								other += float64(v) * float64(row[k])
							}
						}
						square := func(v float64) float64 { return v * v }
						all, others = all+square(exact), others+square(other)
						off += square(float64(dst.Host[i*out+n]) - exact)
						off32, off256 = off32+square(at32-exact), off256+square(at256-exact)
					}
				}
				share := func(off, of float64) float64 { return math.Sqrt(off / of) }
				t.Logf("of the outputs %.4f (spans of 32 %.4f, of 256 %.4f), of the other inputs' part %.4f (%.4f, %.4f)", share(off, all), share(off32, all),
					share(off256, all), share(off, others), share(off32, others), share(off256, others))
				if e := share(off, all); !(e > 0.001 && e < test.most) {
					t.Errorf("outputs are off by %g; want at most %g", e, test.most)
				}
				if e := share(off, others); !(e < test.other) {
					t.Errorf("outputs are off by %g of what the other inputs add; want at most %g", e, test.other)
				}
				if off > 1.6*off32 || off > 0.95*off256 {
					t.Errorf("off by %g; want about %g, that of float scales for each 32, and less than %g of one for each 256", off, off32, off256)
				}
			})
		}
	}
}
