//go:build amd64 && !noasm

package scan

import "golang.org/x/sys/cpu"

// nativeKernels returns the assembly implementations that this processor can run, best first.
func nativeKernels() []*kernels {
	var all []*kernels
	if x := &cpu.X86; x.HasAVX2 && x.HasFMA && x.HasPOPCNT {
		if x.HasAVX512F && x.HasAVX512DQ {
			all = append(all, &avx512)
		}
		all = append(all, &avx2)
	}
	return all
}

var (
	avx2   = kernels{name: "avx2", peaks: peaksAVX2, keep: keepAVX2, weigh: weighAVX2}
	avx512 = kernels{name: "avx512", peaks: peaksAVX512, keep: keepAVX512, weigh: weighAVX512}
)

// pack says for a set of 8 lanes, as bits, which lanes they are, ascending.
//
//lint:ignore U1000 the assembly reads it
var pack = func() (t [256][8]uint8) {
	for set := range t {
		n := 0
		for lane := range uint8(8) {
			if set>>lane&1 == 1 {
				t[set][n] = lane
				n++
			}
		}
	}
	return t
}()

//go:noescape
func peaksAVX2(peaks, x []float32) bool

//go:noescape
func keepAVX2(at []int32, kept, x []float32, least float32) int

//go:noescape
func weighAVX2(w, sums, x []float32, most, hi, lo float32)

//go:noescape
func peaksAVX512(peaks, x []float32) bool

//go:noescape
func keepAVX512(at []int32, kept, x []float32, least float32) int

//go:noescape
func weighAVX512(w, sums, x []float32, most, hi, lo float32)
