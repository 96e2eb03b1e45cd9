package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// rowCall calls a kernel on rows. The rows have one length, which may be any, and the call may write to each of them;
// s is an ordinary number.
type rowCall struct {
	name string // of the field of kernels
	call func(k *Table, a, b, c, d []float32, s float32)
}

// rowCalls has a call for each kernel that works on rows of any length. TestRows, FuzzRows, TestKernelsAllocate and
// BenchmarkRows go through them.
var rowCalls = []rowCall{
	{"SumSquares", func(k *Table, a, _, _, d []float32, s float32) { copy(d, []float32{k.SumSquares(a, s)}) }},
	{"ScaleGain", func(k *Table, a, b, c, _ []float32, s float32) { k.ScaleGain(c, a, b, s, 2) }},
	{"Scale", func(k *Table, a, _, c, _ []float32, s float32) { k.Scale(c, a, s) }},
	{"Softcap", func(k *Table, a, _, c, _ []float32, _ float32) { copy(c, a); k.Softcap(c, 30) }},
	{"Silu", func(k *Table, a, b, c, _ []float32, _ float32) { k.Silu(c, a, b) }},
	{"AddScaled", func(k *Table, a, _, c, _ []float32, s float32) { k.AddScaled(c, a, s) }},
	{"Rotate", func(k *Table, a, b, c, d []float32, _ float32) { k.Rotate(a, b, c, d) }},
	{"RotateInterleaved", func(k *Table, a, b, c, _ []float32, _ float32) {
		n := len(a) / 2
		k.RotateInterleaved(a[len(a)-2*n:], b[len(b)-n:], c[len(c)-n:])
	}},
}

// otherCalls are the kernels whose arguments are of another form, and the test or fuzz target that compares each with
// the portable one.
var otherCalls = map[string]string{
	"MatF32": "FuzzMatF32", "MatPairs": "FuzzMatPairs", "Round": "TestRound", "Narrow": "TestRound",
	"MatF16": "TestMat16", "MatBF16": "TestMat16", "MatAffine": "FuzzMatAffine", "Widen8": "TestWiden8",
	"Quantize": "FuzzQuantize", "Weigh": "FuzzWeigh", "Shares": "TestShares", "Blend": "TestBlend",
	"DecayAdd": "TestDecayAdd", "PageKeys": "TestPages", "PageValues": "TestPages", "Widen": "TestWiden",
	"Transpose": "TestTranspose", "Spread": "TestMatAffine",
}

// mayBeNil are kernels that an implementation may do without.
var mayBeNil = []string{"PageKeys", "PageValues", "Spread"}

// TestEveryKernelIsCalled requires that every implementation has every kernel and that every kernel is known to the
// tests.
func TestEveryKernelIsCalled(t *testing.T) {
	known := map[string]bool{}
	for _, c := range rowCalls {
		known[c.name] = true
	}
	for name := range otherCalls {
		known[name] = true
	}
	for field := range reflect.TypeFor[Table]().Fields() {
		if field.Type.Kind() != reflect.Func {
			continue
		}
		if !known[field.Name] {
			t.Errorf("kernel %s is neither in rowCalls nor in otherCalls, so that nothing tests it", field.Name)
		}
		delete(known, field.Name)
		for _, k := range Implementations() {
			if reflect.ValueOf(*k).FieldByIndex(field.Index).IsNil() && !slices.Contains(mayBeNil, field.Name) {
				t.Errorf("%s has no %s", k.Name, field.Name)
			}
		}
	}
	for name := range known {
		t.Errorf("%s is no kernel", name)
	}
}

// compare calls every implementation with copies of the rows that end at a fence.
func (c rowCall) compare(t *testing.T, f *fences, rows [4][]float32, s float32) {
	t.Helper()
	call := func(k *Table, rows [4][]float32) { c.call(k, rows[0], rows[1], rows[2], rows[3], s) }
	var want [4][]float32
	for i := range want {
		want[i] = slices.Clone(rows[i])
	}
	call(&portable, want)
	for _, k := range nativeKernels() {
		var got [4][]float32
		for i, f := range []*fence{f.dst, f.x, f.w, f.d} {
			got[i] = place(f, rows[i])
		}
		call(k, got)
		for i := range got {
			same(t, fmt.Sprintf("%s %s, %d values, row %d", k.Name, c.name, len(rows[0]), i), got[i], want[i])
		}
	}
}

func TestRows(t *testing.T) {
	f, r := newFences(t), rand.New(rand.NewPCG(21, 21))
	for _, c := range rowCalls {
		for n := range rowLengths {
			c.compare(t, f, [4][]float32{numbers(r, n), numbers(r, n), numbers(r, n), numbers(r, n)}, number(r))
		}
	}
}

func FuzzRows(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte, n, which, _ byte) {
		src := &source{data: data}
		var rows [4][]float32
		for i := range rows {
			rows[i] = src.floats(int(n))
		}
		rowCalls[int(which)%len(rowCalls)].compare(t, newFences(t), rows, float32(src.byte())/16-7.97)
	})
}

// rowsFor returns rows of n numbers for a rowCall. The second half are cosines and sines, so that values that turn
// again and again keep their size.
func rowsFor(n int) (rows [4][]float32) {
	for i := range rows {
		if rows[i] = numbersOf(n); i > 1 {
			for j := range rows[i] {
				rows[i][j] = float32([]func(float64) float64{math.Cos, math.Sin}[i-2](float64(j)))
			}
		}
	}
	return rows
}

// numbersOf returns n random values of ordinary size.
func numbersOf(n int) []float32 {
	r, v := rand.New(rand.NewPCG(3, 4)), make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}
