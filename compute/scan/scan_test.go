package scan

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// each runs a test of every implementation that this machine can run.
func each(t *testing.T, test func(t *testing.T, k *kernels)) {
	for _, k := range implementations() {
		t.Run(k.name, func(t *testing.T) { test(t, k) })
	}
}

// rows are logits of every length of a last block: ordinary ones, ties, and numbers at the ends of their range.
func rows(yield func([]float32) bool) {
	r := rand.New(rand.NewPCG(1, 2))
	wild := []float32{0, float32(math.Copysign(0, -1)), negInf, math.MaxFloat32, -math.MaxFloat32, 1e-45, -1e-45, 1e30, 88, -88}
	for n := range 200 {
		for kind := range 3 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(r.NormFloat64() * 5)
				switch {
				case kind == 1:
					x[i] = float32(math.Round(float64(x[i]) / 4))
				case kind == 2 && r.IntN(2) == 0:
					x[i] = wild[r.IntN(len(wild))]
				}
			}
			if !yield(x) {
				return
			}
		}
	}
}

// result is what the passes make of a row, as bits, with what lay around it.
type result struct {
	peaks, kept, inPlace, w, sums []uint32
	at                            []int32
	ok                            bool
	n, again                      int
}

// margin is how much room around its operands a pass must not touch.
const margin = 32

var nan = float32(math.NaN())

// fenced returns memory for n values between NaNs, and all of it.
func fenced(n int) (mem, all []float32) {
	all = make([]float32, margin+n+margin)
	for i := range all {
		all[i] = nan
	}
	return all[margin:][:n], all
}

func bits(x []float32) []uint32 {
	out := make([]uint32, len(x))
	for i, v := range x {
		out[i] = math.Float32bits(v)
	}
	return out
}

// passes makes all passes of k over a copy of row. Of what Keep writes only the kept values count, and what is outside.
func passes(k *kernels, row []float32, least, scale float32) (r result) {
	n := len(row)
	x, _ := fenced(n)
	copy(x, row)
	peaks, allPeaks := fenced(Blocks(n))
	r.ok = k.findPeaks(peaks, x)
	if !r.ok {
		return r
	}
	r.peaks = bits(allPeaks)
	kept, allKept := fenced(n)
	at := make([]int32, n+margin)
	r.n = k.keepLeast(at[:n], kept, x, least)
	r.at = append(at[:r.n:r.n], at[n:]...)
	r.kept = bits(slices.Delete(allKept, margin+r.n, margin+n))
	most := negInf
	for _, p := range peaks {
		most = max(most, p)
	}
	if most > negInf {
		w, allW := fenced(n)
		sums, allSums := fenced(Blocks(n))
		k.weighAll(w, sums, x, most, scale, scale*1e-8)
		r.w, r.sums = bits(allW), bits(allSums)
	}
	r.again = k.keepLeast(at[:n], x, x, least)
	r.inPlace = bits(x[:r.again])
	return r
}

// compare tells where got differs from what portable Go gives.
func compare(t *testing.T, row []float32, got, want result) {
	t.Helper()
	switch {
	case got.ok != want.ok:
		t.Fatalf("%v: numbers are fine: %v; portable says %v", row, got.ok, want.ok)
	case !slices.Equal(got.peaks, want.peaks):
		t.Fatalf("%v: peaks are %x; portable gives %x", row, got.peaks, want.peaks)
	case got.n != want.n || !slices.Equal(got.at, want.at) || !slices.Equal(got.kept, want.kept):
		t.Fatalf("%v: %d are kept, %x from %v; portable gives %d, %x from %v", row, got.n, got.kept, got.at, want.n, want.kept, want.at)
	case got.again != want.again || !slices.Equal(got.inPlace, want.inPlace):
		t.Fatalf("%v: %x are kept in place; portable gives %x", row, got.inPlace, want.inPlace)
	case !slices.Equal(got.w, want.w):
		t.Fatalf("%v: weights are %x; portable gives %x", row, got.w, want.w)
	case !slices.Equal(got.sums, want.sums):
		t.Fatalf("%v: sums are %x; portable gives %x", row, got.sums, want.sums)
	}
}

func TestPasses(t *testing.T) {
	each(t, func(t *testing.T, k *kernels) {
		for x := range rows {
			for _, least := range []float32{negInf, -2, 0, 3, 20} {
				for _, scale := range []float32{0, 0.5, 1.4426950, 1e20, math.MaxFloat32} {
					compare(t, x, passes(k, x, least, scale), passes(&portable, x, least, scale))
				}
			}
		}
	})
}

// TestNotANumber puts one bad logit at every place.
func TestNotANumber(t *testing.T) {
	each(t, func(t *testing.T, k *kernels) {
		peaks := make([]float32, 3)
		for _, n := range []int{5, 64, 150} {
			for i := range n {
				for _, bad := range []float32{nan, -nan, float32(math.Inf(1))} {
					x := make([]float32, n)
					x[i] = bad
					if k.findPeaks(peaks, x) {
						t.Fatalf("%v at %d of %d: no complaint", bad, i, n)
					}
				}
			}
		}
	})
}

