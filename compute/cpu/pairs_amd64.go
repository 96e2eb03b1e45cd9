//go:build amd64 && !noasm

package cpu

// The most rows of a tile of pairs.
const pairRowsAVX2, pairRowsAVX512 = 6, 6

func matPairsAVX2(dst []float32, ldd int, x rows16, w []uint32, stride, panels, m int) {
	tiledPairs(tilePairsAVX2, pairRowsAVX2, dst, ldd, x.x, x.ld, w, stride, panels, x.blocks, m)
}

func matPairsAVX512(dst []float32, ldd int, x rows16, w []uint32, stride, panels, m int) {
	tiledPairs(tilePairsAVX512, pairRowsAVX512, dst, ldd, x.x, x.ld, w, stride, panels, x.blocks, m)
}

func matPairDots(dst []float32, ldd int, x rows16, w []uint32, stride, panels, m int) {
	tiledPairs(tilePairDots, pairRowsAVX512, dst, ldd, x.half, x.ld, w, stride, panels, x.blocks, m)
}

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
func tilePairsAVX2(dst *float32, ldd int, x *float32, ldx int, w *uint32, stride, rows, panels, blocks, ahead, fetch int)

//go:noescape
func tilePairsAVX512(dst *float32, ldd int, x *float32, ldx int, w *uint32, stride, rows, panels, blocks, ahead, fetch int)

//go:noescape
func tilePairDots(dst *float32, ldd int, x *uint16, ldx int, w *uint32, stride, rows, panels, blocks, ahead, fetch int)

//go:noescape
func narrowDotsRowAVX512(dst *uint16, x *float32, n int)

//go:noescape
func roundRowAVX2(dst, x *float32, n int)

//go:noescape
func roundRowAVX512(dst, x *float32, n int)
