package quant

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// TestJoin splits random blocks and expects them back.
func TestJoin(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for typ := range numTypes {
		a := &affines[typ]
		if a.join == nil {
			continue
		}
		for range 100 {
			block, got := make([]byte, typ.BlockBytes()), make([]byte, typ.BlockBytes())
			for i := range block {
				block[i], got[i] = byte(r.Uint32()), byte(r.Uint32())
			}
			var p Parts
			a.split(&p, block)
			if p.Scale-p.Scale != 0 || p.Min-p.Min != 0 {
				continue // no number
			}
			if a.join(got, &p); !bytes.Equal(got, block) {
				t.Fatalf("%v: %x becomes %x", typ, block, got)
			}
		}
	}
}

// relativeError returns the root of the mean squared error of values encoded as a type, over that of the values.
func relativeError(t *testing.T, typ Type, values []float32) float64 {
	t.Helper()
	n, err := typ.RowBytes(len(values))
	if err != nil {
		t.Fatal(err)
	}
	stored, got := make([]byte, n), make([]float32, len(values))
	if err := Encode(stored, values, typ); err != nil {
		t.Fatal(err)
	}
	if err := Decode(got, stored, typ); err != nil {
		t.Fatal(err)
	}
	var wrong, size float64
	for i, v := range values {
		d := float64(got[i]) - float64(v)
		wrong, size = wrong+d*d, size+float64(v)*float64(v)
	}
	return math.Sqrt(wrong / size)
}

// TestSearch holds the errors of encoders that search against each other and against those that do not.
func TestSearch(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	normal, shifted := make([]float32, 1<<14), make([]float32, 1<<14)
	for i := range normal {
		normal[i] = float32(r.NormFloat64()) * 0.02
		shifted[i] = float32(r.ExpFloat64())*0.02 - 0.005
	}
	for _, values := range [][]float32{normal, shifted} {
		errs := map[Type]float64{}
		for _, typ := range []Type{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4} {
			errs[typ] = relativeError(t, typ, values)
			t.Logf("%v: %.4f", typ, errs[typ])
		}
		for _, c := range []struct{ less, more Type }{
			{Q4_K, Q4_0}, {Q4_K, Q4_1}, {IQ4_NL, Q4_0}, {IQ4_XS, Q4_0}, {Q5_K, Q5_0}, {Q5_K, Q5_1}, {Q8_0, Q6_K}, {Q6_K, Q5_K}, {Q5_K, Q4_K}, {Q4_K, Q3_K}, {Q3_K, Q2_K},
		} {
			if !(errs[c.less] < errs[c.more]) {
				t.Errorf("%v errs by %.4f, %v by %.4f", c.less, errs[c.less], c.more, errs[c.more])
			}
		}
	}
}

// TestSearchEdges encodes values that round to nothing, that are no numbers, and that are beyond half precision.
func TestSearchEdges(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for typ := range numTypes {
		if affines[typ].join == nil {
			continue
		}
		n := typ.BlockValues()
		values, stored, got := make([]float32, n), make([]byte, typ.BlockBytes()), make([]float32, n)
		for _, fill := range []float32{0, 1e-30, -1e-42} { // nothing, or nothing that half precision holds
			for i := range values {
				values[i] = fill
			}
			if err := Encode(stored, values, typ); err != nil {
				t.Errorf("%v of %g: %v", typ, fill, err)
			}
			if err := Decode(got, stored, typ); err != nil {
				t.Fatal(err)
			}
			for _, v := range got {
				if v-v != 0 || abs32(v) > 1e-6 {
					t.Fatalf("%v of %g decodes to %g", typ, fill, v)
				}
			}
		}
		for _, bad := range []float32{nan, inf, -inf} {
			values[n/2] = bad
			if err := Encode(stored, values, typ); err == nil {
				t.Errorf("%v encodes %g", typ, bad)
			}
		}
		for i := range values {
			values[i] = 3e36
		}
		if err := Encode(stored, values, typ); (err == nil) != (typ == MXFP4) {
			t.Errorf("%v of 3e36: error %v", typ, err)
		}
	}
}
