//go:build (amd64 || arm64) && !noasm

package cpu

import "unsafe"

// floatTile computes, for each of rows rows and panels panels, the chain over k of x·w in dst, from dst's own value if accumulate
// is set and from 0 else, and then does so for the rows that follow, in groups groups in all. ldd, ldx and stride are in bytes.
// rows is at least 1 and at most the tile's limit; panels and k are at least 1.
type floatTile func(dst *float32, ldd int, x *float32, ldx int, w unsafe.Pointer, stride, rows, panels, k, groups int, accumulate bool)

// blockK is how many k of two panels are used for all rows before the next ones: they stay in the second cache.
const blockK = 512

// tiled runs a matF32, matF16 or matBF16 in tiles of at most limit rows.
func tiled[T float32 | uint16](tile floatTile, limit int, dst []float32, ldd int, x []float32, ldx int, w []T, stride, panels, m, k int, accumulate bool) {
	if m <= 0 || panels <= 0 {
		return
	}
	_ = dst[(m-1)*ldd+panels*lanes-1]
	if k <= 0 {
		for i := range m {
			if out := dst[i*ldd:][:panels*lanes]; !accumulate {
				clear(out)
			}
		}
		return
	}
	_, _ = x[(m-1)*ldx+k-1], w[(panels-1)*stride+k*lanes-1]
	size := int(unsafe.Sizeof(w[0]))
	if m <= limit {
		tile(&dst[0], ldd*4, &x[0], ldx*4, unsafe.Pointer(&w[0]), stride*size, m, panels, k, 1, accumulate)
		return
	}
	groups := (m + limit - 1) / limit
	rows, more := m/groups, m%groups // the first more groups have a row more
	for p := 0; p < panels; p += 2 {
		for at := 0; at < k; at += blockK {
			part, n := unsafe.Pointer(&w[p*stride+at*lanes]), min(2, panels-p)
			if more > 0 {
				tile(&dst[p*lanes], ldd*4, &x[at], ldx*4, part, stride*size, rows+1, n, min(blockK, k-at), more, accumulate || at > 0)
			}
			i := more * (rows + 1)
			tile(&dst[i*ldd+p*lanes], ldd*4, &x[i*ldx+at], ldx*4, part, stride*size, rows, n, min(blockK, k-at), groups-more, accumulate || at > 0)
		}
	}
}
