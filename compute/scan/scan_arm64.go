//go:build !noasm

package scan

import "math"

// nativeKernels returns the assembly implementation: every processor of arm64 has NEON.
func nativeKernels() []*kernels { return []*kernels{&neon} }

// NEON does not pack lanes: keep is portable.
var neon = kernels{
	name:  "neon",
	peaks: func(peaks, x []float32) bool { return peaksNEON(peaks, x) <= math.MaxFloat32 },
	keep:  portable.keep,
	weigh: weighNEON,
}

// peaksNEON returns the greatest of all, NaN if any is.
//
//go:noescape
func peaksNEON(peaks, x []float32) float32

//go:noescape
func weighNEON(w, sums, x []float32, most, hi, lo float32)
