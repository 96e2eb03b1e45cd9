//go:build amd64 && !noasm

package kernel

import (
	"math/rand/v2"
	"testing"
)

// TestMatPairsSlices multiplies rows that do not stay in the second cache, and so go slice by slice.
func TestMatPairsSlices(t *testing.T) {
	if !hasAMX() {
		t.Skip("no AMX")
	}
	r := rand.New(rand.NewPCG(5, 17))
	const m, k, panels = 50, 6400, 5
	floats, own := roundedRows(r, &amx, m, k, 0)
	stride := floats.Blocks * blockPairs * Lanes
	if (m+64)*floats.Blocks*64 <= pairWhole {
		t.Fatal("all of them would stay")
	}
	w := make([]uint32, panels*stride)
	for i := range w {
		w[i] = uint32(ToBF16(near16(r))) | uint32(ToBF16(near16(r)))<<16
	}
	got, want := make([]float32, m*panels*Lanes), make([]float32, m*panels*Lanes)
	portable.MatPairs(PairProduct{want, panels * Lanes, floats, w, stride, panels, m})
	matPairsAMX(PairProduct{got, panels * Lanes, own, w, stride, panels, m})
	same(t, "slices", got, want)
}
