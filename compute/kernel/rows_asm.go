//go:build (amd64 || arm64) && !noasm

package kernel

// vectors returns how many of n values fill whole groups of 16. Portable Go computes the rest.
func vectors(n int) int { return n &^ (Lanes - 1) }

// sumSquaresTail ends SumSquares: acc holds the lanes' sums up to x, whose first element belongs to lane 0.
func sumSquaresTail(acc *[Lanes]float32, x []float32, mean float32) float32 {
	for i, v := range x {
		acc[i%Lanes] = FMA(v-mean, v-mean, acc[i%Lanes])
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
var exp2Table = [...]float32{exp2Min, exp2Poly[0], exp2Poly[1], exp2Poly[2], exp2Poly[3], exp2Poly[4], exp2Poly[5],
	1, Lowest}
