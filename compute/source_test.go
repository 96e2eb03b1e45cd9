package compute

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/quant"
)

// values returns the values of a weight, [Out, In].
func values(t *testing.T, s Source) [][]float32 {
	t.Helper()
	size, err := s.Type.RowBytes(s.In)
	if err != nil {
		t.Fatal(err)
	}
	if s.Run != nil { // it yields what Row does
		run, row := make([]byte, s.Out*size), make([]byte, size)
		s.Run(run, 0, s.Out)
		for o := range s.Out {
			if s.Row(row, o); !bytes.Equal(row, run[o*size:][:size]) {
				t.Fatalf("%v: row %d of a run is another one", s.Type, o)
			}
		}
	}
	var out [][]float32
	for o := range s.Out {
		row, v, at := make([]byte, size), make([]float32, s.In), s.Heads.Stored(o)
		if s.Row != nil {
			s.Row(row, at)
		} else {
			copy(row, s.Data[at*size:])
		}
		if err := quant.Decode(v, row, s.Type); err != nil {
			t.Fatal(err)
		}
		for i := range v {
			if s.Scales != nil {
				v[i] *= s.Scales[at*(len(s.Scales)/s.Out)+i/s.Group]
			}
		}
		out = append(out, v)
	}
	return out
}

// TestSlices takes outputs and inputs of weights of several types, stored and written row by row, with and without
// scales of groups: their values are those of the whole.
func TestSlices(t *testing.T) {
	const out, in, group = 5, 256, 64
	rng := rand.New(rand.NewPCG(1, 2))
	v := make([]float32, out*in)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	for _, typ := range []quant.Type{quant.F32, quant.BF16, quant.Q8_0, quant.Q4_0, quant.F8_E4M3} {
		size, _ := typ.RowBytes(in)
		data := make([]byte, out*size)
		if err := quant.Encode(data, v, typ); err != nil {
			t.Fatal(err)
		}
		src := Source{Name: "w", Type: typ, Out: out, In: in, Data: data}
		if typ == quant.F8_E4M3 {
			src.Group = group
			for i := range out * in / group {
				src.Scales = append(src.Scales, float32(i+1))
			}
		}
		byRow := src
		byRow.Data, byRow.Row = nil, func(dst []byte, n int) { copy(dst, data[n*size:][:size]) }
		byRow.Run = func(dst []byte, from, n int) { copy(dst, data[from*size:][:n*size]) }
		want := values(t, src)
		for _, s := range []Source{src, byRow} {
			for _, cut := range [][2]int{{0, 128}, {64, 64}, {192, 64}, {0, 256}} {
				part, err := s.Inputs(cut[0], cut[1])
				if err != nil {
					t.Fatal(err)
				}
				part = part.Rows(1, 3)
				for o, row := range values(t, part) {
					for i, x := range row {
						if x != want[1+o][cut[0]+i] {
							t.Fatalf("%v: inputs %v: output %d has %g for input %d; want %g", typ, cut, o, x, i, want[1+o][cut[0]+i])
						}
					}
				}
			}
		}
	}
}

func TestInputsRefused(t *testing.T) {
	plain := Source{Name: "w", Type: quant.F32, Out: 2, In: 64, Data: make([]byte, 512)}
	blocks := Source{Name: "w", Type: quant.Q8_0, Out: 2, In: 64, Data: make([]byte, 136)}
	scaled := Source{Name: "w", Type: quant.F8_E4M3, Out: 2, In: 64, Data: make([]byte, 128), Scales: make([]float32, 4), Group: 32}
	ordered := plain
	ordered.Order = make([]int32, 64)
	for _, test := range []struct {
		src     Source
		from, n int
		want    string
	}{
		{plain, 32, 33, `weight "w": inputs 32 to 65 of 64`},
		{plain, -1, 2, "inputs -1 to 1 of 64"},
		{plain, 0, 0, "inputs 0 to 0 of 64"},
		{blocks, 16, 32, "inputs 16 to 48 are not whole blocks of 32 values of Q8_0"},
		{scaled, 0, 16, "inputs 0 to 16 are not whole groups of 32, which share a scale"},
		{ordered, 0, 32, "its inputs are stored in another order"},
	} {
		if _, err := test.src.Inputs(test.from, test.n); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v; want %q", err, test.want)
		}
	}
}

