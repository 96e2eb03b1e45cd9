//go:build amd64 && !noasm

package cpu

import "unsafe"

// floatTile adds, for each of rows rows and panels panels, the chain over k of x·w to dst. ldd, ldx and stride are in
// bytes. rows is at least 1 and at most the tile's limit; panels and k are at least 1.
type floatTile func(dst *float32, ldd int, x *float32, ldx int, w unsafe.Pointer, stride, rows, panels, k int)

// blockK is how many k of two panels are used for all rows before the next ones: they stay in the second cache.
const blockK = 512

// tiled runs a matF32, matF16 or matBF16 in tiles of at most limit rows.
func tiled[T float32 | uint16](tile floatTile, limit int, dst []float32, ldd int, x []float32, ldx int, w []T, stride, panels, m, k int, accumulate bool) {
	if m <= 0 || panels <= 0 {
		return
	}
	_ = dst[(m-1)*ldd+panels*lanes-1]
	if !accumulate {
		for i := range m {
			clear(dst[i*ldd:][:panels*lanes])
		}
	}
	if k <= 0 {
		return
	}
	_, _ = x[(m-1)*ldx+k-1], w[(panels-1)*stride+k*lanes-1]
	size := int(unsafe.Sizeof(w[0]))
	if m <= limit {
		tile(&dst[0], ldd*4, &x[0], ldx*4, unsafe.Pointer(&w[0]), stride*size, m, panels, k)
		return
	}
	groups := (m + limit - 1) / limit
	for p := 0; p < panels; p += 2 {
		for at := 0; at < k; at += blockK {
			part := unsafe.Pointer(&w[p*stride+at*lanes])
			for g := range groups { // of about the same size
				i, end := m*g/groups, m*(g+1)/groups
				tile(&dst[i*ldd+p*lanes], ldd*4, &x[i*ldx+at], ldx*4, part, stride*size, end-i, min(2, panels-p), min(blockK, k-at))
			}
		}
	}
}
