package cpu

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// normal returns n normally distributed numbers.
func normal(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// tensorOf returns values as a tensor of rows of cols.
func tensorOf(t *testing.T, d *Device, cols int, v []float32) Tensor {
	t.Helper()
	x, err := d.Tensor(len(v)/cols, cols)
	if err != nil {
		t.Fatal(err)
	}
	copy(x.Host, v)
	return x
}

// TestMatMulHeads compares each head with a product of its own.
func TestMatMulHeads(t *testing.T) {
	const rows, heads, out = 37, 3, 20
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		typ      quant.Type
		in, rest int
	}{{quant.F32, 24, 7}, {quant.BF16, 5, 0}, {quant.F16, 1, 33}, {quant.Q8_0, 64, 8}, {quant.Q4_0, 32, 0}} {
		for _, name := range Kernels() {
			t.Run(fmt.Sprintf("%v/%s", c.typ, name), func(t *testing.T) {
				d := newRaw(t, name, 2)
				b := new(compute.Batch)
				b.Append(make([]int32, rows), 0, false)
				d.Begin(b)
				x := normal(r, rows*heads*(c.in+c.rest))
				var w []compute.Matrix
				var want [heads]Tensor
				for h := range heads {
					n, _ := c.typ.RowBytes(out * c.in)
					src := compute.Source{Type: c.typ, Out: out, In: c.in, Data: make([]byte, n)}
					if err := quant.Encode(src.Data, normal(r, out*c.in), c.typ); err != nil {
						t.Fatal(err)
					}
					m, err := d.Matrix(src)
					if err != nil {
						t.Fatal(err)
					}
					src.Keep = func() func() { return func() {} }
					raw, err := d.Matrix(src)
					if err != nil {
						t.Fatal(err)
					}
					w = append(w, raw)
					var part []float32
					for row := range rows {
						part = append(part, x[(row*heads+h)*(c.in+c.rest):][:c.in]...)
					}
					want[h] = tensorOf(t, d, out, make([]float32, rows*out))
					d.matMul(tensorOf(t, d, c.in, part), []Product{{Dst: want[h], W: m}})
				}
				dst := tensorOf(t, d, heads*(out+c.rest), make([]float32, rows*heads*(out+c.rest)))
				d.matMulHeads(dst, tensorOf(t, d, heads*(c.in+c.rest), x), w)
				for row := range rows {
					for h := range heads {
						got := rowOf(dst, row)[h*(out+c.rest):][:out+c.rest]
						sameBits(t, fmt.Sprintf("row %d, head %d", row, h), got[:out], rowOf(want[h], row))
						sameBits(t, fmt.Sprintf("row %d, rest of head %d", row, h), got[out:], x[(row*heads+h)*(c.in+c.rest)+c.in:][:c.rest])
					}
				}
			})
		}
	}
}

// TestDeltaNet runs a sequence through the convolution and the delta rule, in one piece and, beside another sequence,
// in pieces of all sizes. It compares with the formulas in float64, and pieces and kernels to the last bit.
func TestDeltaNet(t *testing.T) {
	const tokens = 21
	r := rand.New(rand.NewPCG(2, 2))
	delta := compute.Delta{KeyHeads: 2, ValueHeads: 6, KeyDim: 10, ValueDim: 20, Window: 4}
	channels, heads := delta.Channels(), delta.ValueHeads
	x, taps := normal(r, tokens*channels), normal(r, delta.Window*channels)
	a, b, bias, decay := normal(r, tokens*heads), normal(r, tokens*heads), normal(r, heads), normal(r, heads)
	for i := range decay {
		decay[i] = -float32(math.Abs(float64(decay[i])))
	}
	want := deltaNet(delta, x, taps, a, b, bias, decay)
	var first []float32
	for _, name := range Kernels() {
		for piece := 1; piece <= tokens; piece += 1 + piece/6 {
			d, err := New(Options{Threads: 2, Kernels: name})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			delta.Taps, delta.Bias, delta.Decay = vector(taps), vector(bias), vector(decay)
			c, err := d.Cache(compute.CacheSpec{Blocks: 1, BlockTokens: 16, States: 2, Layers: []compute.CacheLayer{{State: delta.State()}}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range c.(*cache).layers[0].state { // what a sequence before left behind
				c.(*cache).layers[0].state[i] = 3
			}
			var got []float32
			for at := 0; at < tokens; at += piece {
				n := min(piece, tokens-at)
				batch := new(compute.Batch)
				batch.Append(make([]int32, 2), at%3, false)
				batch.Append(make([]int32, n), at, false)
				batch.Seqs[1].State = 1
				d.Begin(batch)
				part := func(v []float32, cols int) Tensor {
					return tensorOf(t, d, cols, append(normal(r, 2*cols), v[at*cols:(at+n)*cols]...))
				}
				qkv, dst := part(x, channels), part(want, heads*delta.ValueDim)
				d.convolve(qkv, c, 0, delta)
				d.deltaRule(dst, qkv, part(a, heads), part(b, heads), c, 0, delta)
				if err := d.Sync(); err != nil {
					t.Fatal(err)
				}
				got = append(got, dst.Host[2*dst.Cols:(n+2)*dst.Cols]...)
			}
			if first == nil {
				first = got
				for i, w := range want {
					if diff := math.Abs(float64(got[i] - w)); !(diff <= 1e-5*(1+math.Abs(float64(w)))) {
						t.Fatalf("value %d is %g; want %g", i, got[i], w)
					}
				}
			}
			if !bytes.Equal(byteView(got), byteView(first)) {
				t.Fatalf("%s, in pieces of %d: other bits than in pieces of 1", name, piece)
			}
		}
	}
}

// deltaNet is the definition of Convolve and DeltaRule for one whole sequence.
func deltaNet(d compute.Delta, x, taps, a, b, bias, decay []float32) []float32 {
	channels, keys := d.Channels(), d.KeyHeads*d.KeyDim
	var out []float32
	state := make([]float64, d.ValueHeads*d.KeyDim*d.ValueDim)
	for t := range len(x) / channels {
		row := make([]float64, channels)
		for c := range row {
			for w := range d.Window {
				if from := t - d.Window + 1 + w; from >= 0 {
					row[c] += float64(taps[w*channels+c]) * float64(x[from*channels+c])
				}
			}
		}
		unit := func(v []float64) []float64 {
			sum, u := 1e-6, make([]float64, len(v))
			for _, f := range v {
				sum += f * f
			}
			for i, f := range v {
				u[i] = f / math.Sqrt(sum)
			}
			return u
		}
		for h := range d.ValueHeads {
			at, s := h/(d.ValueHeads/d.KeyHeads)*d.KeyDim, state[h*d.KeyDim*d.ValueDim:]
			q, k := unit(row[at:][:d.KeyDim]), unit(row[keys+at:][:d.KeyDim])
			i := t*d.ValueHeads + h
			g := math.Exp(float64(decay[h]) * math.Log1p(math.Exp(float64(a[i]+bias[h]))))
			beta := 1 / (1 + math.Exp(-float64(b[i])))
			for j := range d.ValueDim {
				seen, sum := 0.0, 0.0
				for n := range d.KeyDim {
					seen += s[n*d.ValueDim+j] * g * k[n]
				}
				u := beta * (row[2*keys+h*d.ValueDim+j] - seen)
				for n := range d.KeyDim {
					s[n*d.ValueDim+j] = s[n*d.ValueDim+j]*g + k[n]*u
					sum += s[n*d.ValueDim+j] * q[n]
				}
				out = append(out, float32(sum/math.Sqrt(float64(d.KeyDim))))
			}
		}
	}
	return out
}