// TestStack stacks weights of several types, stored and written row by row, with and without scales of groups: the
// outputs of the stack are theirs, in order, and a slice across two of them has those of both.
func TestStack(t *testing.T) {
	const in, group = 128, 32
	rng := rand.New(rand.NewPCG(3, 4))
	for _, typ := range []quant.Type{quant.F32, quant.BF16, quant.Q8_0, quant.Q4_0, quant.F8_E4M3} {
		size, _ := typ.RowBytes(in)
		var parts []Source
		var want [][]float32
		for i, out := range []int{4, 1, 3} {
			v, data := make([]float32, out*in), make([]byte, out*size)
			for j := range v {
				v[j] = float32(rng.NormFloat64())
			}
			if err := quant.Encode(data, v, typ); err != nil {
				t.Fatal(err)
			}
			src := Source{Name: "part", Type: typ, Out: out, In: in, Data: data}
			if typ == quant.F8_E4M3 {
				src.Group = group
				for j := range out * in / group {
					src.Scales = append(src.Scales, float32(i*10+j+1))
				}
			} else if i == 2 {
				src.Data, src.Row = nil, func(dst []byte, n int) { copy(dst, data[n*size:][:size]) }
			} else if i == 0 {
				src.Data, src.Row = nil, func(dst []byte, n int) { copy(dst, data[n*size:][:size]) }
				src.Run = func(dst []byte, from, n int) { copy(dst, data[from*size:][:n*size]) }
			}
			parts, want = append(parts, src), append(want, values(t, src)...)
		}
		stack, err := Stack("all", parts...)
		if err != nil {
			t.Fatal(err)
		}
		inputs, err := stack.Inputs(32, 64)
		if err != nil {
			t.Fatal(err)
		}
		for what, c := range map[string]struct {
			s        Source
			out, in0 int
		}{"stack": {stack, 0, 0}, "rows": {stack.Rows(3, 4), 3, 0}, "inputs": {inputs, 0, 32}} {
			for o, got := range values(t, c.s) {
				if !slices.Equal(got, want[c.out+o][c.in0:][:len(got)]) {
					t.Errorf("%v, %s: output %d is %v; want %v", typ, what, o, got, want[c.out+o])
				}
			}
		}
	}
	plain := Source{Name: "w", Type: quant.F32, Out: 2, In: 64, Data: make([]byte, 512)}
	for want, other := range map[string]Source{
		`"v", of 32 inputs in F32, cannot be stacked with "w", of 64 in F32`: {Name: "v", Type: quant.F32, Out: 4, In: 32, Data: make([]byte, 512)},
		`"v", of 64 inputs in BF16`: {Name: "v", Type: quant.BF16, Out: 4, In: 64, Data: make([]byte, 512)},
		"the same inputs":           {Name: "v", Type: quant.F32, Out: 2, In: 64, Data: make([]byte, 512), Order: make([]int32, 64)},
		"groups and heads":          {Name: "v", Type: quant.F32, Out: 2, In: 64, Data: make([]byte, 512), Heads: Heads{2, 2}},
	} {
		if _, err := Stack("all", plain, other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want %q", err, want)
		}
	}
	if _, err := Stack("none"); err == nil {
		t.Error("a stack of no weights is made")
	}
}

// TestHeads stores heads of six rows, the halves of whose first four alternate, whole and sliced, stacked, with and
// without scales: the rows are those of the weight.
func TestHeads(t *testing.T) {
	const heads, in = 3, 64
	stored := []int{0, 2, 1, 3, 4, 5}
	for _, typ := range []quant.Type{quant.F32, quant.Q8_0, quant.F8_E4M3} {
		size, _ := typ.RowBytes(in)
		src := Source{Name: "w", Type: typ, Out: 6 * heads, In: in, Data: make([]byte, 6*heads*size), Group: 32, Heads: Heads{Size: 6, Turned: 4}}
		scales := make([]float32, 6*heads*in/32)
		want := make([][]float32, src.Out)
		for n := range want {
			v, at := make([]float32, in), n/6*6+stored[n%6]
			for i := range v {
				v[i] = float32(n)
			}
			if err := quant.Encode(src.Data[at*size:][:size], v, typ); err != nil {
				t.Fatal(err)
			}
			if err := quant.Decode(v, src.Data[at*size:][:size], typ); err != nil {
				t.Fatal(err)
			}
			for g := range in / 32 {
				scales[at*in/32+g] = float32(n*10 + g + 1)
			}
			for i := range v {
				if typ == quant.F8_E4M3 {
					v[i] *= float32(n*10 + i/32 + 1)
				}
			}
			want[n] = v
		}
		if typ == quant.F8_E4M3 {
			src.Scales = scales
		}
		stack, err := Stack("all", src, src.Rows(6, 6))
		if err != nil {
			t.Fatal(err)
		}
		inputs, err := src.Inputs(32, 32)
		if err != nil {
			t.Fatal(err)
		}
		for what, c := range map[string]struct {
			s    Source
			want [][]float32
			in0  int
		}{
			"whole": {src, want, 0}, "rows": {src.Rows(6, 12), want[6:], 0}, "inputs": {inputs, want, 32},
			"stack": {stack, slices.Concat(want, want[6:12]), 0},
		} {
			if err := c.s.Heads.Check(c.s.Out); err != nil {
				t.Fatal(err)
			}
			for o, got := range values(t, c.s) {
				if !slices.Equal(got, c.want[o][c.in0:][:len(got)]) {
					t.Errorf("%v, %s: output %d is %v; want %v", typ, what, o, got, c.want[o])
				}
			}
		}
	}
	for _, h := range []Heads{{Size: 5}, {Size: 6, Turned: 3}, {Size: 6, Turned: 8}, {Size: 6, Turned: -2}, {Size: -6}, {Turned: 2}} {
		if err := h.Check(18); err == nil || !strings.Contains(err.Error(), "want whole heads and halves") {
			t.Errorf("%+v: error %v", h, err)
		}
	}
}
