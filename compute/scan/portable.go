package scan

import (
	"math"

	"github.com/kvasir-llm/kvasir/compute/kernel"
)

// lanes is how many partial sums a block has. Lane j takes the weights whose index is j modulo 16, ascending; then
// lanes are added pairwise: j with j+8, then +4, +2, +1.
const lanes = 16

var portable = kernels{
	name:  "portable",
	peaks: findPeaks,
	keep: func(at []int32, kept, x []float32, least float32) int {
		return keepFrom(0, 0, at, kept, x, least)
	},
	weigh: weigh,
}

var negInf = float32(math.Inf(-1))

func findPeaks(peaks, x []float32) bool {
	ok := true
	for b := range peaks {
		block, p := x[b*Block:min(b*Block+Block, len(x))], [4]float32{negInf, negInf, negInf, negInf}
		for ; len(block) >= 4; block = block[4:] {
			p[0], p[1], p[2], p[3] = max(p[0], block[0]), max(p[1], block[1]), max(p[2], block[2]), max(p[3], block[3])
		}
		for _, v := range block {
			p[0] = max(p[0], v)
		}
		peaks[b] = max(p[0], p[1], p[2], p[3]) + 0 // not -0
		ok = ok && peaks[b] <= math.MaxFloat32     // which a NaN is not
	}
	return ok
}

// keepFrom is Keep from index i on, where n are kept already.
func keepFrom(i, n int, at []int32, kept, x []float32, least float32) int {
	for ; i < len(x); i++ {
		v := x[i]
		at[n], kept[n] = int32(i), v // kept if the next is not written over it
		if v >= least {
			n++
		}
	}
	return n
}

// weigh is Weigh with the scale times log2 e, in two parts.
func weigh(w, sums, x []float32, most, hi, lo float32) {
	for b := range sums {
		from, to := b*Block, min(b*Block+Block, len(x))
		block := w[from:to]
		for i, v := range x[from:to] {
			block[i] = power(v-most, hi, lo)
		}
		var acc [lanes]float32
		for ; len(block) >= lanes; block = block[lanes:] {
			for j, v := range block[:lanes] {
				acc[j] += v
			}
		}
		for j, v := range block {
			acc[j] += v
		}
		for half := lanes / 2; half > 0; half /= 2 {
			for j := range half {
				acc[j] += acc[j+half]
			}
		}
		sums[b] = acc[0]
	}
}

const (
	leastPower = -125    // weights that are nearer to a lower power of two are 0
	round      = 3 << 22 // a float32 near it has no bits behind the point, and the whole number in its lowest bits
)

// poly are the coefficients of a minimax polynomial for 2^r on [-1/2, 1/2], highest power first.
var poly = [...]float32{1.5594677825e-4, 1.3406643411e-3, 9.6176927909e-3, 5.5503103882e-2, 2.4022652209e-1, 6.9314724207e-1, 1}

// constants is what the assembly reads, in this order.
//
//lint:ignore U1000 the assembly reads it
var constants = [...]float32{round, round + leastPower, poly[0], poly[1], poly[2], poly[3], poly[4], poly[5], poly[6]}

// power returns 2^(d·(hi + lo)): with d·hi = n + r, n whole, it is 2ⁿ·poly(r + d·lo). Each product is rounded with the
// sum that it goes into.
func power(d, hi, lo float32) float32 {
	shifted := kernel.FMA(d, hi, round)
	if !(shifted >= round+leastPower) {
		return 0
	}
	r := kernel.FMA(d, lo, kernel.FMA(d, hi, round-shifted))
	p := poly[0]
	for _, c := range poly[1:] {
		p = kernel.FMA(p, r, c)
	}
	return math.Float32frombits(math.Float32bits(p) + math.Float32bits(shifted)<<23)
}
