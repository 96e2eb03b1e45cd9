// Package scan has the passes over a row of logits, one for each token of a vocabulary, that sampling makes: where
// the greatest are, which are above a limit, and what they weigh. It knows nothing of tokens. Read Peaks, Keep and
// Weigh.
//
// Every implementation gives the same bits: a definition in portable Go says which roundings there are and in which
// order, and none of them depends on the place of a value in the row beyond its place in its block.
package scan

import "math"

// Block is how many neighbouring values have a peak and a sum. The last block of a row may be short.
const Block = 64

// Blocks returns how many blocks n values have.
func Blocks(n int) int { return (n + Block - 1) / Block }

// kernels is one implementation of the passes, on whole blocks, at least one.
type kernels struct {
	name  string
	peaks func(peaks, x []float32) bool
	keep  func(at []int32, kept, x []float32, least float32) int
	weigh func(w, sums, x []float32, most, hi, lo float32)
}

// best is the fastest implementation that this processor can run.
var best = implementations()[0]

// implementations returns what this machine can run, best first. Portable Go comes last and always runs.
func implementations() []*kernels { return append(nativeKernels(), &portable) }

// Peaks writes the greatest value of each block of x to peaks, 0 for -0, and reports whether x has neither NaN nor
// +Inf; else the peaks mean nothing.
func Peaks(peaks, x []float32) bool { return best.findPeaks(peaks, x) }

// Keep writes the values of x that are at least least to kept, in order, and their indices to at, and returns how
// many they are. at and kept have room for as many as x has; kept may be x. No value is NaN.
func Keep(at []int32, kept, x []float32, least float32) int {
	return best.keepLeast(at, kept, x, least)
}

// Weigh writes e^((x - most)·scale) to w and the sum of each block's weights to sums. No value of x is above most,
// which is finite; scale is not negative. A weight below 2⁻¹²⁵·⁵ is 0. The error of one is at most 3e-7 of it, and for
// each 1 that the exponent is below 0 another 1.3e-7.
func Weigh(w, sums, x []float32, most float32, scale float64) {
	scale = min(scale*math.Log2E, math.MaxFloat32)
	hi := float32(scale)
	best.weighAll(w, sums, x, most, hi, float32(scale-float64(hi)))
}

func (k *kernels) findPeaks(peaks, x []float32) bool {
	n := len(x) / Block
	peaks, rest := peaks[:Blocks(len(x))], x[n*Block:]
	ok := n == 0 || k.peaks(peaks[:n], x[:n*Block])
	return findPeaks(peaks[n:], rest) && ok
}

func (k *kernels) keepLeast(at []int32, kept, x []float32, least float32) int {
	n := len(x) &^ (Block - 1)
	at, kept = at[:len(x)], kept[:len(x)]
	if n == 0 {
		return keepFrom(0, 0, at, kept, x, least)
	}
	return keepFrom(n, k.keep(at[:n], kept[:n], x[:n], least), at, kept, x, least)
}

func (k *kernels) weighAll(w, sums, x []float32, most, hi, lo float32) {
	n := len(x) / Block
	w, sums = w[:len(x)], sums[:Blocks(len(x))]
	if n > 0 {
		k.weigh(w[:n*Block], sums[:n], x[:n*Block], most, hi, lo)
	}
	weigh(w[n*Block:], sums[n:], x[n*Block:], most, hi, lo)
}
