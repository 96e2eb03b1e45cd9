package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/quant"
)

// eightBits returns random bytes of F8_E4M3 that are numbers.
func eightBits(r *rand.Rand, n int) []byte {
	v := make([]byte, n)
	for i := range v {
		for v[i] = 0x7f; v[i]&0x7f == 0x7f; {
			v[i] = byte(r.Uint32())
		}
	}
	return v
}

func TestWiden8(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		r := rand.New(rand.NewPCG(31, 31))
		for n := range 20 {
			scale, w, want := numbers(r, Lanes), eightBits(r, n*Lanes), make([]float32, n*Lanes)
			got := place(f.dst, want)
			k.Widen8(got, place(f.w, w), place(f.s, scale))
			for i, b := range w {
				var v [1]float32
				if err := quant.Decode(v[:], []byte{b}, quant.F8_E4M3); err != nil {
					t.Fatal(err)
				}
				want[i] = v[0] * (scale[i%Lanes] / 256)
			}
			for i := range want { // a scale that is hardly a number loses bits when it is divided
				if s := math.Abs(float64(scale[i%Lanes])); s > 1e-30 &&
					math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%d: value %d is %g; want %g", n, i, got[i], want[i])
				}
			}
			portable.Widen8(want, w, scale)
			same(t, fmt.Sprint(n), got, want)
		}
	})
}
