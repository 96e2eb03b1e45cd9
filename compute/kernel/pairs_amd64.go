//go:build amd64 && !noasm

package kernel

// The most rows of a tile of pairs.
const pairRowsAVX2, pairRowsAVX512 = 6, 6

func matPairsAVX2(p PairProduct) { tiledPairs(tilePairsAVX2, pairRowsAVX2, p.X.X, p) }

func matPairsAVX512(p PairProduct) { tiledPairs(tilePairsAVX512, pairRowsAVX512, p.X.X, p) }

func matPairDots(p PairProduct) { tiledPairs(tilePairDots, pairRowsAVX512, p.X.Half, p) }

func roundAVX2(dst, x []float32) {
	n := vectors(len(x))
	if n > 0 {
		_ = dst[n-1]
		roundRowAVX2(&dst[0], &x[0], n)
	}
	round(dst[n:], x[n:])
}

func roundAVX512(dst, x []float32) {
	n := vectors(len(x))
	if n > 0 {
		_ = dst[n-1]
		roundRowAVX512(&dst[0], &x[0], n)
	}
	round(dst[n:], x[n:])
}

func narrowDotsAVX512(dst []uint16, x []float32) {
	n := vectors(len(x))
	if n > 0 {
		_ = dst[n-1]
		narrowDotsRowAVX512(&dst[0], &x[0], n)
	}
	narrowDots(dst[n:], x[n:])
}

//go:noescape
func tilePairsAVX2(t pairTile)

//go:noescape
func tilePairsAVX512(t pairTile)

//go:noescape
func tilePairDots(t pairTile)

//go:noescape
func narrowDotsRowAVX512(dst *uint16, x *float32, n int)

//go:noescape
func roundRowAVX2(dst, x *float32, n int)

//go:noescape
func roundRowAVX512(dst, x *float32, n int)
