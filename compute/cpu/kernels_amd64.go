//go:build amd64 && !noasm

package cpu

import "golang.org/x/sys/cpu"

// nativeKernels returns the assembly implementations that this processor can run, best first.
func nativeKernels() []*kernels {
	var all []*kernels
	x86 := &cpu.X86
	has256 := x86.HasAVX2 && x86.HasFMA && x86.HasF16C
	has512 := has256 && x86.HasAVX512F && x86.HasAVX512BW && x86.HasAVX512DQ && x86.HasAVX512VL
	if has512 && x86.HasAVX512VNNI && hasAMX() {
		all = append(all, &amx)
	}
	if has512 && x86.HasAVX512VNNI {
		all = append(all, &avx512vnni)
	}
	if has512 {
		all = append(all, &avx512)
	}
	if has256 && x86.HasAVXVNNI {
		all = append(all, &avxvnni)
	}
	if has256 {
		all = append(all, &avx2)
	}
	return all
}

// vectors returns how many of n values fill whole groups of 16. Portable Go computes the rest.
func vectors(n int) int { return n &^ (lanes - 1) }

// sumSquaresTail ends sumSquares: acc holds the lanes' sums up to x, whose first element belongs to lane 0.
func sumSquaresTail(acc *[lanes]float32, x []float32, mean float32) float32 {
	for i, v := range x {
		acc[i%lanes] = fma(v-mean, v-mean, acc[i%lanes])
	}
	return laneSum(acc)
}

// expTable is what the kernels' exp reads, in this order.
//
//lint:ignore U1000 the assembly reads it
var expTable = [...]float32{
	expMin, expMax, expLog2e, -expLn2Hi, -expLn2Lo,
	expPoly[0], expPoly[1], expPoly[2], expPoly[3], expPoly[4], expPoly[5],
	1,
}

// exp2Table is what the kernels' exp2 reads, in this order.
//
//lint:ignore U1000 the assembly reads it
var exp2Table = [...]float32{exp2Min, exp2Poly[0], exp2Poly[1], exp2Poly[2], exp2Poly[3], exp2Poly[4], exp2Poly[5], 1, lowest}
