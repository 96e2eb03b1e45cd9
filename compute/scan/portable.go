package scan

import "math"

// lanes is how many partial sums a block has. Lane j takes the weights whose index is j modulo 16, ascending; then lanes are
// added pairwise: j with j+8, then +4, +2, +1.
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
		most := negInf
		for _, v := range x[b*Block : min(b*Block+Block, len(x))] {
			if v <= most {
				continue
			}
			most = v
			ok = ok && v <= math.MaxFloat32 // which a NaN is not
		}
		peaks[b] = most + 0 // not -0
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
		var acc [lanes]float32
		from, to := b*Block, min(b*Block+Block, len(x))
		for i, v := range x[from:to] {
			v = power(v-most, hi, lo)
			w[from+i] = v
			acc[i%lanes] += v
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
	leastPower = -125    // powers of two below it are 0
	round      = 3 << 22 // added to a float32 of less than 2²² and taken away, rounds it to a whole number, half to even
)

// poly are the coefficients of a minimax polynomial for 2^r on [-1/2, 1/2], highest power first.
var poly = [...]float32{1.5594677825e-4, 1.3406643411e-3, 9.6176927909e-3, 5.5503103882e-2, 2.4022652209e-1, 6.9314724207e-1, 1}

// power returns 2^(d·(hi + lo)): with d·hi = n + r, 2ⁿ·poly(r + d·lo). Each product and each sum is rounded: a conversion keeps
// Go from joining two of them.
func power(d, hi, lo float32) float32 {
	y := float32(d * hi)
	if !(y >= leastPower) {
		return 0
	}
	n := float32(y+round) - round
	r := float32(y-n) + float32(d*lo)
	p := float32(poly[0]*r) + poly[1]
	p = float32(p*r) + poly[2]
	p = float32(p*r) + poly[3]
	p = float32(p*r) + poly[4]
	p = float32(p*r) + poly[5]
	p = float32(p*r) + poly[6]
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}