// TestPeaks and the other two check portable Go against what the passes are for.
func TestPeaks(t *testing.T) {
	for x := range rows {
		peaks := make([]float32, Blocks(len(x)))
		if !Peaks(peaks, x) {
			t.Fatalf("%v: not numbers", x)
		}
		for b := range peaks {
			if want := slices.Max(x[b*Block : min(b*Block+Block, len(x))]); peaks[b] != want {
				t.Fatalf("%v: the peak of block %d is %v; want %v", x, b, peaks[b], want)
			}
		}
	}
}

func TestKeep(t *testing.T) {
	for x := range rows {
		at, kept := make([]int32, len(x)), make([]float32, len(x))
		n := Keep(at, kept, x, 1)
		for i, v := range x {
			if j, found := slices.BinarySearch(at[:n], int32(i)); found != (v >= 1) || found && kept[j] != v {
				t.Fatalf("%v: of 1 and more %v are kept, from %v", x, kept[:n], at[:n])
			}
		}
	}
}

// TestWeigh checks the errors that Weigh promises.
func TestWeigh(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	x := make([]float32, 1<<16)
	w, sums := make([]float32, len(x)), make([]float32, Blocks(len(x)))
	for _, scale := range []float64{0.5, 1, 1 / 0.7, 10, 1e10} {
		most := float32(r.NormFloat64() * 20 / max(1, scale))
		for i := range x {
			x[i] = min(most, float32(float64(most)-r.Float64()*100/scale))
		}
		x[7] = negInf
		x[8] = most
		Weigh(w, sums, x, most, scale)
		for b, sum := range sums {
			want := 0.0
			for _, v := range w[b*Block:][:Block] {
				want += float64(v)
			}
			if math.Abs(float64(sum)-want) > 4e-7*want {
				t.Fatalf("scale %v: the sum of block %d is %v; want %v", scale, b, sum, want)
			}
		}
		worst := 0.0
		for i, v := range x {
			d := (float64(v) - float64(most)) * scale
			if d*math.Log2E < leastPower-0.5-1e-3 {
				if w[i] != 0 {
					t.Fatalf("the weight at %v is %v; want 0", d, w[i])
				}
				continue
			}
			if d*math.Log2E < leastPower-0.5+1e-3 {
				continue
			}
			e := math.Abs(float64(w[i])/math.Exp(d) - 1)
			worst = max(worst, e/(3e-7-1.3e-7*d))
		}
		if w[8] != 1 {
			t.Errorf("scale %v: the greatest weighs %v; want 1", scale, w[8])
		}
		if t.Logf("scale %v: %.2f of the error allowed", scale, worst); worst > 1 {
			t.Errorf("scale %v: the error is %v times what is allowed", scale, worst)
		}
	}
}

// TestShortArguments makes sure that results without room panic.
func TestShortArguments(t *testing.T) {
	x := make([]float32, 200)
	for name, call := range map[string]func(k *kernels){
		"peaks": func(k *kernels) { k.findPeaks(make([]float32, 3), x) },
		"at":    func(k *kernels) { k.keepLeast(make([]int32, 199), make([]float32, 200), x, 0) },
		"kept":  func(k *kernels) { k.keepLeast(make([]int32, 200), make([]float32, 199), x, 0) },
		"w":     func(k *kernels) { k.weighAll(make([]float32, 199), make([]float32, 4), x, 0, 1, 0) },
		"sums":  func(k *kernels) { k.weighAll(make([]float32, 200), make([]float32, 3), x, 0, 1, 0) },
	} {
		each(t, func(t *testing.T, k *kernels) {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call(k)
		})
	}
}

func FuzzPasses(f *testing.F) {
	f.Add([]byte("\x00\x00\x80\x3f\xcd\xcc\x4c\xbe\x00"), byte(100), float32(0), float32(1))
	f.Add([]byte("\x00\x00\x80\xff\xcd\xcc\x4c\xbe\x00\x00\xa0\x41\x12"), byte(255), float32(1), float32(1e30))
	f.Fuzz(func(t *testing.T, data []byte, n byte, least, scale float32) {
		if !(scale >= 0 && scale <= math.MaxFloat32) || least != least || len(data) == 0 {
			return
		}
		x := make([]float32, n)
		for i := range x {
			var four [4]byte
			for j := range four {
				four[j] = data[(i*4+j)%len(data)]
			}
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(four[:]))
		}
		want := passes(&portable, x, least, scale)
		for _, k := range nativeKernels() {
			compare(t, x, passes(k, x, least, scale), want)
		}
	})
}

func BenchmarkPasses(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, 128<<10)
	for i := range x {
		x[i] = float32(r.NormFloat64() * 3)
	}
	at, kept, few := make([]int32, len(x)), make([]float32, len(x)), make([]float32, Blocks(len(x)))
	for _, k := range implementations() {
		for name, call := range map[string]func(){
			"peaks":     func() { k.findPeaks(few, x) },
			"keep 0.1%": func() { k.keepLeast(at, kept, x, 9.3) },
			"keep 23%":  func() { k.keepLeast(at, kept, x, 2.2) },
			"weigh": func() {
				for i := 0; i < len(x); i += 4096 {
					k.weighAll(kept[:4096], few[i/Block:][:Blocks(4096)], x[i:][:4096], 16, 1.44, 0)
				}
			},
		} {
			b.Run(k.name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(x) * 4))
				for b.Loop() {
					call()
				}
			})
		}
	}
}
